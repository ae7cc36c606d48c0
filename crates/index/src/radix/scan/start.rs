//! The start of a scan: the root, or a lower node to which cached copies lead and which the scan reads like all others
//! (`docs/decisions/0038-scan-start.md`), or some children of such a node
//! (`docs/decisions/0054-shortcuts-and-scan-starts.md`).
//!
//! The bytes of a child prove that it is linked in the slot that a copy shows, even if the copy is old: for an inner
//! node its prefix, for a leaf its key and 15 bits of the generation of its parent, as in a lookup. An empty slot of a
//! copy does not prove that the slot is still empty. So a scan uses only children of a copy without a gap between them.

use super::cursor::{Overlap, ScanBounds, ScanCursor};
use super::items::{ChildFormat, PendingChild, RawChild, ScanItem, ScanParent};
use crate::error::IndexError;
use crate::mutant::Mutant;
use crate::op::Op;
use crate::radix::cache::cached_node::CachedNode;
use crate::radix::coverage;
use crate::radix::inner::{Inner, InnerRef, NodeSize, NodeState, SlotSearch, slot_of_all, step_of};
use crate::radix::key::{Step, step_at};
use crate::radix::reverse::Reverse;
use crate::radix::slot::{Child, NodeSlot};
use crate::radix::tree::find::SlotAt;
use crate::radix::tree::options::Scans;
use crate::radix::tree::{Direction, Policy, RadixTree};
use farwood_fabric::{Checked, Fabric};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

/// Maximum number of keys for which a scan chooses its start: a scan of more keys starts at a node that has this many
/// keys after the start.
pub(super) const KEYS_AHEAD_MAX: usize = 256;

/// Whether a scan may start at children of a node that it has not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CachedChildren {
    Use,
    /// No, because they were stale in an earlier try.
    Ignore,
}

impl CachedChildren {
    /// The setting after `tries` tries.
    pub(super) fn after(tries: u32) -> Self {
        if tries == 0 { Self::Use } else { Self::Ignore }
    }
}

/// The start of a part of a scan.
pub(super) struct ScanStart {
    /// Prefix of all keys of this part.
    pub(super) prefix: Vec<u8>,
    /// The objects to read, in reverse order.
    pub(super) items: Vec<ScanItem>,
}

/// A cached node at which a scan may start.
struct CachedStart {
    node: Arc<CachedNode>,
    /// The reverse pointer that the node has if it is still linked.
    right: Reverse,
    /// The slots with the keys that the scan needs, in its order, if the copy determines them.
    children: Vec<(u16, NodeSlot)>,
}

/// Lower bounds of the number of keys below a node.
#[derive(Clone, Copy)]
struct KeyCounts {
    /// All keys.
    all: usize,
    /// Keys that are not before the start of the scan.
    ahead: usize,
}

impl<F: Fabric, P: Policy> Op<'_, F, RadixTree<P>> {
    /// Chooses the node at which a scan continues. [0 RT if a copy determines which children to read; otherwise 1 for
    /// the node to which copies lead, if its reverse pointer confirms the copies; 2 if they were stale; and 2 if the
    /// system finds the start, 1 more if that node is not the right one]
    pub(super) async fn start_scan(
        self,
        cursor: &ScanCursor<'_>,
        cached_children: CachedChildren,
    ) -> Result<ScanStart, IndexError> {
        let tree = self.index;
        if let Some(start) = tree.cached_start(cursor) {
            let CachedStart { node, right, children } = start;
            let key = cursor.next().unwrap_or_default();
            let prefix = key[..node.header.depth()].to_vec();
            if !children.is_empty() && cached_children == CachedChildren::Use {
                return Ok(start_with_children(children, node, prefix, tree.number, cursor));
            }
            let copy = self.read_parent(node.inner_ref()).await?;
            if copy.header().is_of_node(node.header) && copy.reverse() == right {
                if cached_children == CachedChildren::Ignore {
                    tree.cache.put(node.at, &copy);
                }
                let first = cursor.first_slot(copy.header().size());
                let parent = ScanParent::read(node.at, copy, Some(prefix.clone()), tree.number);
                return Ok(ScanStart { prefix, items: vec![ScanItem::Rest(parent, first)] });
            }
            self.hit(coverage::STALE_COPY_DROPPED);
            tree.cache.remove(&node);
        }
        if let Some(start) = self.start_by_system(cursor).await? {
            return Ok(start);
        }
        let root = self.read_parent(InnerRef { at: tree.root, size: NodeSize::All }).await?;
        tree.cache.put(tree.root, &root);
        let parent = ScanParent::read(tree.root, root, Some(Vec::new()), tree.number);
        let items = vec![ScanItem::Rest(parent, cursor.first_slot(NodeSize::All))];
        Ok(ScanStart { prefix: Vec::new(), items })
    }

    /// Starts at the node that the system finds, if it is live and linked and has the prefix of the next key. [1 RT for
    /// the node; as [`scan_start`](Policy::scan_start)]
    async fn start_by_system(self, cursor: &ScanCursor<'_>) -> Result<Option<ScanStart>, IndexError> {
        // A long scan would find another start for each part.
        let Some(key) = cursor.next().filter(|_| cursor.left <= KEYS_AHEAD_MAX) else { return Ok(None) };
        let Some((node, depth)) = P::scan_start(self, key, cursor.left).await? else { return Ok(None) };
        let (prefix, number) = (key[..depth].to_vec(), self.index.number);
        let copy = self.read_parent(node).await?;
        let is_node_of_prefix = copy.header().state() == Some(NodeState::Live)
            && copy.reverse().is_linked()
            && copy.header().depth() == depth
            && copy.covers(&prefix, number);
        if !is_node_of_prefix || cursor.direction == Direction::Backward && depth == key.len() {
            return Ok(None);
        }
        let first = cursor.first_slot(copy.header().size());
        let parent = ScanParent::read(node.at, copy, Some(prefix.clone()), number);
        Ok(Some(ScanStart { prefix, items: vec![ScanItem::Rest(parent, first)] }))
    }

    /// Reads an inner node whose children the scan reads. [as [`read_object`](Self::read_object)]
    pub(super) async fn read_parent(self, node: InnerRef) -> Result<Inner<Checked<RawChild>>, IndexError> {
        self.read_slots_in_use(node, &ChildFormat::Inner(self.index.inner_format())).await
    }
}

impl<P: Policy> RadixTree<P> {
    /// The deepest cached node that may be above the next key and has enough keys from that key on; `None` for the
    /// root. [0 RT]
    fn cached_start(&self, cursor: &ScanCursor<'_>) -> Option<CachedStart> {
        let key = cursor.next()?;
        let mut found: Option<CachedStart> = None;
        for link in self.cache.path(key).windows(2) {
            let (node, child) = (&link[0], &link[1]);
            let SlotSearch::Slot(number, slot) = node.find(key) else { continue };
            let is_linked = matches!(slot.child(), Child::Inner(linked) if linked.at == child.at);
            let depth = child.header.depth();
            if !is_linked || cursor.direction == Direction::Backward && depth == key.len() {
                continue;
            }
            let counts = self.count_keys(child, step_at(key, depth), cursor);
            if counts.ahead >= cursor.left.min(KEYS_AHEAD_MAX) {
                let right = Reverse::of_inner(node.at, node.header.generation(), slot.partial());
                found = Some(CachedStart { node: Arc::clone(child), right, children: Vec::new() });
            } else if let Some(found) = &mut found
                && Arc::ptr_eq(&found.node, node)
                && depth == node.header.depth() + 1
            {
                let children = self.enough_children(node, SlotAt { number, slot }, counts, cursor);
                found.children = children.unwrap_or_default();
            }
        }
        found
    }

    /// Counts the keys below a cached node, all of them and those from step `from` on. If there are as many as the scan
    /// needs, both counts may be too small.
    fn count_keys(&self, node: &CachedNode, from: Step, cursor: &ScanCursor<'_>) -> KeyCounts {
        let wanted = cursor.left.min(KEYS_AHEAD_MAX);
        if node.header.size() == NodeSize::All {
            return self.count_keys_of_all(node, slot_of_all(from), cursor.direction, wanted);
        }
        let mut counts = KeyCounts { all: 0, ahead: 0 };
        for (step, slot) in node.children() {
            let keys = self.keys_behind(slot);
            let is_ahead = match cursor.direction {
                Direction::Forward => step >= from,
                Direction::Backward => step <= from,
            };
            counts.all += keys;
            counts.ahead += if is_ahead { keys } else { 0 };
        }
        counts
    }

    /// As [`count_keys`](Self::count_keys), for a node with a slot for every byte, from slot `from` on. If many slots
    /// are ahead, the count of the others is extrapolated.
    fn count_keys_of_all(
        &self,
        node: &CachedNode,
        from: usize,
        direction: Direction,
        wanted: usize,
    ) -> KeyCounts {
        const MANY: usize = 64;
        let keys_in = |slots: Range<usize>| {
            let occupied = slots.map(|number| node.slot(number)).filter(|slot| slot.is_occupied());
            occupied.map(|slot| self.keys_behind(slot))
        };
        let last = NodeSize::All.slots();
        let (slots, others) = match direction {
            Direction::Forward => (from..last + 1, 0..from),
            Direction::Backward => (0..from + 1, from + 1..last + 1),
        };
        let mut ahead = 0;
        for keys in keys_in(slots.clone()) {
            ahead += keys;
            if ahead >= wanted {
                return KeyCounts { all: ahead, ahead };
            }
        }
        let all = if slots.len() >= MANY {
            ahead * (last + 1) / slots.len()
        } else {
            ahead + keys_in(others).sum::<usize>()
        };
        KeyCounts { all, ahead }
    }

    /// The children of a cached node from `first` on that have as many keys as the scan needs, unless these are more
    /// than one node can have, or a slot without a child is between them: a copy does not prove that such a slot is
    /// still empty. Children of the size of the first child are assumed to have as many keys as the first child,
    /// `counts`.
    fn enough_children(
        &self,
        node: &CachedNode,
        SlotAt { number: first, slot }: SlotAt,
        counts: KeyCounts,
        cursor: &ScanCursor<'_>,
    ) -> Option<Vec<(u16, NodeSlot)>> {
        let fits = node.header.size() == NodeSize::All && cursor.left <= KEYS_AHEAD_MAX;
        if !fits || self.options.scans != Scans::Batched || slot_of_all(step_of(first, slot)) != first {
            return None;
        }
        let (first_size, last) = (size_behind(slot), NodeSize::All.slots());
        let (mut keys, mut children) = (counts.ahead, vec![(first as u16, slot)]);
        let (mut above, mut below) = (first + 1..=last, (1..first).rev());
        let mut next = || match cursor.direction {
            Direction::Forward => above.next(),
            Direction::Backward => below.next(),
        };
        while keys < cursor.left {
            let number = next()?;
            let slot = node.slot(number);
            keys += match self.keys_behind(slot) {
                0 if self.mutant == Some(Mutant::GapsPassed) => continue,
                0 => return None,
                _ if slot_of_all(step_of(number, slot)) != number => return None,
                _ if size_behind(slot) == first_size => counts.all,
                least => least,
            };
            children.push((number as u16, slot));
        }
        Some(children)
    }
}

/// The size of the inner node that a slot points to.
fn size_behind(slot: NodeSlot) -> Option<NodeSize> {
    match slot.child() {
        Child::Inner(node) => Some(node.size),
        _ => None,
    }
}

/// Starts at those children of a cached copy that overlap with the range. The prefix of the part is that of the last of
/// them, after which the scan continues.
fn start_with_children(
    children: Vec<(u16, NodeSlot)>,
    node: Arc<CachedNode>,
    prefix: Vec<u8>,
    number: u32,
    cursor: &ScanCursor<'_>,
) -> ScanStart {
    let (depth, mut last) = (prefix.len(), prefix.clone());
    let mut bounds = ScanBounds::of(Some(&prefix), cursor);
    let parent = ScanParent::cached(node, prefix, number);
    let mut items = Vec::with_capacity(cursor.left.min(KEYS_AHEAD_MAX));
    for (number, slot) in children {
        let step = step_of(usize::from(number), slot);
        last.truncate(depth);
        if let Step::Byte(byte) = step {
            last.push(byte);
        }
        let overlap = bounds.overlap(step, cursor);
        if overlap == Overlap::None {
            break;
        }
        items.push(ScanItem::Child(PendingChild { parent: Rc::clone(&parent), number, slot, overlap }));
    }
    items.reverse();
    ScanStart { prefix: last, items }
}
