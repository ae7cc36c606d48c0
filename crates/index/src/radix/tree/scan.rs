//! Range scans in both directions: the tree is walked in the order of its keys, many nodes and leaves to a doorbell.
//!
//! A scan is not atomic: it sees each leaf at another moment. But it never misses a key that was there throughout. A
//! node is read live, and linked in the slot that led to it, as its reverse pointer says; so all keys that are below
//! the slot are below it. The same holds for a leaf and the one key. Each slot without a child says itself that it is
//! of the node's generation. What is unclear makes the scan begin again behind what it has found.

use super::descend::Way;
use super::options::Scans;
use super::{Direction, Guide, Range, Tree, marks};
use crate::error::IndexError;
use crate::extent::Link;
use crate::radix::cached::CachedNode;
use crate::radix::inner::{Inner, InnerFormat, RawInner, Size, State as NodeState};
use crate::radix::key::{Step, check_key, step_at};
use crate::radix::leaf::{Content, Leaf, LeafFormat, RawLeaf, State};
use crate::radix::reverse::Reverse;
use crate::radix::slot::{Child, Slot};
use farwood_fabric::{Checked, Client, Fabric, Fetched, Object, Remote, Torn, all, read_bytes};
use std::ops::{ControlFlow, Deref};
use std::rc::Rc;
use std::sync::Arc;

/// Nodes and leaves that are read by one doorbell, at most.
const BATCH_MAX: usize = 64;
/// Tries that lead no further before what is unclear is settled.
const TRIES_PER_SETTLING: u32 = 4;

/// What a scan found, and room to find it in.
#[derive(Clone, Debug, Default)]
pub struct Entries {
    bytes: Vec<u8>,
    /// Where each key ends, and its value.
    ends: Vec<(usize, usize)>,
}

impl Entries {
    /// No entries.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Key and value number `at`, in the order of the scan.
    pub fn get(&self, at: usize) -> Option<(&[u8], &[u8])> {
        let &(key_end, end) = self.ends.get(at)?;
        let start = if at == 0 { 0 } else { self.ends[at - 1].1 };
        Some((&self.bytes[start..key_end], &self.bytes[key_end..end]))
    }

    /// Keys and values, in the order of the scan.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], &[u8])> + DoubleEndedIterator {
        (0..self.len()).map(|at| self.get(at).expect("it is one of them"))
    }

    /// Bytes of all keys and values.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    fn push(&mut self, key: &[u8], value: &[u8]) {
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.ends.push((key_end, self.bytes.len()));
    }
}

/// An inner node on the way of a scan.
struct Above {
    node: Arc<CachedNode>,
    /// What all keys below begin with, as far as is known.
    known: Vec<u8>,
}

impl Above {
    /// What all keys below a child begin with, as far as is known.
    fn path(&self, step: Step) -> Vec<u8> {
        let mut path = self.known.clone();
        if let (Step::Byte(byte), true) = (step, self.is_known()) {
            path.push(byte);
        }
        path
    }

    fn is_known(&self) -> bool {
        self.known.len() == self.node.header.depth()
    }
}

/// What a scan has before it, in the order of its keys.
enum Item {
    /// A child that is to be read.
    Child { above: Rc<Above>, number: usize, step: Step, slot: Slot },
    /// A leaf that was read.
    Entry(Leaf<Checked<RawChild>>),
}

/// What lies behind a slot: an inner node or a leaf.
enum RawChild {}

/// Which of both.
enum ChildFormat {
    Inner(InnerFormat),
    Leaf(LeafFormat),
}

impl Object for RawChild {
    type Format = ChildFormat;

    fn check(bytes: &[u8], format: &ChildFormat) -> Result<(), Torn> {
        match format {
            ChildFormat::Inner(format) => RawInner::check(bytes, format),
            ChildFormat::Leaf(format) => RawLeaf::check(bytes, format),
        }
    }
}

/// A scan under way.
struct Course<'s> {
    direction: Direction,
    /// The first key of what is left, itself in it.
    from: Option<Vec<u8>>,
    /// The key behind what is left.
    to: Option<Vec<u8>>,
    /// Entries still wanted.
    left: usize,
    /// Whether values are wanted, so that those out of line are fetched.
    values: bool,
    sink: &'s mut dyn FnMut(&[u8], &[u8]),
}

impl Course<'_> {
    fn contains(&self, key: &[u8]) -> bool {
        self.from.as_deref().is_none_or(|from| key >= from) && self.to.as_deref().is_none_or(|to| key < to)
    }

    /// Whether some key that begins with `path` may be wanted; `exact`: it is the key itself.
    fn touches(&self, path: &[u8], exact: bool) -> bool {
        if exact {
            return self.contains(path);
        }
        let from = self.from.as_deref().is_none_or(|from| path >= &from[..from.len().min(path.len())]);
        let to = self.to.as_deref().is_none_or(|to| path < to);
        from && to
    }

    /// Whether keys that begin with `path` may be wanted or not, so that more must be known of them.
    fn is_at_edge(&self, path: &[u8]) -> bool {
        let starts = |bound: &Option<Vec<u8>>| bound.as_deref().is_some_and(|bound| bound.starts_with(path));
        starts(&self.from) || starts(&self.to)
    }

    /// Takes an entry if it is wanted. Yields where its value is that has to be fetched first.
    fn take<B: Deref<Target = [u8]>>(&mut self, leaf: &Leaf<B>) -> Option<Link> {
        if self.left == 0 || !self.contains(leaf.key()) {
            return None;
        }
        match leaf.content() {
            Content::Here(value) => self.found(leaf.key(), value),
            Content::Far(_) if !self.values => self.found(leaf.key(), &[]),
            Content::Far(link) => return Some(link),
        }
        None
    }

    /// Hands over an entry, and goes on behind it.
    fn found(&mut self, key: &[u8], value: &[u8]) {
        (self.sink)(key, value);
        self.left -= 1;
        match self.direction {
            Direction::Forward => {
                let mut next = key.to_vec();
                next.push(0);
                self.from = Some(next);
            }
            Direction::Backward => self.to = Some(key.to_vec()),
        }
    }
}

/// Where a scan could not go on: this slot of this node.
type Unclear = (Arc<CachedNode>, usize);

impl<G: Guide> Tree<G> {
    /// Up to `limit` entries of `range`, in the order of `direction`, into `entries`.
    /// [1 RT for the root, then 1 for each 64 nodes or leaves in the order of keys: 4 for 60 keys close together; 1 for
    /// each value out of line]
    ///
    /// # Errors
    /// [`IndexError::BadSizes`]; the fabric's.
    pub async fn scan<F: Fabric>(
        &self,
        client: &Client<F>,
        range: Range<'_>,
        direction: Direction,
        limit: usize,
        entries: &mut Entries,
    ) -> Result<(), IndexError> {
        entries.clear();
        range.from.map_or(Ok(()), check_key)?;
        range.to.map_or(Ok(()), check_key)?;
        let (from, to) = (range.from.map(<[u8]>::to_vec), range.to.map(<[u8]>::to_vec));
        let mut sink = |key: &[u8], value: &[u8]| entries.push(key, value);
        let course = Course { direction, from, to, left: limit, values: true, sink: &mut sink };
        self.travel(client, course).await
    }

    /// Up to `limit` entries whose keys begin with `prefix`, in the order of `direction`, into `entries`. [as
    /// [`scan`](Self::scan)]
    ///
    /// # Errors
    /// As [`scan`](Self::scan).
    pub async fn scan_prefix<F: Fabric>(
        &self,
        client: &Client<F>,
        prefix: &[u8],
        direction: Direction,
        limit: usize,
        entries: &mut Entries,
    ) -> Result<(), IndexError> {
        let mut behind = prefix.to_vec();
        while behind.last() == Some(&u8::MAX) {
            behind.pop();
        }
        let to = behind.last_mut().map(|last| *last += 1).map(|()| behind);
        let range = Range { from: Some(prefix), to: to.as_deref() };
        self.scan(client, range, direction, limit, entries).await
    }

    /// How many keys there are. [as a [`scan`](Self::scan) over everything]
    ///
    /// # Errors
    /// The fabric's.
    pub async fn count<F: Fabric>(&self, client: &Client<F>) -> Result<u64, IndexError> {
        let mut count = 0;
        let mut sink = |_: &[u8], _: &[u8]| count += 1;
        let (direction, left) = (Direction::Forward, usize::MAX);
        let course = Course { direction, from: None, to: None, left, values: false, sink: &mut sink };
        self.travel(client, course).await?;
        Ok(count)
    }

    /// Visits the entries on a course.
    async fn travel<F: Fabric>(&self, client: &Client<F>, mut course: Course<'_>) -> Result<(), IndexError> {
        let mut way = Way::new(&self.notebooks, "scan", &[]);
        let (mut tries, mut left) = (0, course.left);
        while course.left > 0 {
            let Some((node, number)) = self.scan_on(client, &mut course, &way).await? else { break };
            client.fabric().mark(marks::SCAN_AGAIN);
            client.note(|costs| costs.moved += 1);
            if course.left < left {
                (tries, left) = (0, course.left);
                way = Way::new(&self.notebooks, "scan", &[]);
            }
            tries += 1;
            way.again(client).await?;
            if u32::is_multiple_of(tries, TRIES_PER_SETTLING) {
                self.settle(client, &node, number, ("scan", &[])).await?;
            }
        }
        Ok(())
    }

    /// Scans from the root, until all is found or something is unclear.
    async fn scan_on<F: Fabric>(
        &self,
        client: &Client<F>,
        course: &mut Course<'_>,
        way: &Way<'_>,
    ) -> Result<Option<Unclear>, IndexError> {
        let root = self.read_inner(client, self.root, Size::All, way.operation).await?;
        let above = Above { node: Arc::new(CachedNode::copy(self.root, &root)), known: Vec::new() };
        // What comes next is at the end.
        let mut items = Vec::new();
        self.expand(&root, &Rc::new(above), course, &mut items);
        loop {
            while let Some(Item::Entry(_)) = items.last() {
                let Some(Item::Entry(leaf)) = items.pop() else { unreachable!("it was the last") };
                if let Some(link) = course.take(&leaf) {
                    self.fetch_value(client, course, (leaf.key(), link)).await?;
                }
                if course.left == 0 {
                    return Ok(None);
                }
            }
            if items.is_empty() {
                return Ok(None);
            }
            if let ControlFlow::Break(unclear) = self.scan_batch(client, course, &mut items, way).await? {
                return Ok(Some(unclear));
            }
        }
    }

    /// Takes an entry whose value lies out of line. One that was removed meanwhile is left out. [1 RT; more for a value
    /// of several parts, or one that was replaced]
    async fn fetch_value<F: Fabric>(
        &self,
        client: &Client<F>,
        course: &mut Course<'_>,
        (key, link): (&[u8], Link),
    ) -> Result<(), IndexError> {
        if let Some(value) = self.far_value(client, link).await? {
            course.found(key, &value);
        } else if let Some(value) = self.get_alone(client, key).await? {
            course.found(key, &value);
        }
        Ok(())
    }

    /// Reads what comes next, as much as one doorbell takes, and puts what it holds in its place. [1 RT, more where
    /// bytes are skipped at an edge of the range]
    async fn scan_batch<F: Fabric>(
        &self,
        client: &Client<F>,
        course: &mut Course<'_>,
        items: &mut Vec<Item>,
        way: &Way<'_>,
    ) -> Result<ControlFlow<Unclear>, IndexError> {
        let wanted = match self.options.scans {
            Scans::Batched => course.left.min(BATCH_MAX),
            Scans::OneByOne => 1,
        };
        let run =
            items.iter().rev().take(wanted).take_while(|item| matches!(item, Item::Child { .. })).count();
        let batch = items.split_off(items.len() - run);
        let reads = batch.iter().rev().map(|item| {
            let (at, bytes) = where_is(item);
            read_bytes::<RawChild>(at, bytes)
        });
        let copies: Vec<_> = client.post(all(reads)).await?.collect();
        let mut found = Vec::new();
        for (item, copy) in batch.into_iter().rev().zip(copies) {
            let Item::Child { above, number, step, slot } = item else { unreachable!("it is a child") };
            let before = found.len();
            let child = (&above, step, slot);
            if !self.take_child(client, child, copy, course, (&mut found, way)).await? {
                // What came before it is found; the rest is looked for again.
                found.truncate(before);
                for item in found {
                    let Item::Entry(leaf) = item else { break };
                    if let Some(link) = course.take(&leaf) {
                        self.fetch_value(client, course, (leaf.key(), link)).await?;
                    }
                }
                return Ok(ControlFlow::Break((Arc::clone(&above.node), number)));
            }
        }
        items.extend(found.into_iter().rev());
        Ok(ControlFlow::Continue(()))
    }

    /// Puts what a child's copy holds behind `found`, in the order of the scan. `false`: it is unclear.
    async fn take_child<F: Fabric>(
        &self,
        client: &Client<F>,
        (above, step, slot): (&Rc<Above>, Step, Slot),
        copy: Fetched<RawChild>,
        course: &Course<'_>,
        (found, way): (&mut Vec<Item>, &Way<'_>),
    ) -> Result<bool, IndexError> {
        let Child::Inner(at, size) = slot.child() else {
            let leaf = self.take_leaf((above, step), copy);
            let right = leaf.is_some();
            found.extend(leaf.map(Item::Entry));
            return Ok(right);
        };
        let Ok(copy) = copy.check(&ChildFormat::Inner(InnerFormat { number: self.number })) else {
            return Ok(false);
        };
        let (node, mut known) = (Inner::new(copy), above.path(step));
        let (header, parent) = (node.header(), &above.node);
        let whole = node.slots().all(|slot| slot.is_occupied() || slot.generation() == header.generation());
        let reverse = Reverse::of_inner(parent.at, parent.header.generation(), slot.partial());
        let right = step != Step::End
            && header.state() == Some(NodeState::Live)
            && header.size() == size
            && header.depth() > parent.header.depth()
            && node.reverse() == reverse;
        if !whole || !right {
            return Ok(false);
        }
        let cached = Arc::new(CachedNode::copy(at, &node));
        if known.len() < header.depth() && course.is_at_edge(&known) {
            // Where nothing is below it, nothing is missed.
            if let Some(key) = self.key_below(client, &cached, way.operation).await? {
                known = key[..header.depth()].to_vec();
            }
        }
        let above = Rc::new(Above { node: cached, known });
        let mut below = Vec::new();
        self.expand(&node, &above, course, &mut below);
        found.extend(below.into_iter().rev());
        Ok(true)
    }

    /// The leaf in a copy, if it is linked where its slot was seen, and belongs there.
    fn take_leaf(
        &self,
        (above, step): (&Rc<Above>, Step),
        copy: Fetched<RawChild>,
    ) -> Option<Leaf<Checked<RawChild>>> {
        let leaf = Leaf::new(copy.check(&ChildFormat::Leaf(LeafFormat { number: self.number })).ok()?);
        let parent = &above.node;
        let right = leaf.state() == State::Live
            && leaf.reverse() == Reverse::of_leaf(parent.at, parent.header.generation())
            && parent.covers(leaf.key(), self.number)
            && step_at(leaf.key(), parent.header.depth()) == step;
        right.then_some(leaf)
    }

    /// The children of a node that may be wanted, the next one last.
    fn expand<B: Deref<Target = [u8]>>(
        &self,
        node: &Inner<B>,
        above: &Rc<Above>,
        course: &Course<'_>,
        items: &mut Vec<Item>,
    ) {
        let _ = self;
        let first = items.len();
        for (step, slot) in node.children() {
            let exact = step == Step::End && above.is_known();
            if course.touches(&above.path(step), exact) {
                let number = match step {
                    Step::End => 0,
                    Step::Byte(byte) => number_of(&above.node, byte),
                };
                items.push(Item::Child { above: Rc::clone(above), number, step, slot });
            }
        }
        if course.direction == Direction::Forward {
            items[first..].reverse();
        }
    }
}

/// Which slot of a node a partial key has.
fn number_of(node: &CachedNode, byte: u8) -> usize {
    (1..=node.header.size().slots())
        .find(|&number| !node.slot(number).is_free() && node.slot(number).partial() == byte)
        .unwrap_or(0)
}

/// Where a child lies, and how long it is.
fn where_is(item: &Item) -> (Remote<RawChild>, usize) {
    let Item::Child { slot, .. } = item else { unreachable!("only children are read") };
    match slot.child() {
        Child::Inner(at, size) => (at.part(0), size.bytes()),
        Child::Leaf(at, class) => (at.part(0), class.bytes()),
        _ => unreachable!("only occupied slots are followed"),
    }
}
