//! Creating, opening and dropping trees: the directory entry and its parameters.
//!
//! ```text
//! parameters of a Sherman tree in its directory entry (128 bytes, little endian)
//! +  0  4  key bytes        + 4  4  value bytes       + 8  4  node bytes
//! + 12  1  leaves: 0 sorted, 1 two-level              + 13 1  consistency: 0 versions, 1 checksum
//! + 14  1  locks in: 0 host memory, 1 device, 2 nodes + 15 1  lock width: 0 word, 1 packed
//! + 16  1  release: 0 FAA, 1 WRITE                    + 17 1  local locks: 0 none, 1 spinning, 2 queued
//! + 18  1  hand-overs at most                         + 19 1  write-back: 0 alone, 1 combined
//! + 20  1  kind of the keys                           + 21 1  kind of the values: numbers of the caller's own
//! + 22  1  lock and READ: 0 apart, 1 in one doorbell
//! + 23  1  values: 0 of one length, 1 of any
//! + 24     zero
//! ```

use super::Sherman;
use super::layout::{FORMAT, INDEX, Layout, NODE_BYTES_DEFAULT, Sizes, Values};
use super::node::{Fences, Node, RawNode};
use super::options::{Leaves, LockRead, Options, WriteBack};
use crate::cache::OrderedCache;
use crate::consistency::Consistency;
use crate::error::IndexError;
use crate::lifecycle;
use crate::lock::{LOCK_BYTES, LocalLocks, LockMemory, LockOptions, LockWidth, NodeLocks, Release};
use crate::memory::chunks::{Allocator, RoomOf, Units};
use crate::memory::free_list::Give;
use crate::memory::overflow;
use crate::memory::slot::Room;
use arc_swap::ArcSwapOption;
use farwood_fabric::directory::{Entry, NewEntry, PARAMETER_BYTES};
use farwood_fabric::{Capability, Client, Fabric, write};

/// The number by which the directory knows Sherman trees.
pub const KIND: u32 = 1;

/// What a tree is created with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Sizes of keys, values and nodes.
    pub sizes: Sizes,
    /// What values there may be.
    pub values: Values,
    /// The variant.
    pub options: Options,
    /// The consistency scheme of two-level leaves and inner nodes; `None`: from the fabric's capabilities.
    pub consistency: Option<Consistency>,
    /// What keys and values mean to the caller, kept with the tree and read back by [`Sherman::kinds`].
    pub kinds: [u8; 2],
}

impl Default for Config {
    /// 8-byte keys and values, nodes of 1 KiB, Sherman.
    fn default() -> Self {
        let sizes = Sizes { key_bytes: 8, value_bytes: 8, node_bytes: NODE_BYTES_DEFAULT };
        Self { sizes, values: Values::Fixed, options: Options::default(), consistency: None, kinds: [0; 2] }
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
        config: Config,
        cache_bytes: usize,
    ) -> Result<Self, IndexError> {
        let consistency = choose_consistency(client, &config);
        // The sizes are refused before anything is touched.
        layout_of(config.sizes, config.options, consistency, 0)?.with_values(config.values)?;
        let parameters = encode(&config, consistency);
        let new = NewEntry { name, kind: KIND, format: FORMAT, parameters };
        let entry = lifecycle::create(client, &new, async |entry| plant(client, entry).await).await?;
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
            locks: NodeLocks::new(lock, client.fabric().shape(), layout.room_bytes),
            cache: OrderedCache::new(cache_bytes),
            top: ArcSwapOption::empty(),
            allocator: allocator_of(&entry, &layout),
            layout,
            entry,
        })
    }

    /// What keys and values mean to whoever created the tree.
    pub fn kinds(&self) -> [u8; 2] {
        [self.entry.parameters[20], self.entry.parameters[21]]
    }

    /// Marks the tree as closed by this compute node, so that others may drop it. Nobody here may use it any more.
    /// [at most 2 RT]
    ///
    /// # Errors
    /// The fabric's.
    pub async fn close<F: Fabric>(&self, client: &Client<F>) -> Result<(), IndexError> {
        lifecycle::mark_closed(client, &self.entry).await
    }

    /// Gives back what this compute node has of the tree's memory and does not use. [1 RT, and 3 for each list of
    /// emptied rooms]
    ///
    /// # Errors
    /// The fabric's.
    pub async fn leave<F: Fabric>(&self, client: &Client<F>) -> Result<(), IndexError> {
        self.give_rooms(client, Give::All).await?;
        self.allocator.leave(client).await
    }
}

fn allocator_of(entry: &Entry, layout: &Layout) -> Allocator {
    let node_bytes = layout.room_bytes as u32;
    let (unit_bytes, room_of) = match layout.values {
        Values::Fixed => (layout.room_bytes, RoomOf::One(node_bytes)),
        Values::AnyLength => (overflow::UNIT_BYTES, RoomOf::Told(overflow::room_of, node_bytes)),
    };
    Allocator::new(entry.slot, Units { index: layout.index, index_offset: INDEX, unit_bytes, room_of })
}

/// Takes room for the root of a new tree, an empty leaf, and writes it; yields the word of its pointer.
async fn plant<F: Fabric>(client: &Client<F>, entry: &Entry) -> Result<u64, IndexError> {
    let (layout, _) = decode(entry)?;
    let allocator = allocator_of(entry, &layout);
    let lowest = vec![0; layout.key_bytes];
    let mut root = Node::empty(&layout, 0, Fences { lower: &lowest, upper: None }, None);
    let room: Room<RawNode> = allocator.allocate(client, layout.room_kind()).await?;
    client.post(write(room.at, &root.seal_in(&room))).await?;
    allocator.leave(client).await?;
    Ok(room.at.word())
}

/// What the directory says of a tree, without opening it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// Sizes and scheme.
    pub layout: Layout,
    /// The variant's options.
    pub options: Options,
    /// What keys and values mean to whoever created the tree.
    pub kinds: [u8; 2],
}

/// Reads a directory entry as a tree's. [0 RT]
///
/// # Errors
/// [`IndexError::WrongFormat`] where it is no tree of this version.
pub fn describe(entry: &Entry) -> Result<Description, IndexError> {
    let (layout, options) = decode(entry)?;
    Ok(Description { layout, options, kinds: [entry.parameters[20], entry.parameters[21]] })
}

fn choose_consistency<F: Fabric>(client: &Client<F>, config: &Config) -> Consistency {
    let capabilities = client.fabric().capabilities();
    if config.options.leaves == Leaves::Sorted {
        return Consistency::Checksum;
    }
    config.consistency.unwrap_or_else(|| Consistency::for_nodes(config.sizes.node_bytes, capabilities))
}

fn check_capabilities<F: Fabric>(
    client: &Client<F>,
    layout: &Layout,
    options: Options,
) -> Result<(), IndexError> {
    let mut needs = layout.consistency.needs(layout.node_bytes);
    // A node that splits is written in place.
    needs.push(Capability::WriteSurvivesWriter(layout.node_bytes));
    if options.lock.width == LockWidth::Packed {
        needs.push(Capability::MaskedCas);
    }
    match client.fabric().capabilities().missing(&needs) {
        None => Ok(()),
        Some(capability) => Err(IndexError::Unsafe {
            capability,
            remedy: "create the index with smaller nodes, with checksums (--consistency checksum), or 64-bit locks; \
                     over RDMA larger packets (MTU) help as well",
        }),
    }
}

fn encode(config: &Config, consistency: Consistency) -> [u8; PARAMETER_BYTES] {
    let mut bytes = [0; PARAMETER_BYTES];
    let sizes = [config.sizes.key_bytes, config.sizes.value_bytes, config.sizes.node_bytes];
    for (at, size) in sizes.into_iter().enumerate() {
        bytes[4 * at..4 * at + 4].copy_from_slice(&(size as u32).to_le_bytes());
    }
    let lock = config.options.lock;
    let (local, hand_over_max) = match lock.local {
        LocalLocks::None => (0, 0),
        LocalLocks::Spinning => (1, 0),
        LocalLocks::Queued { hand_over_max } => (2, hand_over_max),
    };
    let choices = [
        u8::from(config.options.leaves == Leaves::TwoLevel),
        u8::from(consistency == Consistency::Checksum),
        match lock.memory {
            LockMemory::Host => 0,
            LockMemory::Device => 1,
            LockMemory::Node => 2,
        },
        u8::from(lock.width == LockWidth::Packed),
        u8::from(lock.release == Release::Write),
        local,
        hand_over_max,
        u8::from(config.options.write_back == WriteBack::Combined),
        config.kinds[0],
        config.kinds[1],
        u8::from(config.options.lock_read == LockRead::Together),
        u8::from(config.values == Values::AnyLength),
    ];
    bytes[12..12 + choices.len()].copy_from_slice(&choices);
    bytes
}

/// The layout of a tree's nodes: locks that lie in nodes take their room there.
fn layout_of(
    sizes: Sizes,
    options: Options,
    consistency: Consistency,
    number: u64,
) -> Result<Layout, IndexError> {
    let lock_bytes = if options.lock.memory == LockMemory::Node { LOCK_BYTES } else { 0 };
    Layout::with_lock(sizes, options.leaves, consistency, number, lock_bytes)
}

fn decode(entry: &Entry) -> Result<(Layout, Options), IndexError> {
    lifecycle::check_kind(entry, KIND, FORMAT, "a Sherman tree")?;
    let refuse = |why: String| Err(IndexError::WrongFormat(format!("index '{}': {why}", entry.name)));
    let bytes = &entry.parameters;
    let size = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")) as usize;
    let choices = &bytes[12..24];
    if let Some(at) = [0, 1, 3, 4, 7, 10, 11].into_iter().find(|&at| choices[at] > 1) {
        return refuse(format!("parameter {at} is {}", choices[at]));
    }
    let pick = |at: usize| choices[at] == 1;
    let local = match choices[5] {
        0 => LocalLocks::None,
        1 => LocalLocks::Spinning,
        2 => LocalLocks::Queued { hand_over_max: choices[6] },
        other => return refuse(format!("local locks of kind {other}")),
    };
    let memory = match choices[2] {
        0 => LockMemory::Host,
        1 => LockMemory::Device,
        2 => LockMemory::Node,
        other => return refuse(format!("locks in memory of kind {other}")),
    };
    let options = Options {
        leaves: if pick(0) { Leaves::TwoLevel } else { Leaves::Sorted },
        lock: LockOptions {
            memory,
            width: if pick(3) { LockWidth::Packed } else { LockWidth::Word },
            release: if pick(4) { Release::Write } else { Release::Faa },
            local,
        },
        write_back: if pick(7) { WriteBack::Combined } else { WriteBack::Alone },
        lock_read: if pick(10) { LockRead::Together } else { LockRead::Apart },
    };
    let consistency = if pick(1) { Consistency::Checksum } else { Consistency::Versions };
    let sizes = Sizes { key_bytes: size(0), value_bytes: size(4), node_bytes: size(8) };
    let values = if pick(11) { Values::AnyLength } else { Values::Fixed };
    Ok((layout_of(sizes, options, consistency, entry.number)?.with_values(values)?, options))
}

#[cfg(test)]
mod tests {
    use super::super::options::Variant;
    use super::*;

    fn entry(parameters: [u8; PARAMETER_BYTES]) -> Entry {
        Entry { slot: 3, number: 9, name: "t".to_owned(), kind: KIND, format: FORMAT, parameters }
    }

    #[test]
    fn parameters_are_read_back() {
        for (variant, name) in Variant::ALL {
            for consistency in [Consistency::Versions, Consistency::Checksum] {
                let config = Config { options: variant.options(), ..Config::default() };
                let (layout, options) = decode(&entry(encode(&config, consistency))).unwrap();
                assert_eq!((options, layout.consistency), (config.options, consistency), "{name}");
                assert_eq!((layout.key_bytes, layout.value_bytes, layout.room_bytes), (8, 8, 1024));
            }
        }
    }

    #[test]
    fn unknown_parameters_are_refused() {
        let good = encode(&Config::default(), Consistency::Versions);
        for (at, value) in [(12, 2), (17, 3), (22, 2), (14, 3), (0, 1), (9, 0)] {
            let mut bad = good;
            bad[at] = value;
            assert!(decode(&entry(bad)).is_err(), "byte {at}");
        }
        assert!(decode(&Entry { kind: 2, ..entry(good) }).is_err());
        assert!(decode(&Entry { format: FORMAT + 1, ..entry(good) }).is_err());
    }
}
