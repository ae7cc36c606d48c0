//! Sherman: a B-link tree on far memory, written by its clients (Sherman, SIGMOD'22).
//!
//! The operations read like the paper's Figures 7 and 9. Departures from the paper:
//!
//! 1. Lock words have 64 bits and name their holder and its epoch, so that a client can take over the lock of a crashed
//!    one.
//! 2. Versions have 32 bits instead of 4, or 7 in entries on NICs, and there is no 8 µs rule (see
//!    [`versions`](crate::consistency::versions) and [`byte_versions`](crate::consistency::byte_versions)).
//! 3. The local lock passes to the next client after the answer to the write-back, not before the post of the
//!    write-back: the next client may use another queue pair.
//! 4. A lookup reports a miss only when no entry of the leaf was torn. The paper's Figure 9 checks only an entry with
//!    the key, and the key of a torn entry may not be recognized.
//! 5. There are no sentinel keys; a bit of its version marks an entry that is in use.
//! 6. Clients take chunks of memory by one-sided verbs.
//! 7. Hashes replace versions if a node is larger than the fabric's limit for pairs of versions.
//! 8. Merges and the reuse of memory have their own protocol ([`slot`](crate::memory::slot), `merge.rs`).
//! 9. Lock words have a tag of 16 bits, which distinguishes the acquisitions of one compute node
//!    ([`Fabric::lock_tag`]).
//! 10. Trees of the library have hashes on every fabric, with a count of writes in each entry
//!     ([`checksum`](crate::consistency::checksum)).

mod bulk;
mod cached;
mod change;
mod descend;
mod free_slots;
pub mod inner;
pub mod layout;
pub mod leaf;
mod lock_node;
mod merge;
mod modify;
pub mod node;
mod open;
pub mod options;
mod position;
mod read;
mod scan;
mod split;
#[cfg(test)]
mod tests;
mod values;
mod verify;

pub use crate::range::{Direction, Range};
pub use leaf::Change;
pub use open::{KIND, ShermanConfig, ShermanDescription, describe};
pub use options::{ShermanFeatures, ShermanVariant};
use scan::ExpectedLoad;
pub use scan::{SNAPSHOT_LEAVES_MAX, ShermanEntries};
pub use verify::{Problem, ShermanReport};

use crate::cache::OrderedCache;
use crate::coverage;
use crate::error::IndexError;
use crate::lock::NodeLocks;
use crate::memory::allocator::Allocator;
use crate::memory::overflow::{MissedLink, OverflowValue, VALUE_BYTES_MAX};
use crate::op::Op;
use crate::retry::Retry;
use arc_swap::ArcSwapOption;
use cached::{CachedInner, Top};
use farwood_fabric::directory::Entry;
use farwood_fabric::{Cas, Checked, Client, Fabric, Remote, Torn, cas};
use layout::{Layout, Values};
use node::RawNode;
use position::{KeyPosition, Traversal, locate, trust_fences};
use read::{NO_LINK, NodeCopy, TORN_TRIES_MAX};
use std::fmt;
use std::ops::{Deref, Range as Span};
use values::StoredValue;

/// An open tree, shared by the clients of a compute node. Every operation takes the client that performs it.
pub struct Sherman {
    layout: Layout,
    options: ShermanFeatures,
    entry: Entry,
    locks: NodeLocks,
    cache: OrderedCache<CachedInner>,
    top: ArcSwapOption<Top>,
    allocator: Allocator,
    expected_load: ExpectedLoad,
}

/// A value, in the copy of its leaf or of its overflow object.
pub struct ShermanValue(ValueBytes);

enum ValueBytes {
    Leaf { leaf: Checked<RawNode>, at: Span<usize> },
    Overflow(OverflowValue),
}

impl Deref for ShermanValue {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            ValueBytes::Leaf { leaf, at } => &leaf[at.clone()],
            ValueBytes::Overflow(value) => value,
        }
    }
}

impl fmt::Debug for ShermanValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl Sherman {
    /// The layout of the tree's nodes.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The variant's options.
    pub fn options(&self) -> &ShermanFeatures {
        &self.options
    }

    /// The compare-and-swap of the root pointer.
    fn swap_root(&self, from: Remote<RawNode>, to: Remote<RawNode>) -> Result<Cas, IndexError> {
        let root = self.entry.root();
        Ok(cas(root.at(), root.seal_pointer(Some(from))?, root.seal_pointer(Some(to))?))
    }

    /// The tree's entry in the pool's directory.
    pub fn entry(&self) -> &Entry {
        &self.entry
    }

    /// Bytes of the index cache in use, and its budget.
    pub fn cache_bytes(&self) -> (usize, usize) {
        (self.cache.bytes(), self.cache.bytes_max())
    }

    /// The number of locks that were dropped instead of released: 0, unless operations were cancelled.
    pub fn locks_dropped(&self) -> u64 {
        self.locks.dropped()
    }

    /// The number of locks that this compute node may still hold since a memory node was lost: its next change of the
    /// tree frees them.
    pub fn locks_uncertain(&self) -> usize {
        self.locks.uncertain_count()
    }

    /// Nodes that this compute node has allocated for the tree, less all nodes that it removed. The sum over all
    /// compute nodes is the number of linked nodes and of nodes that interrupted operations lost.
    pub fn nodes_allocated(&self) -> i64 {
        self.allocator.allocated()
    }

    /// Turns this compute node's handle of the tree into a mutant, which tests must detect.
    #[doc(hidden)]
    pub fn mutant(&mut self, mutant: crate::mutant::Mutant) {
        self.layout.mutant = Some(mutant);
        self.locks.mutant(mutant);
    }

    fn check_key(&self, key: &[u8]) -> Result<(), IndexError> {
        let (expected, found) = (self.layout.key_bytes, key.len());
        if found == expected { Ok(()) } else { Err(IndexError::WrongLength { what: "key", expected, found }) }
    }

    fn check_value(&self, value: &[u8]) -> Result<(), IndexError> {
        let (expected, found) = (self.layout.value_bytes, value.len());
        match self.layout.values {
            Values::Fixed if found != expected => {
                Err(IndexError::WrongLength { what: "value", expected, found })
            }
            Values::AnyLength if found > VALUE_BYTES_MAX => {
                Err(IndexError::TooLong { most: VALUE_BYTES_MAX, found })
            }
            Values::Fixed | Values::AnyLength => Ok(()),
        }
    }

    /// Returns the value of `key`, if it has one (Sherman Figure 9).
    /// [1 RT when the leaf's address is cached; 1 more for each torn copy and each step to the right, and for an
    /// overflow value, 2 for one above 2 MiB]
    ///
    /// # Errors
    /// [`IndexError::WrongLength`]; [`IndexError::Damaged`] where the leaf stays torn; the fabric's errors.
    #[inline]
    pub async fn get<F: Fabric>(
        &self,
        client: &Client<F>,
        key: &[u8],
    ) -> Result<Option<ShermanValue>, IndexError> {
        self.check_key(key)?;
        let op = Op::new(self, client, "get");
        let (mut torn, mut moved) = (Retry::new("get", TORN_TRIES_MAX), Retry::new("get", TORN_TRIES_MAX));
        let mut missed = MissedLink::default();
        let first = op.leaf_for(key).await?;
        let mut at = first.at;
        let mut traversal = Traversal::new(op.restarts(), first.source);
        loop {
            let leaf = op.read_node(at).await?;
            match trust_fences(locate(&leaf, 0, key), &leaf, first.source) {
                KeyPosition::Here => match op.find(&leaf, key) {
                    Ok(None) => return Ok(None),
                    Ok(Some(slot)) => {
                        if let Some(value) = op.value_at(at, leaf, slot, &mut missed).await? {
                            return Ok(Some(value));
                        }
                        moved.again(client).await?;
                    }
                    Err(Torn) => {
                        client.fabric().record_coverage(coverage::TORN_ENTRY);
                        op.wait_for_writer(&mut torn, at).await?;
                    }
                },
                elsewhere => at = op.next_leaf(at, &leaf, elsewhere, key, &mut traversal).await?,
            }
        }
    }
}

impl<F: Fabric> Op<'_, F, Sherman> {
    /// Returns the value of entry `slot` of the leaf at `at`; `None` where the entry has another value now. [0 RT; as
    /// [`read_overflow`](Self::read_overflow)]
    #[inline]
    async fn value_at(
        self,
        at: Remote<RawNode>,
        leaf: NodeCopy<'_>,
        slot: usize,
        missed: &mut MissedLink,
    ) -> Result<Option<ShermanValue>, IndexError> {
        let layout = &self.index.layout;
        let bytes = layout.entry_value(slot);
        match layout.stored(&leaf.bytes[bytes.clone()]) {
            StoredValue::Inline(value) => {
                let bytes = match layout.values {
                    Values::Fixed => bytes,
                    Values::AnyLength => layout.inline_value(slot, value.len()),
                };
                Ok(Some(ShermanValue(ValueBytes::Leaf { leaf: leaf.bytes, at: bytes })))
            }
            StoredValue::Overflow(link) => match self.read_overflow(link).await? {
                None if missed.is_damage(link) => Err(link.missing(self.name, at)),
                value => Ok(value.map(|value| ShermanValue(ValueBytes::Overflow(value)))),
            },
            StoredValue::Invalid => Err(self.damaged(at, NO_LINK.to_owned())),
        }
    }
}

impl fmt::Debug for Sherman {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sherman")
            .field("name", &self.entry.name)
            .field("layout", &self.layout)
            .finish_non_exhaustive()
    }
}
