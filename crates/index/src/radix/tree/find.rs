//! From a key to where it belongs: through cached copies as far as they lead, then through the nodes.

use super::fetch::{InnerCopy, LeafCopy};
use super::scratch::{Lent, Notebooks};
use super::{Guide, Tree, marks};
use crate::error::IndexError;
use crate::radix::cache::cached_node::CachedNode;
use crate::radix::inner::{Found, RawInner, Size, State, slot_of_all};
use crate::radix::key::{common_prefix, step_at};
use crate::radix::leaf::{self, Class, RawLeaf};
use crate::radix::prefix::PrefixHash;
use crate::radix::reverse::Reverse;
use crate::radix::slot::{Child, Slot};
use crate::retry::Retry;
use crate::sabotage::Sabotage;
use farwood_fabric::{Client, Fabric, Remote};
use std::fmt;
use std::sync::Arc;

/// Tries of an operation that others keep from its end.
const TRIES_MAX: u32 = 10_000;
/// Tries at what is unclear before it is settled, and between two times that it is.
const TRIES_PER_SETTLING: u32 = 6;

/// An operation on its way.
pub struct Way<'k> {
    pub(crate) operation: &'static str,
    /// The key that it is about; empty where it is about many.
    pub(crate) key: &'k [u8],
    retry: Retry,
    /// What it has read so far.
    notes: Lent<'k>,
    /// How many of the nodes the guide has read.
    guided: usize,
    /// The guide is to lead to a node of less depth.
    below: usize,
}

impl<'k> Way<'k> {
    pub(crate) fn new(notebooks: &'k Notebooks, operation: &'static str, key: &'k [u8]) -> Self {
        let retry = Retry::new(operation, TRIES_MAX);
        Self { operation, key, retry, notes: notebooks.lend(), guided: 0, below: usize::MAX }
    }

    /// The guide has read that node, or would have.
    pub(crate) fn guided_by(&mut self, at: Remote<RawInner>, node: &InnerCopy) -> Arc<CachedNode> {
        self.guided += 1;
        self.notes.note(at, node)
    }

    /// The deepest node that the operation has read and the guide may lead to.
    pub(crate) fn deepest(&self, number: u32) -> Option<Arc<CachedNode>> {
        let above = self.notes.fresh().iter().filter(|node| node.header.depth() < self.below);
        above.filter(|node| node.covers(self.key, number)).max_by_key(|node| node.header.depth()).cloned()
    }

    /// Notes that no node of that depth was found.
    pub(crate) fn missed(&mut self, depth: usize) {
        self.notes.book().missed.push(depth);
    }

    /// Whether the guide looked for a node of that depth, and found none.
    pub(crate) fn has_missed(&self, depth: usize) -> bool {
        self.notes.missed().contains(&depth)
    }

    /// Room for the hashes of the key's beginnings, which is lent until it is given back.
    pub(crate) fn lend_hashes(&mut self) -> Vec<PrefixHash> {
        std::mem::take(&mut self.notes.book().hashes)
    }

    /// Gives the room for hashes back.
    pub(crate) fn take_back_hashes(&mut self, hashes: Vec<PrefixHash>) {
        self.notes.book().hashes = hashes;
    }

    /// The depth that the guide may lead to, at most the key's length.
    pub(crate) fn depth_max(&self) -> usize {
        self.key.len().min(self.below.saturating_sub(1))
    }

    /// The nodes that were read and that the guide did not lead to.
    pub(crate) fn met(&self) -> impl Iterator<Item = &CachedNode> {
        self.notes.fresh().iter().skip(self.guided).map(|node| &**node)
    }

    /// What is to come begins above nodes of that depth: the node above one is wanted.
    pub(crate) fn begin_above(&mut self, depth: usize) {
        self.below = depth;
    }

    /// Whether a copy was read by this operation, and not before.
    #[inline]
    pub(crate) fn is_fresh(&self, node: &Arc<CachedNode>) -> bool {
        self.notes.fresh().iter().any(|fresh| Arc::ptr_eq(fresh, node))
    }

    /// What was read is out of date.
    pub(crate) fn forget(&mut self) {
        self.notes.forget();
        (self.guided, self.below) = (0, usize::MAX);
    }

    /// Before another try.
    pub(crate) async fn again<F: Fabric>(&mut self, client: &Client<F>) -> Result<(), IndexError> {
        self.forget();
        self.retry.again(client).await
    }
}

/// Where a key belongs: the last node on its way, and what is in its slot there.
pub(crate) struct Place {
    pub(crate) node: Arc<CachedNode>,
    /// The node above, and the slot in it.
    pub(crate) parent: Option<(Arc<CachedNode>, usize)>,
    pub(crate) next: Next,
}

/// What is in a key's slot.
#[derive(Debug)]
pub(crate) enum Next {
    /// A leaf, of this key or another.
    Leaf { number: usize, at: Remote<RawLeaf>, class: Class },
    /// No child, and a leaf may be put there.
    Open { number: usize, slot: Slot },
    /// No child, and no leaf may be put there: no slot is free, or the node is about to be replaced.
    Full { number: usize },
    /// An inner node of another prefix, and whether it said that it is linked there.
    Gap { number: usize, slot: Slot, child: Arc<CachedNode>, linked: bool },
}

impl Place {
    /// The leaf in the slot, if there is one.
    #[inline]
    pub(crate) fn next_leaf(&self) -> Option<(usize, Remote<RawLeaf>, Class)> {
        match self.next {
            Next::Leaf { number, at, class } => Some((number, at, class)),
            _ => None,
        }
    }

    /// The slot's number; 0 where the key has none.
    pub(crate) fn number(&self) -> usize {
        match self.next {
            Next::Leaf { number, .. }
            | Next::Open { number, .. }
            | Next::Full { number }
            | Next::Gap { number, .. } => number,
        }
    }
}

/// What a leaf says about a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judged {
    /// It is the key's leaf.
    Mine,
    /// The key is not there.
    Absent,
    /// Neither can be told.
    Unclear,
}

/// What came of following a slot to an inner node.
enum Entered {
    Node(Arc<CachedNode>),
    Gap { child: Arc<CachedNode>, linked: bool },
    Unclear,
}

impl<G: Guide> Tree<G> {
    /// Where the way's key belongs. [0 RT as far as cached copies lead; else 1 per node]
    pub(crate) async fn locate<F: Fabric>(
        &self,
        client: &Client<F>,
        way: &mut Way<'_>,
    ) -> Result<Place, IndexError> {
        loop {
            if let Some(place) = self.descend(client, way).await? {
                return Ok(place);
            }
        }
    }

    /// Down from where the guide leads. `None`: something on the way was unclear, or out of date.
    async fn descend<F: Fabric>(
        &self,
        client: &Client<F>,
        way: &mut Way<'_>,
    ) -> Result<Option<Place>, IndexError> {
        let (key, mut parent, mut passed) = (way.key, None, 0);
        let guided = G::begin(self, client, way).await?;
        let is_guided = guided.is_some();
        let mut node = match guided {
            Some(node) => node,
            None => self.root(client, way).await?,
        };
        let next = loop {
            let (number, slot) = match node.find(key) {
                Found::Slot(number, slot) | Found::Free(number, slot) => (number, slot),
                Found::Full => break Next::Full { number: 0 },
            };
            match slot.child() {
                Child::Inner(at, size) => {
                    match self.enter(client, (&node, number, slot), (at, size), key, way).await? {
                        Entered::Node(child) => {
                            parent = Some((node, number));
                            node = child;
                            passed += 1;
                        }
                        Entered::Gap { child, linked } => break Next::Gap { number, slot, child, linked },
                        Entered::Unclear => {
                            self.clear_up(client, &node, number, way).await?;
                            return Ok(None);
                        }
                    }
                }
                Child::Leaf(at, class) => break Next::Leaf { number, at, class },
                Child::Free | Child::Vacant => break Next::Open { number, slot },
                Child::Closed => break Next::Full { number },
                Child::Damaged if way.is_fresh(&node) => {
                    return Err(damaged_slot(way.operation, node.at, number));
                }
                Child::Damaged => {
                    self.clear_up(client, &node, number, way).await?;
                    return Ok(None);
                }
            }
        };
        let covers = is_guided && passed == 0 || node.covers(key, self.number);
        let place = self.arrived((client, way), (node, covers), parent, next);
        match &place {
            Some(place) => G::arrived(self, client, way, (place.node.at, passed)).await,
            None => way.again(client).await?,
        }
        Ok(place)
    }

    /// The end of a way, if the last node covers the key; if not, a stale copy led astray.
    fn arrived<F: Fabric>(
        &self,
        (client, way): (&Client<F>, &Way<'_>),
        (node, covers): (Arc<CachedNode>, bool),
        parent: Option<(Arc<CachedNode>, usize)>,
        next: Next,
    ) -> Option<Place> {
        if covers {
            client.note(|costs| {
                if way.notes.fresh().len() == way.guided {
                    costs.cache_hits += 1;
                } else {
                    costs.cache_misses += 1;
                }
            });
            return Some(Place { node, parent, next });
        }
        client.fabric().mark(marks::FORGOTTEN);
        self.cache.remove(node.at);
        if let Some((parent, _)) = parent {
            self.cache.remove(parent.at);
        }
        None
    }

    /// The root, of some age. [0 RT; 1 where it is not cached]
    async fn root<F: Fabric>(
        &self,
        client: &Client<F>,
        way: &mut Way<'_>,
    ) -> Result<Arc<CachedNode>, IndexError> {
        if let Some(root) = self.known(client, self.root, 0, way) {
            return Ok(root);
        }
        let root = self.read_inner(client, self.root, Size::All, way.operation).await?;
        Ok(self.keep(self.root, &root, way))
    }

    /// The node at which the way of the way's key ended before, if there is a copy of it and it covers the key, for an
    /// operation's first try. [0 RT]
    #[inline]
    pub(crate) fn shortcut<F: Fabric>(&self, client: &Client<F>, way: &Way<'_>) -> Option<Arc<CachedNode>> {
        if way.retry.tries() > 0 || way.below < usize::MAX {
            return None;
        }
        let node = self.known(client, self.cache.end_of(way.key)?, 0, way)?;
        node.covers(way.key, self.number).then_some(node)
    }

    /// The way of `key` ended at the node at `at`: a shortcut for the next search. [0 RT]
    pub(crate) fn keep_shortcut(&self, key: &[u8], at: Remote<RawInner>) {
        self.cache.ended(key, at);
    }

    /// A copy of the node at `at`: what this operation read, or what is cached. It will look at slot `likely`, most
    /// likely.
    #[inline]
    fn known<F: Fabric>(
        &self,
        client: &Client<F>,
        at: Remote<RawInner>,
        likely: usize,
        way: &Way<'_>,
    ) -> Option<Arc<CachedNode>> {
        match way.notes.fresh().iter().find(|fresh| fresh.at == at) {
            Some(fresh) => Some(Arc::clone(fresh)),
            None => self.cache.get(at, client.fabric().thread(), likely),
        }
    }

    /// Keeps what was just read, for this operation and for others.
    fn keep(&self, at: Remote<RawInner>, node: &InnerCopy, way: &mut Way<'_>) -> Arc<CachedNode> {
        self.cache.put(at, node);
        way.notes.strike(at);
        way.notes.note(at, node)
    }

    /// Follows slot `number` of `node` to the inner node at `at`. [0 RT where that is cached; else 1]
    async fn enter<F: Fabric>(
        &self,
        client: &Client<F>,
        (node, number, slot): (&Arc<CachedNode>, usize, Slot),
        (at, size): (Remote<RawInner>, Size),
        key: &[u8],
        way: &mut Way<'_>,
    ) -> Result<Entered, IndexError> {
        let depth = node.header.depth();
        if let Some(child) = self.known(client, at, slot_of_all(step_at(key, depth + 1)), way) {
            // Without bytes in between the prefix is looked at when the way ends.
            let next = child.header.depth() == depth + 1 && number > 0;
            if next || child.header.depth() > depth && child.covers(key, self.number) {
                return Ok(Entered::Node(child));
            }
        }
        let child = self.read_inner(client, at, size, way.operation).await?;
        let header = child.header();
        if header.state() != Some(State::Live) || !child.reverse().is_linked() || header.depth() <= depth {
            return Ok(Entered::Unclear);
        }
        if child.covers(key, self.number) {
            return Ok(Entered::Node(self.keep(at, &child, way)));
        }
        self.cache.put(at, &child);
        let linked = child.reverse() == Reverse::of_inner(node.at, node.header.generation(), slot.partial());
        Ok(Entered::Gap { child: CachedNode::copy(at, &child), linked })
    }

    /// Whether a place says, beyond doubt, that its key is not there.
    pub(crate) fn misses(&self, place: &Place, way: &Way<'_>) -> bool {
        if self.sabotage == Some(Sabotage::MissBelieved) {
            return true;
        }
        match place.next {
            Next::Open { .. } | Next::Full { .. } => way.is_fresh(&place.node),
            Next::Gap { linked, .. } => linked && way.is_fresh(&place.node),
            Next::Leaf { .. } => false,
        }
    }

    /// What a leaf that was read through `place` says about `key`.
    #[inline]
    pub(crate) fn judge(&self, leaf: &LeafCopy, place: &Place, key: &[u8], way: &Way<'_>) -> Judged {
        let mine = leaf.key() == key;
        let (node, reverse) = (&place.node, leaf.reverse());
        let trusted = self.sabotage == Some(Sabotage::NoReverseCheck);
        match leaf.state() {
            leaf::State::Live if mine && (reverse.is_linked() || trusted) => Judged::Mine,
            leaf::State::Live if !mine => {
                let here = trusted || reverse == Reverse::of_leaf(node.at, node.header.generation());
                let near = common_prefix(leaf.key(), key) > node.header.depth();
                if here && near { Judged::Absent } else { Judged::Unclear }
            }
            leaf::State::Removed if mine && way.is_fresh(node) => Judged::Absent,
            _ => Judged::Unclear,
        }
    }

    /// Goes about what is unclear at slot `number` of `node`: reads the node again if its copy is an old one; else
    /// lets others go on; and settles the slot if that does not help. [1 RT; when it is settled, more]
    pub(crate) async fn clear_up<F: Fabric>(
        &self,
        client: &Client<F>,
        node: &Arc<CachedNode>,
        number: usize,
        way: &mut Way<'_>,
    ) -> Result<(), IndexError> {
        if !way.is_fresh(node) {
            client.note(|costs| costs.moved += 1);
            return self.renew(client, node, way).await;
        }
        self.try_again(client, node, number, way).await
    }

    /// Before another try at what was unclear though it was just read: now and then it is settled.
    pub(crate) async fn try_again<F: Fabric>(
        &self,
        client: &Client<F>,
        node: &Arc<CachedNode>,
        number: usize,
        way: &mut Way<'_>,
    ) -> Result<(), IndexError> {
        client.fabric().mark(marks::UNCLEAR);
        way.again(client).await?;
        if way.retry.tries().is_multiple_of(TRIES_PER_SETTLING) {
            self.settle(client, node, number, (way.operation, way.key)).await?;
        }
        Ok(())
    }

    /// Reads a cached node again, and forgets it if it is gone. [1 RT]
    pub(crate) async fn renew<F: Fabric>(
        &self,
        client: &Client<F>,
        node: &Arc<CachedNode>,
        way: &mut Way<'_>,
    ) -> Result<(), IndexError> {
        client.fabric().mark(marks::RENEWED);
        let copy = self.read_inner(client, node.at, node.header.size(), way.operation).await?;
        if copy.header() == node.header && copy.reverse().is_linked() {
            self.keep(node.at, &copy, way);
        } else {
            client.fabric().mark(marks::FORGOTTEN);
            self.cache.remove(node.at);
            way.again(client).await?;
        }
        Ok(())
    }
}

/// The partial key with which `key` goes on behind `depth` bytes; 0 where it ends.
pub(crate) fn partial_at(key: &[u8], depth: usize) -> u8 {
    key.get(depth).copied().unwrap_or(0)
}

/// A slot with what no slot can hold.
pub(crate) fn damaged_slot(operation: &'static str, node: impl fmt::Display, number: usize) -> IndexError {
    damaged(operation, node, format!("slot {number} holds nothing known"))
}

pub(crate) fn damaged(operation: &'static str, at: impl fmt::Display, what: String) -> IndexError {
    IndexError::Damaged { operation, at: at.to_string(), what }
}
