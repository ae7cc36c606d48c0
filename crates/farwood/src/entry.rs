//! Indexes as the pool's directory has them: what they are, without opening them.

use crate::error::Type;
use crate::kind::Kind;
use farwood_fabric::directory::Entry;
use farwood_index::IndexError;
use farwood_index::lock::LockWidth;
use farwood_index::sherman::layout::{Layout, Values};
use farwood_index::sherman::{Description, Options, Variant, describe};

/// An index as the pool's directory has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexEntry {
    /// The name.
    pub name: String,
    /// Number of the index, never used twice in a pool.
    pub number: u64,
    /// The directory entry, 0 to 63.
    pub slot: u8,
    /// Sizes, types and options; the error where it is no index of this version.
    pub layout: Result<IndexLayout, IndexError>,
}

/// What an index was created with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexLayout {
    /// The keys.
    pub keys: Type,
    /// The values.
    pub values: Type,
    /// Bytes that an entry has for a value.
    pub value_slot_bytes: usize,
    /// Bytes of a node.
    pub node_bytes: usize,
    /// Entries of a leaf, at most.
    pub leaf_entries: usize,
    /// Keys of an inner node, at most.
    pub inner_keys: usize,
    /// How readers tell a whole copy.
    pub consistency: &'static str,
    /// The variant, where its options have a name. The width of locks is not among them.
    pub variant: Option<Variant>,
    /// How large a lock is.
    pub lock_width: LockWidth,
    /// The options of the variant, as records have them.
    pub options: Vec<(&'static str, String)>,
}

impl IndexLayout {
    pub(crate) fn new(layout: &Layout, options: Options, kinds: [u8; 2]) -> Self {
        let [keys, values] = kinds.map(Kind::from_number);
        let mut named = options;
        named.lock.width = LockWidth::Word;
        let variant = Variant::ALL.iter().find(|(variant, _)| variant.options() == named);
        Self {
            keys: Type { kind: keys, bytes: Some(layout.key_bytes) },
            values: Type {
                kind: values,
                bytes: (layout.values == Values::Fixed).then_some(layout.value_bytes),
            },
            value_slot_bytes: layout.value_bytes,
            node_bytes: layout.room_bytes,
            leaf_entries: layout.leaf_capacity,
            inner_keys: layout.inner_capacity,
            consistency: layout.consistency.name(),
            variant: variant.map(|(variant, _)| *variant),
            lock_width: options.lock.width,
            options: options.describe(),
        }
    }
}

impl From<Entry> for IndexEntry {
    fn from(entry: Entry) -> Self {
        let layout = describe(&entry)
            .map(|Description { layout, options, kinds }| IndexLayout::new(&layout, options, kinds));
        Self { name: entry.name, number: entry.number, slot: entry.slot, layout }
    }
}
