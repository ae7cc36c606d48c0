//! The options for creating an index: one type for each system.

use crate::codec::{Codec, KEY_BYTES_MIN, TypeName};
use crate::contradiction::{self, Contradiction};
use crate::kind::Kind;
use farwood_index::consistency::Consistency;
use farwood_index::lock::LockWidth;
use farwood_index::ordered::{OrderedConfig, OrderedDescription, System};
use farwood_index::sherman::layout::{NODE_BYTES_DEFAULT, Sizes, Values};
use farwood_index::sherman::{self, ShermanFeatures, ShermanVariant};
use farwood_index::{smart, sphinx};

/// The default budget of an index cache in bytes: enough to find the leaf of each of 50 million 8-byte keys of a
/// Sherman index.
pub const CACHE_BYTES_DEFAULT: usize = System::Sherman.cache_bytes_default();
/// The default budget of a Sphinx index's filter in bytes: 2 MiB, enough for the inner nodes of about 20 million
/// integers or 3 million names.
pub const FILTER_BYTES_DEFAULT: usize = System::Sphinx.cache_bytes_default();

/// The options of a Sherman index: a B-link tree for keys of one length, suitable for most uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexOptions {
    /// Bytes of a key, 8 to 1024. Required if the type does not determine it (texts, byte strings, tuples of them).
    /// Keys of types of less than 8 bytes are padded to 8.
    pub key_bytes: Option<usize>,
    /// Bytes of a value, 0 to 4096. Required if the type does not determine it. If values have any length: the bytes
    /// that an entry reserves for its value, 16 to 256 (default 32). Values that fit into 4 bytes less are stored in
    /// the entry, others outside the leaf.
    pub value_bytes: Option<usize>,
    /// Whether all values have one length (the default), or any length up to 16 MiB.
    pub values: Values,
    /// Bytes of a node, a multiple of 64. The default is 1 KiB, as in the paper.
    pub node_bytes: usize,
    /// The variant of the tree; `ShermanVariant::Fg.features()` and others are the paper's baselines.
    pub variant: ShermanFeatures,
    /// The size of a lock, which overrides that of `variant`. The default is [`LockWidth::Word`] (64 bits).
    /// [`LockWidth::Packed`] (16 bits, as in the paper) is for reproduction only: such a lock does not name its
    /// holder's epoch, so the lock of a crashed client cannot be taken over. All indexes of a pool whose locks are in
    /// the same memory have locks of one size.
    pub lock_width: LockWidth,
    /// The scheme by which readers detect a torn copy. Checksums, the default, also detect bytes that changed at rest;
    /// versions, the paper's scheme, do not. Versions of one byte make the smallest entries, and need a fabric whose
    /// NICs copy: RDMA with hardware.
    pub consistency: Consistency,
    /// The budget of this process's index cache in bytes, at most 1 TiB. See [`CACHE_BYTES_DEFAULT`].
    pub cache_bytes: usize,
}

/// The default bytes that an entry of a Sherman index reserves for a value of any length.
const SLOT_BYTES_DEFAULT: usize = 32;

impl Default for IndexOptions {
    fn default() -> Self {
        Self {
            key_bytes: None,
            value_bytes: None,
            values: Values::Fixed,
            node_bytes: NODE_BYTES_DEFAULT,
            variant: ShermanVariant::RECOMMENDED.features(),
            lock_width: LockWidth::Word,
            consistency: Consistency::Checksum,
            cache_bytes: CACHE_BYTES_DEFAULT,
        }
    }
}

/// The options of a SMART index: a radix tree whose keys have any length up to 4 KiB and whose values have any length
/// up to 16 MiB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SmartOptions {
    /// The variant of the tree; `smart::SmartVariant::Art.features()` and others are the paper's baselines.
    pub variant: smart::SmartFeatures,
    /// The budget of this process's cache of inner nodes in bytes, at most 1 TiB; 0 disables it. See
    /// [`CACHE_BYTES_DEFAULT`].
    pub cache_bytes: usize,
}

impl Default for SmartOptions {
    fn default() -> Self {
        Self { variant: smart::SmartFeatures::default(), cache_bytes: CACHE_BYTES_DEFAULT }
    }
}

/// The options of a Sphinx index: a radix tree whose inner nodes are found through a hash table, with a small cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SphinxOptions {
    /// The variant of the tree; `sphinx::SphinxVariant::Art.features()` and others are the paper's baselines.
    pub variant: sphinx::SphinxFeatures,
    /// The budget of this process's filter in bytes: less than two for each inner node. See [`FILTER_BYTES_DEFAULT`].
    pub cache_bytes: usize,
}

impl Default for SphinxOptions {
    fn default() -> Self {
        Self { variant: sphinx::SphinxFeatures::default(), cache_bytes: FILTER_BYTES_DEFAULT }
    }
}

/// Options for creating an index of one system. The trait is sealed.
pub trait CreateOptions: system::System {}

impl<O: system::System> CreateOptions for O {}

/// The type of the keys or the values of a new index.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    kind: Kind,
    /// The length in bytes, if the type determines it.
    width: Option<usize>,
    /// The name of the type, if it is known.
    name: Option<&'static TypeName>,
}

impl Column {
    pub(crate) fn of<T: Codec>() -> Self {
        const { assert!(T::KIND.is_creatable(), "`Codec::KIND` is a `Kind::Other` below 128; use 128 or more") }
        Self { kind: T::KIND, width: T::WIDTH, name: Some(&T::NAME) }
    }

    pub(crate) fn of_kind(kind: Kind) -> Self {
        Self { kind, width: kind.width(), name: kind.type_name() }
    }

    /// The type that the index records.
    pub(crate) fn name(self) -> Option<&'static TypeName> {
        self.name
    }

    /// Refuses a kind that belongs to the library.
    pub(crate) fn check(self) -> Result<(), String> {
        if self.kind.is_creatable() {
            return Ok(());
        }
        Err(format!("{} belongs to the library; give a number of 128 to 255", self.kind))
    }

    /// The name of the type for errors.
    fn shown(self) -> String {
        self.name.filter(|_| self.kind == Kind::Structured).map_or(self.kind.to_string(), ToString::to_string)
    }

    /// The length of a key: that of the type, padded, or the chosen one.
    fn key_bytes(self, chosen: Option<usize>) -> Result<usize, String> {
        let padded = |own: usize| own.max(KEY_BYTES_MIN);
        let chosen =
            chosen.filter(|&chosen| self.width.map(padded) != Some(chosen) || self.width == Some(chosen));
        self.bytes("key", chosen).map(|bytes| if self.width.is_some() { padded(bytes) } else { bytes })
    }

    /// The length of a key or a value: that of the type, or the chosen one.
    fn bytes(self, what: &str, chosen: Option<usize>) -> Result<usize, String> {
        let (width, kind) = (self.width, self.shown());
        match (width, chosen) {
            (Some(own), Some(chosen)) if own != chosen => Err(format!(
                "a {what} of type {kind} has {own} bytes, not {chosen}; omit the length of the {what}"
            )),
            (Some(own), _) => Ok(own),
            (None, Some(chosen)) => Ok(chosen),
            (None, None) => Err(format!(
                "a {what} of type {kind} needs a length; set {what}_bytes, or give --{what}-bytes N"
            )),
        }
    }
}

mod system {
    use super::{Column, OrderedConfig};
    use crate::contradiction::Contradiction;
    use farwood_index::ordered::OrderedDescription;

    /// Combines the options of a system with the types of an index.
    pub trait System {
        /// The configuration of an index with these keys and values, or the reason why there is none.
        fn config(&self, columns: [Column; 2]) -> Result<OrderedConfig, String>;

        /// The first option that was given, and with which an existing index was not created.
        fn contradiction(&self, stored: &OrderedDescription) -> Option<Contradiction>;

        /// The budget of the cache in bytes.
        fn cache_bytes(&self) -> usize;
    }
}

impl system::System for IndexOptions {
    fn config(&self, columns: [Column; 2]) -> Result<OrderedConfig, String> {
        let [keys, values] = columns;
        let sizes = Sizes {
            key_bytes: keys.key_bytes(self.key_bytes)?,
            value_bytes: match self.values {
                Values::Fixed => values.bytes("value", self.value_bytes)?,
                Values::AnyLength => self.value_bytes.unwrap_or(SLOT_BYTES_DEFAULT),
            },
            node_bytes: self.node_bytes,
        };
        let mut options = self.variant;
        options.lock.width = self.lock_width;
        let kinds = columns.map(|column| column.kind.number());
        let (values, consistency) = (self.values, Some(self.consistency));
        Ok(OrderedConfig::Sherman(sherman::ShermanConfig { sizes, values, options, consistency, kinds }))
    }

    fn contradiction(&self, stored: &OrderedDescription) -> Option<Contradiction> {
        contradiction::of_sherman(self, stored)
    }

    fn cache_bytes(&self) -> usize {
        self.cache_bytes
    }
}

impl system::System for SmartOptions {
    fn config(&self, columns: [Column; 2]) -> Result<OrderedConfig, String> {
        let kinds = columns.map(|column| column.kind.number());
        Ok(OrderedConfig::Smart(smart::SmartConfig {
            options: self.variant,
            kinds,
            ..smart::SmartConfig::default()
        }))
    }

    fn contradiction(&self, stored: &OrderedDescription) -> Option<Contradiction> {
        contradiction::of_smart(self, stored)
    }

    fn cache_bytes(&self) -> usize {
        self.cache_bytes
    }
}

impl system::System for SphinxOptions {
    fn config(&self, columns: [Column; 2]) -> Result<OrderedConfig, String> {
        let kinds = columns.map(|column| column.kind.number());
        Ok(OrderedConfig::Sphinx(sphinx::SphinxConfig { options: self.variant, kinds }))
    }

    fn contradiction(&self, stored: &OrderedDescription) -> Option<Contradiction> {
        contradiction::of_sphinx(self, stored)
    }

    fn cache_bytes(&self) -> usize {
        self.cache_bytes
    }
}
