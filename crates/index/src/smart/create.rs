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
use crate::params::{self, Codec, Parameters};
use crate::radix::leaf::ENTRY_BYTES_MAX;
use crate::radix::tree::create as open;
use farwood_fabric::directory::{Entry, PARAMETER_BYTES};
use farwood_fabric::{Client, Fabric};
use std::sync::atomic::AtomicU64;

/// The number by which the directory knows SMART trees.
pub const KIND: u32 = 2;
/// Version of the format of nodes and leaves.
pub(super) const FORMAT: u32 = 3;

/// What a tree is created with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmartConfig {
    /// The variant.
    pub options: Options,
    /// Bytes of key and value together up to which a value lies in its leaf; others lie out of line.
    pub inline_bytes: usize,
    /// What keys and values mean to the caller, kept with the tree and read back by [`Smart::kinds`].
    pub kinds: [u8; 2],
}

impl Default for SmartConfig {
    /// As many values in their leaves as there can be.
    fn default() -> Self {
        Self { options: Options::default(), inline_bytes: ENTRY_BYTES_MAX, kinds: [0; 2] }
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
        open::check_capabilities(client)?;
        if config.inline_bytes > ENTRY_BYTES_MAX {
            let (found, most) = (config.inline_bytes, ENTRY_BYTES_MAX);
            return Err(IndexError::BadSizes(format!(
                "entries of {found} bytes do not fit into leaves, which have room for {most}"
            )));
        }
        let new = params::new_entry(name, &config);
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
        let SmartConfig { options, inline_bytes, .. } = describe(&entry)?;
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

/// Reads a directory entry as that of a SMART tree. [0 RT]
///
/// # Errors
/// [`IndexError::WrongFormat`] where it is not one of this version.
pub fn describe(entry: &Entry) -> Result<SmartConfig, IndexError> {
    params::decode(entry)
}

impl Parameters for SmartConfig {
    const KIND: u32 = KIND;
    const FORMAT: u32 = FORMAT;
    const NAME: &'static str = "a SMART tree";

    fn fields(&mut self, codec: &mut Codec) {
        let Options { inserts, updates, leaf_lock, reads, writes, rooms, scans } = &mut self.options;
        codec.choice(0, inserts, [Inserts::Locked, Inserts::LockFree]);
        codec.choice(1, updates, [Updates::OutOfPlace, Updates::InPlace]);
        codec.choice(2, leaf_lock, [LeafLock::Apart, LeafLock::Rear]);
        codec.choice(3, rooms, [Rooms::Fitting, Rooms::Preallocated]);
        codec.choice(4, scans, [Scans::OneByOne, Scans::Batched]);
        codec.choice(5, reads, [Reads::Each, Reads::Delegated]);
        codec.choice(6, writes, [Writes::Each, Writes::Combined]);
        codec.u16(16, &mut self.inline_bytes, 0..=ENTRY_BYTES_MAX);
        codec.kinds(&mut self.kinds);
    }
}

const _: () = assert!(22 <= PARAMETER_BYTES && ENTRY_BYTES_MAX <= u16::MAX as usize);

#[cfg(test)]
mod tests {
    use super::super::options::Variant;
    use super::*;
    use crate::params::tests::check_codec;

    #[test]
    fn parameters_are_read_back_and_unknown_values_are_refused() {
        let bad: Vec<_> = (0..7).map(|at| (at, 2)).chain([(17, 255)]).collect();
        for (variant, _) in Variant::ALL {
            for (rooms, scans) in [(Rooms::Fitting, Scans::OneByOne), (Rooms::Preallocated, Scans::Batched)] {
                let options = Options { rooms, scans, ..variant.options() };
                check_codec(&SmartConfig { options, inline_bytes: 300, kinds: [3, 4] }, &bad);
            }
        }
    }
}
