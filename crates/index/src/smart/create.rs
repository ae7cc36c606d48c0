//! Creates and opens SMART trees: the directory entry and its parameters.
//!
//! # Map
//!
//! ```text
//! parameters of a SMART tree in its directory entry (128 bytes, little endian)
//! +  0  1  inserts: 0 locked, 1 lock-free
//! +  1  1  updates: 0 out of place, 1 in place, 2 out of place without a lock
//! +  2  1  leaf locks: 0 apart, 1 at the rear, 2 in device memory and handed over, 3 at the rear and handed over,
//!          4 at the rear, each client competes
//! +  3  1  inner nodes: 0 fitting size, 1 of 256 slots, 2 typed
//! +  4  1  scans: 0 one by one, 1 batched           +  5 1  READs: 0 separate, 1 combined
//! +  6  1  WRITEs: 0 separate, 1 combined           +  7 1  allocation: 0 words, 1 steps of 256 bytes
//! +  8  1  a full node cache evicts: 0 the least recently used copies, 1 the first inserted
//! +  9     zero
//! + 14  1  locks in: 0 host memory                  + 15 1  lock width: 0 word
//! + 16  2  maximum bytes of key and value together in a leaf
//! + 18     zero
//! + 20  1  kind of the keys                         + 21 1  kind of the values: numbers that the caller chooses
//! + 22     zero
//! ```

use super::options::{
    Allocation, CachePolicy, Inserts, LeafLock, NodeSizing, Reads, Scans, SmartFeatures, Updates, Writes,
};
use super::{Smart, SmartState};
use crate::combine::{Combiner, Leader};
use crate::error::IndexError;
use crate::lifecycle;
use crate::params::{self, Codec, Parameters};
use crate::radix::leaf::ENTRY_BYTES_MAX;
use crate::radix::tree::create::{check_capabilities, create_root, open_root};
use farwood_fabric::directory::{Entry, PARAMETER_BYTES};
use farwood_fabric::{Client, Fabric};
use std::sync::atomic::AtomicU64;

/// Kind of SMART trees in the directory.
pub const KIND: u32 = params::KIND_SMART;
/// Version of the format of nodes and leaves.
pub(super) const FORMAT: u32 = 4;

/// Configuration of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmartConfig {
    /// The features of the tree.
    pub options: SmartFeatures,
    /// Maximum bytes of key and value together in a leaf; a longer value is an overflow value.
    pub inline_bytes: usize,
    /// Types of keys and values, as the caller numbers them. They are stored with the tree; [`Smart::kinds`] yields
    /// them.
    pub kinds: [u8; 2],
}

impl Default for SmartConfig {
    /// A configuration in which all values that fit are stored in their leaves.
    fn default() -> Self {
        Self { options: SmartFeatures::default(), inline_bytes: ENTRY_BYTES_MAX, kinds: [0; 2] }
    }
}

impl Smart {
    /// Creates the tree `name` and opens it with a node cache of `cache_bytes`.
    ///
    /// # Errors
    /// [`IndexError::IndexExists`], [`IndexError::BadName`], [`IndexError::Unsafe`]; a full pool or directory.
    pub async fn create<F: Fabric>(
        client: &Client<F>,
        name: &str,
        config: SmartConfig,
        cache_bytes: usize,
    ) -> Result<Self, IndexError> {
        check_capabilities(client)?;
        if config.inline_bytes > ENTRY_BYTES_MAX {
            let (found, most) = (config.inline_bytes, ENTRY_BYTES_MAX);
            return Err(IndexError::BadSizes(format!(
                "entries of {found} bytes do not fit into leaves, which hold at most {most}"
            )));
        }
        let new = params::new_entry(name, &config);
        let entry =
            lifecycle::create(client, &new, async |entry| create_root(client, entry, &[]).await).await?;
        Self::assemble(client, entry, cache_bytes).await
    }

    /// Opens the tree `name` with a node cache of `cache_bytes`.
    ///
    /// # Errors
    /// [`IndexError::NoSuchIndex`], [`IndexError::WrongFormat`], [`IndexError::Unsafe`].
    pub async fn open<F: Fabric>(
        client: &Client<F>,
        name: &str,
        cache_bytes: usize,
    ) -> Result<Self, IndexError> {
        let entry = lifecycle::find(client, name).await?;
        Self::assemble(client, entry, cache_bytes).await
    }

    pub(crate) async fn assemble<F: Fabric>(
        client: &Client<F>,
        entry: Entry,
        cache_bytes: usize,
    ) -> Result<Self, IndexError> {
        let SmartConfig { options, inline_bytes, .. } = describe(&entry)?;
        let root = open_root(client, &entry).await?;
        let policy = SmartState {
            options,
            next_node: AtomicU64::new(entry.number),
            reads: Combiner::new(Leader::First),
            writes: Combiner::new(Leader::Last),
        };
        Ok(Self::new(client, entry, root, options.tree(inline_bytes), policy, cache_bytes))
    }
}

/// Reads the configuration of a SMART tree from its directory entry. [0 RT]
///
/// # Errors
/// [`IndexError::WrongFormat`] if the entry does not describe a SMART tree of this version.
pub fn describe(entry: &Entry) -> Result<SmartConfig, IndexError> {
    params::decode(entry)
}

impl Parameters for SmartConfig {
    const KIND: u32 = KIND;
    const FORMAT: u32 = FORMAT;
    const NAME: &'static str = "a SMART tree";

    fn fields(&mut self, codec: &mut Codec) {
        let SmartFeatures {
            inserts,
            updates,
            leaf_lock,
            reads,
            writes,
            node_sizing,
            scans,
            allocation,
            cache_policy,
        } = &mut self.options;
        codec.choice(0, inserts, [Inserts::Locked, Inserts::LockFree]);
        codec.choice(1, updates, [Updates::OutOfPlace, Updates::InPlace, Updates::Swapped]);
        let leaf_locks = [
            LeafLock::Apart,
            LeafLock::Rear,
            LeafLock::Table,
            LeafLock::RearHandedOver,
            LeafLock::RearContended,
        ];
        codec.choice(2, leaf_lock, leaf_locks);
        codec.choice(3, node_sizing, [NodeSizing::Fitting, NodeSizing::Preallocated, NodeSizing::Typed]);
        codec.choice(4, scans, [Scans::OneByOne, Scans::Batched]);
        codec.choice(5, reads, [Reads::Each, Reads::Delegated]);
        codec.choice(6, writes, [Writes::Each, Writes::Combined]);
        codec.choice(7, allocation, [Allocation::Words, Allocation::Steps256]);
        codec.choice(8, cache_policy, [CachePolicy::RecentlyUsed, CachePolicy::FirstIn]);
        codec.u16(16, &mut self.inline_bytes, 0..=ENTRY_BYTES_MAX);
        codec.kinds(&mut self.kinds);
    }
}

const _: () = assert!(22 <= PARAMETER_BYTES && ENTRY_BYTES_MAX <= u16::MAX as usize);

#[cfg(test)]
mod tests {
    use super::super::options::SmartVariant;
    use super::*;
    use crate::params::tests::check_codec;

    #[test]
    fn parameters_are_read_back_and_unknown_values_are_refused() {
        let bad: Vec<_> = [2, 3, 5, 3, 2, 2, 2, 2, 2].into_iter().enumerate().chain([(17, 255)]).collect();
        for (variant, _) in SmartVariant::ALL {
            for (node_sizing, scans, allocation, cache_policy) in [
                (NodeSizing::Fitting, Scans::OneByOne, Allocation::Words, CachePolicy::FirstIn),
                (NodeSizing::Preallocated, Scans::Batched, Allocation::Steps256, CachePolicy::RecentlyUsed),
                (NodeSizing::Typed, Scans::Batched, Allocation::Words, CachePolicy::FirstIn),
            ] {
                let options =
                    SmartFeatures { node_sizing, scans, allocation, cache_policy, ..variant.features() };
                check_codec(&SmartConfig { options, inline_bytes: 300, kinds: [3, 4] }, &bad);
            }
        }
    }
}
