//! Nodes replaced: by a larger one when no slot is free, by a smaller one when few are in use, by their only child.
//!
//! Under the node's lock, in this order:
//!
//! 1. every slot without a child is *closed*, by a CAS each. Whoever was faster has put a leaf there, which is a child
//!    like the others. From now on nothing in the node changes: occupied slots need its lock;
//! 2. the new node is written;
//!
//! and under the parent's as well, which is not waited for:
//!
//! 3. the children's reverse pointers are set to it, a pointer that was about to be set by its inserter's own CAS
//!    included, whose CAS then fails; and the old header says *dead*;
//! 4. the parent's slot is swapped, and the new node is known to be linked.
//!
//! Who is cut off in the middle leaves a node that is full for everybody (1 and 2), so that the next insert replaces
//! it, or one of which some children name another (3), which are settled one by one, or a dead one that is still
//! linked, which is unclear to everybody, so that it is settled: replaced from step 1. Nothing is put into the new
//! node before it is linked, and the old one answers for it until it is dead.
//!
//! All nodes below one want its lock when they grow, and below the root these are many: so it is held for steps 3 and 4
//! only. Who waited for it with the node's lock in hand would wait for ever where both have one word, or a circle of
//! nodes has two; so it is tried for a while, and then the node is let go, closed, the parent's lock waited for, and
//! the node's tried.

use super::fetch::{InnerCopy, words};
use super::find::{Place, Way, damaged_slot};
use super::options::Rooms;
use super::split::{Grown, KeyBelow};
use super::{Event, Guide, Tree, marks};
use crate::error::IndexError;
use crate::lock::{Attempt, Held};
use crate::memory::heap::Kind;
use crate::memory::slot::Room;
use crate::op::Op;
use crate::radix::cache::cached_node::CachedNode;
use crate::radix::inner::{HEADER, Header, Inner, REVERSE, RawInner, Size, State, slot_offset, step_of};
use crate::radix::key::Step;
use crate::radix::leaf;
use crate::radix::reverse::Reverse;
use crate::radix::slot::{Child, Slot};
use farwood_fabric::{Client, Fabric, Remote, Swapped, all, cas, write};
use std::sync::Arc;

/// CASes of one doorbell, at most.
const CAS_PER_POST: usize = 64;
/// Attempts at the parent's lock while the node's is held.
const TRIES_MAX: usize = 500;
/// Pause behind each of them, nanoseconds.
const PAUSE: u64 = 2_000;
/// Attempts at a node, which may be linked elsewhere behind each.
const REBUILDS_MAX: usize = 8;

/// What came of an attempt to replace a node.
enum Replaced {
    /// It was.
    Done(Event),
    /// It is not there any more; or it is dead, and not where it was seen.
    Gone,
    /// It is there, but not where it was seen, or what lies below it was unclear.
    Unclear,
    /// The other of the two locks was taken all the time.
    Busy,
}

/// A node that is to be replaced, where it is linked, and what lies in it.
struct Leaving<'p> {
    /// The node above, and the slot in it, as it was: the copy's own may change meanwhile.
    parent: &'p CachedNode,
    number: usize,
    slot: Slot,
    at: Remote<RawInner>,
    node: InnerCopy,
}

impl Leaving<'_> {
    /// Where the node is linked, as [`Tree::grown`] wants it.
    fn link(&self) -> ((Remote<RawInner>, Header), u8) {
        ((self.parent.at, self.parent.header), self.slot.partial())
    }
}

/// What takes a node's place.
struct Successor {
    /// The parent's slot.
    slot: Slot,
    /// The new node, if it is one.
    node: Option<Grown>,
}

/// The mark of a replacement that was left half-way by who lives: behind a removal that was done, or for want of the
/// node's prefix. The next who comes by ends it. So rare that no swarm has to meet it, and so none of
/// [`MARKS`](super::MARKS).
const CUT_OFF: &str = "radix: a replacement that was cut off";

impl<G: Guide> Tree<G> {
    /// Replaces a place's node, which is not the root, by one with more room. [9 RT, more where others are in the way]
    pub(super) async fn make_room<F: Fabric>(
        &self,
        client: &Client<F>,
        place: &Place,
        way: &mut Way<'_>,
    ) -> Result<(), IndexError> {
        if !way.is_fresh(&place.node) {
            return self.renew(client, &place.node, way).await;
        }
        assert!(
            place.node.header.depth() > 0,
            "the root has a slot for every partial key, and is never closed"
        );
        self.is_rebuilt(client, place, (1, way)).await?;
        way.again(client).await
    }

    /// Replaces a place's node by a smaller one, by its only child, or by nothing, if a removal left it so. Whatever
    /// becomes of it, the removal is done.
    pub(super) async fn relieve<F: Fabric>(
        &self,
        client: &Client<F>,
        place: &Place,
        before: &InnerCopy,
        way: &mut Way<'_>,
    ) {
        let size = before.header().size();
        let left = before.slots().filter(|slot| slot.is_occupied()).count() - 1;
        let enough = match (self.options.rooms, size) {
            (Rooms::Preallocated, _) | (_, Size::Four) => 1,
            (_, Size::Sixteen) => 3,
            (_, Size::FortyEight) => 12,
            (_, Size::All) => 36,
        };
        let is_root = place.node.header.depth() == 0;
        if left <= enough && !is_root && !self.is_rebuilt(client, place, (0, way)).await.unwrap_or(false) {
            client.fabric().mark(CUT_OFF);
        }
    }

    /// Replaces a place's node by what fits its children and `spare` more, wherever it is linked meanwhile; yields
    /// whether it is not there any more.
    async fn is_rebuilt<F: Fabric>(
        &self,
        client: &Client<F>,
        place: &Place,
        (spare, way): (usize, &mut Way<'_>),
    ) -> Result<bool, IndexError> {
        let (at, header) = (place.node.at, place.node.header);
        let mut parent = place.parent.clone();
        for _ in 0..REBUILDS_MAX {
            if parent.is_none() {
                way.begin_above(header.depth());
                let again = self.locate(client, way).await?;
                if again.node.at != at {
                    return Ok(true);
                }
                parent = again.parent;
            }
            // Where something on the way was unclear, the guide may have led past the parent again.
            let Some((above, number)) = parent.take() else { continue };
            if self.rebuild(client, (&above, number), (at, header), (spare, way)).await? {
                return Ok(true);
            }
            way.again(client).await?;
        }
        Ok(false)
    }

    /// Replaces the node at `at`, that slot `number` of `parent` points to, by one that fits its children and `spare`
    /// more; where the parent's lock is taken for long, waits for that. Yields whether the node is not there any more:
    /// else it may be left closed.
    pub(super) async fn rebuild<F: Fabric>(
        &self,
        client: &Client<F>,
        (parent, number): (&Arc<CachedNode>, usize),
        (at, header): (Remote<RawInner>, Header),
        (spare, way): (usize, &Way<'_>),
    ) -> Result<bool, IndexError> {
        let (held, node) = self.lock_inner(client, at, header.size(), way.operation).await?;
        let leaving = Leaving { parent, number, slot: parent.slot(number), at, node };
        let replaced = self.replace(client, (&leaving, header, Some(&held)), (spare, way)).await;
        held.give_up().await?;
        let replaced = match replaced? {
            Replaced::Busy => {
                client.fabric().mark(marks::REBUILD_BUSY);
                self.replace_below(client, (parent, number), (at, header), (spare, way)).await?
            }
            replaced => replaced,
        };
        let is_settled = matches!(replaced, Replaced::Done(_) | Replaced::Gone);
        match replaced {
            Replaced::Done(event) => G::changed(self, client, event).await,
            Replaced::Gone | Replaced::Unclear | Replaced::Busy => self.cache.remove(parent.at),
        }
        Ok(is_settled)
    }

    /// As [`rebuild`](Self::rebuild), for who has found the parent's lock taken for long, and so waits for that first.
    async fn replace_below<F: Fabric>(
        &self,
        client: &Client<F>,
        (parent, number): (&Arc<CachedNode>, usize),
        (at, header): (Remote<RawInner>, Header),
        (spare, way): (usize, &Way<'_>),
    ) -> Result<Replaced, IndexError> {
        let above = Op::new(&self.nodes, client, way.operation).acquire(parent.at).await?;
        let own = match Op::new(&self.nodes, client, way.operation)
            .try_acquire(at, std::slice::from_ref(&above))
            .await
        {
            Ok(Attempt::Taken(own)) => Some(own),
            Ok(Attempt::Mine) => None,
            busy_or_error => {
                above.give_up().await?;
                return busy_or_error.map(|_| Replaced::Busy);
            }
        };
        let replaced = match self.read_inner(client, at, header.size(), way.operation).await {
            Ok(node) => {
                let leaving = Leaving { parent, number, slot: parent.slot(number), at, node };
                self.replace(client, (&leaving, header, None), (spare, way)).await
            }
            Err(error) => Err(error),
        };
        let released = match own {
            Some(own) => own.give_up().await,
            None => Ok(()),
        };
        above.give_up().await?;
        released?;
        replaced
    }

    /// The part of [`rebuild`](Self::rebuild) under the node's lock, which is `own`; `None`: under the parent's as
    /// well.
    async fn replace<F: Fabric>(
        &self,
        client: &Client<F>,
        (leaving, header, own): (&Leaving<'_>, Header, Option<&Held<'_, F>>),
        (spare, way): (usize, &Way<'_>),
    ) -> Result<Replaced, IndexError> {
        let Leaving { at, node, .. } = leaving;
        if node.header().with_state(State::Live) != header.with_state(State::Live) {
            client.fabric().mark(marks::LOCKED_LATE);
            return Ok(Replaced::Gone);
        }
        if leaving.slot.child() != Child::Inner(*at, header.size()) {
            return Ok(Replaced::Unclear);
        }
        let is_dead = node.header().state() == Some(State::Dead);
        if is_dead {
            // Most that are dead have been replaced, and another node may lie there by now.
            let linked = self.is_linked(client, leaving).await?;
            if !linked || words(client, [at.part(HEADER)].into_iter()).await?[0] != node.header().word() {
                return Ok(Replaced::Gone);
            }
            client.fabric().mark(marks::REBUILD_RESUMED);
        }
        // Before anything changes, for it may be unclear. One child, or none, takes the node's place without.
        let many = node.slots().filter(|slot| slot.is_occupied()).count() > 1;
        let prefix = match self.prefix_of(client, (*at, node), way).await? {
            KeyBelow::Key(prefix) => Some(prefix),
            KeyBelow::Unclear(..) if many && !is_dead => return Ok(Replaced::Unclear),
            KeyBelow::None | KeyBelow::Unclear(..) => None,
        };
        let children = self.close_slots(client, *at, node).await?;
        let Some(successor) = self.successor(client, leaving, (&children, prefix.as_deref()), spare).await?
        else {
            client.fabric().mark(CUT_OFF);
            return Ok(Replaced::Unclear);
        };
        let above = match self.lock_above(client, leaving, own).await {
            Ok(Attempt::Taken(above)) => Some(above),
            Ok(Attempt::Mine) => None,
            busy_or_error => {
                self.leave_closed(client, successor);
                return busy_or_error.map(|_| Replaced::Busy);
            }
        };
        let event = match self.is_linked(client, leaving).await {
            Ok(true) => self.put_in_place(client, leaving, (&children, &successor)).await,
            elsewhere_or_error => {
                self.leave_closed(client, successor);
                elsewhere_or_error.map(|_| None)
            }
        };
        if let Some(above) = above {
            above.give_up().await?;
        }
        Ok(event?.map_or(Replaced::Unclear, Replaced::Done))
    }

    /// Tries to take the parent's lock for a while, for who has the node's, `own`; `None`: and the parent's.
    async fn lock_above<'a, F: Fabric>(
        &'a self,
        client: &'a Client<F>,
        leaving: &Leaving<'_>,
        own: Option<&Held<'a, F>>,
    ) -> Result<Attempt<'a, F>, IndexError> {
        let Some(own) = own else { return Ok(Attempt::Mine) };
        for _ in 0..TRIES_MAX {
            let attempt = Op::new(&self.nodes, client, "replace")
                .try_acquire(leaving.parent.at, std::slice::from_ref(own))
                .await?;
            if !matches!(attempt, Attempt::Busy) {
                return Ok(attempt);
            }
            client.fabric().sleep(PAUSE).await;
        }
        Ok(Attempt::Busy)
    }

    /// Gives the room back of a new node that nothing points to.
    fn leave_closed<F: Fabric>(&self, client: &Client<F>, successor: Successor) {
        client.fabric().mark(marks::LEFT_CLOSED);
        if let Some(new) = successor.node {
            self.heap.take_back(new.into_room());
        }
    }

    /// Whether a node is linked where it was seen. [1 RT]
    async fn is_linked<F: Fabric>(
        &self,
        client: &Client<F>,
        leaving: &Leaving<'_>,
    ) -> Result<bool, IndexError> {
        let Leaving { parent, number, slot, .. } = leaving;
        let places = [HEADER, REVERSE, slot_offset(*number)].map(|offset| parent.at.part::<u64>(offset));
        let words = words(client, places.into_iter()).await?;
        Ok(parent.header.state() == Some(State::Live)
            && Header::from_word(words[0]) == parent.header
            && Reverse::from_word(words[1]).is_linked()
            && Slot::from_word(words[2]) == *slot)
    }

    /// Steps 3 and 4, under the parent's lock as well; yields what became of the node.
    async fn put_in_place<F: Fabric>(
        &self,
        client: &Client<F>,
        leaving: &Leaving<'_>,
        (children, successor): (&[(Step, Slot)], &Successor),
    ) -> Result<Option<Event>, IndexError> {
        self.turn_children(client, leaving, children, successor).await?;
        let swap = cas(
            leaving.parent.at.part(slot_offset(leaving.number)),
            leaving.slot.word(),
            successor.slot.word(),
        );
        let swapped = client.post(swap).await?;
        if swapped != Swapped::Won {
            return Ok(None);
        }
        if let Some(link) = successor.node.as_ref().and_then(Grown::link) {
            client.post_detached(link);
        }
        Ok(Some(self.replaced(leaving, successor)))
    }

    /// Notes that a node was replaced, and takes its room back; yields what became of it.
    fn replaced(&self, leaving: &Leaving<'_>, successor: &Successor) -> Event {
        let Leaving { parent, number, at, node, .. } = leaving;
        self.cache.remove(*at);
        self.cache.learn(parent.at, *number, successor.slot);
        let header = node.header();
        let kind = Kind::Inner.rooms(header.size().bytes());
        self.heap.take_back(Room { at: *at, version: Some(header.generation()), kind });
        let before = self.sign(*at, node);
        match &successor.node {
            None => Event::Gone(before),
            Some(new) => {
                let copy = Inner::new(&new.image[..]);
                self.cache.put(new.room.at, &copy);
                Event::Replaced(before, self.sign(new.room.at, &copy))
            }
        }
    }

    /// Closes all slots of a node that have no child; yields its children. [1 RT for each 64 slots]
    async fn close_slots<F: Fabric>(
        &self,
        client: &Client<F>,
        at: Remote<RawInner>,
        node: &InnerCopy,
    ) -> Result<Vec<(Step, Slot)>, IndexError> {
        let mut slots: Vec<Slot> = node.slots().collect();
        let mut open: Vec<usize> = (0..slots.len()).filter(|&number| slots[number].is_open()).collect();
        while !open.is_empty() {
            let now = open.split_off(open.len().saturating_sub(CAS_PER_POST));
            let closing = now.iter().map(|&number| {
                cas(at.part(slot_offset(number)), slots[number].word(), slots[number].closed().word())
            });
            let swapped: Vec<_> = client.post(all(closing)).await?.collect();
            for (number, swapped) in now.into_iter().zip(swapped) {
                slots[number] = match swapped {
                    Swapped::Won => slots[number].closed(),
                    Swapped::Lost(found) => Slot::from_word(found),
                };
                if slots[number].is_open() {
                    open.push(number);
                }
            }
        }
        if let Some(number) = slots.iter().position(|slot| slot.child() == Child::Damaged) {
            return Err(damaged_slot("rebuild", at, number));
        }
        let mut children: Vec<_> = (0..)
            .zip(slots)
            .filter(|(_, slot)| slot.is_occupied())
            .map(|(number, slot)| (step_of(number, slot), slot))
            .collect();
        children.sort_unstable_by_key(|(step, _)| *step);
        Ok(children)
    }

    /// What all keys below a node begin with. [0 RT where the way's key is below it; else those of a search for one]
    async fn prefix_of<F: Fabric>(
        &self,
        client: &Client<F>,
        (at, node): (Remote<RawInner>, &InnerCopy),
        way: &Way<'_>,
    ) -> Result<KeyBelow, IndexError> {
        let mut found = if node.covers(way.key, self.number) {
            KeyBelow::Key(way.key.to_vec())
        } else {
            self.key_below(client, &CachedNode::copy(at, node), way.operation).await?
        };
        if let KeyBelow::Key(key) = &mut found {
            key.truncate(node.header().depth());
        }
        Ok(found)
    }

    /// What takes the place of a node with those children, written but not linked. `None`: its prefix is not known.
    async fn successor<F: Fabric>(
        &self,
        client: &Client<F>,
        leaving: &Leaving<'_>,
        (children, prefix): (&[(Step, Slot)], Option<&[u8]>),
        spare: usize,
    ) -> Result<Option<Successor>, IndexError> {
        let link @ ((_, above), partial) = leaving.link();
        match children {
            [] => {
                client.fabric().mark(marks::COLLAPSED);
                let slot = Slot::vacant(partial, above.generation());
                return Ok(Some(Successor { slot, node: None }));
            }
            [(_, child)] => {
                client.fabric().mark(marks::COLLAPSED);
                return Ok(Some(Successor { slot: child.under(partial), node: None }));
            }
            _ => {}
        }
        // Children that came when it was too late to ask: who comes by next ends it.
        let Some(prefix) = prefix else { return Ok(None) };
        let partials = children.iter().filter(|(step, _)| *step != Step::End).count();
        let size = self.size_for(partials + spare);
        client.fabric().mark(if size < leaving.node.header().size() { marks::SHRANK } else { marks::GREW });
        let mut new = self.grown(client, link, (leaving.at.node(), size), prefix).await?;
        self.settle_children(&mut new, prefix, children);
        client.post(write(new.room.at, &new.image)).await?;
        Ok(Some(Successor { slot: Slot::inner(partial, new.room.at, new.size), node: Some(new) }))
    }

    /// Sets the children's reverse pointers to what they will be linked in, and says that their node is dead. [1 RT for
    /// each 64 children; more where one was just being set]
    async fn turn_children<F: Fabric>(
        &self,
        client: &Client<F>,
        leaving: &Leaving<'_>,
        children: &[(Step, Slot)],
        successor: &Successor,
    ) -> Result<(), IndexError> {
        let Leaving { at, node, .. } = leaving;
        let (header, generation) = (node.header(), node.header().generation());
        let ((parent, above), partial) = leaving.link();
        let (to, to_generation) = match &successor.node {
            Some(node) => (node.room.at, node.generation()),
            None => (parent, above.generation()),
        };
        let dead = header.with_state(State::Dead);
        let mut turns = vec![(at.part::<u64>(HEADER), header.with_state(State::Live).word(), dead.word())];
        for (_, slot) in children {
            let under = if successor.node.is_some() { slot.partial() } else { partial };
            let (reverse, from, to) = match slot.child() {
                Child::Leaf(leaf, _) => (
                    leaf.part::<u64>(leaf::REVERSE),
                    Reverse::of_leaf(*at, generation),
                    Reverse::of_leaf(to, to_generation),
                ),
                Child::Inner(node, _) => (
                    node.part::<u64>(REVERSE),
                    Reverse::of_inner(*at, generation, slot.partial()),
                    Reverse::of_inner(to, to_generation, under),
                ),
                _ => unreachable!("a child is a leaf or a node"),
            };
            turns.push((reverse, from.word(), to.word()));
        }
        while !turns.is_empty() {
            let now = turns.split_off(turns.len().saturating_sub(CAS_PER_POST));
            let cases = now.iter().map(|&(at, from, to)| cas(at, from, to));
            let swapped: Vec<_> = client.post(all(cases)).await?.collect();
            for ((at, _, to), swapped) in now.into_iter().zip(swapped) {
                if let Swapped::Lost(found) = swapped
                    && found != to
                {
                    turns.push((at, found, to));
                }
            }
        }
        Ok(())
    }
}
