//! Nodes replaced: by a larger one when no slot is free, by a smaller one when few are in use, by their only child.
//!
//! Under the locks of the node and of its parent, in this order:
//!
//! 1. every slot without a child is *closed*, by a CAS each. Whoever was faster has put a leaf there, which is a child
//!    like the others. From now on nothing in the node changes: occupied slots need its lock;
//! 2. the new node is written;
//! 3. the children's reverse pointers are set to it, a pointer that was about to be set by its inserter's own CAS
//!    included, whose CAS then fails;
//! 4. the old header says *dead*;
//! 5. the parent's slot is swapped, and the new node is known to be linked.
//!
//! Who is cut off in the middle leaves a node that is full for everybody (1 to 3), so that the next insert replaces
//! it, or a dead one that is still linked (4), which is unclear to everybody, so that it is settled: replaced from
//! step 1. Nothing is put into the new node before it is linked, and the old one answers for it until it is dead.

use super::descend::{Place, Way};
use super::fetch::InnerCopy;
use super::options::Rooms;
use super::split::{Grown, KeyBelow};
use super::{Event, Guide, Tree, marks};
use crate::error::IndexError;
use crate::lock::Attempt;
use crate::radix::cached::CachedNode;
use crate::radix::heap::Kind;
use crate::radix::inner::{HEADER, Header, Inner, REVERSE, RawInner, Size, State, slot_offset};
use crate::radix::key::Step;
use crate::radix::leaf;
use crate::radix::reverse::Reverse;
use crate::radix::slot::{Child, Slot};
use crate::reclaim::Room;
use farwood_fabric::{Chain as _, Client, Fabric, Remote, Swapped, all, cas, write};
use std::sync::Arc;

/// CASes of one doorbell, at most.
const CAS_PER_POST: usize = 64;

/// What came of an attempt to replace a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rebuilt {
    /// It was replaced, or was not where it was to be.
    Tried,
    /// Its lock was taken.
    Busy,
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
        let Some((parent, number)) = &place.parent else {
            let depth = place.node.header.depth();
            assert!(depth > 0, "the root has a slot for every partial key, and is never closed");
            way.begin_above(depth);
            return Ok(());
        };
        let node = (place.node.at, place.node.header.size());
        if self.rebuild(client, (parent, *number), node, (1, way)).await? == Rebuilt::Busy {
            self.wait_for(client, node.0, way.operation).await?;
        }
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
        if left <= enough
            && let Ok(Some((parent, number))) = self.parent_of(client, place, way).await
        {
            let node = (place.node.at, size);
            if self.rebuild(client, (&parent, number), node, (0, way)).await.is_err() {
                client.fabric().mark(CUT_OFF);
            }
        }
    }

    /// The node above a place's, and the slot in it; `None` for the root, and where it is not there any more.
    /// [0 RT; where the guide led past it, those of a search]
    async fn parent_of<F: Fabric>(
        &self,
        client: &Client<F>,
        place: &Place,
        way: &mut Way<'_>,
    ) -> Result<Option<(Arc<CachedNode>, usize)>, IndexError> {
        let depth = place.node.header.depth();
        if place.parent.is_some() || depth == 0 {
            return Ok(place.parent.clone());
        }
        way.begin_above(depth);
        let again = self.locate(client, way.key, way).await?;
        Ok(again.parent.filter(|_| again.node.at == place.node.at))
    }

    /// Replaces the node at `at`, that slot `number` of `parent` points to, by one that fits its children and `spare`
    /// more. Does nothing where it is not there any more, or where it would have to wait.
    pub(super) async fn rebuild<F: Fabric>(
        &self,
        client: &Client<F>,
        (parent, number): (&Arc<CachedNode>, usize),
        (at, size): (Remote<RawInner>, Size),
        (spare, way): (usize, &Way<'_>),
    ) -> Result<Rebuilt, IndexError> {
        let (held, above) = self.lock_inner(client, parent.at, parent.header.size(), way.operation).await?;
        let linked = above.header() == parent.header
            && above.reverse().is_linked()
            && above.slot(number).child() == Child::Inner(at, size);
        if !linked {
            client.fabric().mark(marks::LOCKED_LATE);
            self.cache.remove(parent.at);
            held.give_up().await?;
            return Ok(Rebuilt::Tried);
        }
        let attempt = match self.nodes.try_acquire(client, at, std::slice::from_ref(&held)).await {
            Ok(attempt) => attempt,
            Err(error) => {
                held.give_up().await?;
                return Err(error);
            }
        };
        let inner = match attempt {
            Attempt::Taken(inner) => Some(inner),
            Attempt::Mine => None,
            Attempt::Busy => {
                client.fabric().mark(marks::REBUILD_BUSY);
                held.give_up().await?;
                return Ok(Rebuilt::Busy);
            }
        };
        let replaced = self.replace(client, (parent, number, &above), (at, size), (spare, way)).await;
        let released = match inner {
            Some(inner) => inner.give_up().await,
            None => Ok(()),
        };
        held.give_up().await?;
        released?;
        if let Some(event) = replaced? {
            G::changed(self, client, event).await;
        }
        Ok(Rebuilt::Tried)
    }

    /// Waits until the lock of a node comes free, and takes it from a dead holder if need be: who has its parent's lock
    /// does not wait for it. [2 RT]
    pub(super) async fn wait_for<F: Fabric>(
        &self,
        client: &Client<F>,
        at: Remote<RawInner>,
        operation: &'static str,
    ) -> Result<(), IndexError> {
        self.nodes.acquire(client, at, operation).await?.give_up().await
    }

    /// The part of [`rebuild`](Self::rebuild) under both locks; yields what became of the node.
    async fn replace<F: Fabric>(
        &self,
        client: &Client<F>,
        (parent, number, above): (&Arc<CachedNode>, usize, &InnerCopy),
        (at, size): (Remote<RawInner>, Size),
        (spare, way): (usize, &Way<'_>),
    ) -> Result<Option<Event>, IndexError> {
        let node = self.read_inner(client, at, size, way.operation).await?;
        let header = node.header();
        if header.state() == Some(State::Dead) {
            client.fabric().mark(marks::REBUILD_RESUMED);
        }
        // Before anything changes, for it may be unclear. One child, or none, takes the node's place without.
        let many = node.slots().filter(|slot| slot.is_occupied()).count() > 1;
        let prefix = match self.prefix_of(client, (at, &node), way).await? {
            KeyBelow::Key(prefix) => Some(prefix),
            KeyBelow::Unclear(..) if many && header.state() == Some(State::Live) => return Ok(None),
            KeyBelow::None | KeyBelow::Unclear(..) => None,
        };
        let children = self.close_slots(client, at, &node).await?;
        let slot = above.slot(number);
        let link = ((parent.at, parent.header), slot.partial());
        let Some(successor) =
            self.successor(client, link, (at, &node), (&children, prefix.as_deref()), spare).await?
        else {
            client.fabric().mark(CUT_OFF);
            return Ok(None);
        };
        self.turn_children(client, (at, header.generation()), &children, link, &successor).await?;
        let dead = cas(
            at.part(HEADER),
            header.with_state(State::Live).word(),
            header.with_state(State::Dead).word(),
        );
        let swap = cas(parent.at.part(slot_offset(number)), slot.word(), successor.slot.word());
        let swapped = if parent.at.node() == at.node() {
            client.post(dead.then(swap)).await?.1
        } else {
            let _ = client.post(dead).await?;
            client.post(swap).await?
        };
        self.link_all(client, [successor.node.as_ref().and_then(Grown::link)]).await?;
        self.cache.remove(at);
        if swapped != Swapped::Won {
            return Ok(None);
        }
        self.cache.learn(parent.at, number, successor.slot);
        let kind = Kind::Inner.rooms(size.bytes());
        let room = Room { at, version: Some(header.generation()), kind };
        self.heap.take_back(room);
        let before = self.sign(at, &node);
        Ok(Some(match &successor.node {
            None => Event::Gone(before),
            Some(new) => {
                let copy = Inner::new(&new.image[..]);
                self.cache.put(new.room.at, &copy);
                Event::Replaced(before, self.sign(new.room.at, &copy))
            }
        }))
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
        let step = |number, slot: Slot| if number == 0 { Step::End } else { Step::Byte(slot.partial()) };
        let mut children: Vec<_> = (0..)
            .zip(slots)
            .filter(|(_, slot)| slot.is_occupied())
            .map(|(number, slot)| (step(number, slot), slot))
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
        link: ((Remote<RawInner>, Header), u8),
        (at, node): (Remote<RawInner>, &InnerCopy),
        (children, prefix): (&[(Step, Slot)], Option<&[u8]>),
        spare: usize,
    ) -> Result<Option<Successor>, IndexError> {
        let ((_, above), partial) = link;
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
        client.fabric().mark(if size < node.header().size() { marks::SHRANK } else { marks::GREW });
        let mut new = self.grown(client, link, (at.node(), size), prefix).await?;
        self.settle_children(&mut new, prefix, children);
        client.post(write(new.room.at, &new.image)).await?;
        Ok(Some(Successor { slot: Slot::inner(partial, new.room.at, new.size), node: Some(new) }))
    }

    /// Sets the children's reverse pointers to what they will be linked in. [1 RT for each 64 children; more where one
    /// was just being set]
    async fn turn_children<F: Fabric>(
        &self,
        client: &Client<F>,
        (at, generation): (Remote<RawInner>, u32),
        children: &[(Step, Slot)],
        (parent, partial): ((Remote<RawInner>, Header), u8),
        successor: &Successor,
    ) -> Result<(), IndexError> {
        let (to, to_generation) = match &successor.node {
            Some(node) => (node.room.at, node.generation()),
            None => (parent.0, parent.1.generation()),
        };
        let mut turns = Vec::new();
        for (_, slot) in children {
            let under = if successor.node.is_some() { slot.partial() } else { partial };
            turns.push(match slot.child() {
                Child::Leaf(leaf, _) => (
                    leaf.part::<u64>(leaf::REVERSE),
                    Reverse::of_leaf(at, generation),
                    Reverse::of_leaf(to, to_generation),
                ),
                Child::Inner(node, _) => (
                    node.part::<u64>(REVERSE),
                    Reverse::of_inner(at, generation, slot.partial()),
                    Reverse::of_inner(to, to_generation, under),
                ),
                _ => unreachable!("a child is a leaf or a node"),
            });
        }
        while !turns.is_empty() {
            let now = turns.split_off(turns.len().saturating_sub(CAS_PER_POST));
            let cases = now.iter().map(|(at, from, to)| cas(*at, from.word(), to.word()));
            let swapped: Vec<_> = client.post(all(cases)).await?.collect();
            for ((at, _, to), swapped) in now.into_iter().zip(swapped) {
                if let Swapped::Lost(found) = swapped
                    && found != to.word()
                {
                    turns.push((at, Reverse::from_word(found), to));
                }
            }
        }
        Ok(())
    }
}
