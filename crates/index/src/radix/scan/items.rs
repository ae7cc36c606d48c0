//! The objects that a scan still has to read, in key order.

use super::cursor::Overlap;
use crate::radix::cache::cached_node::CachedNode;
use crate::radix::inner::{Inner, InnerFormat, InnerRef, NodeHeader, RawInner, step_of};
use crate::radix::key::Step;
use crate::radix::leaf::{LeafFormat, RawLeaf};
use crate::radix::prefix::PrefixHash;
use crate::radix::slot::{Child, NodeSlot};
use crate::radix::tree::copy::Extent;
use farwood_fabric::{Checked, Object, Remote, Torn};
use std::rc::Rc;
use std::sync::Arc;

/// An inner node whose children a scan reads.
pub(super) struct ScanParent {
    pub(super) at: Remote<RawInner>,
    pub(super) header: NodeHeader,
    /// Hash of the prefix of all keys below.
    prefix_hash: PrefixHash,
    source: Source,
    /// The prefix of all keys below, if some of them may be outside of the range.
    pub(super) partial_prefix: Option<Vec<u8>>,
}

/// The origin of the copy of an inner node.
enum Source {
    /// This scan has read the node, live and linked.
    Read(Inner<Checked<RawChild>>),
    /// The copy is a cached one of any age. The scan uses only children whose reverse pointers name the node.
    Cached(Arc<CachedNode>),
}

/// An object that a scan still has to read.
pub(super) enum ScanItem {
    /// A child that the scan has not read yet.
    Child(PendingChild),
    /// The children of a node from this slot on, which are expanded when they are needed.
    Rest(Rc<ScanParent>, u16),
}

/// A child that a scan has still to read.
pub(super) struct PendingChild {
    pub(super) parent: Rc<ScanParent>,
    pub(super) number: u16,
    pub(super) slot: NodeSlot,
    /// The keys below the child that are in the range.
    pub(super) overlap: Overlap,
}

/// An ambiguous slot, at which a scan cannot continue.
pub(super) struct AmbiguousSlot {
    pub(super) node: Arc<CachedNode>,
    pub(super) number: usize,
}

impl ScanParent {
    /// A node that was read, in the index with number `number`.
    pub(super) fn read(
        at: Remote<RawInner>,
        node: Inner<Checked<RawChild>>,
        partial_prefix: Option<Vec<u8>>,
        number: u32,
    ) -> Rc<Self> {
        let (header, prefix_hash) = (node.header(), node.prefix(number));
        Rc::new(Self { at, header, prefix_hash, source: Source::Read(node), partial_prefix })
    }

    /// A cached copy of a node with this prefix, in the index with number `number`.
    pub(super) fn cached(node: Arc<CachedNode>, prefix: Vec<u8>, number: u32) -> Rc<Self> {
        let (at, header, prefix_hash) = (node.at, node.header, node.prefix(number));
        let partial_prefix = Some(prefix);
        Rc::new(Self { at, header, prefix_hash, source: Source::Cached(node), partial_prefix })
    }

    /// Whether this scan has read the node.
    pub(super) const fn was_read(&self) -> bool {
        matches!(self.source, Source::Read(_))
    }

    #[inline]
    pub(super) fn slot(&self, number: usize) -> NodeSlot {
        match &self.source {
            Source::Read(node) => node.slot(number),
            Source::Cached(node) => node.slot(number),
        }
    }

    #[inline]
    pub(super) fn covers(&self, key: &[u8]) -> bool {
        key.get(..self.header.depth()).is_some_and(|prefix| PrefixHash::of(prefix) == self.prefix_hash)
    }

    fn copy(&self) -> Arc<CachedNode> {
        match &self.source {
            Source::Read(node) => CachedNode::copy(self.at, node),
            Source::Cached(node) => Arc::clone(node),
        }
    }
}

impl ScanItem {
    pub(super) fn child(&self) -> Option<&PendingChild> {
        match self {
            Self::Child(child) => Some(child),
            Self::Rest(..) => None,
        }
    }
}

impl PendingChild {
    /// The child's slot, to be reported if it is ambiguous.
    pub(super) fn ambiguous_slot(&self) -> AmbiguousSlot {
        AmbiguousSlot { node: self.parent.copy(), number: usize::from(self.number) }
    }

    /// The step of all keys below, after the prefix of the parent.
    pub(super) fn step(&self) -> Step {
        step_of(usize::from(self.number), self.slot)
    }

    pub(super) fn is_leaf(&self) -> bool {
        self.inner_ref().is_none()
    }

    /// Address and size, if the child is an inner node.
    pub(super) fn inner_ref(&self) -> Option<InnerRef> {
        match self.slot.child() {
            Child::Inner(node) => Some(node),
            _ => None,
        }
    }

    /// Address of the child, and the bytes to read.
    pub(super) fn extent(&self) -> (Remote<RawChild>, Extent) {
        match self.slot.child() {
            Child::Inner(node) => (node.at.part(0), node.extent()),
            Child::Leaf(leaf) => (leaf.at.part(0), leaf.extent()),
            _ => unreachable!("a scan follows only slots with a child"),
        }
    }

    /// The bytes of the keys below that the parent determines, if some of these keys may be outside of the range.
    pub(super) fn partial_prefix(&self) -> Option<Vec<u8>> {
        let prefix = self.parent.partial_prefix.clone();
        let mut prefix = prefix.filter(|_| self.overlap == Overlap::Partial)?;
        if let Step::Byte(byte) = self.step() {
            prefix.push(byte);
        }
        Some(prefix)
    }

    /// Whether an inner node whose reverse pointer names the parent is certainly its child. If the parent was just
    /// read, its generation is known. A reverse pointer holds too few bits of the generation to identify the parent of
    /// a copy of any age; so the prefix of the child must be the prefix of the slot, without further bytes.
    pub(super) fn is_certainly(&self, node: &Inner<Checked<RawChild>>, number: u32) -> bool {
        let ScanParent { header, prefix_hash, source, .. } = &*self.parent;
        match (source, self.step()) {
            (Source::Read(_), _) => true,
            (Source::Cached(_), Step::End) => false,
            (Source::Cached(_), Step::Byte(byte)) => {
                node.header().depth() == header.depth() + 1 && node.prefix(number) == prefix_hash.then(byte)
            }
        }
    }
}

/// Type of an inner node or a leaf in remote memory.
pub(super) enum RawChild {}

/// Whether a child is an inner node or a leaf.
pub(super) enum ChildFormat {
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
