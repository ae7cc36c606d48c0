//! Inner nodes as a compute node keeps them: level 1 within a byte budget, the two top levels always
//! (Sherman §4.2.3).

use super::node::{Node, RawNode};
use crate::cache::{Ranged, at_or_below};
use crate::key::{compare, prefix};
use arc_swap::ArcSwapOption;
use farwood_fabric::Remote;
use std::cmp::Ordering;
use std::ops::Deref;
use std::sync::Arc;

/// A copy of an inner node, laid out for searching.
#[derive(Debug)]
pub(super) struct CachedInner {
    /// Where the node is.
    pub(super) at: Remote<RawNode>,
    /// Its level.
    pub(super) level: u8,
    lower: Box<[u8]>,
    upper: Option<Box<[u8]>>,
    /// The first eight bytes of each separator.
    prefixes: Box<[u64]>,
    /// The separators, one after the other; empty where eight bytes are all.
    separators: Box<[u8]>,
    children: Box<[Remote<RawNode>]>,
}

impl CachedInner {
    /// Copies the inner node at `at`.
    pub(super) fn copy<B: Deref<Target = [u8]>>(at: Remote<RawNode>, node: &Node<'_, B>) -> Self {
        let keys = 0..node.count();
        let children = (0..=node.count()).map(|child| node.child(child)).collect();
        let whole = node.lower().len() > 8;
        let separators = if whole {
            keys.clone().flat_map(|key| node.separator(key).to_vec()).collect()
        } else {
            [].into()
        };
        Self {
            at,
            level: node.level(),
            lower: node.lower().into(),
            upper: node.upper().map(Into::into),
            prefixes: keys.map(|key| prefix(node.separator(key))).collect(),
            separators,
            children,
        }
    }

    /// Whether `key` lies between the fences.
    #[inline]
    pub(super) fn covers(&self, key: &[u8]) -> bool {
        compare(&self.lower, key) != Ordering::Greater
            && self.upper.as_deref().is_none_or(|upper| compare(key, upper) == Ordering::Less)
    }

    fn separator(&self, at: usize) -> &[u8] {
        let bytes = self.lower.len();
        &self.separators[at * bytes..(at + 1) * bytes]
    }

    /// Number of the child that covers `key`, which the node covers.
    #[inline]
    pub(super) fn child_covering(&self, key: &[u8]) -> usize {
        let short = self.separators.is_empty();
        at_or_below(&self.prefixes, prefix(key), |at| {
            if short { Ordering::Equal } else { self.separator(at).cmp(key) }
        })
    }

    /// The children, leftmost first.
    #[inline]
    pub(super) fn children(&self) -> &[Remote<RawNode>] {
        &self.children
    }
}

impl Ranged for CachedInner {
    fn lower(&self) -> &[u8] {
        &self.lower
    }

    fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.lower.len()
            + self.upper.as_ref().map_or(0, |upper| upper.len())
            + self.separators.len()
            + 8 * (self.prefixes.len() + self.children.len())
    }
}

/// The root and, beneath it, copies of its children: always cached, outside of the budget.
#[derive(Debug)]
pub(super) struct Top {
    /// Where the root is.
    pub(super) root: Remote<RawNode>,
    /// Its level.
    pub(super) level: u8,
    /// The root's copy, unless the root is a leaf.
    pub(super) node: Option<Arc<CachedInner>>,
    /// Copies of the root's children, where those are inner nodes.
    pub(super) below: Box<[ArcSwapOption<CachedInner>]>,
}

impl Top {
    /// The top of a tree whose root is a leaf.
    pub(super) fn leaf(root: Remote<RawNode>) -> Self {
        Self { root, level: 0, node: None, below: [].into() }
    }

    /// The top of a tree whose root is an inner node.
    pub(super) fn inner(node: CachedInner) -> Self {
        let children = if node.level > 1 { node.children().len() } else { 0 };
        Self {
            root: node.at,
            level: node.level,
            node: Some(Arc::new(node)),
            below: (0..children).map(|_| ArcSwapOption::empty()).collect(),
        }
    }
}
