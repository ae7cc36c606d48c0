//! Growth while in use: a full subtable is split in two, and before that the directory doubled where it cannot tell
//! them apart (RACE §4.3, with a lock).
//!
//! Whoever changes a directory has the table's lock; whoever changes a bucket's header, that of the subtable that is
//! being split. Both are taken for a split, and the table's is given back behind step 2: so many subtables are split at
//! the same time. Nobody waits for a lock while it holds one. A split, in this order:
//!
//! 1. the new subtable is written: no entries, *moving*;
//! 2. the directory's words of both are written by one WRITE, for they lie in a row: half of them lead to the new one;
//! 3. the headers of the old subtable say that it has one bit more, and is *moving*. From here on entries of the new
//!    one that come into the old one are taken back by who put them there, for they look again;
//! 4. entries that belong into the new one are written there, all at once, each at the same place as before, and then
//!    taken out of the old one by a CAS each. Where that is lost, somebody has taken out or replaced the entry; the new
//!    one is then corrected. Entries that lead nowhere are dropped, and those that came astray to a place from where
//!    one has moved before: who put them there enters them again. This is done again until there is nothing to do;
//! 5. the headers of the new subtable say that it is not *moving* any more; then those of the old one do.
//!
//! Who reads meanwhile finds an entry or not, and goes on without. Who wants to change something and finds a header
//! that is moving, or behind the directory, takes the old subtable's lock if it is free, else looks until the splitter
//! is done, and waits for the lock only after long; with it, it ends what a dead one has begun: steps 3 and 4 can be
//! done again from what lies there as long as no header of the new one is settled, and step 5 from there on. Before
//! step 2 nothing has happened but that a room is lost. The old one is the last to be settled, and neither is split
//! again before; so while it is not settled, both are of one depth, and who has its lock sees by its headers alone what
//! is left to be done, however old a directory led there.
//!
//! From the first header that step 5 writes, others change entries of the new subtable. So no entry is written there
//! any more but by a CAS: a WRITE of the whole would undo what they did.
//!
//! A directory is doubled in a new room, and becomes the directory by one WRITE of the table's word. The old one is not
//! used again, for copies of its words may be under way: all old ones together take less than the new one.

use super::directory::Directory;
use super::layout::{
    self, BUCKET_BYTES, Deep, Entry, Header, RawBuckets, RawDirectory, RawSubtable, Spot, is_header,
    subtable_bytes, word,
};
use super::{Hands, HashTable, Leads, Standing, front, marks};
use crate::error::IndexError;
use crate::lock::{Attempt, Held};
use crate::memory::heap::Kind;
use crate::memory::slot::Room;
use crate::op::Op;
use crate::radix::inner;
use crate::radix::tree::find::damaged;
use crate::retry::Retry;
use farwood_fabric::{Capability, Client, Fabric, NodeId, Remote, Swapped, all, cas, read_bytes, write};

/// Verbs of one doorbell, at most.
const VERBS_PER_POST: usize = 64;
/// Looks at what a lock was wanted for while others have it, before it is waited for: together as long as many splits
/// take.
const LOOKS_MAX: usize = 250;
/// Pause before each of them, nanoseconds.
const LOOK_PAUSE: u64 = 20_000;
/// What errors call it.
const GROWTH: &str = "hash table growth";
/// Rounds of moving entries, at most: each but the first is for what others changed meanwhile.
const ROUNDS_MAX: u32 = 1_000;

/// Two subtables of which the second takes half of the entries of the first.
#[derive(Clone, Copy)]
struct Split {
    home: NodeId,
    old: Remote<RawSubtable>,
    new: Remote<RawSubtable>,
    /// Their depth, and the highest bits of the hashes in the old one.
    depth: u8,
    upper: u64,
}

/// What came of the wish for room.
enum Begun<'a, F: Fabric> {
    /// A split, or the rest of one, whose old subtable is locked; by its own lock, unless that is the table's as well.
    Split(Split, Option<Held<'a, F>>),
    /// There is room already.
    Room,
    /// This split is to be ended first, of which the subtable is the new half.
    Unsettled(Split),
    /// There is none, and the table is as large as it gets.
    Full,
    /// The subtable's lock is taken.
    Busy,
}

/// What becomes of an entry of the old subtable.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Goes {
    Stays,
    Over,
    Out,
}

impl HashTable {
    /// Ends a split in the subtable of a spot, if one is under way. [as long as it takes others, 4 RT each 20 us;
    /// 5 RT; more where it was cut off]
    pub(super) async fn settle<F: Fabric>(
        &self,
        hands: Hands<'_>,
        client: &Client<F>,
        spot: Spot,
    ) -> Result<(), IndexError> {
        let mut looks = 0..LOOKS_MAX;
        loop {
            let directory = self.refresh(client, spot.home).await?;
            let Some(split) = halves(&directory, spot, directory.subtable(spot)?.depth) else {
                return Ok(());
            };
            if let Attempt::Taken(held) =
                Op::new(hands.locks, client, GROWTH).try_acquire(split.old, &[]).await?
            {
                let done = self.resume(client, &split).await;
                held.give_up().await?;
                return done;
            }
            if looks.next().is_none() {
                // Whoever has it may be dead.
                return Op::new(hands.locks, client, GROWTH).acquire(split.old).await?.give_up().await;
            }
            client.fabric().sleep(LOOK_PAUSE).await;
            if self.look(client, spot).await?.standing() != Standing::Unsettled {
                return Ok(());
            }
        }
    }

    /// Ends a split whose old subtable is locked, if it is not at its end. [1 RT; as steps 3 to 5 where it was cut off]
    async fn resume<F: Fabric>(&self, client: &Client<F>, split: &Split) -> Result<(), IndexError> {
        let bytes = self.read_subtable(client, split.old).await?;
        let is_older = headers(&bytes).any(|header| header.depth() > split.depth);
        if is_older || self.is_settled(&bytes, split.depth, split.upper) {
            return Ok(());
        }
        client.fabric().mark(marks::SPLIT_RESUMED);
        self.move_entries(client, split).await
    }

    /// Makes room for an entry; yields whether there may be some. [for 1344 entries about 50 RT; while others split,
    /// 1 RT each 20 us; more while it is tried who splits]
    ///
    /// All who find a subtable full want the same, and who has split it has done it for all. Who has waited for longer
    /// than that takes waits for the locks themselves, whose holders may be dead.
    pub(super) async fn grow<F: Fabric>(
        &self,
        hands: Hands<'_>,
        client: &Client<F>,
        spot: Spot,
    ) -> Result<bool, IndexError> {
        let table_lock = self.lock_of(spot.home);
        let mut is_full = true;
        for _ in 0..LOOKS_MAX {
            if is_full
                && let Attempt::Taken(table) =
                    Op::new(hands.locks, client, GROWTH).try_acquire(table_lock, &[]).await?
                && let Some(has_room) = self.split(hands, client, spot, table).await?
            {
                return Ok(has_room);
            }
            client.fabric().sleep(LOOK_PAUSE).await;
            let looked = self.look(client, spot).await?;
            if looked.has_moved_on() {
                return Ok(true);
            }
            is_full = looked.is_settled();
        }
        let subtable = self.subtable(client, spot).await?;
        Op::new(hands.locks, client, GROWTH).acquire(table_lock).await?.give_up().await?;
        Op::new(hands.locks, client, GROWTH).acquire(subtable.at).await?.give_up().await?;
        Ok(true)
    }

    /// Splits the subtable of a spot, if that is needed, for who has the table's lock; yields whether there may be
    /// room. `None`: the subtable's lock is taken.
    async fn split<F: Fabric>(
        &self,
        hands: Hands<'_>,
        client: &Client<F>,
        spot: Spot,
        table: Held<'_, F>,
    ) -> Result<Option<bool>, IndexError> {
        let (split, own) = match self.begin(hands, client, spot, &table).await {
            Ok(Begun::Split(split, own)) => (split, own),
            other => {
                table.give_up().await?;
                return match other? {
                    Begun::Split(..) => unreachable!("that goes on below"),
                    Begun::Room => Ok(Some(true)),
                    Begun::Full => Ok(Some(false)),
                    Begun::Busy => Ok(None),
                    Begun::Unsettled(split) => {
                        let held = Op::new(hands.locks, client, GROWTH).acquire(split.old).await?;
                        let done = self.resume(client, &split).await;
                        held.give_up().await?;
                        done.map(|()| Some(true))
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
        let moved = self.move_entries(client, &split).await;
        held.give_up().await?;
        moved.map(|()| Some(true))
    }

    /// Takes the lock of a spot's subtable, and does steps 1 and 2 if it is full.
    async fn begin<'a, F: Fabric>(
        &self,
        hands: Hands<'a>,
        client: &'a Client<F>,
        spot: Spot,
        table: &Held<'a, F>,
    ) -> Result<Begun<'a, F>, IndexError> {
        let directory = self.refresh(client, spot.home).await?;
        let subtable = directory.subtable(spot)?;
        let own = match Op::new(hands.locks, client, GROWTH)
            .try_acquire(subtable.at, std::slice::from_ref(table))
            .await?
        {
            Attempt::Taken(own) => Some(own),
            Attempt::Mine => None,
            Attempt::Busy => return Ok(Begun::Busy),
        };
        let begun = self.begin_locked(hands, client, (spot, subtable), Directory::clone(&directory)).await;
        match (begun, own) {
            (Ok(Begun::Split(split, _)), own) => Ok(Begun::Split(split, own)),
            (begun, Some(own)) => {
                own.give_up().await?;
                begun
            }
            (begun, None) => begun,
        }
    }

    /// The part of [`begin`](Self::begin) under both locks.
    async fn begin_locked<'a, F: Fabric>(
        &self,
        hands: Hands<'_>,
        client: &'a Client<F>,
        (spot, Deep { depth, at }): (Spot, Deep<RawSubtable>),
        mut directory: Directory,
    ) -> Result<Begun<'a, F>, IndexError> {
        let half = halves(&directory, spot, depth);
        if let Some(split) = half.filter(|split| split.new == at) {
            // It may have been cut off before its old half was settled; later nobody would know both.
            let old = self.read_subtable(client, split.old).await?;
            if !self.is_settled(&old, split.depth, split.upper) {
                return Ok(Begun::Unsettled(split));
            }
        }
        // Behind the other half: once that is settled, this one is.
        let bytes = self.read_subtable(client, at).await?;
        if !self.is_settled(&bytes, depth, spot.upper(depth)) {
            let Some(split) = half.filter(|split| split.old == at) else {
                let what = format!("a subtable of depth {depth} is being split, and is no half");
                return Err(damaged(GROWTH, at, what));
            };
            client.fabric().mark(marks::SPLIT_RESUMED);
            return Ok(Begun::Split(split, None));
        }
        if self.has_room(&bytes, spot) {
            return Ok(Begun::Room);
        }
        if depth >= self.depth_max {
            client.fabric().mark(marks::TABLE_FULL);
            return Ok(Begun::Full);
        }
        if depth == directory.depth {
            directory = self.double(hands, client, spot.home, &directory).await?;
        }
        let split = self.begin_split(hands, client, &mut directory, (spot, at)).await?;
        Ok(Begun::Split(split, None))
    }

    fn has_room(&self, bytes: &[u8], spot: Spot) -> bool {
        let free = |number: usize| !is_header(number) && word(bytes, number) == 0;
        (0..bytes.len() / 8).any(|number| free(number) && spot.reaches(self.groups_log2, number))
    }

    /// Makes a directory twice as long. [2 RT]
    async fn double<F: Fabric>(
        &self,
        hands: Hands<'_>,
        client: &Client<F>,
        home: NodeId,
        before: &Directory,
    ) -> Result<Directory, IndexError> {
        let depth = before.depth + 1;
        let kind = Kind::Directory.rooms(8 << depth);
        let room: Room<RawDirectory> = hands.heap.allocate(client, home, kind).await?;
        let words = before.words.iter().flat_map(|&word| [word; 2]).collect();
        let directory = Directory { depth, at: room.at, words };
        client.post(write(room.at, &directory.image())).await?;
        client.fabric().mark(marks::DOUBLING);
        let word = Deep { depth, at: room.at }.word();
        client.post(write(self.word_of(home), &word.to_le_bytes())).await?;
        client.fabric().mark(marks::DOUBLED);
        self.keep(home, directory.clone());
        Ok(directory)
    }

    /// Steps 1 and 2. [2 RT]
    async fn begin_split<F: Fabric>(
        &self,
        hands: Hands<'_>,
        client: &Client<F>,
        directory: &mut Directory,
        (spot, old): (Spot, Remote<RawSubtable>),
    ) -> Result<Split, IndexError> {
        let depth = directory.subtable(spot)?.depth;
        let upper = spot.upper(depth);
        let range = directory.range(depth, upper);
        check_survives(client, 8 * range.len())?;
        let kind = Kind::Subtable.rooms(subtable_bytes(self.groups_log2));
        let room: Room<RawSubtable> = hands.heap.allocate(client, spot.home, kind).await?;
        let header = Header::new(self.number, depth + 1, upper << 1 | 1).moving();
        client.post(write(room.at, &layout::empty(self.groups_log2, header))).await?;
        client.fabric().mark(marks::SPLIT_BEGUN);
        let half = range.start + range.len() / 2;
        directory.words[range.start..half].fill(Deep { depth: depth + 1, at: old }.word());
        directory.words[half..range.end].fill(Deep { depth: depth + 1, at: room.at }.word());
        let image = directory.image();
        let at: Remote<[u8]> = directory.at.part(8 * range.start as u64);
        client.post(write(at, &image[8 * range.start..8 * range.end])).await?;
        self.keep(spot.home, directory.clone());
        Ok(Split { home: spot.home, old, new: room.at, depth: depth + 1, upper: upper << 1 })
    }

    /// Whether all headers of a subtable are as the directory has them.
    fn is_settled(&self, bytes: &[u8], depth: u8, upper: u64) -> bool {
        headers(bytes).all(|header| header == Header::new(self.number, depth, upper))
    }

    /// Steps 3 to 5; of a split that was cut off in step 5, the rest of it.
    async fn move_entries<F: Fabric>(&self, client: &Client<F>, split: &Split) -> Result<(), IndexError> {
        let old = Header::new(self.number, split.depth, split.upper);
        let new = Header::new(self.number, split.depth, split.upper | 1);
        let image = self.read_subtable(client, split.new).await?;
        let in_use = headers(&image).any(|header| header == new);
        if !in_use {
            self.write_headers(client, split.old, old.moving()).await?;
            self.move_all(client, split, image).await?;
            client.fabric().mark(marks::SPLIT_MOVED);
        }
        self.write_headers(client, split.new, new).await?;
        self.write_headers(client, split.old, old).await?;
        client.fabric().mark(marks::SPLIT);
        Ok(())
    }

    /// Step 4. `image` is the new subtable, which nobody else changes. [5 RT, 1 for each 64 entries and 1 for each 64
    /// that move; more as others change what moves]
    async fn move_all<F: Fabric>(
        &self,
        client: &Client<F>,
        split: &Split,
        mut image: Vec<u8>,
    ) -> Result<(), IndexError> {
        let mut retry = Retry::new(GROWTH, ROUNDS_MAX);
        let (mut corrected, mut before) = (false, vec![0; image.len()]);
        loop {
            let bytes = self.read_subtable(client, split.old).await?;
            let mut going = self.sort(client, split, (&bytes, &before)).await?;
            if going.is_empty() && !corrected {
                return Ok(());
            }
            before = bytes;
            for (number, entry, goes) in &mut going {
                let place = 8 * *number..8 * *number + 8;
                // What comes back to where it was taken out is new.
                before[place.clone()].fill(0);
                if *goes == Goes::Over {
                    match word(&image, *number) {
                        0 => image[place].copy_from_slice(&entry.to_le_bytes()),
                        moved if moved == *entry => {}
                        _ => *goes = Goes::Out,
                    }
                }
            }
            client.post(write(split.new, &image)).await?;
            client.fabric().mark(marks::SPLIT_MOVING);
            corrected = self.take_out(client, split, &going, &mut image).await?;
            retry.again(client).await?;
        }
    }

    /// Which entries of the old subtable do not stay there, of those that are not as they were `before`.
    /// [1 RT for each 64 entries]
    async fn sort<F: Fabric>(
        &self,
        client: &Client<F>,
        split: &Split,
        (bytes, before): (&[u8], &[u8]),
    ) -> Result<Vec<(usize, u64, Goes)>, IndexError> {
        let is_new = |number: usize| word(bytes, number) != word(before, number);
        let slots = (0..bytes.len() / 8).filter(|&number| !is_header(number) && is_new(number));
        let entries: Vec<_> =
            slots.filter_map(|number| Some((number, Entry::from_word(word(bytes, number))?))).collect();
        let mut going = Vec::new();
        for entries in entries.chunks(VERBS_PER_POST) {
            let nodes: Vec<_> = entries.iter().filter_map(|(_, entry)| entry.node()).collect();
            if nodes.len() < entries.len() {
                return Err(damaged(GROWTH, split.old, "an entry leads to no memory".to_owned()));
            }
            let fronts: Vec<_> =
                client.post(all(nodes.iter().map(|(node, _)| front(*node)))).await?.collect();
            for (&(number, entry), copy) in entries.iter().zip(fronts) {
                let Ok(copy) = copy.check(&()) else { unreachable!("words are whole") };
                let header = inner::Header::from_word(word(&copy, 0));
                let goes = match self.leads((entry, number, split.home), header, word(&copy, 2)) {
                    Leads::Nowhere => Goes::Out,
                    Leads::To(prefix) => match self.spot(prefix).upper(split.depth) {
                        upper if upper == split.upper => Goes::Stays,
                        upper if upper == split.upper | 1 => Goes::Over,
                        _ => Goes::Out,
                    },
                };
                if goes != Goes::Stays {
                    going.push((number, entry.word(), goes));
                }
            }
        }
        Ok(going)
    }

    /// Takes entries out of the old subtable; where another has just taken one out or replaced it, it is taken out of
    /// the image of the new one as well. Yields whether one was. [1 RT for each 64 entries]
    async fn take_out<F: Fabric>(
        &self,
        client: &Client<F>,
        split: &Split,
        going: &[(usize, u64, Goes)],
        image: &mut [u8],
    ) -> Result<bool, IndexError> {
        let mut corrected = false;
        for going in going.chunks(VERBS_PER_POST) {
            let emptied = going.iter().map(|&(number, word, _)| {
                let at: Remote<u64> = split.old.part(8 * number as u64);
                cas(at, word, 0)
            });
            let swapped: Vec<_> = client.post(all(emptied)).await?.collect();
            for (&(number, _, goes), swapped) in going.iter().zip(swapped) {
                if goes == Goes::Over && swapped != Swapped::Won {
                    client.fabric().mark(marks::MOVED_LATE);
                    image[8 * number..8 * number + 8].fill(0);
                    corrected = true;
                }
            }
        }
        Ok(corrected)
    }

    /// All words of a subtable. [1 RT]
    pub(super) async fn read_subtable<F: Fabric>(
        &self,
        client: &Client<F>,
        at: Remote<RawSubtable>,
    ) -> Result<Vec<u8>, IndexError> {
        let bytes = subtable_bytes(self.groups_log2);
        match client.post(read_bytes(at.part::<RawBuckets>(0), bytes)).await?.check(&self.number) {
            Ok(copy) => Ok(copy.to_vec()),
            Err(_) => Err(damaged(GROWTH, at, "it is no subtable of this index".to_owned())),
        }
    }

    /// Writes the headers of all buckets of a subtable. [1 RT for each 64 buckets]
    async fn write_headers<F: Fabric>(
        &self,
        client: &Client<F>,
        at: Remote<RawSubtable>,
        header: Header,
    ) -> Result<(), IndexError> {
        let word = header.word().to_le_bytes();
        let buckets: Vec<_> = (0..subtable_bytes(self.groups_log2) / BUCKET_BYTES).collect();
        for buckets in buckets.chunks(VERBS_PER_POST) {
            let headers = buckets.iter().map(|bucket| {
                let at: Remote<u64> = at.part((bucket * BUCKET_BYTES) as u64);
                write(at, &word)
            });
            client.post(all(headers)).await?.for_each(drop);
        }
        Ok(())
    }
}

/// A directory of which half a range was changed would lead astray. Hashes are spread so evenly that a range is a few
/// words.
fn check_survives<F: Fabric>(client: &Client<F>, bytes: usize) -> Result<(), IndexError> {
    match client.fabric().capabilities().missing(&[Capability::WriteSurvivesWriter(bytes)]) {
        None => Ok(()),
        Some(capability) => {
            Err(IndexError::Unsafe { capability, remedy: "over RDMA larger packets (MTU) help" })
        }
    }
}

/// The split that a spot's subtable, of that depth, is one half of, unless the other half was split again.
fn halves(directory: &Directory, spot: Spot, depth: u8) -> Option<Split> {
    if depth == 0 {
        return None;
    }
    let upper = spot.upper(depth) & !1;
    let at = |upper: u64| {
        let word = directory.words[directory.range(depth, upper).start];
        let subtable = Deep::<RawSubtable>::from_word(word).filter(|found| found.depth == depth);
        subtable.map(|subtable| subtable.at)
    };
    Some(Split { home: spot.home, old: at(upper)?, new: at(upper | 1)?, depth, upper })
}

/// The headers of a subtable's buckets.
fn headers(bytes: &[u8]) -> impl Iterator<Item = Header> {
    bytes.chunks_exact(BUCKET_BYTES).map(|bucket| Header::from_word(word(bucket, 0)))
}
