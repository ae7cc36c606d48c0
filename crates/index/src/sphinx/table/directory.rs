//! Directories, which map a hash to its subtable. A compute node caches a copy of each directory, which may be stale.

use super::layout::{
    self, BucketHeader, DepthPointer, RawDirectory, RawSubtable, TablePosition, subtable_bytes,
};
use super::{HashTable, TableOp};
use crate::error::IndexError;
use crate::lock::BYTES_PER_LOCK;
use crate::memory::slot::MemorySlot;
use crate::radix::heap::{Heap, ObjectKind};
use crate::radix::tree::damage::damaged;
use farwood_fabric::directory::Entry;
use farwood_fabric::{Client, Fabric, NodeId, Remote, Words, read, read_bytes, write};
use std::ops::Range;
use std::sync::Arc;

/// Operation name in errors.
pub(super) const LOOKUP: &str = "hash table lookup";

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

    /// The subtable into which the entry of a position belongs.
    #[inline]
    pub(super) fn subtable(&self, position: TablePosition) -> Result<DepthPointer<RawSubtable>, IndexError> {
        let word = self.words[position.upper(self.depth) as usize];
        match DepthPointer::from_word(word) {
            Some(subtable) if subtable.depth <= self.depth => Ok(subtable),
            _ => Err(damaged(LOOKUP, self.at, format!("the directory holds {word:#x}"))),
        }
    }

    /// Numbers of the words of all hashes whose highest `depth` bits are `upper`.
    pub(super) fn range(&self, depth: u8, upper: u64) -> Range<usize> {
        let shift = self.depth - depth;
        (upper << shift) as usize..((upper + 1) << shift) as usize
    }

    /// The words as bytes of remote memory.
    pub(super) fn image(&self) -> Vec<u8> {
        self.words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }
}

impl HashTable {
    /// Address of the word that points to the directory of a memory node.
    pub(super) fn pointer_to_directory(&self, home: NodeId) -> Remote<u64> {
        self.words.part(8 * u64::from(home.0))
    }

    /// Address that identifies the lock of a memory node's table. The words of all tables are in one line, and would
    /// share one lock; no client reads or writes at this address.
    pub(super) fn lock_of(&self, home: NodeId) -> Remote<u64> {
        self.words.part(BYTES_PER_LOCK * u64::from(home.0))
    }

    /// Caches the current directory of a memory node.
    pub(super) fn cache_directory(&self, home: NodeId, directory: Directory) -> Arc<Directory> {
        let directory = Arc::new(directory);
        self.directories[usize::from(home.0)].store(Some(Arc::clone(&directory)));
        directory
    }
}

impl<F: Fabric> TableOp<'_, F> {
    /// Reads the directory of a memory node. [2 RT]
    pub(super) async fn read_directory(self, home: NodeId) -> Result<Arc<Directory>, IndexError> {
        let (table, client) = (self.table, self.client);
        let pointer = table.pointer_to_directory(home);
        let word = client.post(read(pointer)).await?.whole_word();
        let Some(DepthPointer { depth, at }) = DepthPointer::<RawDirectory>::from_word(word) else {
            let what = format!("the table of memory node {home} is at {word:#x}");
            return Err(damaged(LOOKUP, pointer, what));
        };
        let copy = client.post(read_bytes(at.part::<Words>(0), 8 << depth)).await?;
        let copy = copy.whole_words();
        let words = (0..1 << depth).map(|number| layout::word(&copy, number)).collect();
        Ok(table.cache_directory(home, Directory { depth, at, words }))
    }
}

/// Creates the tables of a new index on `nodes` memory nodes, each with one subtable; yields the words that point to
/// their directories. [3 RT and a chunk for each memory node]
pub(crate) async fn create<F: Fabric>(
    client: &Client<F>,
    entry: &Entry,
    groups_log2: u8,
    nodes: u16,
) -> Result<Vec<u8>, IndexError> {
    let heap = Heap::new(entry);
    let mut words = Vec::new();
    for home in (0..nodes).map(NodeId) {
        let kind = ObjectKind::Subtable.slot_kind(subtable_bytes(groups_log2));
        let subtable: MemorySlot<RawSubtable> = heap.allocate(client, home, kind).await?;
        let header = BucketHeader::new(entry.number as u32, 0, 0);
        client.post(write(subtable.at, &layout::empty_subtable(groups_log2, header))).await?;
        let directory: MemorySlot<RawDirectory> =
            heap.allocate(client, home, ObjectKind::Directory.slot_kind(8)).await?;
        let word = DepthPointer { depth: 0, at: subtable.at }.word();
        client.post(write(directory.at, &word.to_le_bytes())).await?;
        words.extend(DepthPointer { depth: 0, at: directory.at }.word().to_le_bytes());
    }
    heap.leave(client).await?;
    Ok(words)
}
