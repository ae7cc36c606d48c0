//! Creating and opening trees: the directory entry and its parameters.
//!
//! # Map
//!
//! ```text
//! parameters of a SMART tree in its directory entry (128 bytes, little endian)
//! +  0  1  inserts: 0 locked, 1 lock-free           +  1 1  updates: 0 out of place, 1 in place
//! +  2  1  leaf locks: 0 apart, 1 at the rear       +  3 1  inner nodes: 0 as they need, 1 of 256 slots
//! +  4  1  scans: 0 one by one, 1 batched           +  5 1  READs: 0 each its own, 1 shared
//! +  6  1  WRITEs: 0 each its own, 1 shared         +  7    zero
//! + 14  1  locks in: 0 host memory                  + 15 1  lock width: 0 word
//! + 20  1  kind of the keys                         + 21 1  kind of the values: numbers of the caller's own
//! + 22     zero
//! ```

use super::Smart;
use super::options::{Inserts, LeafLock, Options, Reads, Rooms, Scans, Updates, Writes};
use crate::delegation::{Gates, Leader};
use crate::error::IndexError;
use crate::lock::{LocalLocks, LockMemory, LockOptions, LockWidth, NodeLocks, Release};
use crate::radix::cached::NodeCache;
use crate::radix::heap::{Heap, Kind};
use crate::radix::inner::{self, Header, RawInner, Size, State};
use crate::radix::key::KEY_BYTES_MAX;
use crate::radix::leaf::ENTRY_BYTES_MAX;
use crate::radix::reverse::Reverse;
use crate::reclaim::Room;
use crate::sherman::open::{check_name, find_settled, free_chunks, refuse_mixed_locks};
use farwood_fabric::directory::{self, Entry, Locked, NewEntry, PARAMETER_BYTES};
use farwood_fabric::{Capability, Client, Fabric, NodeId, Remote, client_table, read, write};
use std::sync::atomic::AtomicU64;

/// The number by which the directory knows SMART trees.
pub const KIND: u32 = 2;
/// Version of the format of nodes and leaves.
pub(super) const FORMAT: u32 = 1;

/// Times in a row that a node's lock is handed over within a compute node.
const HAND_OVER_MAX: u8 = 4;
/// What a generation begins with, in a room that nothing lay in.
const GENERATION_FIRST: u32 = 1;

/// What a tree is created with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// The variant.
    pub options: Options,
    /// What keys and values mean to the caller, kept with the tree and read back by [`Smart::kinds`].
    pub kinds: [u8; 2],
}

/// What the directory says of a tree, without opening it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Description {
    /// The variant's options.
    pub options: Options,
    /// What keys and values mean to whoever created the tree.
    pub kinds: [u8; 2],
}

impl Smart {
    /// Creates the tree `name` and opens it with a node cache of `cache_bytes`.
    ///
    /// # Errors
    /// [`IndexError::IndexExists`], [`IndexError::BadName`], [`IndexError::Unsafe`]; a full pool or directory.
    pub async fn create<F: Fabric>(
        client: &Client<F>,
        name: &str,
        config: Config,
        cache_bytes: usize,
    ) -> Result<Self, IndexError> {
        check_name(name)?;
        check_capabilities(client)?;
        let directory = directory::lock(client).await?;
        let created = create_locked(client, &directory, name, encode(&config)).await;
        directory.unlock().await?;
        Self::assemble(client, created?, cache_bytes).await
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
        let entry = match directory::find(client, name).await? {
            Some(entry) => entry,
            None => find_settled(client, name).await?,
        };
        Self::assemble(client, entry, cache_bytes).await
    }

    async fn assemble<F: Fabric>(
        client: &Client<F>,
        entry: Entry,
        cache_bytes: usize,
    ) -> Result<Self, IndexError> {
        let Description { options, .. } = describe(&entry)?;
        check_capabilities(client)?;
        let newly = client_table::mark_open(client, entry.open_bit()).await?;
        if !directory::still(client, &entry).await? && find_settled(client, &entry.name).await? != entry {
            if newly {
                client_table::mark_closed(client, entry.open_bit()).await?;
            }
            return Err(IndexError::NoSuchIndex(entry.name));
        }
        let Ok(root) = client.post(read(entry.root())).await?.check(&()) else {
            unreachable!("words are whole")
        };
        let Some(root) = Remote::<RawInner>::from_word(root.word()) else {
            return Err(super::descend::damaged("open", &entry.name, "the root pointer is null".to_owned()));
        };
        let shape = client.fabric().shape();
        let locks = |memory, hand_over_max| LockOptions {
            memory,
            width: LockWidth::Word,
            release: Release::Write,
            local: LocalLocks::Queued { hand_over_max },
        };
        let nodes = NodeLocks::new(locks(LockMemory::Host, HAND_OVER_MAX), shape, 0);
        let leaves = NodeLocks::new(locks(LockMemory::Node, 0), shape, 0).sharing_doubts(&nodes);
        Ok(Self {
            options,
            number: entry.number as u32,
            root,
            nodes,
            leaves,
            cache: NodeCache::new(cache_bytes),
            heap: Heap::new(entry.slot),
            turn: AtomicU64::new(entry.number),
            reads: Gates::new(Leader::First),
            writes: Gates::new(Leader::Last),
            sabotage: None,
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
        Ok(client_table::mark_closed(client, self.entry.open_bit()).await?)
    }

    /// Gives back what this compute node has of the tree's memory and does not use. [1 RT per memory node]
    ///
    /// # Errors
    /// The fabric's.
    pub async fn leave<F: Fabric>(&self, client: &Client<F>) -> Result<(), IndexError> {
        self.heap.leave(client).await
    }
}

async fn create_locked<F: Fabric>(
    client: &Client<F>,
    directory: &Locked<'_, F>,
    name: &str,
    parameters: [u8; PARAMETER_BYTES],
) -> Result<Entry, IndexError> {
    directory.settle().await?;
    if directory::find(client, name).await?.is_some() {
        return Err(IndexError::IndexExists(name.to_owned()));
    }
    refuse_mixed_locks(client, &parameters).await?;
    let new = NewEntry { name, kind: KIND, format: FORMAT, parameters };
    let entry = directory.reserve(&new).await?;
    // What a client that died while it created or dropped an index here may have left.
    free_chunks(client, entry.slot).await?;
    let heap = Heap::new(entry.slot);
    let nodes = u64::from(client.fabric().shape().nodes);
    let home = NodeId((entry.number % nodes) as u16);
    let room: Room<RawInner> = heap.allocate(client, home, Kind::Inner.rooms(Size::All.bytes())).await?;
    let header = Header::new(State::Live, Size::All, 0, 0, GENERATION_FIRST);
    // The root is linked by nothing but the directory, and by itself.
    let reverse = Reverse::of_inner(room.at, GENERATION_FIRST, 0);
    client.post(write(room.at, &inner::image((reverse, header), &[], entry.number as u32, &[]))).await?;
    heap.leave(client).await?;
    directory.publish(&entry, room.at.word()).await?;
    Ok(entry)
}

/// Reads a directory entry as a tree's. [0 RT]
///
/// # Errors
/// [`IndexError::WrongFormat`] where it is no tree of this version.
pub fn describe(entry: &Entry) -> Result<Description, IndexError> {
    let refuse = |why: String| Err(IndexError::WrongFormat(format!("index '{}': {why}", entry.name)));
    if entry.kind != KIND {
        return refuse(format!("it is of kind {}, not a SMART tree", entry.kind));
    }
    if entry.format != FORMAT {
        let found = entry.format;
        return refuse(format!(
            "format {found}, and this program knows {FORMAT}; load it again with this program"
        ));
    }
    let bytes = &entry.parameters;
    if let Some(at) = (0..7).find(|&at| bytes[at] > 1) {
        return refuse(format!("parameter {at} is {}", bytes[at]));
    }
    let pick = |at: usize| bytes[at] == 1;
    let options = Options {
        inserts: if pick(0) { Inserts::LockFree } else { Inserts::Locked },
        updates: if pick(1) { Updates::InPlace } else { Updates::OutOfPlace },
        leaf_lock: if pick(2) { LeafLock::Rear } else { LeafLock::Apart },
        rooms: if pick(3) { Rooms::Preallocated } else { Rooms::Fitting },
        reads: if pick(5) { Reads::Delegated } else { Reads::Each },
        writes: if pick(6) { Writes::Combined } else { Writes::Each },
        scans: if pick(4) { Scans::Batched } else { Scans::OneByOne },
    };
    Ok(Description { options, kinds: [bytes[20], bytes[21]] })
}

fn encode(config: &Config) -> [u8; PARAMETER_BYTES] {
    let mut bytes = [0; PARAMETER_BYTES];
    let Options { inserts, updates, leaf_lock, reads, writes, rooms, scans } = config.options;
    let choices = [
        inserts == Inserts::LockFree,
        updates == Updates::InPlace,
        leaf_lock == LeafLock::Rear,
        rooms == Rooms::Preallocated,
        scans == Scans::Batched,
        reads == Reads::Delegated,
        writes == Writes::Combined,
    ];
    for (byte, choice) in bytes.iter_mut().zip(choices) {
        *byte = u8::from(choice);
    }
    bytes[20..22].copy_from_slice(&config.kinds);
    bytes
}

/// A leaf's reader must see whose WRITEs came before, and a WRITE must not end half-way with its writer.
fn check_capabilities<F: Fabric>(client: &Client<F>) -> Result<(), IndexError> {
    let needs = [Capability::ArrivalSeesWrite, Capability::WriteSurvivesWriter];
    match client.fabric().capabilities().missing(&needs) {
        None => Ok(()),
        Some(capability) => Err(IndexError::Unsafe { capability, remedy: "use another fabric" }),
    }
}

pub(super) fn check_key(key: &[u8]) -> Result<(), IndexError> {
    if key.len() <= KEY_BYTES_MAX {
        return Ok(());
    }
    Err(IndexError::BadSizes(format!("a key has at most {KEY_BYTES_MAX} bytes; this one has {}", key.len())))
}

pub(super) fn check_entry(key: &[u8], value: &[u8]) -> Result<(), IndexError> {
    let most = ENTRY_BYTES_MAX - key.len();
    if value.len() <= most {
        return Ok(());
    }
    let found = value.len();
    Err(IndexError::BadSizes(format!(
        "under this key a value has at most {most} bytes; this one has {found}"
    )))
}

const _: () = assert!(22 <= PARAMETER_BYTES);

#[cfg(test)]
mod tests {
    use super::super::options::Variant;
    use super::*;

    fn entry(parameters: [u8; PARAMETER_BYTES]) -> Entry {
        Entry { slot: 3, number: 9, name: "t".to_owned(), kind: KIND, format: FORMAT, parameters }
    }

    #[test]
    fn parameters_are_read_back() {
        for (variant, _) in Variant::ALL {
            for (rooms, scans) in [(Rooms::Fitting, Scans::OneByOne), (Rooms::Preallocated, Scans::Batched)] {
                let options = Options { rooms, scans, ..variant.options() };
                let config = Config { options, kinds: [3, 4] };
                let read = describe(&entry(encode(&config))).expect("it is a tree");
                assert_eq!((read.options, read.kinds), (options, [3, 4]));
            }
        }
    }

    #[test]
    fn unknown_parameters_are_refused() {
        let good = encode(&Config::default());
        for at in 0..7 {
            let mut bad = good;
            bad[at] = 2;
            assert!(describe(&entry(bad)).is_err(), "byte {at}");
        }
        assert!(describe(&Entry { kind: 1, ..entry(good) }).is_err());
        assert!(describe(&Entry { format: FORMAT + 1, ..entry(good) }).is_err());
    }
}
