//! The inner-node hash table: one for each memory node, of the inner nodes whose prefixes belong there (Sphinx
//! §III-A), by one-sided extendible hashing (RACE, ATC'21).
//!
//! A lookup is one round trip: two main buckets, each with its overflow bucket, by one doorbell. An entry is entered,
//! replaced and taken out by one CAS. There is no lock but for growth (`grow.rs`).
//!
//! # What holds
//!
//! - *Entries are hints.* Whoever follows one looks whether the node is live, linked and of the prefix. A lost entry
//!   costs round trips, until whoever missed it enters it again; so does one that leads nowhere, which whoever followed
//!   it takes out.
//! - *No entry is lost where nobody dies.* Who has entered one reads its buckets again: if their headers say that the
//!   subtable was split, its entry may have come too late to be moved, and is entered anew.
//! - *No entry is twice there.* Of two that are the same, all clients keep the one that lies first.
//! - *No entry outlives its node where nobody dies.* A node is dead before its entry is taken out or replaced; so who
//!   enters one looks afterwards whether its node still lives, and takes the entry out if it does not.
//! - *A stale directory is recognised*: every bucket says which hashes belong into it.

mod directory;
pub mod layout;
mod split;
mod verify;

pub(super) use directory::plant;

use super::coverage as marks;
use crate::error::IndexError;
use crate::lock::NodeLocks;
use crate::memory::heap::Heap;
use crate::radix::inner::{self, RawInner, State};
use crate::radix::prefix::PrefixHash;
use crate::radix::tree::Sign;
use crate::retry::Retry;
use crate::sabotage::Sabotage;
use arc_swap::ArcSwapOption;
use directory::Directory;
use farwood_fabric::{
    Chain as _, Client, Fabric, Fetched, NodeId, Parallel as _, Read, Remote, Swapped, Words, all, cas, read,
    read_bytes,
};
use layout::{Deep, Entry, PAIR_BYTES, Pairs, RawBuckets, RawSubtable, Spot};

/// Tries at a bucket that others change, or of which the directory is older.
const TRIES_MAX: u32 = 2_000;

/// Free places for an entry of which the marks say that there is little room.
const LITTLE_ROOM: usize = 3;

/// The hash tables of one index, as a compute node sees them.
#[derive(Debug)]
pub struct HashTable {
    /// Low bits of the index's number.
    number: u32,
    /// Groups of a subtable, as a power of two.
    groups_log2: u8,
    /// The words of the tables, one for each memory node.
    words: Remote<u64>,
    /// The directories, as they were once.
    directories: Box<[ArcSwapOption<Directory>]>,
    /// All prints are one of two: for tests.
    narrow: bool,
    /// Bits of a hash that directories tell apart, at most: fewer for tests.
    depth_max: u8,
    /// Broken on purpose: nobody looks again at what it has entered.
    unconfirmed: bool,
}

/// What a table needs of its tree to change.
#[derive(Clone, Copy)]
pub(super) struct Hands<'t> {
    pub(super) locks: &'t NodeLocks,
    pub(super) heap: &'t Heap,
}

/// What was read of a spot's buckets.
pub(super) struct Looked {
    pub(super) pairs: Pairs,
    /// The subtable, as the directory has it.
    subtable: Deep<RawSubtable>,
}

/// What came of a CAS that was to enter a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entered {
    /// Its entry is where it belongs, or was, if the node is gone.
    Here,
    /// The subtable was split meanwhile, and the entry belongs into the other half.
    Astray,
    /// Another was faster.
    Lost,
}

/// How a spot's buckets stand to the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// As it says.
    Settled,
    /// The directory is older than they are.
    Ahead,
    /// A split of theirs has not come to its end.
    Unsettled,
}

impl Looked {
    fn standing(&self) -> Standing {
        let mut depths = self.pairs.headers().map(|header| (header.is_moving(), header.depth()));
        if self.pairs.headers().any(|header| header.depth() > self.subtable.depth) {
            Standing::Ahead
        } else if depths.all(|standing| standing == (false, self.subtable.depth)) {
            Standing::Settled
        } else {
            Standing::Unsettled
        }
    }

    /// Marks that an entry is about to be changed, where a split is near.
    fn announce<F: Fabric>(&self, client: &Client<F>, mark: &'static str) {
        if self.pairs.room() <= LITTLE_ROOM {
            client.fabric().mark(mark);
        }
    }

    /// Whether it is worth to look whether an entry finds room now.
    fn has_moved_on(&self) -> bool {
        match self.standing() {
            Standing::Settled => self.pairs.free().is_some(),
            Standing::Ahead => true,
            Standing::Unsettled => false,
        }
    }

    /// Whether it may be changed by who is no splitter.
    pub(super) fn is_settled(&self) -> bool {
        self.standing() == Standing::Settled
    }
}

impl HashTable {
    /// The tables whose words lie at `words`, in a pool of that many memory nodes.
    pub(super) fn new(number: u32, groups_log2: u8, words: Remote<u64>, nodes: u16) -> Self {
        let directories = (0..nodes).map(|_| ArcSwapOption::empty()).collect();
        let depth_max = layout::DEPTH_MAX;
        Self { number, groups_log2, words, directories, narrow: false, depth_max, unconfirmed: false }
    }

    /// Where the entry of a prefix belongs.
    #[inline]
    pub(super) fn spot(&self, prefix: PrefixHash) -> Spot {
        let spot = Spot::of(prefix, self.directories.len() as u16);
        if self.narrow { spot.narrowed() } else { spot }
    }

    /// Breaks the tables, for tests that want to notice.
    pub(super) fn sabotage(&mut self, sabotage: Sabotage) {
        self.narrow = sabotage == Sabotage::PrintsNarrow;
        if sabotage == Sabotage::TablesShallow {
            self.depth_max = 1;
        }
        self.unconfirmed = sabotage == Sabotage::EntryUnconfirmed;
    }

    /// Bytes of the cached directories.
    pub(super) fn directory_bytes(&self) -> usize {
        self.directories.iter().filter_map(|known| known.load().as_ref().map(|known| known.bytes())).sum()
    }

    /// The buckets of several spots. [1 RT; more where a directory is not known, or out of date]
    pub(super) async fn look_at<F: Fabric>(
        &self,
        client: &Client<F>,
        spots: &[Spot],
    ) -> Result<Vec<Looked>, IndexError> {
        let mut subtables = Vec::with_capacity(spots.len());
        for spot in spots {
            subtables.push(self.subtable(client, *spot).await?);
        }
        let reads = spots.iter().zip(&subtables).flat_map(|(spot, subtable)| {
            self.pairs_at(subtable.at, *spot).map(|at| read_bytes(at, PAIR_BYTES))
        });
        let copies: Vec<_> = client.post(all(reads)).await?.collect();
        let mut copies = copies.into_iter();
        let mut looked = Vec::with_capacity(spots.len());
        for (spot, subtable) in spots.iter().zip(subtables) {
            let (Some(one), Some(other)) = (copies.next(), copies.next()) else {
                unreachable!("two READs for each spot")
            };
            if let Some(found) = self.take((one, other), subtable, *spot) {
                looked.push(found);
                continue;
            }
            client.fabric().mark(marks::DIRECTORY_STALE);
            self.refresh(client, spot.home).await?;
            looked.push(self.look(client, *spot).await?);
        }
        Ok(looked)
    }

    /// The buckets of a spot. [1 RT; more where the directory is not known, or out of date]
    pub(super) async fn look<F: Fabric>(&self, client: &Client<F>, spot: Spot) -> Result<Looked, IndexError> {
        let mut retry = Retry::new("hash table lookup", TRIES_MAX);
        loop {
            let subtable = self.subtable(client, spot).await?;
            let [one, other] = self.pairs_at(subtable.at, spot).map(|at| read_bytes(at, PAIR_BYTES));
            let copies = client.post(one.and(other)).await?;
            if let Some(looked) = self.take(copies, subtable, spot) {
                return Ok(looked);
            }
            client.fabric().mark(marks::DIRECTORY_STALE);
            retry.again(client).await?;
            self.refresh(client, spot.home).await?;
        }
    }

    /// The buckets of a spot, as they may be changed. [as [`look_at`](Self::look_at), if no split is under way]
    async fn look_settled<F: Fabric>(
        &self,
        hands: Hands<'_>,
        client: &Client<F>,
        spot: Spot,
    ) -> Result<Looked, IndexError> {
        let mut retry = Retry::new("hash table lookup", TRIES_MAX);
        loop {
            let looked = self.look(client, spot).await?;
            match looked.standing() {
                Standing::Settled => return Ok(looked),
                Standing::Ahead => drop(self.refresh(client, spot.home).await?),
                Standing::Unsettled => {
                    client.fabric().mark(marks::SPLIT_MET);
                    self.settle(hands, client, spot).await?;
                }
            }
            retry.again(client).await?;
        }
    }

    fn pairs_at(&self, subtable: Remote<RawSubtable>, spot: Spot) -> [Remote<RawBuckets>; 2] {
        spot.pairs(self.groups_log2).map(|offset| subtable.part(offset))
    }

    /// What was read, if the spot's entry belongs there.
    fn take(
        &self,
        (one, other): (Fetched<RawBuckets>, Fetched<RawBuckets>),
        subtable: Deep<RawSubtable>,
        spot: Spot,
    ) -> Option<Looked> {
        let copies = [one.check(&self.number).ok()?, other.check(&self.number).ok()?];
        let pairs = Pairs::new(self.pairs_at(subtable.at, spot), copies);
        let covers = pairs.headers().all(|header| header.covers(spot));
        covers.then_some(Looked { pairs, subtable })
    }

    /// Enters a node that is linked, unless its entry is there; yields whether there was room.
    /// [2 RT; more without [`Capability::AtomicThenRead`](farwood_fabric::Capability::AtomicThenRead), where the node
    /// lies elsewhere, or the subtable is split]
    pub(super) async fn enter<F: Fabric>(
        &self,
        hands: Hands<'_>,
        client: &Client<F>,
        sign: &Sign,
    ) -> Result<bool, IndexError> {
        let spot = self.spot(sign.prefix);
        let entry = Entry::new(spot, sign);
        let mut retry = Retry::new("enter", TRIES_MAX);
        loop {
            let looked = self.look_settled(hands, client, spot).await?;
            if !looked.pairs.places(entry).is_empty() {
                return Ok(true);
            }
            let Some(at) = looked.pairs.free() else {
                if !self.grow(hands, client, spot).await? {
                    return Ok(false);
                }
                retry.again(client).await?;
                continue;
            };
            looked.announce(client, marks::ENTERING);
            match self.swap(hands, client, (at, 0, entry), &looked, (spot, sign)).await? {
                Entered::Here => return Ok(true),
                Entered::Astray => {
                    client.fabric().mark(marks::ENTERED_ASTRAY);
                    let _ = client.post(cas(at, entry.word(), 0)).await?;
                }
                Entered::Lost => {}
            }
            retry.again(client).await?;
        }
    }

    /// Gives a node's successor its entry, if the node had one; else enters the successor. [2 RT; more as for
    /// [`enter`](Self::enter)]
    pub(super) async fn replace<F: Fabric>(
        &self,
        hands: Hands<'_>,
        client: &Client<F>,
        (before, after): (&Sign, &Sign),
    ) -> Result<bool, IndexError> {
        let spot = self.spot(before.prefix);
        let (old, new) = (Entry::new(spot, before), Entry::new(spot, after));
        let mut retry = Retry::new("replace", TRIES_MAX);
        loop {
            let looked = self.look_settled(hands, client, spot).await?;
            let Some(&at) = looked.pairs.places(old).first() else {
                return self.enter(hands, client, after).await;
            };
            looked.announce(client, marks::CHANGING);
            match self.swap(hands, client, (at, old.word(), new), &looked, (spot, after)).await? {
                Entered::Here => return Ok(true),
                Entered::Astray => {
                    client.fabric().mark(marks::ENTERED_ASTRAY);
                    let _ = client.post(cas(at, new.word(), 0)).await?;
                    return self.enter(hands, client, after).await;
                }
                Entered::Lost => retry.again(client).await?,
            }
        }
    }

    /// Takes out the entry of a node, wherever it is. [2 RT; 1 where there is none]
    pub(super) async fn remove<F: Fabric>(
        &self,
        hands: Hands<'_>,
        client: &Client<F>,
        sign: &Sign,
    ) -> Result<(), IndexError> {
        let spot = self.spot(sign.prefix);
        let entry = Entry::new(spot, sign);
        let mut retry = Retry::new("remove", TRIES_MAX);
        loop {
            let looked = self.look_settled(hands, client, spot).await?;
            let places = looked.pairs.places(entry);
            if places.is_empty() {
                return Ok(());
            }
            looked.announce(client, marks::CHANGING);
            let emptied = places.iter().map(|&at| cas(at, entry.word(), 0));
            let mut swapped = client.post(all(emptied)).await?;
            if swapped.all(|swapped| swapped == Swapped::Won) {
                return Ok(());
            }
            retry.again(client).await?;
        }
    }

    /// Takes out an entry at its place, which leads nowhere. [1 RT]
    pub(super) async fn clear<F: Fabric>(
        &self,
        client: &Client<F>,
        (at, entry): (Remote<u64>, Entry),
    ) -> Result<(), IndexError> {
        if client.post(cas(at, entry.word(), 0)).await? == Swapped::Won {
            client.fabric().mark(marks::ENTRY_CLEARED);
        }
        Ok(())
    }

    /// Swaps the word at `at` for an entry; then reads the buckets again, and whether the entry's node lives.
    /// [1 RT; 2 where the node lies elsewhere; more without
    /// [`Capability::AtomicThenRead`](farwood_fabric::Capability::AtomicThenRead)]
    async fn swap<F: Fabric>(
        &self,
        hands: Hands<'_>,
        client: &Client<F>,
        (at, before, entry): (Remote<u64>, u64, Entry),
        looked: &Looked,
        (spot, sign): (Spot, &Sign),
    ) -> Result<Entered, IndexError> {
        let swap = cas(at, before, entry.word());
        let [one, other] = self.pairs_at(looked.subtable.at, spot).map(|at| read_bytes(at, PAIR_BYTES));
        let header = read(sign.node.part::<u64>(inner::HEADER));
        let near = sign.node.node() == at.node();
        let (swapped, copies, header_too) = if client.fabric().capabilities().atomic_then_read {
            let chain = swap.then(one).then(other).then_maybe(near.then_some(header));
            let (((swapped, one), other), header) = client.post(chain).await?;
            (swapped, (one, other), header)
        } else {
            let swapped = client.post(swap).await?;
            (swapped, client.post(one.and(other)).await?, None)
        };
        if swapped != Swapped::Won {
            return Ok(Entered::Lost);
        }
        if self.unconfirmed {
            return Ok(Entered::Here);
        }
        let header = match header_too {
            Some(header) => header,
            None => client.post(header).await?,
        };
        let Ok(header) = header.check(&()) else { unreachable!("words are whole") };
        let header = inner::Header::from_word(header.word());
        let again = self.take(copies, looked.subtable, spot);
        if let Some(again) = &again {
            self.keep_first(client, again, entry).await?;
        }
        if header.state() != Some(State::Live) || header.generation() != sign.generation {
            client.fabric().mark(marks::ENTERED_LATE);
            self.remove(hands, client, sign).await?;
        }
        Ok(if again.is_some() { Entered::Here } else { Entered::Astray })
    }

    /// Takes out all of the same entries but the one that lies first. [0 RT; 1 where there are several]
    async fn keep_first<F: Fabric>(
        &self,
        client: &Client<F>,
        looked: &Looked,
        entry: Entry,
    ) -> Result<(), IndexError> {
        let places = looked.pairs.places(entry);
        if let [_, others @ ..] = &places[..]
            && !others.is_empty()
        {
            client.fabric().mark(marks::ENTERED_TWICE);
            client.post(all(others.iter().map(|&at| cas(at, entry.word(), 0)))).await?.for_each(drop);
        }
        Ok(())
    }

    /// The subtable of a spot, as the cached directory has it. [0 RT; 2 where none is cached]
    #[inline]
    async fn subtable<F: Fabric>(
        &self,
        client: &Client<F>,
        spot: Spot,
    ) -> Result<Deep<RawSubtable>, IndexError> {
        let known =
            self.directories[usize::from(spot.home.0)].load().as_ref().map(|known| known.subtable(spot));
        match known {
            Some(subtable) => subtable,
            None => self.refresh(client, spot.home).await?.subtable(spot),
        }
    }
}

/// What an entry says of a node, against what the node says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leads {
    /// To the node of a prefix of that hash.
    To(PrefixHash),
    /// To a node that is gone, or was never that entry's.
    Nowhere,
}

impl HashTable {
    /// Where an entry of memory node `home` leads, at that word of its subtable, if its node has that header and hash.
    fn leads(&self, (entry, word, home): (Entry, usize, NodeId), header: inner::Header, hash: u64) -> Leads {
        let prefix = PrefixHash::from_word(hash ^ header.salt(self.number));
        let spot = self.spot(prefix);
        let of_spot =
            spot.home == home && spot.print() == entry.print() && spot.reaches(self.groups_log2, word);
        let lives = header.state() == Some(State::Live);
        if of_spot && lives && entry.is_of(header) { Leads::To(prefix) } else { Leads::Nowhere }
    }
}

/// What an entry's node begins with: header, reverse pointer, hash.
const FRONT_BYTES: usize = 24;

/// The READ of what a node begins with.
fn front(node: Remote<RawInner>) -> Read<Words> {
    read_bytes(node.part(0), FRONT_BYTES)
}
