//! New nodes between others: leaf split, prefix split, and leaves that move.

use super::change::Left;
use super::find::{Place, Way, damaged, damaged_slot, partial_at};
use super::options::Rooms;
use super::{Event, Guide, Sign, Tree, marks};
use crate::error::IndexError;
use crate::lock::Held;
use crate::memory::heap::Kind;
use crate::memory::slot::Room;
use crate::radix::cache::cached_node::CachedNode;
use crate::radix::inner::{self, Header, Inner, RawInner, Size, State, slot_offset};
use crate::radix::key::{Step, common_prefix, step_at};
use crate::radix::leaf::{self, Class, Entry, Leaf, RawLeaf};
use crate::radix::prefix::PrefixHash;
use crate::radix::reverse::Reverse;
use crate::radix::slot::{Child, Slot};
use farwood_fabric::{Cas, Chain as _, Client, Fabric, NodeId, Parallel as _, Remote, Swapped, cas, write};
use std::ops::Deref;
use std::sync::Arc;

/// A leaf on its way into the tree.
pub(crate) struct Planted {
    class: Class,
    room: Room<RawLeaf>,
    image: Leaf<Vec<u8>>,
    /// What its reverse pointer is once it is linked.
    linked: Reverse,
}

impl Planted {
    /// The slot that points to it.
    pub(crate) fn slot(&self, partial: u8) -> Slot {
        Slot::leaf(partial, self.room.at, self.class)
    }

    /// Where its bytes go, and they. A used room's lock is left alone.
    pub(crate) fn first_write(&self) -> (Remote<[u8]>, &[u8]) {
        let bytes = if self.room.is_used() { self.image.first_write() } else { self.image.bytes() };
        (self.room.at.part(0), bytes)
    }

    /// The CAS by which it is known to be linked, where that takes one.
    pub(crate) fn link(&self) -> Option<Cas> {
        link(&self.room, (leaf::REVERSE, self.linked))
    }

    /// Its room, empty again.
    pub(crate) fn into_room(self) -> Room<RawLeaf> {
        emptied(self.room)
    }
}

/// A room of what was written and is not linked. Where nothing lay before, no pointer leads there.
fn emptied<T>(Room { at, version, kind }: Room<T>) -> Room<T> {
    Room { at, version: version.map(|version| version.wrapping_add(1)), kind }
}

/// The CAS by which what lies in a used room is known to be linked.
fn link<T>(room: &Room<T>, (offset, linked): (u64, Reverse)) -> Option<Cas> {
    let before = Reverse::unlinked(room.next_version());
    room.is_used().then(|| cas(room.at.part(offset), before.word(), linked.word()))
}

/// An inner node on its way into the tree.
pub(crate) struct Grown {
    pub(crate) size: Size,
    pub(crate) room: Room<RawInner>,
    pub(crate) image: Vec<u8>,
    linked: Reverse,
}

impl Grown {
    /// The CAS by which it is known to be linked, where that takes one.
    pub(crate) fn link(&self) -> Option<Cas> {
        link(&self.room, (inner::REVERSE, self.linked))
    }

    pub(crate) fn generation(&self) -> u32 {
        self.room.next_version()
    }

    /// Its room, empty again.
    pub(crate) fn into_room(self) -> Room<RawInner> {
        emptied(self.room)
    }
}

/// A new inner node with two children, one of them new, that takes the other's place.
struct Fork {
    node: Grown,
    leaf: Planted,
    /// The reverse pointer of the child that was there, as it is and as it will be.
    child: (Remote<u64>, Reverse, Reverse),
}

/// The slots of a node with children, the first one last.
fn slots_of(node: &Arc<CachedNode>) -> Vec<(Arc<CachedNode>, usize)> {
    let occupied = |number: &usize| node.slot(*number).is_occupied();
    (0..=node.header.size().slots()).rev().filter(occupied).map(|number| (Arc::clone(node), number)).collect()
}

/// What was found of the keys below a node.
pub(crate) enum KeyBelow {
    /// One of them.
    Key(Vec<u8>),
    /// There is none.
    None,
    /// None was found, but this slot of this node led to what is not linked there, or not any more: what was read is
    /// out of date, or somebody died before it was settled.
    Unclear(Arc<CachedNode>, usize),
}

impl<G: Guide> Tree<G> {
    /// A leaf for `entry`, to be linked in the node `parent` of that generation.
    /// [0 RT; as in [`Heap::allocate`](crate::memory::heap::Heap::allocate)]
    pub(crate) async fn planted<F: Fabric>(
        &self,
        client: &Client<F>,
        parent: (Remote<RawInner>, u32),
        near: NodeId,
        entry: Entry<'_>,
    ) -> Result<Planted, IndexError> {
        let Some(class) = Class::of(self.options.grain, &entry) else {
            unreachable!("entries are looked at before they are stored")
        };
        let room: Room<RawLeaf> = self.heap.allocate(client, near, Kind::Leaf.rooms(class.bytes())).await?;
        let (linked, version) = (Reverse::of_leaf(parent.0, parent.1), room.next_version());
        let reverse = if room.is_used() { Reverse::unlinked(version) } else { linked };
        let image = leaf::image(class, reverse, (self.number, version), entry);
        Ok(Planted { class, room, image, linked })
    }

    /// An inner node for keys that begin with `prefix`, to be linked in the node `parent` under `partial`. Its
    /// children are those that `children` makes of where it lies and its generation.
    pub(crate) async fn grown<F: Fabric>(
        &self,
        client: &Client<F>,
        (parent, partial): ((Remote<RawInner>, Header), u8),
        (near, size): (NodeId, Size),
        prefix: &[u8],
    ) -> Result<Grown, IndexError> {
        let room: Room<RawInner> = self.heap.allocate(client, near, Kind::Inner.rooms(size.bytes())).await?;
        let generation = room.next_version();
        let linked = Reverse::of_inner(parent.0, parent.1.generation(), partial);
        let reverse = if room.is_used() { Reverse::unlinked(generation) } else { linked };
        let level = parent.1.level() + 1;
        let header = Header::new(inner::State::Live, size, level, prefix.len(), generation);
        let image = inner::image((reverse, header), prefix, self.number, &[]);
        Ok(Grown { size, room, image, linked })
    }

    /// Gives a node that is not written yet its children.
    pub(crate) fn settle_children(&self, node: &mut Grown, prefix: &[u8], children: &[(Step, Slot)]) {
        let copy = Inner::new(&node.image[..]);
        let front = (copy.reverse(), copy.header());
        node.image = inner::image(front, prefix, self.number, children);
    }

    /// The size of a node with so many children.
    pub(crate) fn size_for(&self, children: usize) -> Size {
        match self.options.rooms {
            Rooms::Fitting => Size::fitting(children),
            Rooms::Preallocated => Size::All,
        }
    }

    /// The memory node for a new node below `parent`, whose keys begin with `prefix`.
    fn home<F: Fabric>(&self, client: &Client<F>, parent: &CachedNode, prefix: &[u8]) -> NodeId {
        let above = (parent.at.node(), parent.header.level());
        self.guide.home(client.fabric().shape(), above, PrefixHash::of(prefix))
    }

    /// Splits a leaf: a new node takes its place, with the leaf and a new one (SMART, "leaf split"). `false`: the
    /// place has changed. [3 RT on one memory node]
    pub(crate) async fn split_leaf<F: Fabric>(
        &self,
        client: &Client<F>,
        place: &Place,
        (number, at, class): (usize, Remote<RawLeaf>, Class),
        entry: Entry<'_>,
        way: &mut Way<'_>,
    ) -> Result<bool, IndexError> {
        let Some((held, copy)) = self.lock_slot(client, place, number, way).await? else { return Ok(false) };
        let fork = self.fork_leaf(client, place, (at, class), entry, way).await;
        self.fork(client, held, (place, number, copy.slot(number)), (fork, marks::LEAF_SPLIT), way).await
    }

    /// Puts a fork where its child was, if there is one: the slot of a locked node. Gives the lock up.
    async fn fork<F: Fabric>(
        &self,
        client: &Client<F>,
        held: Held<'_, F>,
        at: (&Place, usize, Slot),
        (fork, mark): (Result<Option<Fork>, IndexError>, &'static str),
        way: &mut Way<'_>,
    ) -> Result<bool, IndexError> {
        match fork {
            Ok(Some(fork)) => {
                client.fabric().mark(mark);
                self.commit(client, held, at, fork).await
            }
            Ok(None) => {
                held.give_up().await?;
                self.clear_up(client, &at.0.node, at.1, way).await?;
                Ok(false)
            }
            Err(error) => {
                held.give_up().await?;
                Err(error)
            }
        }
    }

    /// What is to take a leaf's place, whose node is locked. `None`: it is not what it was. [1 RT]
    async fn fork_leaf<F: Fabric>(
        &self,
        client: &Client<F>,
        place: &Place,
        (at, class): (Remote<RawLeaf>, Class),
        entry: Entry<'_>,
        way: &Way<'_>,
    ) -> Result<Option<Fork>, IndexError> {
        let (key, parent) = (entry.key, &place.node);
        let leaf = self.read_leaf(client, at, class, way.operation).await?;
        let depth = common_prefix(leaf.key(), key);
        let settled = leaf.state() == leaf::State::Live && leaf.reverse().is_linked();
        if !settled || leaf.key() == key {
            return Ok(None);
        }
        if depth <= parent.header.depth() {
            return Err(damaged(way.operation, at, "its key does not belong where it is linked".to_owned()));
        }
        let old = Slot::leaf(partial_at(leaf.key(), depth), at, class);
        let old = (step_at(leaf.key(), depth), old);
        let (node, new) = self.fork_at(client, parent, depth, old, entry).await?;
        let child =
            (at.part(leaf::REVERSE), leaf.reverse(), Reverse::of_leaf(node.room.at, node.generation()));
        Ok(Some(Fork { node, leaf: new, child }))
    }

    /// Splits a prefix: a new node takes the place of one whose keys part from `key` before its depth (SMART, "header
    /// split"). `false`: the place has changed, or was changed. [3 RT, and the way down to a leaf]
    pub(crate) async fn split_prefix<F: Fabric>(
        &self,
        client: &Client<F>,
        place: &Place,
        (number, slot, child): (usize, Slot, &Arc<CachedNode>),
        entry: Entry<'_>,
        way: &mut Way<'_>,
    ) -> Result<bool, IndexError> {
        let below = match self.key_below(client, child, way.operation).await? {
            KeyBelow::Key(key) => key,
            KeyBelow::None => {
                // It gives way, if that is still so under its lock.
                let parent = (&place.node, number);
                self.rebuild(client, parent, (child.at, child.header), (0, way)).await?;
                way.again(client).await?;
                return Ok(false);
            }
            KeyBelow::Unclear(node, number) => {
                self.try_again(client, &node, number, way).await?;
                return Ok(false);
            }
        };
        let Some((held, _)) = self.lock_slot(client, place, number, way).await? else { return Ok(false) };
        let fork = self.fork_prefix(client, place, child, &below, entry, way).await;
        self.fork(client, held, (place, number, slot), (fork, marks::PREFIX_SPLIT), way).await
    }

    /// What is to take the place of `child`, whose parent is locked and whose keys begin as `below` does. [1 RT]
    async fn fork_prefix<F: Fabric>(
        &self,
        client: &Client<F>,
        place: &Place,
        child: &CachedNode,
        below: &[u8],
        entry: Entry<'_>,
        way: &Way<'_>,
    ) -> Result<Option<Fork>, IndexError> {
        let (key, parent) = (entry.key, &place.node);
        let now = self.read_inner(client, child.at, child.header.size(), way.operation).await?;
        let depth = common_prefix(&below[..child.header.depth()], key);
        let fits = depth > parent.header.depth() && depth < child.header.depth();
        if now.header() != child.header || !now.reverse().is_linked() || !fits {
            return Ok(None);
        }
        let old = Slot::inner(below[depth], child.at, child.header.size());
        let (node, new) = self.fork_at(client, parent, depth, (Step::Byte(below[depth]), old), entry).await?;
        let to = Reverse::of_inner(node.room.at, node.generation(), below[depth]);
        Ok(Some(Fork { node, leaf: new, child: (child.at.part(inner::REVERSE), now.reverse(), to) }))
    }

    /// A node below `parent` whose keys have `depth` bytes in common, for a child that is there and a new leaf.
    async fn fork_at<F: Fabric>(
        &self,
        client: &Client<F>,
        parent: &CachedNode,
        depth: usize,
        old: (Step, Slot),
        entry: Entry<'_>,
    ) -> Result<(Grown, Planted), IndexError> {
        let key = entry.key;
        let prefix = &key[..depth];
        let home = self.home(client, parent, prefix);
        let above = ((parent.at, parent.header), partial_at(key, parent.header.depth()));
        let mut node = self.grown(client, above, (home, self.size_for(2)), prefix).await?;
        let new = self.planted(client, (node.room.at, node.generation()), home, entry).await?;
        let children = [old, (step_at(key, depth), new.slot(partial_at(key, depth)))];
        self.settle_children(&mut node, prefix, &children);
        Ok((node, new))
    }

    /// Some key below `node`, which shows what all keys there begin with. [1 RT for each node or leaf on the way]
    pub(crate) async fn key_below<F: Fabric>(
        &self,
        client: &Client<F>,
        node: &Arc<CachedNode>,
        operation: &'static str,
    ) -> Result<KeyBelow, IndexError> {
        const VISITS_MAX: usize = 1 << 16;
        let mut none = KeyBelow::None;
        let mut ahead = slots_of(node);
        for _ in 0..VISITS_MAX {
            let Some((above, number)) = ahead.pop() else { return Ok(none) };
            let slot = above.slot(number);
            match slot.child() {
                Child::Leaf(at, class) => {
                    let leaf = self.read_leaf(client, at, class, operation).await?;
                    if leaf.key().get(..node.header.depth()).is_some_and(|key| node.is_of(key, self.number)) {
                        return Ok(KeyBelow::Key(leaf.key().to_vec()));
                    }
                    none = KeyBelow::Unclear(above, number);
                }
                Child::Inner(at, size) => {
                    let copy = self.read_inner(client, at, size, operation).await?;
                    let reverse = Reverse::of_inner(above.at, above.header.generation(), slot.partial());
                    if copy.header().state() != Some(State::Live) || copy.reverse() != reverse {
                        none = KeyBelow::Unclear(above, number);
                    }
                    ahead.extend(slots_of(&CachedNode::copy(at, &copy)));
                }
                Child::Damaged => return Err(damaged_slot(operation, above.at, number)),
                Child::Free | Child::Vacant | Child::Closed => {}
            }
        }
        Ok(KeyBelow::Unclear(Arc::clone(node), 0))
    }

    /// Puts a fork where its child was, in a slot of a locked node, and gives the lock up. [1 RT; 4 where they are on
    /// several memory nodes]
    async fn commit<F: Fabric>(
        &self,
        client: &Client<F>,
        held: Held<'_, F>,
        (place, number, slot): (&Place, usize, Slot),
        fork: Fork,
    ) -> Result<bool, IndexError> {
        let Fork { node, leaf, child: (child, from, to) } = fork;
        let here = place.node.at.node();
        let new = Slot::inner(slot.partial(), node.room.at, node.size);
        let swap = cas(place.node.at.part(slot_offset(number)), slot.word(), new.word());
        let turn = cas(child, from.word(), to.word());
        let (leaf_at, leaf_bytes) = leaf.first_write();
        let (node_write, leaf_write) = (write(node.room.at, &node.image), write(leaf_at, leaf_bytes));
        let together = [node.room.at.node(), leaf_at.node(), child.node()] == [here; 3];
        let swapped = if together {
            let (unlock, local) = held.release();
            let chain = node_write.then(leaf_write).then(turn).then(swap);
            match client.post(chain.then_maybe(node.link()).then_maybe(leaf.link()).then_maybe(unlock)).await
            {
                Ok((((((_, _), swapped), _), _), _)) => {
                    local.complete();
                    swapped
                }
                Err(error) => {
                    local.failed().await;
                    return Err(error.into());
                }
            }
        } else {
            let links = [node.link(), leaf.link()];
            let swapped: Result<Swapped, IndexError> = async {
                let _ = client.post(node_write.and(leaf_write).and(turn)).await?;
                let swapped = client.post(swap).await?;
                self.link_all(client, links).await?;
                Ok(swapped)
            }
            .await;
            held.give_up().await?;
            swapped?
        };
        if swapped == Swapped::Won {
            self.cache.learn(place.node.at, number, new);
            let copy = Inner::new(&node.image[..]);
            self.cache.put(node.room.at, &copy);
            G::changed(self, client, Event::Born(self.sign(node.room.at, &copy))).await;
        }
        Ok(swapped == Swapped::Won)
    }

    /// What leads to a node.
    pub(crate) fn sign<B: Deref<Target = [u8]>>(&self, at: Remote<RawInner>, node: &Inner<B>) -> Sign {
        let header = node.header();
        Sign {
            prefix: node.prefix(self.number),
            node: at,
            size: header.size(),
            generation: header.generation(),
        }
    }

    /// Makes known that objects are linked. [1 RT where there are any]
    pub(crate) async fn link_all<F: Fabric, const N: usize>(
        &self,
        client: &Client<F>,
        links: [Option<Cas>; N],
    ) -> Result<(), IndexError> {
        let links: Vec<_> = links.into_iter().flatten().collect();
        if !links.is_empty() {
            client.post(farwood_fabric::all(links)).await?.for_each(drop);
        }
        Ok(())
    }

    /// Gives a key another value in another leaf: the old one is marked, then its pointer swapped. `false`: the place
    /// has changed. [4 RT on one memory node]
    pub(crate) async fn move_leaf<F: Fabric>(
        &self,
        client: &Client<F>,
        place: &Place,
        (number, at, class): (usize, Remote<RawLeaf>, Class),
        entry: Entry<'_>,
        way: &mut Way<'_>,
    ) -> Result<bool, IndexError> {
        let Some((held, copy)) = self.lock_slot(client, place, number, way).await? else { return Ok(false) };
        let slot = copy.slot(number);
        let moved = self.swap_leaf(client, (place, number, slot), (at, class), entry, way).await;
        held.give_up().await?;
        if let Some((left, new)) = moved? {
            client.fabric().mark(marks::MOVED);
            self.free_leaf((at, class), left.version);
            self.unlink(client, left.link).await;
            self.cache.learn(place.node.at, number, new);
            return Ok(true);
        }
        self.clear_up(client, &place.node, number, way).await?;
        Ok(false)
    }

    /// The part of [`move_leaf`](Self::move_leaf) under the node's lock; yields what the old leaf leaves and the new
    /// slot.
    async fn swap_leaf<F: Fabric>(
        &self,
        client: &Client<F>,
        (place, number, slot): (&Place, usize, Slot),
        (at, class): (Remote<RawLeaf>, Class),
        entry: Entry<'_>,
        way: &Way<'_>,
    ) -> Result<Option<(Left, Slot)>, IndexError> {
        let node = &place.node;
        let new = self.planted(client, (node.at, node.header.generation()), node.at.node(), entry).await?;
        let (held, mut old) = self.lock_leaf(client, at, class, way.operation).await?;
        let settled = old.state() == leaf::State::Live && old.reverse().is_linked();
        if !settled || old.key() != entry.key {
            held.give_up().await?;
            self.take_back_leaf(new);
            return Ok(None);
        }
        let (to, bytes) = new.first_write();
        if let Err(error) = client.post(write(to, bytes)).await {
            held.give_up().await?;
            return Err(error.into());
        }
        old.set_state(leaf::State::Moved);
        self.write_leaf(client, held, at, &old).await?;
        let next = new.slot(slot.partial());
        let swap = cas(node.at.part(slot_offset(number)), slot.word(), next.word());
        let won = client.post(swap).await? == Swapped::Won;
        self.link_all(client, [new.link()]).await?;
        Ok(won.then(|| (Left { version: old.version(), link: old.link() }, next)))
    }

    /// Takes back the room of a leaf that was taken out of its slot.
    pub(crate) fn free_leaf(&self, (at, class): (Remote<RawLeaf>, Class), version: u32) {
        let kind = Kind::Leaf.rooms(class.bytes());
        self.heap.take_back(Room { at, version: Some(version), kind });
    }
}
