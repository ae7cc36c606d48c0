//! Reads the nodes and leaves that a scan needs next, many per doorbell.
//!
//! Inner nodes are read first, and a leaf only when the scan has all entries before it. So the scan yields each leaf
//! when it reads it, and keeps no copy.

use super::cursor::{Overlap, ScanCursor};
use super::items::{AmbiguousSlot, ChildFormat, PendingChild, RawChild, ScanItem, ScanParent};
use super::start::KEYS_AHEAD_MAX;
use crate::error::IndexError;
use crate::memory::overflow::Link;
use crate::op::Op;
use crate::radix::cache::cached_node::CachedNode;
use crate::radix::inner::{Inner, InnerRef, NodeSize, NodeState};
use crate::radix::key::{Step, step_at};
use crate::radix::leaf::{LEAF_BYTES_MAX, Leaf, LeafFormat, LeafState};
use crate::radix::reverse::Reverse;
use crate::radix::tree::copy::{ends_with_object, front_of, fronts, is_ordered, proves};
use crate::radix::tree::options::{NodeSizing, Scans};
use crate::radix::tree::sample_key::SampleKey;
use crate::radix::tree::{Policy, RadixTree};
use farwood_fabric::{Capability, Checked, Client, Fabric, Fetched, all, read_bytes};
use std::ops::ControlFlow;

/// Maximum number of nodes and leaves that one doorbell reads.
const BATCH_MAX: usize = 64;

const _: () = assert!(KEYS_AHEAD_MAX == 4 * BATCH_MAX);

/// The objects that a scan still has to read below one node, and the buffers that its batches share.
#[derive(Default)]
struct ScanBuffers {
    /// The items, the next one last.
    items: Vec<ScanItem>,
    /// Copies that a batch has read.
    copies: Vec<Fetched<RawChild>>,
    /// The items that replace the inner nodes of a batch, and the items between these nodes, the next one first.
    found: Vec<ScanItem>,
}

/// The items that one doorbell covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct BatchSpan {
    /// Number of leaves before the first inner node: the batch reads and yields them.
    leaves: usize,
    /// Number of items after these leaves, up to the last inner node that the batch reads. It does not read the leaves
    /// among them.
    mixed: usize,
}

/// A child that was read: its copy, and, if the copy alone does not prove that it is of one object, the front of the
/// child before and after the READ.
struct ReadChild {
    copy: Fetched<RawChild>,
    fronts: Option<(u64, u64)>,
}

impl<F: Fabric, P: Policy> Op<'_, F, RadixTree<P>> {
    /// Visits the keys of `items` until the scan is complete. `Some`: a slot was ambiguous.
    pub(super) async fn scan_items(
        self,
        cursor: &mut ScanCursor<'_>,
        items: Vec<ScanItem>,
    ) -> Result<Option<AmbiguousSlot>, IndexError> {
        let mut buffers = ScanBuffers { items, ..ScanBuffers::default() };
        let ahead = cursor.left.min(KEYS_AHEAD_MAX);
        buffers.items.reserve(ahead);
        buffers.found.reserve(ahead);
        buffers.copies.reserve(ahead.min(BATCH_MAX));
        while cursor.left > 0 {
            let items = &mut buffers.items;
            while let Some(ScanItem::Rest(parent, from)) = items.pop_if(|item| item.child().is_none()) {
                self.index.expand(&parent, from, cursor, cursor.left, &mut buffers.found)?;
                items.extend(buffers.found.drain(..).rev());
            }
            if items.is_empty() {
                break;
            }
            if let ControlFlow::Break(ambiguous) = self.scan_batch(cursor, &mut buffers).await? {
                return Ok(Some(ambiguous));
            }
        }
        Ok(None)
    }

    /// Yields an entry with an overflow value, unless it was removed in the meantime. [1 RT; more for a value of
    /// several parts, or one that was replaced]
    async fn visit_overflow(
        self,
        cursor: &mut ScanCursor<'_>,
        key: &[u8],
        link: Link,
    ) -> Result<(), IndexError> {
        if let Some(value) = self.read_overflow(link).await? {
            cursor.emit(key, &value);
        } else if let Some(value) = self.named("get").get(key).await? {
            cursor.emit(key, &value);
        }
        Ok(())
    }

    /// Reads the next items, as many as one doorbell covers: leaves up to the first inner node, and inner nodes;
    /// replaces the inner nodes by their children. [1 RT; 2 more if a copy of their size does not prove on this fabric
    /// that it is of one object; more if a node at a bound of the range is several bytes deeper than its parent]
    async fn scan_batch(
        self,
        cursor: &mut ScanCursor<'_>,
        ScanBuffers { items, copies, found }: &mut ScanBuffers,
    ) -> Result<ControlFlow<AmbiguousSlot>, IndexError> {
        let span = match self.index.options.scans {
            Scans::Batched => self.index.span(items, cursor.left),
            Scans::OneByOne => self.index.span(&items[items.len() - 1..], cursor.left),
        };
        let (leaves, mixed) = (items.len() - span.leaves, items.len() - span.leaves - span.mixed);
        let client = self.client;
        let nodes =
            items[mixed..leaves].iter().rev().filter_map(ScanItem::child).filter(|child| !child.is_leaf());
        let batch = || items[leaves..].iter().rev().filter_map(ScanItem::child).chain(nodes.clone());
        let reads = batch().map(|child| {
            let (at, extent) = child.extent();
            read_bytes::<RawChild>(at, extent.bytes)
        });
        let proven = self.index.proves_all(client) || is_proven(client, batch());
        let before = if proven { Vec::new() } else { fronts_of(client, batch()).await? };
        copies.extend(client.post(all(reads)).await?);
        let after = if proven { Vec::new() } else { fronts_of(client, batch()).await? };
        let fronts = |number: usize| before.get(number).copied().zip(after.get(number).copied());
        let mut copies = copies.drain(..).enumerate();
        let mut next_copy = move || {
            let (number, copy) = copies.next().expect("every child of the batch was read");
            ReadChild { copy, fronts: fronts(number) }
        };
        for child in items.drain(leaves..).rev() {
            let ScanItem::Child(child) = child else { unreachable!("only children are read") };
            let Some(leaf) = self.index.accept_leaf(&child, next_copy()) else {
                return Ok(ControlFlow::Break(child.ambiguous_slot()));
            };
            if let Some(link) = cursor.visit(&leaf, child.overlap) {
                self.visit_overflow(cursor, leaf.key(), link).await?;
            }
        }
        let mut wanted = cursor.left;
        while items.len() > mixed
            && let Some(item) = items.pop()
        {
            let Some(node) = item.child().and_then(PendingChild::inner_ref) else {
                found.push(item);
                wanted = wanted.saturating_sub(1);
                continue;
            };
            let ScanItem::Child(child) = item else { unreachable!("an inner node is a child") };
            match self.expand_read(&child, node, next_copy(), cursor, wanted, found).await? {
                ControlFlow::Continue(keys) => wanted = wanted.saturating_sub(keys),
                ControlFlow::Break(slot) if found.is_empty() => return Ok(ControlFlow::Break(slot)),
                // The scan continues with the items before the node, and reads the node again when it reaches it.
                ControlFlow::Break(_) => {
                    found.push(ScanItem::Child(child));
                    break;
                }
            }
        }
        items.extend(found.drain(..).rev());
        Ok(ControlFlow::Continue(()))
    }

    /// Appends the children of an inner node that was read to `found`, in the order of the scan, until they have
    /// `wanted` keys. Yields a lower bound of the number of their keys, or an ambiguous slot.
    async fn expand_read(
        self,
        child: &PendingChild,
        child_ref: InnerRef,
        ReadChild { copy, fronts }: ReadChild,
        cursor: &ScanCursor<'_>,
        wanted: usize,
        found: &mut Vec<ScanItem>,
    ) -> Result<ControlFlow<AmbiguousSlot, usize>, IndexError> {
        let (tree, number, at) = (self.index, self.index.number, child_ref.at);
        let Ok(copy) = copy.check(&ChildFormat::Inner(tree.inner_format())) else {
            return Ok(ControlFlow::Break(child.ambiguous_slot()));
        };
        let whole = is_of_one_object(&copy, fronts);
        let mut node = Inner::new(copy);
        let is_unproven = fronts.is_none() && !ends_with_object(child.extent().1, node.bytes());
        if whole && (node.is_short() || is_unproven) {
            node = self.read_parent(InnerRef { at, size: node.header().size() }).await?;
        }
        if !whole || !is_linked_child(child, &node, number) {
            return Ok(ControlFlow::Break(child.ambiguous_slot()));
        }
        let header = node.header();
        let covers_next = cursor.next().is_some_and(|next| node.covers(next, number));
        if child.overlap == Overlap::Partial && covers_next {
            // The next scan from the current position starts at this node.
            tree.cache.put(at, &node);
        }
        let mut partial_prefix = child.partial_prefix();
        if let Some(known) = partial_prefix.take_if(|known| known.len() < header.depth()) {
            let key = match self.sample_key(&CachedNode::copy(at, &node)).await? {
                SampleKey::Key(key) => key,
                // The node has no keys.
                SampleKey::None => return Ok(ControlFlow::Continue(0)),
                SampleKey::Ambiguous { node, number } => {
                    return Ok(ControlFlow::Break(AmbiguousSlot { node, number }));
                }
            };
            if !key.starts_with(&known) {
                return Ok(ControlFlow::Break(child.ambiguous_slot()));
            }
            let prefix = &key[..header.depth()];
            partial_prefix = match cursor.overlap(prefix) {
                Overlap::None => return Ok(ControlFlow::Continue(0)),
                Overlap::Partial => Some(prefix.to_vec()),
                Overlap::Full => None,
            };
        }
        let parent = ScanParent::read(at, node, partial_prefix, number);
        let keys = tree.expand(&parent, cursor.first_slot(header.size()), cursor, wanted, found)?;
        Ok(ControlFlow::Continue(keys))
    }
}

impl<P: Policy> RadixTree<P> {
    /// Whether a copy of any child, if it passes its checks, is proven to come from a single object.
    fn proves_all<F: Fabric>(&self, client: &Client<F>) -> bool {
        let bytes_max = NodeSize::All.bytes().max(LEAF_BYTES_MAX);
        self.options.node_sizing != NodeSizing::Typed
            && client.fabric().capabilities().has(Capability::VersionPair(bytes_max))
    }

    /// The next items that have `wanted` keys, limited to those that one doorbell reads.
    fn span(&self, items: &[ScanItem], wanted: usize) -> BatchSpan {
        let (mut span, mut after_leaves, mut keys, mut reads) = (BatchSpan::default(), 0, 0, 0);
        for item in items.iter().rev() {
            let ScanItem::Child(child) = item else { break };
            if keys >= wanted || reads == BATCH_MAX {
                break;
            }
            keys += self.keys_behind(child.slot);
            match (child.is_leaf(), after_leaves) {
                (true, 0) => (span.leaves, reads) = (span.leaves + 1, reads + 1),
                (true, _) => after_leaves += 1,
                (false, _) => {
                    (after_leaves, reads) = (after_leaves + 1, reads + 1);
                    span.mixed = after_leaves;
                }
            }
        }
        span
    }

    /// The leaf in a copy, if it is linked in the slot that led to it, and its key belongs below that slot.
    #[inline]
    fn accept_leaf(
        &self,
        child: &PendingChild,
        ReadChild { copy, fronts }: ReadChild,
    ) -> Option<Leaf<Checked<RawChild>>> {
        let leaf = Leaf::new(copy.check(&ChildFormat::Leaf(LeafFormat { number: self.number })).ok()?);
        let parent = &child.parent;
        let right = is_of_one_object(leaf.bytes(), fronts)
            && (leaf.state() == LeafState::Live || self.options.swaps_leaves() && parent.was_read())
            && leaf.reverse() == Reverse::of_leaf(parent.at, parent.header.generation())
            && parent.covers(leaf.key())
            && step_at(leaf.key(), parent.header.depth()) == child.step();
        right.then_some(leaf)
    }
}

/// Whether an inner node that was read is live, and linked in the slot that led to it.
fn is_linked_child(child: &PendingChild, node: &Inner<Checked<RawChild>>, number: u32) -> bool {
    let (parent, header) = (&child.parent, node.header());
    child.step() != Step::End
        && header.state() == Some(NodeState::Live)
        && header.depth() > parent.header.depth()
        && node.reverse() == Reverse::of_inner(parent.at, parent.header.generation(), child.slot.partial())
        && child.is_certainly(node, number)
}

/// Whether each copy of a child in a batch, if it passes its checks, is proven to come from a single object.
fn is_proven<'b, F: Fabric>(client: &Client<F>, mut batch: impl Iterator<Item = &'b PendingChild>) -> bool {
    let promised = client.fabric().capabilities();
    batch.all(|child| {
        let (at, extent) = child.extent();
        proves(promised, at, extent) && is_ordered(promised, extent)
    })
}

/// Reads the fronts of the children of a batch. [1 RT]
async fn fronts_of<'b, F: Fabric>(
    client: &Client<F>,
    batch: impl Iterator<Item = &'b PendingChild>,
) -> Result<Vec<u64>, IndexError> {
    fronts(client, batch.map(|child| child.extent().0)).await
}

/// Whether a copy is of the object whose front was read before and after it, if that was needed.
fn is_of_one_object(copy: &[u8], fronts: Option<(u64, u64)>) -> bool {
    fronts.is_none_or(|fronts| fronts == (front_of(copy), front_of(copy)))
}
