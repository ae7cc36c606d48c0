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
//! + 16  2  bytes of key and value up to which a value lies in its leaf
//! + 18     zero
//! + 20  1  kind of the keys                         + 21 1  kind of the values: numbers of the caller's own
//! + 22     zero
//! ```

use super::options::{Inserts, LeafLock, Options, Reads, Rooms, Scans, Updates, Writes};
use super::{Smart, Together};
use crate::combine::{Combiner, Leader};
use crate::error::IndexError;
use crate::lifecycle;
use crate::radix::leaf::ENTRY_BYTES_MAX;
use crate::radix::tree::create as open;
use farwood_fabric::directory::{Entry, NewEntry, PARAMETER_BYTES};
use farwood_fabric::{Client, Fabric};
use std::sync::atomic::AtomicU64;

/// The number by which the directory knows SMART trees.
pub const KIND: u32 = 2;
/// Version of the format of nodes and leaves.
pub(super) const FORMAT: u32 = 3;

/// What a tree is created with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The variant.
    pub options: Options,
    /// Bytes of key and value together up to which a value lies in its leaf; others lie out of line.
    pub inline_bytes: usize,
    /// What keys and values mean to the caller, kept with the tree and read back by [`Smart::kinds`].
    pub kinds: [u8; 2],
}

impl Default for Config {
    /// As many values in their leaves as there can be.
    fn default() -> Self {
        Self { options: Options::default(), inline_bytes: ENTRY_BYTES_MAX, kinds: [0; 2] }
    }
}

/// What the directory says of a tree, without opening it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Description {
    /// The variant's options.
    pub options: Options,
    /// Bytes of key and value together up to which a value lies in its leaf.
    pub inline_bytes: usize,
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
        open::check_capabilities(client)?;
        if config.inline_bytes > ENTRY_BYTES_MAX {
            let (found, most) = (config.inline_bytes, ENTRY_BYTES_MAX);
            return Err(IndexError::BadSizes(format!(
                "entries of {found} bytes do not fit into leaves, which have room for {most}"
            )));
        }
        let new = NewEntry { name, kind: KIND, format: FORMAT, parameters: encode(&config) };
        let entry =
            lifecycle::create(client, &new, async |entry| open::plant(client, entry, &[]).await).await?;
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
        let Description { options, inline_bytes, .. } = describe(&entry)?;
        let root = open::enter(client, &entry).await?;
        let guide = Together {
            options,
            turn: AtomicU64::new(entry.number),
            reads: Combiner::new(Leader::First),
            writes: Combiner::new(Leader::Last),
        };
        Ok(Self::new(client, entry, root, (options.tree(inline_bytes), guide), cache_bytes))
    }
}

/// Reads a directory entry as a tree's. [0 RT]
///
/// # Errors
/// [`IndexError::WrongFormat`] where it is no tree of this version.
pub fn describe(entry: &Entry) -> Result<Description, IndexError> {
    lifecycle::check_kind(entry, KIND, FORMAT, "a SMART tree")?;
    let refuse = |why: String| Err(IndexError::WrongFormat(format!("index '{}': {why}", entry.name)));
    let bytes = &entry.parameters;
    if let Some(at) = (0..7).find(|&at| bytes[at] > 1) {
        return refuse(format!("parameter {at} is {}", bytes[at]));
    }
    let inline_bytes = usize::from(u16::from_le_bytes([bytes[16], bytes[17]]));
    if inline_bytes > ENTRY_BYTES_MAX {
        return refuse(format!("values lie in their leaves up to {inline_bytes} bytes"));
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
    Ok(Description { options, inline_bytes, kinds: [bytes[20], bytes[21]] })
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
    bytes[16..18].copy_from_slice(&(config.inline_bytes as u16).to_le_bytes());
    bytes[20..22].copy_from_slice(&config.kinds);
    bytes
}

const _: () = assert!(22 <= PARAMETER_BYTES && ENTRY_BYTES_MAX <= u16::MAX as usize);

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
                let config = Config { options, inline_bytes: 300, kinds: [3, 4] };
                let read = describe(&entry(encode(&config))).expect("it is a tree");
                assert_eq!((read.options, read.inline_bytes, read.kinds), (options, 300, [3, 4]));
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
        assert!(
            describe(&entry({
                let mut bad = good;
                bad[17] = 255;
                bad
            }))
            .is_err()
        );
        assert!(describe(&Entry { kind: 1, ..entry(good) }).is_err());
        assert!(describe(&Entry { format: FORMAT + 1, ..entry(good) }).is_err());
    }
}
