//! Directories: from a hash to its subtable. A compute node keeps a copy of each, of any age.

use super::HashTable;
use super::layout::{self, Deep, Header, RawDirectory, RawSubtable, Spot, subtable_bytes};
use crate::error::IndexError;
use crate::lock::BYTES_PER_LOCK;
use crate::memory::heap::{Heap, Kind};
use crate::memory::slot::Room;
use crate::radix::tree::find::damaged;
use farwood_fabric::directory::Entry;
use farwood_fabric::{Client, Fabric, NodeId, Remote, Words, read, read_bytes, write};
use std::sync::Arc;

/// A copy of a directory.
#[derive(Clone, Debug)]
pub(super) struct Directory {
    pub(super) depth: u8,
    pub(super) at: Remote<RawDirectory>,
    pub(super) words: Box<[u64]>,
}

impl Directory {
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.words)
    }

    /// The subtable into which a spot's entry belongs.
    #[inline]
    pub(super) fn subtable(&self, spot: Spot) -> Result<Deep<RawSubtable>, IndexError> {
        let word = self.words[spot.upper(self.depth) as usize];
        match Deep::from_word(word) {
            Some(subtable) if subtable.depth <= self.depth => Ok(subtable),
            _ => Err(damaged("hash table lookup", self.at, format!("the directory holds {word:#x}"))),
        }
    }

    /// The words of all hashes with those highest bits.
    pub(super) fn range(&self, depth: u8, upper: u64) -> std::ops::Range<usize> {
        let shift = self.depth - depth;
        (upper << shift) as usize..((upper + 1) << shift) as usize
    }

    /// The words as they lie in far memory.
    pub(super) fn image(&self) -> Vec<u8> {
        self.words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }
}

impl HashTable {
    /// The word of a memory node's table.
    pub(super) fn word_of(&self, home: NodeId) -> Remote<u64> {
        self.words.part(8 * u64::from(home.0))
    }

    /// What stands for a memory node's table where it is locked. The tables' words lie in one line, and so would have
    /// one lock; nothing is read or written here.
    pub(super) fn lock_of(&self, home: NodeId) -> Remote<u64> {
        self.words.part(BYTES_PER_LOCK * u64::from(home.0))
    }

    /// Reads a directory again. [2 RT]
    pub(super) async fn refresh<F: Fabric>(
        &self,
        client: &Client<F>,
        home: NodeId,
    ) -> Result<Arc<Directory>, IndexError> {
        let Ok(word) = client.post(read(self.word_of(home))).await?.check(&()) else {
            unreachable!("words are whole")
        };
        let Some(Deep { depth, at }) = Deep::<RawDirectory>::from_word(word.word()) else {
            let what = format!("the table of memory node {home} is at {:#x}", word.word());
            return Err(damaged("hash table lookup", self.word_of(home), what));
        };
        let copy = client.post(read_bytes(at.part::<Words>(0), 8 << depth)).await?;
        let Ok(copy) = copy.check(&()) else { unreachable!("words are whole") };
        let words = (0..1 << depth).map(|number| layout::word(&copy, number)).collect();
        Ok(self.keep(home, Directory { depth, at, words }))
    }

    /// Keeps a directory as it is now.
    pub(super) fn keep(&self, home: NodeId, directory: Directory) -> Arc<Directory> {
        let directory = Arc::new(directory);
        self.directories[usize::from(home.0)].store(Some(Arc::clone(&directory)));
        directory
    }
}

/// Makes the tables of a new index, each of one subtable; yields their words. [3 RT and a chunk for each memory node]
pub(crate) async fn plant<F: Fabric>(
    client: &Client<F>,
    entry: &Entry,
    groups_log2: u8,
) -> Result<Vec<u8>, IndexError> {
    let heap = Heap::new(entry);
    let mut words = Vec::new();
    for home in (0..client.fabric().shape().nodes).map(NodeId) {
        let kind = Kind::Subtable.rooms(subtable_bytes(groups_log2));
        let subtable: Room<RawSubtable> = heap.allocate(client, home, kind).await?;
        let header = Header::new(entry.number as u32, 0, 0);
        client.post(write(subtable.at, &layout::empty(groups_log2, header))).await?;
        let directory: Room<RawDirectory> = heap.allocate(client, home, Kind::Directory.rooms(8)).await?;
        let word = Deep { depth: 0, at: subtable.at }.word();
        client.post(write(directory.at, &word.to_le_bytes())).await?;
        words.extend(Deep { depth: 0, at: directory.at }.word().to_le_bytes());
    }
    heap.leave(client).await?;
    Ok(words)
}
