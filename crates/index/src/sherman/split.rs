//! Splits: a new right sibling, then its separator in the parent, and at the top a new root (Sherman §4.5,
//! Figure 7 lines 18-38; Lehman and Yao).
//!
//! Between the write of the split node and that of its parent the tree is as valid as ever: what moved is found
//! through the sibling pointer. No lock is held across levels.

use super::Sherman;
use super::change::Locked;
use super::descend::{Copy, RESTARTS_MAX, Source};
use super::inner::Added;
use super::node::{Fences, Freed, LEVELS_MAX, Node, RawNode};
use super::options::WriteBack;
use crate::error::IndexError;
use crate::lock::{Attempt, Held};
use crate::marks;
use crate::memory::slot::Room;
use crate::op::Op;
use crate::retry::Retry;
use farwood_fabric::{Chain, Client, Fabric, Remote, Swapped, cas, write};

/// A node that was just split off, and is yet to be made known to the level above.
pub(super) struct Orphan {
    pub(super) lower: Vec<u8>,
    pub(super) at: Remote<RawNode>,
}

impl Orphan {
    /// Whether `node`, which lies where the orphan was, still is the orphan: it may have been entered in its parent
    /// and merged since, and its room used again.
    fn is(&self, node: &Copy<'_>, parent_level: u8) -> bool {
        !node.freed() && node.level() + 1 == parent_level && node.lower() == self.lower
    }
}

impl Sherman {
    /// Splits the full leaf at `at`, whose lock is held, places `entry`, and tells the parents.
    /// [after lock and read: 1 RT, 2 where the sibling lies on another memory node; then 3 per level]
    pub(super) async fn split_leaf<F: Fabric>(
        &self,
        client: &Client<F>,
        held: Held<'_, F>,
        at: Remote<RawNode>,
        mut leaf: Copy<'_>,
        (key, value): (&[u8], &[u8]),
    ) -> Result<(), IndexError> {
        let (sibling, room_lock) = match self.room_beside(client, &held).await {
            Ok(sibling) => sibling,
            Err(error) => {
                held.give_up().await?;
                return Err(error);
            }
        };
        let Ok(mut right) = leaf.split_leaf(sibling.at, key, value) else {
            unreachable!("every entry was whole when the leaf was found to be full")
        };
        let orphan = Orphan { lower: right.lower().to_vec(), at: sibling.at };
        leaf.seal();
        self.write_split(client, (held, room_lock), (at, leaf.bytes()), (&sibling, &mut right)).await?;
        // The entry is stored, and the sibling is found through its left neighbour: a parent that could not be
        // told, for want of memory or of its lock, costs later searches a step to the right until one tells it.
        self.try_adopt(client, orphan, 1).await;
        Ok(())
    }

    /// A room for a new sibling of the node whose lock is `held`, and the room's lock, where old pointers may lead to
    /// it and it has another. [0 RT; 1 for the lock; else as [`allocate`](Self::allocate)]
    async fn room_beside<'a, F: Fabric>(
        &'a self,
        client: &'a Client<F>,
        held: &Held<'a, F>,
    ) -> Result<(Room<RawNode>, Option<Held<'a, F>>), IndexError> {
        let room = self.node_room(client).await?;
        if room.version.is_none() {
            return Ok((room, None));
        }
        match Op::new(&self.locks, client, "split").try_acquire(room.at, std::slice::from_ref(held)).await {
            Ok(Attempt::Taken(lock)) => return Ok((room, Some(lock))),
            Ok(Attempt::Mine) => return Ok((room, None)),
            Ok(Attempt::Busy) => self.allocator.put_aside(room),
            Err(error) => {
                self.allocator.take_back(room);
                return Err(error);
            }
        }
        Ok((self.new_node_room(client).await?, None))
    }

    /// Writes a new sibling, then the node that it was split from, then releases the lock, in this order.
    async fn write_split<F: Fabric>(
        &self,
        client: &Client<F>,
        (held, room_lock): (Held<'_, F>, Option<Held<'_, F>>),
        (at, node): (Remote<RawNode>, &[u8]),
        (room, right): (&Room<RawNode>, &mut Node<'_, Vec<u8>>),
    ) -> Result<(), IndexError> {
        if room.version.is_some() {
            let written = self.write_in_used_room(client, (at, node), (room, right)).await;
            let mut freed = Ok(());
            for held in room_lock.into_iter().chain([held]) {
                freed = freed.and(held.give_up().await);
            }
            return written.and(freed);
        }
        let (sibling, right) = (room.at, &*right.seal_in(room));
        if at.node() != sibling.node() || self.options.write_back == WriteBack::Alone {
            if let Err(error) = client.post(write(sibling, right)).await {
                held.give_up().await?;
                return Err(error.into());
            }
            return self.write_back(client, held, (at.part(0), node), None).await;
        }
        let (unlock, local) = held.release();
        let written = client.post(write(sibling, right).then(write(at, node)).then_maybe(unlock)).await;
        self.released(local, written.map(drop), None).await
    }

    /// The same into a room that old pointers may lead to, whose lock is held as well: the sibling is marked as freed
    /// until it is linked, so that nobody takes it for a part of the tree before. Should the client die in between,
    /// whoever comes from the one to the other takes the mark away, as after a merge that was cut off. [3 RT]
    async fn write_in_used_room<F: Fabric>(
        &self,
        client: &Client<F>,
        (at, node): (Remote<RawNode>, &[u8]),
        (room, right): (&Room<RawNode>, &mut Node<'_, Vec<u8>>),
    ) -> Result<(), IndexError> {
        right.set_freed(Freed::Yes);
        client.post(write(room.at, &right.seal_in(room))).await?;
        client.post(write(at, node)).await?;
        client.fabric().mark(marks::LINKED_MARKED);
        right.set_freed(Freed::No);
        right.seal();
        Ok(client.post(write(room.at, right.bytes())).await?)
    }

    /// Enters a split-off node in its parent at `level`, if that can be done: only a shorter way is at stake.
    pub(super) async fn try_adopt<F: Fabric>(&self, client: &Client<F>, orphan: Orphan, level: u8) {
        if self.adopt(client, orphan, level).await.is_err() {
            client.fabric().mark(marks::NOT_ADOPTED);
        }
    }

    /// Enters a split-off node in its parent at `level`, splitting upwards as far as need be.
    pub(super) async fn adopt<F: Fabric>(
        &self,
        client: &Client<F>,
        orphan: Orphan,
        level: u8,
    ) -> Result<(), IndexError> {
        let mut next = Some((orphan, level));
        while let Some((orphan, level)) = next {
            assert!(level < LEVELS_MAX, "a tree of {LEVELS_MAX} levels does not fit any pool");
            next = self.adopt_at(client, orphan, level).await?.map(|orphan| (orphan, level + 1));
        }
        Ok(())
    }

    /// The same at one level; yields the parent's own new sibling where the parent had to be split.
    async fn adopt_at<F: Fabric>(
        &self,
        client: &Client<F>,
        orphan: Orphan,
        level: u8,
    ) -> Result<Option<Orphan>, IndexError> {
        let Some(Locked { held, at, mut node, beside }) = self.lock_parent(client, &orphan, level).await?
        else {
            return Ok(None);
        };
        if !beside.is_some_and(|child| orphan.is(&child, level)) {
            client.fabric().mark(marks::ORPHAN_GONE);
            held.give_up().await?;
            return Ok(None);
        }
        match node.add_child(&orphan.lower, orphan.at) {
            Added::Yes => {
                node.seal();
                self.write_back(client, held, (at.part(0), node.bytes()), None).await?;
                self.remember(at, &node);
                Ok(None)
            }
            Added::Already => {
                client.fabric().mark(marks::ADOPTED_BEFORE);
                held.give_up().await?;
                Ok(None)
            }
            Added::Full => self.split_inner(client, held, at, node, &orphan).await.map(Some),
        }
    }

    /// Locks the node of `level` that is to name an orphan, and reads both, or grows the tree over it (`None`).
    /// [2 RT where the parent is cached; as [`grow`](Self::grow)]
    async fn lock_parent<'a, F: Fabric>(
        &'a self,
        client: &'a Client<F>,
        orphan: &Orphan,
        level: u8,
    ) -> Result<Option<Locked<'a, F>>, IndexError> {
        let mut growths = Retry::new("split", RESTARTS_MAX);
        loop {
            if let Some(parent) = self.parent_at(client, &orphan.lower, level).await? {
                let way = (parent, Source::Cache);
                let key = (level, &*orphan.lower);
                let locked = self.lock_covering(client, way, key, Some(orphan.at), "split").await?;
                if locked.is_some() {
                    return Ok(locked);
                }
            } else if self.grow(client, orphan, level).await? {
                return Ok(None);
            }
            growths.again(client).await?;
        }
    }

    /// Where the node of `level` that covers `key` is: from the cache, if it is of level 1 and cached.
    pub(super) async fn parent_at<F: Fabric>(
        &self,
        client: &Client<F>,
        key: &[u8],
        level: u8,
    ) -> Result<Option<Remote<RawNode>>, IndexError> {
        match self.cached_parent(key).filter(|_| level == 1) {
            Some(parent) => Ok(Some(parent.at)),
            None => self.descend(client, key, level).await,
        }
    }

    async fn split_inner<F: Fabric>(
        &self,
        client: &Client<F>,
        held: Held<'_, F>,
        at: Remote<RawNode>,
        mut node: Copy<'_>,
        orphan: &Orphan,
    ) -> Result<Orphan, IndexError> {
        let (sibling, room_lock) = match self.room_beside(client, &held).await {
            Ok(sibling) => sibling,
            Err(error) => {
                held.give_up().await?;
                return Err(error);
            }
        };
        let mut right = node.split_inner(sibling.at);
        let added = if right.is_right_of(&orphan.lower) {
            node.add_child(&orphan.lower, orphan.at)
        } else {
            right.add_child(&orphan.lower, orphan.at)
        };
        assert_eq!(added, Added::Yes, "half a node has room");
        node.seal();
        self.write_split(client, (held, room_lock), (at, node.bytes()), (&sibling, &mut right)).await?;
        self.remember(at, &node);
        self.remember(sibling.at, &right);
        Ok(Orphan { lower: right.lower().to_vec(), at: sibling.at })
    }

    /// Gives the tree a new root at `level` over the old one and `orphan`, where that is still needed; `false`: the
    /// tree is that high already.
    ///
    /// Two clients that split at the old root's level may both come here; the old root's lock lets one of them be
    /// first, and the other finds a parent. Whatever the new root does not name is reached through sibling pointers:
    /// the root, old or new, is always the leftmost node of its level. [1 RT to find the old root, 3 to lock it and
    /// look, 2 to grow, 1 to unlock]
    async fn grow<F: Fabric>(
        &self,
        client: &Client<F>,
        orphan: &Orphan,
        level: u8,
    ) -> Result<bool, IndexError> {
        self.top.store(None);
        let old = self.root_word(client).await?;
        let held = self.locks.acquire(client, old, "split").await?;
        let grown = self.grow_over(client, old, orphan, level).await;
        held.give_up().await?;
        grown
    }

    /// The same over the node at `old`, which was the root, and whose lock is held. Without that lock nobody changes
    /// the root pointer.
    async fn grow_over<F: Fabric>(
        &self,
        client: &Client<F>,
        old: Remote<RawNode>,
        orphan: &Orphan,
        level: u8,
    ) -> Result<bool, IndexError> {
        if self.root_word(client).await? != old {
            client.fabric().mark(marks::ROOT_LOST);
            return Ok(false);
        }
        let (node, child) = self.read_both(client, old, orphan.at, "split").await?;
        if node.level() >= level || node.freed() {
            client.fabric().mark(marks::ROOT_THERE);
            return Ok(false);
        }
        if node.level() + 1 < level || !orphan.is(&child, level) {
            client.fabric().mark(marks::ORPHAN_GONE);
            return Ok(true);
        }
        let lowest = vec![0; self.layout.key_bytes];
        let mut root = Node::empty(&self.layout, level, Fences { lower: &lowest, upper: None }, None);
        root.set_leftmost(old);
        root.push_child(&orphan.lower, orphan.at);
        // A room is a root's once at most, so that the root pointer never has an old value again.
        let room = self.new_node_room(client).await?;
        client.post(write(room.at, &root.seal_in(&room))).await?;
        let swap = client.post(cas(self.entry.root(), old.word(), room.at.word())).await?;
        if swap != Swapped::Won {
            // The CAS of an operation that was dropped may land when its lock is free already.
            client.fabric().mark(marks::ROOT_LOST);
            self.allocator.take_back(room);
        }
        Ok(swap == Swapped::Won)
    }
}
