//! Cached inner nodes of a compute node: level 1 within a byte budget, the two top levels always (Sherman §4.2.3).

use super::node::{Node, RawNode};
use crate::cache::{Prefixes, Ranged, Slot};
use crate::key::prefix;
use arc_swap::{ArcSwapAny, ArcSwapOption};
use farwood_fabric::Remote;
use std::cmp::Ordering;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// A copy of an inner node, laid out for searching: the first cache line holds the data of a search by the first eight
/// bytes of a key.
#[derive(Debug)]
#[repr(C)]
pub(super) struct CachedInner {
    /// The first eight bytes of the lower fence and of the upper fence; `u64::MAX` if there is no upper fence.
    lower_prefix: u64,
    upper_prefix: u64,
    /// The children, by the first eight bytes of their lower fences.
    children: Prefixes<Remote<RawNode>>,
    /// Its level.
    pub(super) level: u8,
    has_upper: bool,
    /// The address of the node.
    pub(super) at: Remote<RawNode>,
    /// The lower fences of the children, concatenated, the node's own first; empty for keys of eight bytes.
    lowers: Box<[u8]>,
    lower: Box<[u8]>,
    upper: Box<[u8]>,
}

impl CachedInner {
    /// Copies the inner node that was read at `at`.
    pub(super) fn copy<B: Deref<Target = [u8]>>(at: Remote<RawNode>, node: &Node<'_, B>) -> Self {
        let lower_of = |child: usize| if child == 0 { node.lower() } else { node.separator(child - 1) };
        let children = 0..node.count() + 1;
        let whole = node.lower().len() > 8;
        let lowers = if whole {
            children.clone().flat_map(|child| lower_of(child).to_vec()).collect()
        } else {
            [].into()
        };
        Self {
            lower_prefix: prefix(node.lower()),
            upper_prefix: node.upper().map_or(u64::MAX, prefix),
            children: Prefixes::new(children.map(|child| (prefix(lower_of(child)), node.child(child)))),
            level: node.level(),
            has_upper: node.upper().is_some(),
            at,
            lowers,
            lower: node.lower().into(),
            upper: node.upper().unwrap_or_default().into(),
        }
    }

    /// The bytes of a copy of `node`, as [`Ranged::bytes`] counts them.
    pub(super) fn bytes_of<B: Deref<Target = [u8]>>(node: &Node<'_, B>) -> usize {
        let lower = node.lower().len();
        let children = node.count() + 1;
        let lowers = if lower > 8 { children * lower } else { 0 };
        let fences = lower + node.upper().map_or(0, <[u8]>::len) + lowers;
        size_of::<Self>() + fences + Prefixes::<Remote<RawNode>>::bytes_for(children)
    }

    /// Whether `key` lies between the fences.
    #[inline]
    pub(super) fn covers(&self, key: &[u8]) -> bool {
        let wanted = prefix(key);
        let above = match self.lower_prefix.cmp(&wanted) {
            Ordering::Equal => &*self.lower <= key,
            decided => decided == Ordering::Less,
        };
        let below = match wanted.cmp(&self.upper_prefix) {
            Ordering::Equal => !self.has_upper || key < &*self.upper,
            decided => decided == Ordering::Less,
        };
        above && below
    }

    /// The number of the child that covers `key`. The node must cover `key`.
    #[inline]
    pub(super) fn child_covering(&self, key: &[u8]) -> usize {
        let count = self.children.at_or_below(prefix(key), |child| {
            if self.lowers.is_empty() { Ordering::Equal } else { self.lower_of(child).cmp(key) }
        });
        // The separators of a corrupt node may be out of order; the caller checks the child against its fences.
        count.saturating_sub(1)
    }

    fn lower_of(&self, child: usize) -> &[u8] {
        let bytes = self.lower.len();
        &self.lowers[child * bytes..(child + 1) * bytes]
    }

    /// The upper fence.
    pub(super) fn upper(&self) -> Option<&[u8]> {
        self.has_upper.then_some(&*self.upper)
    }

    /// The number of children.
    pub(super) fn children(&self) -> usize {
        self.children.len()
    }

    /// Child `at`, 0 being the leftmost.
    #[inline]
    pub(super) fn child(&self, at: usize) -> Remote<RawNode> {
        *self.children.get(at).expect("the caller counted the children")
    }
}

impl Ranged for CachedInner {
    fn lower(&self) -> &[u8] {
        &self.lower
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + self.lower.len() + self.upper.len() + self.lowers.len() + self.children.bytes()
    }
}

/// The root and copies of its children, which are always cached and do not count towards the budget.
#[derive(Debug)]
pub(super) struct Top {
    /// The address of the root.
    pub(super) root: Remote<RawNode>,
    /// Its level.
    pub(super) level: u8,
    /// The root's copy, unless the root is a leaf.
    pub(super) node: Option<Arc<Slot<CachedInner>>>,
    /// Copies of the root's children, where those are inner nodes.
    pub(super) below: Box<[ArcSwapOption<Slot<CachedInner>>]>,
    /// Whether the root is another node, or has changed.
    outdated: AtomicBool,
}

impl Top {
    /// The top of a tree whose root is a leaf.
    pub(super) fn leaf(root: Remote<RawNode>) -> Self {
        Self { root, level: 0, node: None, below: [].into(), outdated: AtomicBool::new(false) }
    }

    /// The top of a tree whose root is an inner node, with those copies of `before` that are children of that root.
    pub(super) fn inner(node: Arc<Slot<CachedInner>>, before: Option<&Self>) -> Self {
        let children = if node.level > 1 { node.children() } else { 0 };
        let below: Box<[_]> = (0..children).map(|_| ArcSwapOption::empty()).collect();
        for copy in before.into_iter().flat_map(|before| &before.below).filter_map(ArcSwapAny::load_full) {
            let child = node.child_covering(&copy.lower);
            if below.get(child).is_some() && node.child(child) == copy.at {
                below[child].store(Some(copy));
            }
        }
        Self { root: node.at, level: node.level, node: Some(node), below, outdated: AtomicBool::new(false) }
    }

    /// Whether the root must be read again before the next descent.
    pub(super) fn is_outdated(&self) -> bool {
        self.outdated.load(Relaxed)
    }

    /// Makes the next descent read the root again.
    pub(super) fn set_outdated(&self) {
        self.outdated.store(true, Relaxed);
    }

    /// Drops the copy of the root's child that covers `key`.
    pub(super) fn drop_child(&self, key: &[u8]) {
        let covering =
            self.node.as_ref().filter(|root| root.covers(key)).map(|root| root.child_covering(key));
        if let Some(copy) = covering.and_then(|child| self.below.get(child)) {
            copy.store(None);
        }
    }

    /// Drops the copy that named a node of `level` for `key`, if it is one of these copies.
    pub(super) fn drop_parent(&self, level: u8, key: &[u8]) {
        match self.level.checked_sub(level) {
            None | Some(0 | 1) => self.set_outdated(),
            Some(2) => self.drop_child(key),
            Some(_) => {}
        }
    }
}
