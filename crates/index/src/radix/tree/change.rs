//! Changes of one entry: put, insert, update, remove.

use super::fetch::{InnerCopy, LeafCopy};
use super::find::{Judged, Next, Place, Way, partial_at};
use super::options::{Inserts, LeafLock, Updates};
use super::split::Planted;
use super::{Change, Guide, Tree, marks};
use crate::error::IndexError;
use crate::lock::Held;
use crate::memory::overflow::Link;
use crate::radix::inner::slot_offset;
use crate::radix::leaf::{Class, Content, Entry, RawLeaf, State, WRITE_BACK};
use crate::radix::slot::{Child, Slot};
use crate::sabotage::Sabotage;
use farwood_fabric::{Chain as _, Client, Fabric, Remote, Swapped, cas, write};

/// What a leaf that is taken out leaves: a room of that version, and its value, if that lies out of line.
pub(crate) struct Left {
    pub(crate) version: u32,
    pub(crate) link: Option<Link>,
}

impl<G: Guide> Tree<G> {
    /// Stores `value` if `key` is absent; yields whether it was. [1 RT for a key that is there; else as
    /// the system's `put`]
    ///
    /// # Errors
    /// [`IndexError::BadSizes`] where key or value are too long; [`IndexError::LockHeld`]; the fabric's errors.
    pub async fn insert<F: Fabric>(
        &self,
        client: &Client<F>,
        key: &[u8],
        value: &[u8],
    ) -> Result<bool, IndexError> {
        Ok(!self.change(client, key, Change::Insert(value), "insert").await?)
    }

    /// Takes `key` out; yields whether it was there. [3 RT with a warm cache and one memory node; more where its node
    /// shrinks]
    ///
    /// # Errors
    /// [`IndexError::BadSizes`] where key or value are too long; [`IndexError::LockHeld`]; the fabric's errors.
    pub async fn remove<F: Fabric>(&self, client: &Client<F>, key: &[u8]) -> Result<bool, IndexError> {
        self.change(client, key, Change::Remove, "remove").await
    }

    /// Performs a change that is to leave `content` in the key's leaf; yields whether the key was there before.
    pub(crate) async fn change_to<F: Fabric>(
        &self,
        client: &Client<F>,
        key: &[u8],
        (change, content): (Change<'_>, Content<'_>),
        operation: &'static str,
    ) -> Result<bool, IndexError> {
        let entry = Entry { key, content };
        let mut way = Way::new(&self.notebooks, operation, key);
        loop {
            let place = self.locate(client, &mut way).await?;
            let done = match (place.next_leaf(), change) {
                (None, Change::Put(_) | Change::Insert(_)) => {
                    self.add(client, &place, entry, &mut way).await?
                }
                (None, Change::Update(_) | Change::Remove) => {
                    if self.misses(&place, &way) {
                        Some(false)
                    } else {
                        self.clear_up(client, &place.node, place.number(), &mut way).await?;
                        None
                    }
                }
                (Some(leaf), Change::Remove) => self.remove_leaf(client, &place, leaf, key, &mut way).await?,
                (Some(leaf), Change::Insert(_)) => {
                    self.insert_at_leaf(client, &place, leaf, entry, &mut way).await?
                }
                (Some(leaf), Change::Put(_) | Change::Update(_)) => {
                    self.change_leaf(client, &place, leaf, (change, entry), &mut way).await?
                }
            };
            if let Some(existed) = done {
                return Ok(existed);
            }
        }
    }

    /// Adds an entry where there is no leaf. `None`: to be tried again.
    async fn add<F: Fabric>(
        &self,
        client: &Client<F>,
        place: &Place,
        entry: Entry<'_>,
        way: &mut Way<'_>,
    ) -> Result<Option<bool>, IndexError> {
        let done = match place.next {
            Next::Open { number, slot } => self.plant(client, place, (number, slot), entry, way).await?,
            Next::Full { .. } => {
                self.make_room(client, place, way).await?;
                false
            }
            Next::Gap { number, slot, ref child, .. } => {
                self.split_prefix(client, place, (number, slot, child), entry, way).await?
            }
            Next::Leaf { .. } => unreachable!("there is no leaf"),
        };
        Ok(done.then_some(false))
    }

    /// Puts a new leaf into a slot without a child (SMART, "normal insert"). [1 RT; 2 where the leaf is on another
    /// memory node; 2 more where inserts take the node's lock]
    async fn plant<F: Fabric>(
        &self,
        client: &Client<F>,
        place: &Place,
        (number, slot): (usize, Slot),
        entry: Entry<'_>,
        way: &mut Way<'_>,
    ) -> Result<bool, IndexError> {
        if self.options.inserts == Inserts::LockFree {
            return self.plant_unlocked(client, place, (number, slot), entry, way).await;
        }
        let Some((held, _)) = self.lock_slot(client, place, number, way).await? else { return Ok(false) };
        let planted = self.plant_unlocked(client, place, (number, slot), entry, way).await;
        held.give_up().await?;
        planted
    }

    async fn plant_unlocked<F: Fabric>(
        &self,
        client: &Client<F>,
        place: &Place,
        (number, slot): (usize, Slot),
        entry: Entry<'_>,
        way: &mut Way<'_>,
    ) -> Result<bool, IndexError> {
        let node = &place.node;
        let planted =
            self.planted(client, (node.at, node.header.generation()), node.at.node(), entry).await?;
        let at = node.at.part(slot_offset(number));
        let partial = partial_at(entry.key, node.header.depth());
        let new = planted.slot(partial);
        let (to, bytes) = planted.first_write();
        let swapped = if to.node() == node.at.node() {
            client.post(write(to, bytes).then(cas(at, slot.word(), new.word()))).await?.1
        } else {
            client.post(write(to, bytes)).await?;
            client.post(cas(at, slot.word(), new.word())).await?
        };
        match swapped {
            Swapped::Won => {
                self.cache.learn(node.at, number, new);
                if let Some(link) = planted.link() {
                    client.post_detached(link);
                }
                Ok(true)
            }
            // What was found there may be another node's, which lies in this one's room and is not linked, or never
            // will be: a slot with a child does not say whose it is.
            Swapped::Lost(_) => {
                client.fabric().mark(marks::SLOT_LOST);
                self.take_back_leaf(planted);
                way.again(client).await?;
                self.renew(client, node, way).await?;
                Ok(false)
            }
        }
    }

    /// Gives a planted leaf's room back: no slot points to it.
    pub(crate) fn take_back_leaf(&self, planted: Planted) {
        self.heap.take_back(planted.into_room());
    }

    /// Inserts where there is a leaf, of this key or another.
    async fn insert_at_leaf<F: Fabric>(
        &self,
        client: &Client<F>,
        place: &Place,
        (number, at, class): (usize, Remote<RawLeaf>, Class),
        entry: Entry<'_>,
        way: &mut Way<'_>,
    ) -> Result<Option<bool>, IndexError> {
        let leaf = self.read_leaf(client, at, class, way.operation).await?;
        match self.judge(&leaf, place, entry.key, way) {
            Judged::Mine => Ok(Some(true)),
            Judged::Absent => {
                let done = self.split_leaf(client, place, (number, at, class), entry, way).await?;
                Ok(done.then_some(false))
            }
            Judged::Unclear => {
                self.clear_up(client, &place.node, number, way).await?;
                Ok(None)
            }
        }
    }

    /// Puts or updates where there is a leaf, of this key or another. [2 RT in place; out of place where the leaf
    /// is longer than a WRITE that survives its writer]
    async fn change_leaf<F: Fabric>(
        &self,
        client: &Client<F>,
        place: &Place,
        target: (usize, Remote<RawLeaf>, Class),
        (change, entry): (Change<'_>, Entry<'_>),
        way: &mut Way<'_>,
    ) -> Result<Option<bool>, IndexError> {
        let (number, at, class) = target;
        let (held, mut leaf) = self.lock_leaf(client, at, class, way.operation).await?;
        let judged = self.judge(&leaf, place, entry.key, way);
        // One that could be cut in two is written elsewhere, and then linked.
        let survives = leaf.survives_writer(client.fabric().capabilities().write_survives_writer_bytes_max);
        let in_place = self.options.updates == Updates::InPlace && leaf.has_room(&entry.content) && survives;
        if judged == Judged::Mine && in_place {
            let replaced = leaf.link();
            leaf.set_content(&entry.content);
            self.write_leaf(client, held, at, &leaf).await?;
            self.unlink(client, replaced).await;
            return Ok(Some(true));
        }
        held.give_up().await?;
        match judged {
            Judged::Mine => {
                let moved = self.move_leaf(client, place, target, entry, way).await?;
                Ok(moved.then_some(true))
            }
            Judged::Absent if matches!(change, Change::Update(_)) => Ok(Some(false)),
            Judged::Absent => Ok(self.split_leaf(client, place, target, entry, way).await?.then_some(false)),
            Judged::Unclear => {
                self.clear_up(client, &place.node, number, way).await?;
                Ok(None)
            }
        }
    }

    /// Writes a leaf back, and releases its lock. [1 RT; 2 where the lock comes free apart]
    pub(crate) async fn write_leaf<F: Fabric>(
        &self,
        client: &Client<F>,
        held: Held<'_, F>,
        at: Remote<RawLeaf>,
        leaf: &LeafCopy,
    ) -> Result<(), IndexError> {
        let to: Remote<[u8]> = at.part(WRITE_BACK);
        if self.sabotage == Some(Sabotage::UnlockFirst) {
            held.give_up().await?;
            return Ok(client.post(write(to, leaf.without_lock())).await?);
        }
        if self.options.leaf_lock == LeafLock::Apart {
            let written = client.post(write(to, leaf.without_lock())).await;
            held.give_up().await?;
            return Ok(written?);
        }
        let upward = client.fabric().capabilities().write_upward;
        let (written, local) = if upward {
            let local = held.release_within();
            (client.post(write(to, leaf.with_lock())).await, local)
        } else {
            let (unlock, local) = held.release();
            (client.post(write(to, leaf.without_lock()).then_maybe(unlock)).await.map(drop), local)
        };
        match written {
            Ok(()) => local.complete(),
            Err(_) => local.failed().await,
        }
        Ok(written?)
    }

    /// Removes where there is a leaf, of this key or another: marks the leaf under both locks, then empties the slot.
    /// [3 RT on one memory node]
    async fn remove_leaf<F: Fabric>(
        &self,
        client: &Client<F>,
        place: &Place,
        (number, at, class): (usize, Remote<RawLeaf>, Class),
        key: &[u8],
        way: &mut Way<'_>,
    ) -> Result<Option<bool>, IndexError> {
        let Some((held, copy)) = self.lock_slot(client, place, number, way).await? else { return Ok(None) };
        let marked = self.mark_removed(client, place, (at, class), key, way).await;
        let marked = match marked {
            Ok(Ok(marked)) => marked,
            Ok(Err(judged)) => {
                held.give_up().await?;
                if judged == Judged::Absent {
                    return Ok(Some(false));
                }
                self.clear_up(client, &place.node, number, way).await?;
                return Ok(None);
            }
            Err(error) => {
                held.give_up().await?;
                return Err(error);
            }
        };
        let (node, slot) = (&place.node, copy.slot(number));
        let vacant = Slot::vacant(slot.partial(), node.header.generation());
        let slot_at = node.at.part(slot_offset(number));
        let (unlock, local) = held.release();
        match client.post(cas(slot_at, slot.word(), vacant.word()).then_maybe(unlock)).await {
            Ok((swapped, _)) => {
                local.complete();
                if swapped == Swapped::Won {
                    self.free_leaf((at, class), marked.version);
                    self.unlink(client, marked.link).await;
                    self.cache.learn(node.at, number, vacant);
                }
            }
            Err(error) => {
                local.failed().await;
                return Err(error.into());
            }
        }
        self.relieve(client, place, &copy, way).await;
        Ok(Some(true))
    }

    /// Marks the leaf of `key` as removed, under its lock; yields what it leaves, or what the leaf says if it is not
    /// the key's. [2 RT]
    async fn mark_removed<F: Fabric>(
        &self,
        client: &Client<F>,
        place: &Place,
        (at, class): (Remote<RawLeaf>, Class),
        key: &[u8],
        way: &Way<'_>,
    ) -> Result<Result<Left, Judged>, IndexError> {
        let (held, mut leaf) = self.lock_leaf(client, at, class, way.operation).await?;
        match self.judge(&leaf, place, key, way) {
            Judged::Mine => {
                leaf.set_state(State::Removed);
                self.write_leaf(client, held, at, &leaf).await?;
                Ok(Ok(Left { version: leaf.version(), link: leaf.link() }))
            }
            judged => {
                held.give_up().await?;
                Ok(Err(judged))
            }
        }
    }

    /// Takes the lock of a place's node, if the node and its slot `number` are what they were. [1 RT]
    pub(crate) async fn lock_slot<'a, F: Fabric>(
        &'a self,
        client: &'a Client<F>,
        place: &Place,
        number: usize,
        way: &mut Way<'_>,
    ) -> Result<Option<(Held<'a, F>, InnerCopy)>, IndexError> {
        let node = &place.node;
        let (held, copy) = self.lock_inner(client, node.at, node.header.size(), way.operation).await?;
        let slot = copy.slot(number);
        let same = match place.next {
            Next::Leaf { at, class, .. } => slot.child() == Child::Leaf(at, class),
            Next::Open { slot: seen, .. } | Next::Gap { slot: seen, .. } => slot == seen,
            Next::Full { .. } => false,
        };
        if same && copy.header() == node.header && copy.reverse().is_linked() {
            return Ok(Some((held, copy)));
        }
        client.fabric().mark(marks::LOCKED_LATE);
        held.give_up().await?;
        way.forget();
        self.renew(client, node, way).await?;
        Ok(None)
    }
}
