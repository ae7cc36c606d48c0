//! The indexes in the directory of a pool, described without opening them.

use crate::codec::TypeName;
use crate::kind::{Kind, Type};
use farwood_fabric::directory::{Entry, TypedEntry};
use farwood_index::IndexError;
use farwood_index::catfish::{self, CatfishConfig};
use farwood_index::lock::LockWidth;
use farwood_index::ordered::{OrderedDescription, System, describe};
use farwood_index::radix::tree::CONSISTENCY;
use farwood_index::sherman::layout::Values;
use farwood_index::sherman::{self, ShermanVariant};
use farwood_index::{smart, sphinx};

/// An index in the directory of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexEntry {
    /// The name.
    pub name: String,
    /// The number of the index, unique in the pool.
    pub number: u64,
    /// The directory entry, 0 to 63.
    pub slot: u8,
    /// Sizes, types and options, or the error if this version cannot read the index.
    pub layout: Result<EntryLayout, IndexError>,
}

/// The description of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryLayout {
    /// An index with keys.
    Ordered(IndexLayout),
    /// An index of rectangles.
    Spatial(CatfishConfig),
}

/// The types and options with which an index was created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexLayout {
    /// The system.
    pub system: System,
    /// The type of the keys.
    pub keys: Type,
    /// The type of the values.
    pub values: Type,
    /// Sizes of the nodes, if all nodes have the same size.
    pub nodes: Option<NodeSizes>,
    /// The scheme by which readers detect a torn copy.
    pub consistency: &'static str,
    /// The name of the variant, if its options have one. The size of locks is not part of a variant.
    pub variant: Option<&'static str>,
    /// The size of a lock.
    pub lock_width: LockWidth,
    /// The options of the variant, named as in benchmark records.
    pub options: Vec<(&'static str, String)>,
}

/// The sizes of the nodes of a Sherman index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeSizes {
    /// Bytes of a node.
    pub node_bytes: usize,
    /// The maximum number of entries of a leaf.
    pub leaf_entries: usize,
    /// The maximum number of keys of an inner node.
    pub inner_keys: usize,
    /// Bytes that an entry reserves for a value.
    pub value_slot_bytes: usize,
}

impl From<OrderedDescription> for IndexLayout {
    fn from(description: OrderedDescription) -> Self {
        match description {
            OrderedDescription::Sherman(description) => of_sherman(&description),
            OrderedDescription::Smart(smart::SmartConfig { options, kinds, .. }) => {
                let variant = options.variant().map(smart::SmartVariant::name);
                of_radix(System::Smart, kinds, variant, options.describe())
            }
            OrderedDescription::Sphinx(sphinx::SphinxConfig { options, kinds }) => {
                let variant = options.variant().map(sphinx::SphinxVariant::name);
                of_radix(System::Sphinx, kinds, variant, options.describe())
            }
        }
    }
}

fn of_sherman(description: &sherman::ShermanDescription) -> IndexLayout {
    let sherman::ShermanDescription { layout, options, kinds } = description;
    let [keys, values] = kinds.map(Kind::from_number);
    let mut named = *options;
    named.lock.width = LockWidth::Word;
    let variant = ShermanVariant::ALL.iter().find(|(variant, _)| variant.features() == named);
    let value_bytes = (layout.values == Values::Fixed).then_some(layout.value_bytes);
    IndexLayout {
        system: System::Sherman,
        keys: Type { kind: keys, bytes: Some(layout.key_bytes), name: None },
        values: Type { kind: values, bytes: value_bytes, name: None },
        nodes: Some(NodeSizes {
            node_bytes: layout.slot_bytes,
            leaf_entries: layout.leaf_capacity,
            inner_keys: layout.inner_capacity,
            value_slot_bytes: layout.value_bytes,
        }),
        consistency: layout.consistency.name(),
        variant: variant.map(|(_, name)| *name),
        lock_width: options.lock.width,
        options: options.describe(),
    }
}

fn of_radix(
    system: System,
    kinds: [u8; 2],
    variant: Option<&'static str>,
    options: Vec<(&'static str, String)>,
) -> IndexLayout {
    let [keys, values] =
        kinds.map(Kind::from_number).map(|kind| Type { kind, bytes: kind.width(), name: None });
    let (consistency, lock_width) = (CONSISTENCY, LockWidth::Word);
    IndexLayout { system, keys, values, nodes: None, consistency, variant, lock_width, options }
}

/// Adds the names of the types, as far as the index records them.
pub(crate) fn named(mut layout: IndexLayout, types: [Option<u64>; 2]) -> IndexLayout {
    let [keys, values] = types.map(|hash| hash.map(|hash| TypeName::of_hash(hash, None)));
    (layout.keys.name, layout.values.name) = (keys, values);
    layout
}

impl IndexEntry {
    /// Describes indexes of the directory, in the order of their names.
    pub(crate) fn by_name(entries: Vec<TypedEntry>) -> Vec<Self> {
        let describe = |TypedEntry { entry, types }| Self::of(entry, types);
        let mut indexes: Vec<_> = entries.into_iter().map(describe).collect();
        indexes.sort_by(|a, b| a.name.cmp(&b.name));
        indexes
    }

    /// Describes an index whose types have names with these hashes.
    pub(crate) fn of(entry: Entry, types: [Option<u64>; 2]) -> Self {
        let layout = if entry.kind == catfish::KIND {
            catfish::describe(&entry).map(EntryLayout::Spatial)
        } else {
            describe(&entry).map(|description| EntryLayout::Ordered(named(description.into(), types)))
        };
        Self { name: entry.name, number: entry.number, slot: entry.slot, layout }
    }

    /// The layout, if it is an index with keys.
    pub fn ordered(&self) -> Option<&IndexLayout> {
        match &self.layout {
            Ok(EntryLayout::Ordered(layout)) => Some(layout),
            _ => None,
        }
    }
}
