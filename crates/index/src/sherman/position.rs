//! The position of a key relative to a node, and the state of a traversal from node to node.

use super::node::{Node, RawNode};
use super::read::NodeCopy;
use crate::error::IndexError;
use crate::mutant::Mutant;
use crate::retry::Retry;
use farwood_fabric::{Client, Fabric, Remote};
use std::ops::Deref;

/// Maximum restarts from the root.
pub(super) const RESTARTS_MAX: u32 = 10_000;
/// Steps to the right before the first restart from the root; doubled at each restart.
pub(super) const STEPS_RIGHT_MAX: u32 = 3;

/// The position of a key relative to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyPosition {
    /// The node covers the key.
    Here,
    /// The key belongs to the sibling, or to a node right of it.
    Right(Remote<RawNode>),
    /// The pointer to the node was stale: the node has another level, was freed, or lies right of the key.
    Stale,
}

/// The origin of a pointer to a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// A cached copy of its parent, of any age.
    Cache,
    /// The parent of the node, read for this operation.
    Parent,
}

/// A leaf address and its origin.
#[derive(Clone, Copy, Debug)]
pub(super) struct LeafPointer {
    pub(super) at: Remote<RawNode>,
    pub(super) source: Source,
}

/// A key, and the level of the node that should cover it.
#[derive(Clone, Copy, Debug)]
pub(super) struct SearchTarget<'k> {
    pub(super) level: u8,
    pub(super) key: &'k [u8],
}

/// Returns the position of `key` relative to a node that should be at `level` (Sherman §4.2.3: fences and level are
/// checked on every fetch).
#[inline]
pub(super) fn locate<B: Deref<Target = [u8]>>(node: &Node<'_, B>, level: u8, key: &[u8]) -> KeyPosition {
    if node.level() != level || node.freed() || node.is_right_of(key) {
        return KeyPosition::Stale;
    }
    if !node.is_left_of(key) {
        return KeyPosition::Here;
    }
    node.sibling().map_or(KeyPosition::Stale, KeyPosition::Right)
}

/// Returns the position that the fences of a leaf prove; the mutants trust the pointer to it instead.
#[inline]
pub(super) fn trust_fences(fences: KeyPosition, leaf: &NodeCopy<'_>, source: Source) -> KeyPosition {
    match leaf.layout.mutant {
        Some(Mutant::NoFenceCheck) if leaf.level() == 0 => KeyPosition::Here,
        Some(Mutant::CacheUnchecked) if source == Source::Cache && leaf.level() == 0 => KeyPosition::Here,
        _ => fences,
    }
}

/// Steps to the right along sibling pointers, with detection of the cycles that a damaged pointer may cause.
#[derive(Default)]
pub(super) struct RightSteps {
    count: u32,
    /// A node from which an earlier step began: that of the last step whose number is a power of two (Brent).
    mark: Option<Remote<RawNode>>,
}

impl RightSteps {
    /// Counts a step from the node at `at`; returns whether it is one of the first `max` steps and no earlier step
    /// began at that node.
    pub(super) fn may_step_from(&mut self, at: Remote<RawNode>, max: u32) -> bool {
        let in_cycle = self.mark == Some(at);
        self.count += 1;
        if self.count.is_power_of_two() {
            self.mark = Some(at);
        }
        self.count <= max && !in_cycle
    }
}

/// The traversal of an operation from its first node to the one that covers its key.
pub(super) struct Traversal {
    /// Steps to the right since the last start from the root.
    steps: RightSteps,
    /// Steps to the right before the next restart.
    steps_max: u32,
    /// The node from which the last step to the right began.
    pub(super) left: Option<Remote<RawNode>>,
    /// The origin of the pointer at which the traversal began.
    pub(super) source: Source,
    restarts: Retry,
}

impl Traversal {
    pub(super) fn new(restarts: Retry, source: Source) -> Self {
        Self { steps: RightSteps::default(), steps_max: STEPS_RIGHT_MAX, left: None, source, restarts }
    }

    /// Counts a step to the right from the node at `at`; returns whether the limit allows it.
    pub(super) fn may_step_right_from(&mut self, at: Remote<RawNode>) -> bool {
        self.left = Some(at);
        self.steps.may_step_from(at, self.steps_max)
    }

    /// Prepares for another start from the root, with twice as many steps to the right.
    pub(super) async fn restart<F: Fabric>(&mut self, client: &Client<F>) -> Result<(), IndexError> {
        (self.steps, self.left) = (RightSteps::default(), None);
        self.steps_max = self.steps_max.saturating_mul(2);
        self.restarts.again(client).await
    }
}
