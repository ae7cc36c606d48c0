//! The sizes of inner nodes, as an option of commands that create a radix tree.

use farwood::papers::NodeSizing;

/// Sizes of the inner nodes of a radix tree.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum NodeSizes {
    /// The smallest of 4, 16, 48 and 256 slots; a full node is replaced by a larger one
    Fitting,
    /// As in the published code of the paper: memory for 256 slots, of which clients read those in use (4, 8, 16, ..
    /// 256); a full node grows in place. Each inner node takes 2 KiB, so that trees of words take ten times the memory
    Typed,
    /// 256 slots, all of which clients read and keep in their caches
    #[value(name = "256")]
    Preallocated,
}

impl From<NodeSizes> for NodeSizing {
    fn from(sizes: NodeSizes) -> Self {
        match sizes {
            NodeSizes::Fitting => Self::Fitting,
            NodeSizes::Typed => Self::Typed,
            NodeSizes::Preallocated => Self::Preallocated,
        }
    }
}
