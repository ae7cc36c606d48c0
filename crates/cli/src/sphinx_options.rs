//! The options of Sphinx, for commands that create an index.

use farwood::papers::{self, NodeReads, SphinxFeatures};

/// Options of Sphinx.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct SphinxOptions {
    /// sphinx only: what a search reads of the root, and of a node with 256 slots that the hash table leads to
    /// [default: slot; whole for the variants art and +hash-table]
    #[arg(long, value_name = "PART", value_enum)]
    node_reads: Option<PartRead>,
    /// sphinx only: how the clients of one process compete for the lock of a leaf [default: queued]
    #[arg(long, value_name = "HOW", value_enum)]
    leaf_locks: Option<LeafLocks>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum PartRead {
    /// The header and the slot of the key, 32 B
    Slot,
    /// All slots, 2 KiB, as in the paper
    Whole,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum LeafLocks {
    /// They wait in a queue, and the first one competes with other processes
    Queued,
    /// They wait in a queue, and hand the lock and the leaf over, up to 8 times in a row
    HandedOver,
    /// Each competes, as in the paper: more updates of a hot key, some of which wait long. For reproduction: in shared
    /// memory, a change that fails for lack of memory leaves its leaf locked until the process ends
    Contended,
}

impl SphinxOptions {
    /// The identifiers of the options.
    pub(crate) const NAMES: [&str; 2] = ["node_reads", "leaf_locks"];

    /// The part of a node that a search reads, if it was chosen.
    pub(crate) fn node_reads(self) -> Option<NodeReads> {
        self.node_reads.map(|part| match part {
            PartRead::Slot => NodeReads::OneSlot,
            PartRead::Whole => NodeReads::Whole,
        })
    }

    /// The competition for the lock of a leaf, if it was chosen.
    pub(crate) fn leaf_locks(self) -> Option<papers::LeafLocks> {
        self.leaf_locks.map(|locks| match locks {
            LeafLocks::Queued => papers::LeafLocks::Queued,
            LeafLocks::HandedOver => papers::LeafLocks::HandedOver,
            LeafLocks::Contended => papers::LeafLocks::Contended,
        })
    }

    /// The features with the options that were chosen.
    pub(crate) fn apply(self, features: SphinxFeatures) -> SphinxFeatures {
        SphinxFeatures {
            node_reads: self.node_reads().unwrap_or(features.node_reads),
            leaf_locks: self.leaf_locks().unwrap_or(features.leaf_locks),
            ..features
        }
    }
}
