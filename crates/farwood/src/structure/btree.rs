//! B-link trees (Sherman).

use super::Column;
use super::contradiction::{Contradiction, compare, compare_bytes, other_system, show_variant};
use super::sealed::Structure;
use farwood_index::consistency::Consistency;
use farwood_index::lock::LockWidth;
use farwood_index::ordered::{OrderedConfig, OrderedDescription, System};
use farwood_index::sherman::layout::{NODE_BYTES_DEFAULT, Sizes, Values};
use farwood_index::sherman::{ShermanConfig, ShermanFeatures, ShermanVariant};

/// The default bytes that an entry reserves for a value of any length.
const SLOT_BYTES_DEFAULT: usize = 32;

/// A B-link tree (Sherman): keys of one length, suitable for most uses.
///
/// ```
/// use farwood::types::{Bytes, Text};
/// use farwood::{BTree, Pool};
///
/// let pool = Pool::anonymous(64 << 20)?;
/// let names = pool.create_index::<Text, u64>("names", &BTree::new().key_bytes(64))?;
/// let pages = pool.create_index::<u64, Bytes>("pages", &BTree::new().any_length_values())?;
/// # names.put("Ada", 1)?;
/// # pages.put(7, b"<html>")?;
/// # Ok::<(), farwood::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct BTree {
    key_bytes: Option<usize>,
    values: Values,
    /// Bytes of a value; of its slot if values have any length.
    value_bytes: Option<usize>,
    node_bytes: usize,
    variant: ShermanFeatures,
    lock_width: LockWidth,
    consistency: Consistency,
    cache_bytes: usize,
}

impl Default for BTree {
    fn default() -> Self {
        Self::new()
    }
}

impl BTree {
    /// The default budget of an index cache in bytes: enough to find the leaf of each of 50 million 8-byte keys.
    pub const CACHE_BYTES: usize = System::Sherman.cache_bytes_default();

    /// The default options: nodes of 1 KiB, values of one length, checksums, and the fastest variant that is safe on
    /// every fabric.
    pub fn new() -> Self {
        Self {
            key_bytes: None,
            values: Values::Fixed,
            value_bytes: None,
            node_bytes: NODE_BYTES_DEFAULT,
            variant: ShermanVariant::RECOMMENDED.features(),
            lock_width: LockWidth::Word,
            consistency: Consistency::Checksum,
            cache_bytes: Self::CACHE_BYTES,
        }
    }

    /// The preset of the paper's Sherman: its variant, and versions instead of checksums. Locks keep 64 bits, because
    /// a lock of the paper's 16 bits cannot be taken over from a crashed client; see [`lock_width`](Self::lock_width).
    pub fn sherman() -> Self {
        Self {
            variant: ShermanVariant::Sherman.features(),
            consistency: Consistency::Versions,
            ..Self::new()
        }
    }

    /// Sets the bytes of a key, 8 to 1024. Required if the type does not determine them (texts, byte strings, tuples of
    /// them). Keys of types of less than 8 bytes are padded to 8. In a tuple, a text or byte string takes two bytes
    /// more than its own, and one more for each byte 0 in it: `(u64, String)` with texts of up to 40 bytes needs 50.
    pub fn key_bytes(self, bytes: usize) -> Self {
        Self { key_bytes: Some(bytes), ..self }
    }

    /// Gives all values one length, the default: 0 to 4096 bytes. Required if the type does not determine them.
    pub fn value_bytes(self, bytes: usize) -> Self {
        Self { values: Values::Fixed, value_bytes: Some(bytes), ..self }
    }

    /// Lets values have any length up to 16 MiB. An entry reserves a slot of 32 bytes for its value. Values of up to 28
    /// bytes are stored in their slots, others outside the leaf.
    pub fn any_length_values(self) -> Self {
        Self { values: Values::AnyLength, value_bytes: None, ..self }
    }

    /// Lets values have [any length](Self::any_length_values), with slots of `bytes` bytes, 16 to 256. Values that fit
    /// into 4 bytes less are stored in their slots.
    pub fn slot_bytes(self, bytes: usize) -> Self {
        Self { values: Values::AnyLength, value_bytes: Some(bytes), ..self }
    }

    /// Sets the bytes of a node, a multiple of 64. The default is 1 KiB, as in the paper.
    pub fn node_bytes(self, bytes: usize) -> Self {
        Self { node_bytes: bytes, ..self }
    }

    /// Sets the variant of the tree: `ShermanVariant::Fg.features()` and others are the paper's baselines.
    pub fn variant(self, variant: ShermanFeatures) -> Self {
        Self { variant, ..self }
    }

    /// Sets the size of a lock, which overrides that of the variant. The default is [`LockWidth::Word`] (64 bits).
    /// [`LockWidth::Packed`] (16 bits, as in the paper) is for reproduction only: such a lock does not name its
    /// holder's epoch, so the lock of a crashed client cannot be taken over. All indexes of a pool whose locks are in
    /// the same memory have locks of one size.
    pub fn lock_width(self, width: LockWidth) -> Self {
        Self { lock_width: width, ..self }
    }

    /// Sets the scheme by which readers detect a torn copy. Checksums, the default, also detect bytes that changed at
    /// rest; versions, the paper's scheme, do not. Versions of one byte make the smallest entries, and need a fabric
    /// whose NICs copy: RDMA with hardware.
    pub fn consistency(self, scheme: Consistency) -> Self {
        Self { consistency: scheme, ..self }
    }

    /// Sets the budget of this process's index cache in bytes, at most 1 TiB; the default is
    /// [`CACHE_BYTES`](Self::CACHE_BYTES).
    pub fn cache_bytes(self, bytes: usize) -> Self {
        Self { cache_bytes: bytes, ..self }
    }
}

#[cfg(feature = "backup")]
impl BTree {
    /// Sets lengths that were not set: those of the entries of a backup.
    pub(crate) fn or_lengths(self, key_bytes: Option<usize>, value_bytes: Option<usize>) -> Self {
        let key_bytes = self.key_bytes.or(key_bytes);
        match (self.values, self.value_bytes, value_bytes) {
            (Values::Fixed, None, Some(_)) => Self { key_bytes, value_bytes, ..self },
            (Values::Fixed, None, None) => Self { key_bytes, ..self }.any_length_values(),
            _ => Self { key_bytes, ..self },
        }
    }
}

impl Structure for BTree {
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
        Ok(OrderedConfig::Sherman(ShermanConfig { sizes, values, options, consistency, kinds }))
    }

    fn contradiction(&self, stored: &OrderedDescription) -> Option<Contradiction> {
        let OrderedDescription::Sherman(stored) = stored else {
            return Some(other_system(System::Sherman, stored));
        };
        let (layout, default) = (&stored.layout, Self::new());
        let node_bytes = Some(self.node_bytes).filter(|&bytes| bytes != default.node_bytes);
        let variants = [self.variant, stored.options, default.variant].map(with_word_locks);
        let widths = [self.lock_width, stored.options.lock.width, default.lock_width];
        let schemes = [self.consistency, layout.consistency, default.consistency];
        compare_bytes("key length", self.key_bytes, layout.key_bytes)
            .or_else(|| {
                compare("length of values", [self.values, layout.values, default.values], |values| {
                    show_values(*values)
                })
            })
            .or_else(|| compare_bytes("value length", self.value_bytes, layout.value_bytes))
            .or_else(|| compare_bytes("node size", node_bytes, layout.slot_bytes))
            .or_else(|| compare("variant", variants, show_features))
            .or_else(|| compare("size of locks", widths, |width| show_width(*width)))
            .or_else(|| compare("consistency scheme", schemes, |scheme| scheme.name().to_owned()))
    }

    fn cache_budget(&self) -> usize {
        self.cache_bytes
    }
}

/// The features with the default size of locks, which is compared by itself.
fn with_word_locks(mut features: ShermanFeatures) -> ShermanFeatures {
    features.lock.width = LockWidth::Word;
    features
}

fn show_values(values: Values) -> String {
    match values {
        Values::Fixed => "of one length".to_owned(),
        Values::AnyLength => "of any length".to_owned(),
    }
}

fn show_width(width: LockWidth) -> String {
    match width {
        LockWidth::Word => "64 bits".to_owned(),
        LockWidth::Packed => "16 bits".to_owned(),
    }
}

fn show_features(features: &ShermanFeatures) -> String {
    let named =
        ShermanVariant::ALL.iter().find(|(variant, _)| with_word_locks(variant.features()) == *features);
    show_variant(named.map(|(_, name)| *name), features.describe())
}
