//! Splits of subtables while the table is in use. A full subtable is split in two; before that, the directory is
//! doubled if it does not distinguish the halves (RACE §4.3, with a lock).
//!
//! A client that changes a directory holds the lock of the table; a client that changes the headers of buckets holds
//! the lock of the subtable that is being split. A split takes both, and releases the lock of the table after step 2,
//! so that several subtables are split at the same time. No client waits for a lock while it holds one. A split has
//! these steps:
//!
//! 1. The client writes the new subtable: no entries, *moving*.
//! 2. One WRITE changes the directory words of both subtables, which are consecutive: half of them lead to the new one.
//! 3. The headers of the old subtable change to the greater depth, and to *moving*. A client that from now on enters an
//!    entry of the new half in the old subtable removes it itself, because it reads the buckets again.
//! 4. One WRITE stores the entries that belong to the new subtable there, each at the same offset as before. Then a CAS
//!    for each removes them from the old subtable. If the CAS fails, another client has removed or replaced the entry,
//!    and the new subtable is corrected. Stale entries are dropped. Entries that a client has put at the offset of an
//!    entry that was moved before are dropped too; that client enters them again. The step repeats until no entry has
//!    to move.
//! 5. The headers of the new subtable change to not *moving*; then those of the old one.
//!
//! A reader that searches in the meantime may not find an entry, and proceeds without it. A client that wants to change
//! an entry and finds a header that is *moving*, or newer than the directory, takes the lock of the old subtable if it
//! is free. Otherwise it reads the headers at intervals until the split has ended, and waits for the lock only after a
//! long time. If the splitting client has crashed, the client with the lock completes the split. Steps 3 and 4 can be
//! repeated from the state in memory as long as no header of the new subtable is settled, and step 5 from there on. A
//! crash before step 2 only loses memory. The old subtable is the last to be settled, and neither is split again before
//! that. So while the old subtable is not settled, both have the same depth, and its headers alone show the holder of
//! its lock which steps are left, even if the client came through a stale directory.
//!
//! After step 5 has written the first header, other clients change entries of the new subtable. So from then on its
//! entries are changed by CAS only: a WRITE of the whole subtable would undo the changes of others.
//!
//! A directory is doubled in new memory, and one WRITE of the word that points to it replaces the old one. The old
//! memory is not reused, because clients may be reading it: all old directories together are smaller than the new one.

use super::directory::Directory;
use super::layout::{
    self, BUCKET_BYTES, BucketHeader, DepthPointer, RawBuckets, RawDirectory, RawSubtable, TableEntry,
    TablePosition, is_header, subtable_bytes, word,
};
use super::{DuringSplit, Entered, EntryTarget, EntryWord, HashTable, SplitProgress, TableOp, coverage};
use crate::error::IndexError;
use crate::lock::{HeldLock, NodeLocks, TryLock};
use crate::memory::slot::MemorySlot;
use crate::op::Op;
use crate::radix::heap::ObjectKind;
use crate::radix::inner::NodeHeader;
use crate::radix::tree::copy::read_front;
use crate::radix::tree::damage::damaged;
use crate::retry::Retry;
use farwood_fabric::{Capability, Client, Fabric, NodeId, Remote, Swapped, all, cas, read_bytes, write};

/// Maximum verbs of one doorbell.
const VERBS_PER_POST: usize = 64;
/// Polls while another client splits a subtable, before a client waits for the lock. They take longer than most splits.
const POLLS_MAX: usize = 250;
/// Pause before each poll, nanoseconds.
const POLL_PAUSE_NS: u64 = 20_000;
/// Operation name in errors.
const GROWTH: &str = "hash table growth";
/// Maximum rounds of moving entries. Each round after the first is for entries that other clients changed in the
/// meantime.
const ROUNDS_MAX: u32 = 1_000;

/// Two subtables of which the second takes half of the entries of the first.
#[derive(Clone, Copy)]
struct Split {
    home: NodeId,
    old: Remote<RawSubtable>,
    new: Remote<RawSubtable>,
    /// Depth of both subtables.
    depth: u8,
    /// Highest bits of the hashes in the old one.
    upper: u64,
}

/// Result of the attempt to begin a split.
enum SplitStart<'a, F: Fabric> {
    /// A split, or the rest of an interrupted one. This lock guards the old subtable; `None`: the lock of the table
    /// guards it as well.
    Split(Split, Option<HeldLock<'a, F>>),
    /// The subtable has space.
    HasSpace,
    /// The subtable is the new half of this split, which must be completed first.
    Unfinished(Split),
    /// The subtable has no space, and cannot be split.
    TableFull,
    /// Another client holds the lock of the subtable.
    Busy,
}

/// An entry of the old subtable that the split moves or removes.
#[derive(Clone, Copy)]
struct LeavingEntry {
    number: usize,
    word: u64,
    destination: Destination,
}

/// The target of an entry in a split.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Destination {
    Old,
    New,
    /// The split removes the entry.
    Nowhere,
}

impl<'a, F: Fabric> TableOp<'a, F> {
    /// The locks of tables and subtables.
    fn locks(self) -> Op<'a, F, NodeLocks> {
        Op::new(self.locks, self.client, GROWTH)
    }

    /// Waits for the end of a split of a position's subtable, or completes the split.
    /// [4 RT each 20 us while another client splits; otherwise 5 RT, and more if the split was interrupted]
    pub(super) async fn finish_split(self, position: TablePosition) -> Result<(), IndexError> {
        let client = self.client;
        let mut polls = 0..POLLS_MAX;
        loop {
            let directory = self.read_directory(position.home).await?;
            let depth = directory.subtable(position)?.depth;
            let Some(split) = split_of(&directory, position, depth) else { return Ok(()) };
            if let TryLock::Taken(held) = self.locks().try_acquire(split.old, &[]).await? {
                let done = self.resume(&split).await;
                held.give_up().await?;
                return done;
            }
            if polls.next().is_none() {
                // The holder may have crashed.
                return self.locks().acquire(split.old).await?.give_up().await;
            }
            client.fabric().sleep(POLL_PAUSE_NS).await;
            if self.read_buckets(position).await?.split_progress() != SplitProgress::Unfinished {
                return Ok(());
            }
        }
    }

    /// Completes a split whose old subtable is locked, unless it is complete. [1 RT; as steps 3 to 5 if it was
    /// interrupted]
    async fn resume(self, split: &Split) -> Result<(), IndexError> {
        let bytes = self.read_subtable(split.old).await?;
        let is_older = headers(&bytes).any(|header| header.depth() > split.depth);
        if is_older || self.table.is_settled(&bytes, split.depth, split.upper) {
            return Ok(());
        }
        self.client.fabric().record_coverage(coverage::SPLIT_RESUMED);
        self.move_entries(split).await
    }

    /// Makes space for the entry of a position. [for 1344 entries about 50 RT; while another client splits, 1 RT each
    /// 20 us; more while several clients try to begin the split]
    ///
    /// All clients that find a subtable full need the same split, and one of them executes it. A client that has polled
    /// for longer than a split takes waits for the locks, because their holders may have crashed.
    pub(super) async fn make_space(self, position: TablePosition) -> Result<Entered, IndexError> {
        let client = self.client;
        let table_lock = self.table.lock_of(position.home);
        let mut is_full = true;
        for _ in 0..POLLS_MAX {
            if is_full
                && let TryLock::Taken(table) = self.locks().try_acquire(table_lock, &[]).await?
                && let Some(result) = self.split(position, table).await?
            {
                return Ok(result);
            }
            if self.during_split == DuringSplit::Leave {
                return Ok(Entered::Later);
            }
            client.fabric().sleep(POLL_PAUSE_NS).await;
            let buckets = self.read_buckets(position).await?;
            if buckets.may_have_space() {
                return Ok(Entered::Here);
            }
            is_full = buckets.is_settled();
        }
        let subtable = self.subtable(position).await?;
        self.locks().acquire(table_lock).await?.give_up().await?;
        self.locks().acquire(subtable.at).await?.give_up().await?;
        Ok(Entered::Here)
    }

    /// Splits the subtable of a position if necessary. The client holds the lock of the table, which is released.
    /// `None`: another client holds the lock of the subtable.
    async fn split(
        self,
        position: TablePosition,
        table: HeldLock<'_, F>,
    ) -> Result<Option<Entered>, IndexError> {
        let (split, own) = match self.begin(position, &table).await {
            Ok(SplitStart::Split(split, own)) => (split, own),
            other => {
                table.give_up().await?;
                return match other? {
                    SplitStart::Split(..) => unreachable!("the other arm handles it"),
                    SplitStart::HasSpace => Ok(Some(Entered::Here)),
                    SplitStart::TableFull => Ok(Some(Entered::TableFull)),
                    SplitStart::Busy => Ok(None),
                    SplitStart::Unfinished(_) if self.during_split == DuringSplit::Leave => {
                        Ok(Some(Entered::Later))
                    }
                    SplitStart::Unfinished(split) => {
                        let held = self.locks().acquire(split.old).await?;
                        let done = self.resume(&split).await;
                        held.give_up().await?;
                        done.map(|()| Some(Entered::Here))
                    }
                };
            }
        };
        let held = match own {
            None => table,
            Some(own) => {
                if let Err(error) = table.give_up().await {
                    own.give_up().await?;
                    return Err(error);
                }
                own
            }
        };
        let moved = self.move_entries(&split).await;
        held.give_up().await?;
        moved.map(|()| Some(Entered::Here))
    }

    /// Takes the lock of a position's subtable, and does steps 1 and 2 if the subtable is full.
    async fn begin(
        self,
        position: TablePosition,
        table: &HeldLock<'a, F>,
    ) -> Result<SplitStart<'a, F>, IndexError> {
        let directory = self.read_directory(position.home).await?;
        let subtable = directory.subtable(position)?;
        let held = std::slice::from_ref(table);
        let own = match self.locks().try_acquire(subtable.at, held).await? {
            TryLock::Taken(own) => Some(own),
            TryLock::Mine => None,
            TryLock::Busy => return Ok(SplitStart::Busy),
        };
        let begun = self.begin_locked(position, subtable, Directory::clone(&directory)).await;
        match (begun, own) {
            (Ok(SplitStart::Split(split, _)), own) => Ok(SplitStart::Split(split, own)),
            (begun, Some(own)) => {
                own.give_up().await?;
                begun
            }
            (begun, None) => begun,
        }
    }

    /// The part of [`begin`](Self::begin) under both locks.
    async fn begin_locked(
        self,
        position: TablePosition,
        DepthPointer { depth, at }: DepthPointer<RawSubtable>,
        mut directory: Directory,
    ) -> Result<SplitStart<'a, F>, IndexError> {
        let table = self.table;
        let last = split_of(&directory, position, depth);
        if let Some(split) = last.filter(|split| split.new == at) {
            // The last split may have been interrupted before its old half was settled. After another split, no
            // directory names both halves.
            let old = self.read_subtable(split.old).await?;
            if !table.is_settled(&old, split.depth, split.upper) {
                return Ok(SplitStart::Unfinished(split));
            }
        }
        // This half is read after the other half: if the other half is settled, this one is too.
        let bytes = self.read_subtable(at).await?;
        if !table.is_settled(&bytes, depth, position.upper(depth)) {
            let Some(split) = last.filter(|split| split.old == at) else {
                let what = format!("a subtable of depth {depth} is being split, and has no other half");
                return Err(damaged(GROWTH, at, what));
            };
            self.client.fabric().record_coverage(coverage::SPLIT_RESUMED);
            return Ok(SplitStart::Split(split, None));
        }
        if table.has_space(&bytes, position) {
            return Ok(SplitStart::HasSpace);
        }
        if depth >= table.depth_max {
            self.client.fabric().record_coverage(coverage::TABLE_FULL);
            return Ok(SplitStart::TableFull);
        }
        if depth == directory.depth {
            directory = self.double_directory(position.home, &directory).await?;
        }
        let split = self.begin_split(&mut directory, position, at).await?;
        Ok(SplitStart::Split(split, None))
    }

    /// Creates a directory of twice the length. [2 RT]
    async fn double_directory(self, home: NodeId, before: &Directory) -> Result<Directory, IndexError> {
        let (table, client) = (self.table, self.client);
        let depth = before.depth + 1;
        let kind = ObjectKind::Directory.slot_kind(8 << depth);
        let memory: MemorySlot<RawDirectory> = self.heap.allocate(client, home, kind).await?;
        let words = before.words.iter().flat_map(|&word| [word; 2]).collect();
        let directory = Directory { depth, at: memory.at, words };
        client.post(write(memory.at, &directory.image())).await?;
        client.fabric().record_coverage(coverage::DOUBLING);
        let word = DepthPointer { depth, at: memory.at }.word();
        client.post(write(table.pointer_to_directory(home), &word.to_le_bytes())).await?;
        client.fabric().record_coverage(coverage::DOUBLED);
        table.cache_directory(home, directory.clone());
        Ok(directory)
    }

    /// Steps 1 and 2. [2 RT]
    async fn begin_split(
        self,
        directory: &mut Directory,
        position: TablePosition,
        old: Remote<RawSubtable>,
    ) -> Result<Split, IndexError> {
        let (table, client, home) = (self.table, self.client, position.home);
        let depth = directory.subtable(position)?.depth;
        let upper = position.upper(depth);
        let range = directory.range(depth, upper);
        check_write_survives(client, 8 * range.len())?;
        let kind = ObjectKind::Subtable.slot_kind(subtable_bytes(table.groups_log2));
        let memory: MemorySlot<RawSubtable> = self.heap.allocate(client, home, kind).await?;
        let header = BucketHeader::new(table.number, depth + 1, upper << 1 | 1).moving();
        client.post(write(memory.at, &layout::empty_subtable(table.groups_log2, header))).await?;
        client.fabric().record_coverage(coverage::SPLIT_BEGUN);
        let half = range.start + range.len() / 2;
        directory.words[range.start..half].fill(DepthPointer { depth: depth + 1, at: old }.word());
        directory.words[half..range.end].fill(DepthPointer { depth: depth + 1, at: memory.at }.word());
        let image = directory.image();
        let at: Remote<[u8]> = directory.at.part(8 * range.start as u64);
        client.post(write(at, &image[8 * range.start..8 * range.end])).await?;
        table.cache_directory(home, directory.clone());
        Ok(Split { home, old, new: memory.at, depth: depth + 1, upper: upper << 1 })
    }

    /// Steps 3 to 5. If the split was interrupted in step 5, the rest of it.
    async fn move_entries(self, split: &Split) -> Result<(), IndexError> {
        let client = self.client;
        let old = BucketHeader::new(self.table.number, split.depth, split.upper);
        let new = BucketHeader::new(self.table.number, split.depth, split.upper | 1);
        let image = self.read_subtable(split.new).await?;
        let in_use = headers(&image).any(|header| header == new);
        if !in_use {
            self.write_headers(split.old, old.moving()).await?;
            self.move_until_done(split, image).await?;
            client.fabric().record_coverage(coverage::SPLIT_MOVED);
        }
        self.write_headers(split.new, new).await?;
        self.write_headers(split.old, old).await?;
        client.fabric().record_coverage(coverage::SPLIT);
        Ok(())
    }

    /// Step 4. `image` is the new subtable, which no other client changes. [5 RT, 1 for each 64 entries and 1 for each
    /// 64 that move; more if other clients change entries that move]
    async fn move_until_done(self, split: &Split, mut image: Vec<u8>) -> Result<(), IndexError> {
        let mut retry = Retry::new(GROWTH, ROUNDS_MAX);
        let (mut corrected, mut before) = (false, vec![0; image.len()]);
        loop {
            let bytes = self.read_subtable(split.old).await?;
            let mut leaving = self.leaving_entries(split, &bytes, &before).await?;
            if leaving.is_empty() && !corrected {
                return Ok(());
            }
            before = bytes;
            for LeavingEntry { number, word: entry, destination } in &mut leaving {
                let bytes = 8 * *number..8 * *number + 8;
                // An entry at the offset of a removed entry is new.
                before[bytes.clone()].fill(0);
                if *destination == Destination::New {
                    match word(&image, *number) {
                        0 => image[bytes].copy_from_slice(&entry.to_le_bytes()),
                        moved if moved == *entry => {}
                        _ => *destination = Destination::Nowhere,
                    }
                }
            }
            self.client.post(write(split.new, &image)).await?;
            self.client.fabric().record_coverage(coverage::SPLIT_MOVING);
            corrected = self.remove_from_old(split, &leaving, &mut image).await?;
            retry.again(self.client).await?;
        }
    }

    /// The entries of the old subtable that the split must move or remove, among those that differ from `before`. [1 RT
    /// for each 64 entries]
    async fn leaving_entries(
        self,
        split: &Split,
        bytes: &[u8],
        before: &[u8],
    ) -> Result<Vec<LeavingEntry>, IndexError> {
        let table = self.table;
        let is_new = |number: usize| word(bytes, number) != word(before, number);
        let numbers = (0..bytes.len() / 8).filter(|&number| !is_header(number) && is_new(number));
        let entries: Vec<_> = numbers
            .filter_map(|number| Some((number, TableEntry::from_word(word(bytes, number))?)))
            .collect();
        let mut leaving = Vec::new();
        for entries in entries.chunks(VERBS_PER_POST) {
            let nodes: Vec<_> = entries.iter().filter_map(|(_, entry)| entry.node()).collect();
            if nodes.len() < entries.len() {
                return Err(damaged(
                    GROWTH,
                    split.old,
                    "the address of an entry is outside of the pool".to_owned(),
                ));
            }
            let fronts: Vec<_> =
                self.client.post(all(nodes.iter().map(|node| read_front(node.at)))).await?.collect();
            for (&(number, entry), copy) in entries.iter().zip(fronts) {
                let copy = copy.whole_words();
                let header = NodeHeader::from_word(word(&copy, 0));
                let at = EntryWord { home: split.home, number, entry };
                let destination = match table.target_of(at, header, word(&copy, 2)) {
                    EntryTarget::Nothing => Destination::Nowhere,
                    EntryTarget::Node(prefix) => split.destination(table.position(prefix)),
                };
                if destination != Destination::Old {
                    leaving.push(LeavingEntry { number, word: entry.word(), destination });
                }
            }
        }
        Ok(leaving)
    }

    /// Removes entries from the old subtable. If another client has just removed or replaced one, it is removed from
    /// the image of the new subtable as well. Yields whether an entry was removed from the image. [1 RT for each 64
    /// entries]
    async fn remove_from_old(
        self,
        split: &Split,
        leaving: &[LeavingEntry],
        image: &mut [u8],
    ) -> Result<bool, IndexError> {
        let mut corrected = false;
        for leaving in leaving.chunks(VERBS_PER_POST) {
            let emptied = leaving.iter().map(|&LeavingEntry { number, word, .. }| {
                let at: Remote<u64> = split.old.part(8 * number as u64);
                cas(at, word, 0)
            });
            let swapped: Vec<_> = self.client.post(all(emptied)).await?.collect();
            for (&LeavingEntry { number, destination, .. }, swapped) in leaving.iter().zip(swapped) {
                if destination == Destination::New && swapped != Swapped::Won {
                    self.client.fabric().record_coverage(coverage::CHANGED_WHILE_MOVED);
                    image[8 * number..8 * number + 8].fill(0);
                    corrected = true;
                }
            }
        }
        Ok(corrected)
    }

    /// Reads a subtable. [1 RT]
    pub(super) async fn read_subtable(self, at: Remote<RawSubtable>) -> Result<Vec<u8>, IndexError> {
        let bytes = subtable_bytes(self.table.groups_log2);
        let read = self.client.post(read_bytes(at.part::<RawBuckets>(0), bytes)).await?;
        match read.check(&self.table.number) {
            Ok(copy) => Ok(copy.to_vec()),
            Err(_) => Err(damaged(GROWTH, at, "it is not a subtable of this index".to_owned())),
        }
    }

    /// Writes the headers of all buckets of a subtable. [1 RT for each 64 buckets]
    async fn write_headers(self, at: Remote<RawSubtable>, header: BucketHeader) -> Result<(), IndexError> {
        let word = header.word().to_le_bytes();
        let buckets: Vec<_> = (0..subtable_bytes(self.table.groups_log2) / BUCKET_BYTES).collect();
        for buckets in buckets.chunks(VERBS_PER_POST) {
            let headers = buckets.iter().map(|bucket| {
                let at: Remote<u64> = at.part((bucket * BUCKET_BYTES) as u64);
                write(at, &word)
            });
            self.client.post(all(headers)).await?.for_each(drop);
        }
        Ok(())
    }
}

impl HashTable {
    /// Whether all headers of a subtable agree with the directory, so that no split is in progress.
    fn is_settled(&self, bytes: &[u8], depth: u8, upper: u64) -> bool {
        headers(bytes).all(|header| header == BucketHeader::new(self.number, depth, upper))
    }

    /// Whether a subtable has a free word for the entry of a position.
    fn has_space(&self, bytes: &[u8], position: TablePosition) -> bool {
        let free = |number: usize| !is_header(number) && word(bytes, number) == 0;
        (0..bytes.len() / 8).any(|number| free(number) && position.reaches(self.groups_log2, number))
    }
}

impl Split {
    /// The target of the entry of a position.
    fn destination(&self, position: TablePosition) -> Destination {
        match position.upper(self.depth) {
            upper if upper == self.upper => Destination::Old,
            upper if upper == self.upper | 1 => Destination::New,
            _ => Destination::Nowhere,
        }
    }
}

/// Checks that a WRITE of directory words executes completely or not at all if its writer crashes, because a directory
/// with a partly changed range leads to wrong subtables. Hashes are distributed evenly, so a range has only a few
/// words.
fn check_write_survives<F: Fabric>(client: &Client<F>, bytes: usize) -> Result<(), IndexError> {
    match client.fabric().capabilities().missing(&[Capability::WriteSurvivesWriter(bytes)]) {
        None => Ok(()),
        Some(capability) => Err(IndexError::Unsafe { capability, remedy: "over RDMA, use a larger MTU" }),
    }
}

/// The last split of the subtable of a position, which has that depth, unless the other half was split again.
fn split_of(directory: &Directory, position: TablePosition, depth: u8) -> Option<Split> {
    if depth == 0 {
        return None;
    }
    let upper = position.upper(depth) & !1;
    let at = |upper: u64| {
        let word = directory.words[directory.range(depth, upper).start];
        let subtable = DepthPointer::<RawSubtable>::from_word(word).filter(|found| found.depth == depth);
        subtable.map(|subtable| subtable.at)
    };
    Some(Split { home: position.home, old: at(upper)?, new: at(upper | 1)?, depth, upper })
}

/// The headers of a subtable's buckets.
fn headers(bytes: &[u8]) -> impl Iterator<Item = BucketHeader> {
    bytes.chunks_exact(BUCKET_BYTES).map(|bucket| BucketHeader::from_word(word(bucket, 0)))
}
