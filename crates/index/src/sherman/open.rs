//! Creating, opening and dropping trees: the directory entry and its parameters.
//!
//! ```text
//! parameters of a Sherman tree in its directory entry (128 bytes, little endian)
//! +  0  4  key bytes        + 4  4  value bytes       + 8  4  node bytes
//! + 12  1  leaves: 0 sorted, 1 two-level              + 13 1  consistency: 0 versions, 1 checksum, 2 byte versions
//! + 14  1  locks in: 0 host memory, 1 device, 2 nodes + 15 1  lock width: 0 word, 1 packed
//! + 16  1  release: 0 FAA, 1 WRITE                    + 17 1  local locks: 0 none, 1 spinning, 2 queued
//! + 18  1  maximum of hand-overs                      + 19 1  write-back: 0 alone, 1 combined
//! + 20  1  kind of the keys                           + 21 1  kind of the values: numbers that the caller chooses
//! + 22  1  lock and READ: 0 apart, 1 in one doorbell
//! + 23  1  values: 0 of one length, 1 of any
//! + 24     zero
//! ```

use super::Sherman;
use super::layout::{FORMAT, INDEX, Layout, NODE_BYTES_DEFAULT, Sizes, Values};
use super::node::{Fences, Node, RawNode};
use super::options::{Leaves, LockRead, ShermanFeatures, WriteBack};
use super::scan::ExpectedLoad;
use crate::cache::OrderedCache;
use crate::consistency::Consistency;
use crate::error::IndexError;
use crate::lifecycle;
use crate::lock::{LOCK_BYTES, LocalLocks, LockMemory, LockPauses, LockWidth, NodeLocks, Release};
use crate::memory::allocator::{Allocator, SlotSizes, Units};
use crate::memory::free_list::Give;
use crate::memory::overflow;
use crate::memory::slot::MemorySlot;
use crate::op::Op;
use crate::params::{self, Codec, Parameters};
use arc_swap::ArcSwapOption;
use farwood_fabric::directory::Entry;
use farwood_fabric::{Capability, Client, Fabric, Remote, write};
use std::ops::RangeInclusive;

/// The kind number of Sherman trees in the directory.
pub const KIND: u32 = params::KIND_SHERMAN;

/// The parameters of a new tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShermanConfig {
    /// Sizes of keys, values and nodes.
    pub sizes: Sizes,
    /// The values of the tree.
    pub values: Values,
    /// The variant.
    pub options: ShermanFeatures,
    /// The consistency scheme of two-level leaves and inner nodes; `None`: from the fabric's capabilities.
    pub consistency: Option<Consistency>,
    /// The kinds of keys and values, numbers that the caller chooses; [`Sherman::kinds`] returns them.
    pub kinds: [u8; 2],
}

impl Default for ShermanConfig {
    /// 8-byte keys and values, nodes of 1 KiB, Sherman.
    fn default() -> Self {
        let sizes = Sizes { key_bytes: 8, value_bytes: 8, node_bytes: NODE_BYTES_DEFAULT };
        Self {
            sizes,
            values: Values::Fixed,
            options: ShermanFeatures::default(),
            consistency: None,
            kinds: [0; 2],
        }
    }
}

impl ShermanConfig {
    /// Checks the sizes, as [`Sherman::create`] does, without a pool.
    ///
    /// # Errors
    /// [`IndexError::BadSizes`]; [`IndexError::Unsafe`] for a scheme that does not protect this layout in any pool.
    pub fn check(&self) -> Result<(), IndexError> {
        let consistency = self.consistency.unwrap_or(Consistency::Checksum);
        layout_of(self.sizes, self.options, consistency, 0)?.with_values(self.values)?;
        Ok(())
    }
}

impl Sherman {
    /// Creates the tree `name` and opens it with an index cache of `cache_bytes`.
    ///
    /// # Errors
    /// [`IndexError::IndexExists`], [`IndexError::BadName`], [`IndexError::BadSizes`], [`IndexError::Unsafe`]; a full
    /// pool or directory.
    pub async fn create<F: Fabric>(
        client: &Client<F>,
        name: &str,
        config: ShermanConfig,
        cache_bytes: usize,
    ) -> Result<Self, IndexError> {
        let consistency = choose_consistency(client, &config);
        let config = ShermanConfig { consistency: Some(consistency), ..config };
        // Invalid sizes are refused before the pool is changed.
        config.check()?;
        let new = params::new_entry(name, &config);
        let entry = lifecycle::create(client, &new, async |entry| write_root(client, entry).await).await?;
        Self::assemble(client, entry, cache_bytes).await
    }

    /// Opens the tree `name` with an index cache of `cache_bytes`.
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
        let (layout, options) = decode(&entry)?;
        check_capabilities(client, &layout, options)?;
        lifecycle::mark_open(client, &entry).await?;
        let lock = options.lock.on(client.fabric().capabilities());
        Ok(Self {
            options,
            locks: NodeLocks::new(lock, client.fabric().shape(), layout.slot_bytes),
            cache: OrderedCache::new(cache_bytes),
            top: ArcSwapOption::empty(),
            allocator: allocator_of(&entry, &layout),
            expected_load: ExpectedLoad::of_capacity(layout.leaf_capacity),
            layout,
            entry,
        })
    }

    /// The kinds of keys and values, as the creator of the tree chose them.
    pub fn kinds(&self) -> [u8; 2] {
        params::kinds(&self.entry)
    }

    /// Marks the tree as closed by this compute node, so that others may drop it. No client of this compute node may
    /// use it any more.
    /// [at most 2 RT]
    ///
    /// # Errors
    /// The errors of the fabric.
    pub async fn close<F: Fabric>(&self, client: &Client<F>) -> Result<(), IndexError> {
        lifecycle::mark_closed(client, &self.entry).await
    }

    /// Returns the unused memory of the tree on this compute node. [1 RT, and 3 for each list of free slots]
    ///
    /// # Errors
    /// The errors of the fabric.
    pub async fn leave<F: Fabric>(&self, client: &Client<F>) -> Result<(), IndexError> {
        Op::new(self, client, "leave").give_slots(Give::All).await?;
        self.allocator.leave(client).await
    }
}

fn allocator_of(entry: &Entry, layout: &Layout) -> Allocator {
    let node_bytes = layout.slot_bytes as u32;
    let (unit_bytes, room_of) = match layout.values {
        Values::Fixed => (layout.slot_bytes, SlotSizes::One(node_bytes)),
        Values::AnyLength => (overflow::UNIT_BYTES, SlotSizes::Told(overflow::stored_slot_bytes, node_bytes)),
    };
    Allocator::new(entry.slot, Units { index: layout.index, index_offset: INDEX, unit_bytes, room_of })
}

/// Allocates and writes the root of a new tree, an empty leaf; returns the word of its pointer.
async fn write_root<F: Fabric>(client: &Client<F>, entry: &Entry) -> Result<Remote<RawNode>, IndexError> {
    let (layout, _) = decode(entry)?;
    let allocator = allocator_of(entry, &layout);
    let lowest = vec![0; layout.key_bytes];
    let mut root = Node::empty(&layout, 0, Fences { lower: &lowest, upper: None }, None);
    let slot: MemorySlot<RawNode> = allocator.allocate(client, layout.node_slots()).await?;
    client.post(write(slot.at, &root.seal_in(&slot))).await?;
    allocator.leave(client).await?;
    Ok(slot.at)
}

/// The directory entry of a tree, decoded without opening the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShermanDescription {
    /// Sizes and scheme.
    pub layout: Layout,
    /// The variant's options.
    pub options: ShermanFeatures,
    /// The kinds of keys and values, as the creator of the tree chose them.
    pub kinds: [u8; 2],
}

/// Decodes the directory entry of a tree. [0 RT]
///
/// # Errors
/// [`IndexError::WrongFormat`] if the entry does not describe a Sherman tree of this version.
pub fn describe(entry: &Entry) -> Result<ShermanDescription, IndexError> {
    let (layout, options) = decode(entry)?;
    Ok(ShermanDescription { layout, options, kinds: params::kinds(entry) })
}

fn choose_consistency<F: Fabric>(client: &Client<F>, config: &ShermanConfig) -> Consistency {
    let capabilities = client.fabric().capabilities();
    config.consistency.unwrap_or_else(|| match config.options.leaves {
        // FG (Sherman, Figure 4a); node versions over sorted leaves are Figure 4b.
        Leaves::Sorted => Consistency::Checksum,
        Leaves::TwoLevel => Consistency::for_nodes(config.sizes.node_bytes, capabilities),
    })
}

fn check_capabilities<F: Fabric>(
    client: &Client<F>,
    layout: &Layout,
    options: ShermanFeatures,
) -> Result<(), IndexError> {
    let mut needs = layout.consistency.needs(layout.node_bytes);
    // A split writes the node in place.
    needs.push(Capability::WriteSurvivesWriter(layout.node_bytes));
    if options.lock.width == LockWidth::Packed {
        needs.push(Capability::MaskedCas);
    }
    match client.fabric().capabilities().missing(&needs) {
        None => Ok(()),
        Some(capability) => Err(IndexError::Unsafe {
            capability,
            remedy: "create the index with smaller nodes, with checksums (--consistency checksum), or 64-bit locks; \
                     over RDMA, a larger MTU also helps",
        }),
    }
}

impl Parameters for ShermanConfig {
    const KIND: u32 = KIND;
    const FORMAT: u32 = FORMAT;
    const NAME: &'static str = "a Sherman tree";

    fn fields(&mut self, codec: &mut Codec) {
        const ANY: RangeInclusive<usize> = 0..=u32::MAX as usize;
        let Sizes { key_bytes, value_bytes, node_bytes } = &mut self.sizes;
        codec.u32(0, key_bytes, ANY);
        codec.u32(4, value_bytes, ANY);
        codec.u32(8, node_bytes, ANY);
        let ShermanFeatures { leaves, lock, write_back, lock_read } = &mut self.options;
        codec.choice(12, leaves, [Leaves::Sorted, Leaves::TwoLevel]);
        let consistency = self.consistency.get_or_insert(Consistency::Versions);
        codec.choice(
            13,
            consistency,
            [Consistency::Versions, Consistency::Checksum, Consistency::ByteVersions],
        );
        codec.locks(&mut lock.memory, &mut lock.width);
        codec.choice(16, &mut lock.release, [Release::Faa, Release::Write]);
        let (mut local, mut hand_over_max) = match lock.local {
            LocalLocks::None => (0, 0),
            LocalLocks::Spinning => (1, 0),
            LocalLocks::Queued { hand_over_max } => (2, hand_over_max),
        };
        codec.u8(17, &mut local, 0..=2);
        codec.u8(18, &mut hand_over_max, 0..=u8::MAX);
        lock.local = match local {
            0 => LocalLocks::None,
            1 => LocalLocks::Spinning,
            _ => LocalLocks::Queued { hand_over_max },
        };
        codec.choice(19, write_back, [WriteBack::Alone, WriteBack::Combined]);
        codec.kinds(&mut self.kinds);
        codec.choice(22, lock_read, [LockRead::Apart, LockRead::Together]);
        // The pauses are not stored: only the variants of the paper have none.
        lock.pauses = match lock_read {
            LockRead::Apart => LockPauses::None,
            LockRead::Together => LockPauses::LongWait,
        };
        codec.choice(23, &mut self.values, [Values::Fixed, Values::AnyLength]);
    }
}

/// Returns the layout of a tree's nodes, with space for the locks inside them.
fn layout_of(
    sizes: Sizes,
    options: ShermanFeatures,
    consistency: Consistency,
    number: u64,
) -> Result<Layout, IndexError> {
    let lock_bytes = if options.lock.memory == LockMemory::Node { LOCK_BYTES } else { 0 };
    Layout::with_lock(sizes, options.leaves, consistency, number, lock_bytes)
}

fn decode(entry: &Entry) -> Result<(Layout, ShermanFeatures), IndexError> {
    let config: ShermanConfig = params::decode(entry)?;
    let consistency = config.consistency.expect("every entry has a consistency scheme");
    let layout = layout_of(config.sizes, config.options, consistency, entry.number)?;
    Ok((layout.with_values(config.values)?, config.options))
}

#[cfg(test)]
mod tests {
    use super::super::options::ShermanVariant;
    use super::*;
    use crate::params::tests::{check_codec, entry};

    #[test]
    fn parameters_are_read_back_and_unknown_values_are_refused() {
        for (variant, name) in ShermanVariant::ALL {
            for consistency in [Consistency::Versions, Consistency::Checksum] {
                let options = variant.features();
                let config =
                    ShermanConfig { options, consistency: Some(consistency), ..ShermanConfig::default() };
                check_codec(&config, &[(12, 2), (17, 3), (22, 2), (14, 3)]);
                let (layout, found) = decode(&entry::<ShermanConfig>(params::encode(&config))).unwrap();
                assert_eq!((found, layout.consistency), (options, consistency), "{name}");
                assert_eq!((layout.key_bytes, layout.value_bytes, layout.slot_bytes), (8, 8, 1024));
            }
        }
    }

    #[test]
    fn bytes_of_the_default_configuration() {
        let config =
            ShermanConfig { consistency: Some(Consistency::Checksum), kinds: [5, 6], ..Default::default() };
        let bytes = params::encode(&config);
        assert_eq!(bytes[..12], [8, 0, 0, 0, 8, 0, 0, 0, 0, 4, 0, 0]);
        assert_eq!(bytes[12..25], [1, 1, 1, 0, 1, 2, 4, 1, 5, 6, 0, 0, 0]);
    }

    #[test]
    fn impossible_sizes_are_refused() {
        for (at, value) in [(0, 1), (9, 0)] {
            let mut bad = params::encode(&ShermanConfig::default());
            bad[at] = value;
            assert!(decode(&entry::<ShermanConfig>(bad)).is_err(), "byte {at}");
        }
    }
}
