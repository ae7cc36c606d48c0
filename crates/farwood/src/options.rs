//! What indexes are created with: one type of options for each system.

use crate::codec::Codec;
use crate::kind::Kind;
use farwood_index::consistency::Consistency;
use farwood_index::lock::LockWidth;
use farwood_index::ordered::{Config, System};
use farwood_index::sherman::layout::{NODE_BYTES_DEFAULT, Sizes, Values};
use farwood_index::sherman::options::Leaves;
use farwood_index::sherman::{self, Options, Variant};
use farwood_index::{smart, sphinx};

/// Budget of an index cache unless told, bytes: enough to find the leaf of any of 50 million 8-byte keys of a Sherman
/// index.
pub const CACHE_BYTES_DEFAULT: usize = System::Sherman.cache_bytes_default();
/// Budget of a Sphinx index's filter unless told, bytes: 2 MiB, enough for the inner nodes of some 20 million integers,
/// or of 3 million names.
pub const FILTER_BYTES_DEFAULT: usize = System::Sphinx.cache_bytes_default();

/// What a Sherman index is created with: the system for keys of one length, and the one that most want.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexOptions {
    /// Bytes of a key, 8 to 1024. Must be given where the type does not say it (texts, byte strings).
    pub key_bytes: Option<usize>,
    /// Bytes of a value, 0 to 4096. Must be given where the type does not say it. Where values have any length, the
    /// bytes that an entry has for one, 16 to 256; 32 unless told. Those that have 4 bytes less, or fewer, then lie in
    /// their entries, others out of line.
    pub value_bytes: Option<usize>,
    /// Whether all values have one length, or any up to 16 MiB. One unless told.
    pub values: Values,
    /// Bytes of a node, a multiple of 64. 1 KiB unless told, as in the paper.
    pub node_bytes: usize,
    /// The variant of the tree; `Variant::Fg.options()` and others make it the paper's baselines.
    pub variant: Options,
    /// How large a lock is, whatever `variant` says of it: [`LockWidth::Word`] (64 bits) unless told.
    /// [`LockWidth::Packed`] (16 bits) is the paper's, for reproduction only: such a lock names no epoch, so that of
    /// a client that died cannot be taken from it. The indexes of a pool whose locks lie in the same memory have one
    /// width.
    pub lock_width: LockWidth,
    /// How readers tell a whole copy; `None`: the best that the pool's fabric allows.
    pub consistency: Option<Consistency>,
    /// Budget of this process's index cache, bytes. See [`CACHE_BYTES_DEFAULT`].
    pub cache_bytes: usize,
}

/// Bytes that an entry of a Sherman index has for a value of any length unless told.
const SLOT_BYTES_DEFAULT: usize = 32;

impl Default for IndexOptions {
    fn default() -> Self {
        Self {
            key_bytes: None,
            value_bytes: None,
            values: Values::Fixed,
            node_bytes: NODE_BYTES_DEFAULT,
            variant: Variant::RECOMMENDED.options(),
            lock_width: LockWidth::Word,
            consistency: None,
            cache_bytes: CACHE_BYTES_DEFAULT,
        }
    }
}

/// What a SMART index is created with: a radix tree, whose keys have any length up to 4 KiB, and whose values have any
/// up to 16 MiB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SmartOptions {
    /// The variant of the tree; `smart::Variant::Art.options()` and others make it the paper's baselines.
    pub variant: smart::Options,
    /// Budget of this process's cache of inner nodes, bytes; 0: none. See [`CACHE_BYTES_DEFAULT`].
    pub cache_bytes: usize,
}

impl Default for SmartOptions {
    fn default() -> Self {
        Self { variant: smart::Options::default(), cache_bytes: CACHE_BYTES_DEFAULT }
    }
}

/// What a Sphinx index is created with: a radix tree whose nodes are found through a hash table, with little cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SphinxOptions {
    /// The variant of the tree; `sphinx::Variant::Art.options()` and others make it the paper's baselines.
    pub variant: sphinx::Options,
    /// Budget of this process's filter, bytes: less than two for each inner node. See [`FILTER_BYTES_DEFAULT`].
    pub cache_bytes: usize,
}

impl Default for SphinxOptions {
    fn default() -> Self {
        Self { variant: sphinx::Options::default(), cache_bytes: FILTER_BYTES_DEFAULT }
    }
}

/// Options that say which system an index is. Sealed: the systems are the crate's.
pub trait CreateOptions: system::System {}

impl<O: system::System> CreateOptions for O {}

/// The type of the keys, or of the values, of an index that is to be.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    kind: Kind,
    /// Bytes of each, where the type says it.
    width: Option<usize>,
}

impl Column {
    pub(crate) fn of<T: Codec>() -> Self {
        Self { kind: T::KIND, width: T::WIDTH }
    }

    pub(crate) fn of_kind(kind: Kind) -> Self {
        Self { kind, width: kind.width() }
    }

    /// The length of a key or a value: the type's own, or the one that was chosen.
    fn bytes(self, what: &str, chosen: Option<usize>) -> Result<usize, String> {
        let Self { kind, width } = self;
        match (width, chosen) {
            (Some(own), Some(chosen)) if own != chosen => Err(format!(
                "a {what} of type {kind} has {own} bytes, not {chosen}; leave the {what}'s length out"
            )),
            (Some(own), _) => Ok(own),
            (None, Some(chosen)) => Ok(chosen),
            (None, None) => {
                Err(format!("a {what} of type {kind} needs a length; give it ({what}_bytes, --{what}-bytes)"))
            }
        }
    }
}

mod system {
    use super::{Column, Config};

    /// What a system's options make of an index's types.
    pub trait System {
        /// The configuration of an index of such keys and values; why there is none.
        fn config(&self, columns: [Column; 2]) -> Result<Config, String>;

        /// Budget of the cache, bytes.
        fn cache_bytes(&self) -> usize;
    }
}

impl system::System for IndexOptions {
    fn config(&self, columns: [Column; 2]) -> Result<Config, String> {
        let [keys, values] = columns;
        let sizes = Sizes {
            key_bytes: keys.bytes("key", self.key_bytes)?,
            value_bytes: match self.values {
                Values::Fixed => values.bytes("value", self.value_bytes)?,
                Values::AnyLength => self.value_bytes.unwrap_or(SLOT_BYTES_DEFAULT),
            },
            node_bytes: self.node_bytes,
        };
        if self.variant.leaves == Leaves::Sorted && self.consistency == Some(Consistency::Versions) {
            return Err(
                "sorted leaves (fg, fg+ and others) are guarded by checksums, not by versions; leave the consistency \
                 scheme out, or choose checksums"
                    .to_owned(),
            );
        }
        let mut options = self.variant;
        options.lock.width = self.lock_width;
        let kinds = columns.map(|column| column.kind.number());
        let (values, consistency) = (self.values, self.consistency);
        Ok(Config::Sherman(sherman::Config { sizes, values, options, consistency, kinds }))
    }

    fn cache_bytes(&self) -> usize {
        self.cache_bytes
    }
}

impl system::System for SmartOptions {
    fn config(&self, columns: [Column; 2]) -> Result<Config, String> {
        let kinds = columns.map(|column| column.kind.number());
        Ok(Config::Smart(smart::Config { options: self.variant, kinds, ..smart::Config::default() }))
    }

    fn cache_bytes(&self) -> usize {
        self.cache_bytes
    }
}

impl system::System for SphinxOptions {
    fn config(&self, columns: [Column; 2]) -> Result<Config, String> {
        let kinds = columns.map(|column| column.kind.number());
        Ok(Config::Sphinx(sphinx::Config { options: self.variant, kinds }))
    }

    fn cache_bytes(&self) -> usize {
        self.cache_bytes
    }
}
