//! The inner-node hash tables: one for each memory node, with the inner nodes whose prefixes hash to it (Sphinx
//! §III-A). They use one-sided extendible hashing (RACE, ATC'21).
//!
//! A lookup is one round trip: one doorbell reads two main buckets, each with its overflow bucket. One CAS enters,
//! replaces or removes an entry. Only splits take locks (`split.rs`).
//!
//! # Invariants
//!
//! - *Entries are hints.* A client that follows one checks that the node is live, is linked and has the prefix. A
//!   missing entry costs round trips until a client that misses it enters it again; a stale entry costs round trips
//!   until a client that follows it removes it.
//! - *Without crashes, no entry is lost.* A client that has entered one reads its buckets again. If their headers show
//!   that the subtable was split, the split may not have moved the entry, and the client enters it again.
//! - *No entry exists twice.* Of two equal entries, all clients keep the one with the lower address.
//! - *Without crashes, no entry outlives its node.* A node is dead before its entry is removed or replaced. So a client
//!   that enters a node checks afterwards that the node is still live, and removes the entry otherwise.
//! - *A stale directory is recognised*: the header of every bucket contains the bits that all its hashes share.

mod directory;
pub mod layout;
mod split;
mod verify;

pub(super) use directory::create;

use super::coverage;
use crate::error::IndexError;
use crate::lock::NodeLocks;
use crate::mutant::Mutant;
use crate::radix::heap::Heap;
use crate::radix::inner::{self, NodeHeader, NodeState};
use crate::radix::prefix::PrefixHash;
use crate::radix::tree::NodeHandle;
use crate::radix::tree::options::NODE_LOCKS;
use crate::retry::Retry;
use arc_swap::ArcSwapOption;
use directory::{Directory, LOOKUP};
use farwood_fabric::{
    Chain as _, Client, Fabric, Fetched, NodeId, Parallel, Read, Remote, Swapped, all, cas, read, read_bytes,
};
use layout::{BucketPairs, DepthPointer, PAIR_BYTES, RawBuckets, RawSubtable, TableEntry, TablePosition};

/// Maximum tries at a bucket that other clients change, or that is newer than the directory.
const TRIES_MAX: u32 = 2_000;

/// Maximum free words of a bucket pair that counts as almost full, for fault injection.
const ALMOST_FULL: usize = 3;

/// The hash tables of an open index, with the directories that the compute node caches.
#[derive(Debug)]
pub struct HashTable {
    /// Low bits of the index number.
    number: u32,
    /// Number of groups of a subtable, as a power of two.
    groups_log2: u8,
    /// Address of the words that point to the directories, one for each memory node.
    words: Remote<u64>,
    /// Cached directories.
    directories: Box<[ArcSwapOption<Directory>]>,
    /// Set by tests: all fingerprints are one of two.
    narrow: bool,
    /// Greatest depth of a directory. Tests reduce it.
    depth_max: u8,
    /// Set by tests: clients do not check an entry after they have entered it.
    unconfirmed: bool,
}

/// Access of one client to the hash tables of a tree.
pub(super) struct TableOp<'a, F> {
    pub(super) table: &'a HashTable,
    /// Locks of the tree's inner nodes, which also guard tables and subtables.
    pub(super) locks: &'a NodeLocks,
    pub(super) heap: &'a Heap,
    pub(super) client: &'a Client<F>,
    pub(super) during_split: DuringSplit,
}

/// What a client does that wants to change an entry in a subtable that another client splits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DuringSplit {
    /// It waits for the end of the split; if the splitting client has crashed, it completes the split.
    Wait,
    /// It leaves the entry as it is: [`Entered::Later`].
    Leave,
}

impl<F> Copy for TableOp<'_, F> {}

impl<F> Clone for TableOp<'_, F> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}

/// Copies of the buckets of a position.
#[derive(Debug)]
pub struct BucketsRead {
    pub(super) pairs: BucketPairs,
    /// The subtable according to the directory.
    subtable: DepthPointer<RawSubtable>,
}

/// Result of entering a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entered {
    /// The entry is in its table, or was removed because the node no longer exists.
    Here,
    /// The table is full.
    TableFull,
    /// Another client splits the subtable.
    Later,
}

/// Result of a CAS that enters a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Swap {
    /// The entry is in the correct subtable, or was removed because the node no longer exists.
    Entered,
    /// The subtable was split in the meantime, and the entry belongs into the other half.
    WrongHalf,
    /// Another client changed the word first.
    Lost,
}

/// A word of a bucket that is to change to an entry.
#[derive(Clone, Copy)]
struct WordChange {
    at: Remote<u64>,
    before: u64,
    entry: TableEntry,
}

/// Progress of a split, as the headers of a position's buckets show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SplitProgress {
    /// No split is in progress, and the directory is current.
    None,
    /// The directory is stale.
    DirectoryStale,
    /// A split is in progress, or was interrupted.
    Unfinished,
}

impl BucketsRead {
    fn split_progress(&self) -> SplitProgress {
        let mut states = self.pairs.headers().map(|header| (header.is_moving(), header.depth()));
        if self.pairs.headers().any(|header| header.depth() > self.subtable.depth) {
            SplitProgress::DirectoryStale
        } else if states.all(|state| state == (false, self.subtable.depth)) {
            SplitProgress::None
        } else {
            SplitProgress::Unfinished
        }
    }

    /// Sets a coverage mark before a change if the buckets are almost full, so that a split is near.
    fn mark_if_almost_full<F: Fabric>(&self, client: &Client<F>, mark: &'static str) {
        if self.pairs.free_words() <= ALMOST_FULL {
            client.fabric().record_coverage(mark);
        }
    }

    /// Whether another try to enter a node may succeed.
    fn may_have_space(&self) -> bool {
        match self.split_progress() {
            SplitProgress::None => self.pairs.free().is_some(),
            SplitProgress::DirectoryStale => true,
            SplitProgress::Unfinished => false,
        }
    }

    /// Whether the buckets have this entry.
    fn has(&self, entry: TableEntry) -> bool {
        !self.pairs.addresses_of(entry).is_empty()
    }

    /// Whether no split is in progress, so that any client may change the buckets.
    pub(super) fn is_settled(&self) -> bool {
        self.split_progress() == SplitProgress::None
    }
}

impl HashTable {
    /// The tables of the index with number `number` in a pool of `nodes` memory nodes. The words at `words` point to
    /// their directories.
    pub(super) fn new(number: u32, groups_log2: u8, words: Remote<u64>, nodes: u16) -> Self {
        let directories = (0..nodes).map(|_| ArcSwapOption::empty()).collect();
        let depth_max = layout::DEPTH_MAX;
        Self { number, groups_log2, words, directories, narrow: false, depth_max, unconfirmed: false }
    }

    /// The number of memory nodes that have a table.
    pub(super) fn nodes(&self) -> u16 {
        self.directories.len() as u16
    }

    /// The position of the entry of a prefix.
    #[inline]
    pub(super) fn position(&self, prefix: PrefixHash) -> TablePosition {
        let position = TablePosition::of(prefix, self.nodes());
        if self.narrow { position.narrowed() } else { position }
    }

    /// Turns the tables into a mutant, which tests must detect.
    pub(super) fn mutant(&mut self, mutant: Mutant) {
        self.narrow = mutant == Mutant::PrintsNarrow;
        if mutant == Mutant::TablesShallow {
            self.depth_max = 1;
        }
        self.unconfirmed = mutant == Mutant::EntryUnconfirmed;
    }

    /// Bytes of the cached directories.
    pub(super) fn directory_bytes(&self) -> usize {
        self.directories.iter().filter_map(|known| known.load().as_ref().map(|known| known.bytes())).sum()
    }

    fn pairs_at(&self, subtable: Remote<RawSubtable>, position: TablePosition) -> [Remote<RawBuckets>; 2] {
        position.pairs(self.groups_log2).map(|offset| subtable.part(offset))
    }

    /// The READs of the buckets of a position.
    fn read_pairs(&self, subtable: Remote<RawSubtable>, position: TablePosition) -> [Read<RawBuckets>; 2] {
        self.pairs_at(subtable, position).map(|at| read_bytes(at, PAIR_BYTES))
    }

    /// The subtable of a position according to the cached directory; `None` if it is not cached.
    #[inline]
    fn cached_subtable(
        &self,
        position: TablePosition,
    ) -> Option<Result<DepthPointer<RawSubtable>, IndexError>> {
        self.directories[usize::from(position.home.0)].load().as_ref().map(|it| it.subtable(position))
    }

    /// Checks copies of buckets. `None`: they are not buckets of the position.
    fn check_copies(
        &self,
        (one, other): (Fetched<RawBuckets>, Fetched<RawBuckets>),
        subtable: DepthPointer<RawSubtable>,
        position: TablePosition,
    ) -> Option<BucketsRead> {
        let copies = [one.check(&self.number).ok()?, other.check(&self.number).ok()?];
        let pairs = BucketPairs::new(self.pairs_at(subtable.at, position), copies);
        let covers = pairs.headers().all(|header| header.covers(position));
        covers.then_some(BucketsRead { pairs, subtable })
    }
}

impl<F: Fabric> TableOp<'_, F> {
    /// Reads the buckets of several positions. [1 RT; more if a directory is not cached or is stale]
    pub(super) async fn read_buckets_of(
        self,
        positions: &[TablePosition],
    ) -> Result<Vec<BucketsRead>, IndexError> {
        let (table, client) = (self.table, self.client);
        let mut subtables = Vec::with_capacity(positions.len());
        for position in positions {
            subtables.push(self.subtable(*position).await?);
        }
        let reads = positions
            .iter()
            .zip(&subtables)
            .flat_map(|(position, subtable)| table.read_pairs(subtable.at, *position));
        let copies: Vec<_> = client.post(all(reads)).await?.collect();
        let mut copies = copies.into_iter();
        let mut buckets = Vec::with_capacity(positions.len());
        for (position, subtable) in positions.iter().zip(subtables) {
            let (Some(one), Some(other)) = (copies.next(), copies.next()) else {
                unreachable!("two READs for each position")
            };
            if let Some(found) = table.check_copies((one, other), subtable, *position) {
                buckets.push(found);
                continue;
            }
            client.fabric().record_coverage(coverage::DIRECTORY_STALE);
            self.read_directory(position.home).await?;
            buckets.push(self.read_buckets(*position).await?);
        }
        Ok(buckets)
    }

    /// Posts `verbs`, and reads the buckets of a prefix in the same doorbell. `None`: the directory is not cached or is
    /// stale, or a split is in progress. [1 RT]
    pub(super) async fn post_and_read_buckets<V: Parallel>(
        self,
        prefix: PrefixHash,
        verbs: V,
    ) -> Result<(V::Output, Option<BucketsRead>), IndexError> {
        let (table, client) = (self.table, self.client);
        let position = table.position(prefix);
        let Some(Ok(subtable)) = table.cached_subtable(position) else {
            return Ok((client.post(verbs).await?, None));
        };
        let [one, other] = table.read_pairs(subtable.at, position);
        let (answers, copies) = client.post(verbs.and(one.and(other))).await?;
        let buckets = table.check_copies(copies, subtable, position);
        Ok((answers, buckets.filter(BucketsRead::is_settled)))
    }

    /// Reads the buckets of a position. [1 RT; more if the directory is not cached or is stale]
    pub(super) async fn read_buckets(self, position: TablePosition) -> Result<BucketsRead, IndexError> {
        let (table, client) = (self.table, self.client);
        let mut retry = Retry::new(LOOKUP, TRIES_MAX).watching(NODE_LOCKS);
        loop {
            let subtable = self.subtable(position).await?;
            let [one, other] = table.read_pairs(subtable.at, position);
            let copies = client.post(one.and(other)).await?;
            if let Some(buckets) = table.check_copies(copies, subtable, position) {
                return Ok(buckets);
            }
            client.fabric().record_coverage(coverage::DIRECTORY_STALE);
            retry.again(client).await?;
            self.read_directory(position.home).await?;
        }
    }

    /// Reads the buckets of a position for a change. `None`: another client splits the subtable, and this one does not
    /// wait. [as [`read_buckets`](Self::read_buckets) if no split is in progress]
    async fn read_settled_buckets(self, position: TablePosition) -> Result<Option<BucketsRead>, IndexError> {
        let mut retry = Retry::new(LOOKUP, TRIES_MAX).watching(NODE_LOCKS);
        loop {
            let buckets = self.read_buckets(position).await?;
            match buckets.split_progress() {
                SplitProgress::None => return Ok(Some(buckets)),
                SplitProgress::DirectoryStale => drop(self.read_directory(position.home).await?),
                SplitProgress::Unfinished => {
                    self.client.fabric().record_coverage(coverage::SPLIT_MET);
                    if self.during_split == DuringSplit::Leave {
                        return Ok(None);
                    }
                    self.finish_split(position).await?;
                }
            }
            retry.again(self.client).await?;
        }
    }

    /// The buckets of a position for a change: those that were read before, or those that are read now. `None`: as
    /// [`read_settled_buckets`](Self::read_settled_buckets). [0 RT if they were read before]
    async fn known_or_read(
        self,
        known: Option<BucketsRead>,
        position: TablePosition,
    ) -> Result<Option<BucketsRead>, IndexError> {
        match known {
            Some(known) => Ok(Some(known)),
            None => self.read_settled_buckets(position).await,
        }
    }

    /// Enters a linked node, unless its entry exists. `known`: its buckets, if they were read before. [1 RT with them,
    /// otherwise 2; more without
    /// [`Capability::AtomicThenRead`](farwood_fabric::Capability::AtomicThenRead), if the node is on another memory
    /// node, or if the subtable is split]
    pub(super) async fn enter(
        self,
        node: &NodeHandle,
        mut known: Option<BucketsRead>,
    ) -> Result<Entered, IndexError> {
        let client = self.client;
        let position = self.table.position(node.prefix);
        let entry = TableEntry::new(position, node);
        let mut retry = Retry::new("enter", TRIES_MAX).watching(NODE_LOCKS);
        loop {
            let Some(buckets) = self.known_or_read(known.take(), position).await? else {
                return Ok(Entered::Later);
            };
            if buckets.has(entry) {
                return Ok(Entered::Here);
            }
            let Some(at) = buckets.pairs.free() else {
                match self.make_space(position).await? {
                    Entered::Here => {}
                    full_or_later => return Ok(full_or_later),
                }
                retry.again(client).await?;
                continue;
            };
            buckets.mark_if_almost_full(client, coverage::ENTERING);
            match self.swap(WordChange { at, before: 0, entry }, &buckets, position, node).await? {
                Swap::Entered => return Ok(Entered::Here),
                Swap::WrongHalf => self.undo_wrong_half(at, entry).await?,
                Swap::Lost => {}
            }
            retry.again(client).await?;
        }
    }

    /// Replaces the entry of a node by that of its successor; enters the successor if the node has no entry. [as
    /// [`enter`](Self::enter)]
    pub(super) async fn replace(
        self,
        old: &NodeHandle,
        new: &NodeHandle,
        mut known: Option<BucketsRead>,
    ) -> Result<Entered, IndexError> {
        let client = self.client;
        let position = self.table.position(old.prefix);
        let (old, entry) = (TableEntry::new(position, old), TableEntry::new(position, new));
        let mut retry = Retry::new("replace", TRIES_MAX).watching(NODE_LOCKS);
        loop {
            // Another client may have entered the old node after `known` was read and before the node was dead.
            let known = known.take().filter(|known| known.has(old));
            let Some(buckets) = self.known_or_read(known, position).await? else {
                return Ok(Entered::Later);
            };
            let Some(&at) = buckets.pairs.addresses_of(old).first() else {
                return self.enter(new, None).await;
            };
            buckets.mark_if_almost_full(client, coverage::CHANGING);
            let change = WordChange { at, before: old.word(), entry };
            match self.swap(change, &buckets, position, new).await? {
                Swap::Entered => return Ok(Entered::Here),
                Swap::WrongHalf => {
                    self.undo_wrong_half(at, entry).await?;
                    return self.enter(new, None).await;
                }
                Swap::Lost => retry.again(client).await?,
            }
        }
    }

    /// Removes an entry that was entered in the wrong half of a split. [1 RT]
    async fn undo_wrong_half(self, at: Remote<u64>, entry: TableEntry) -> Result<(), IndexError> {
        self.client.fabric().record_coverage(coverage::ENTERED_IN_WRONG_HALF);
        let _ = self.client.post(cas(at, entry.word(), 0)).await?;
        Ok(())
    }

    /// Removes all entries of a node. `known`: its buckets, if they were read before. [2 RT; 1 with them, or if there
    /// are no entries]
    pub(super) async fn remove(
        self,
        node: &NodeHandle,
        mut known: Option<BucketsRead>,
    ) -> Result<Entered, IndexError> {
        let client = self.client;
        let position = self.table.position(node.prefix);
        let entry = TableEntry::new(position, node);
        let mut retry = Retry::new("remove", TRIES_MAX).watching(NODE_LOCKS);
        loop {
            // Another client may have entered the node after `known` was read and before the node was dead.
            let known = known.take().filter(|known| known.has(entry));
            let Some(buckets) = self.known_or_read(known, position).await? else {
                return Ok(Entered::Later);
            };
            let addresses = buckets.pairs.addresses_of(entry);
            if addresses.is_empty() {
                return Ok(Entered::Here);
            }
            buckets.mark_if_almost_full(client, coverage::CHANGING);
            let emptied = addresses.iter().map(|&at| cas(at, entry.word(), 0));
            let mut swapped = client.post(all(emptied)).await?;
            if swapped.all(|swapped| swapped == Swapped::Won) {
                return Ok(Entered::Here);
            }
            retry.again(client).await?;
        }
    }

    /// Removes the stale entry at `at`. [1 RT]
    pub(super) async fn clear_entry(self, at: Remote<u64>, entry: TableEntry) -> Result<(), IndexError> {
        if self.client.post(cas(at, entry.word(), 0)).await? == Swapped::Won {
            self.client.fabric().record_coverage(coverage::ENTRY_CLEARED);
        }
        Ok(())
    }

    /// Changes a word to the entry of `node`; then reads the buckets again, and checks that the node is live.
    /// [1 RT; 2 if the node is on another memory node; more without
    /// [`Capability::AtomicThenRead`](farwood_fabric::Capability::AtomicThenRead)]
    async fn swap(
        self,
        WordChange { at, before, entry }: WordChange,
        buckets: &BucketsRead,
        position: TablePosition,
        node: &NodeHandle,
    ) -> Result<Swap, IndexError> {
        let (table, client) = (self.table, self.client);
        let swap = cas(at, before, entry.word());
        let [one, other] = table.read_pairs(buckets.subtable.at, position);
        let read_header = read(node.node.at.part::<u64>(inner::HEADER));
        let same_memory_node = node.node.at.node() == at.node();
        let (swapped, copies, header) = if client.fabric().capabilities().atomic_then_read {
            let reads = one.then(other).then_maybe(same_memory_node.then_some(read_header));
            let (swapped, (copies, header)) = client.post(swap.then(reads)).await?;
            (swapped, copies, header)
        } else {
            let swapped = client.post(swap).await?;
            (swapped, client.post(one.and(other)).await?, None)
        };
        if swapped != Swapped::Won {
            return Ok(Swap::Lost);
        }
        if table.unconfirmed {
            return Ok(Swap::Entered);
        }
        let header = match header {
            Some(header) => header,
            None => client.post(read_header).await?,
        };
        let header = NodeHeader::from_word(header.whole_word());
        let again = table.check_copies(copies, buckets.subtable, position);
        if let Some(again) = &again {
            self.keep_first(again, entry).await?;
        }
        if header.state() != Some(NodeState::Live) || header.generation() != node.generation {
            client.fabric().record_coverage(coverage::ENTERED_LATE);
            Self { during_split: DuringSplit::Wait, ..self }.remove(node, None).await?;
        }
        Ok(if again.is_some() { Swap::Entered } else { Swap::WrongHalf })
    }

    /// Removes all copies of an entry except the one with the lowest address. [0 RT; 1 if there are several]
    async fn keep_first(self, buckets: &BucketsRead, entry: TableEntry) -> Result<(), IndexError> {
        let addresses = buckets.pairs.addresses_of(entry);
        if let [_, others @ ..] = &addresses[..]
            && !others.is_empty()
        {
            self.client.fabric().record_coverage(coverage::ENTERED_TWICE);
            self.client.post(all(others.iter().map(|&at| cas(at, entry.word(), 0)))).await?.for_each(drop);
        }
        Ok(())
    }

    /// The subtable of a position according to the cached directory. [0 RT; 2 if the directory is not cached]
    #[inline]
    async fn subtable(self, position: TablePosition) -> Result<DepthPointer<RawSubtable>, IndexError> {
        match self.table.cached_subtable(position) {
            Some(subtable) => subtable,
            None => self.read_directory(position.home).await?.subtable(position),
        }
    }
}

/// The target of an entry, according to the node at its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EntryTarget {
    /// The node of a prefix with this hash.
    Node(PrefixHash),
    /// A node that no longer exists, or a node that never had this entry.
    Nothing,
}

/// An entry in the table of a memory node, at word `number` of its subtable.
#[derive(Clone, Copy)]
struct EntryWord {
    home: NodeId,
    number: usize,
    entry: TableEntry,
}

impl HashTable {
    /// The target of an entry, if its node has this header and hash.
    fn target_of(&self, at: EntryWord, header: NodeHeader, hash: u64) -> EntryTarget {
        let EntryWord { home, number, entry } = at;
        let prefix = PrefixHash::from_word(hash ^ header.salt(self.number));
        let position = self.position(prefix);
        let is_here = position.home == home
            && position.fingerprint() == entry.fingerprint()
            && position.reaches(self.groups_log2, number);
        let is_live = header.state() == Some(NodeState::Live);
        if is_here && is_live && entry.is_of(header) {
            EntryTarget::Node(prefix)
        } else {
            EntryTarget::Nothing
        }
    }
}
