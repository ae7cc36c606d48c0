//! The options of Sphinx, for commands that create an index.

use farwood::papers::{self, Eviction, NodeReads, ScanStarts};
use farwood_bench::spec::sphinx_overrides::SphinxOverrides;

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
    /// sphinx only: the node at which a scan starts [default: table; root for the variants art and +hash-table]
    #[arg(long, value_name = "NODE", value_enum)]
    scan_starts: Option<StartOfScans>,
    /// sphinx only: the entry of a full filter that a new one replaces [default: second-chance]
    #[arg(long, value_name = "ENTRY", value_enum)]
    filter_eviction: Option<FilterEviction>,
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

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum StartOfScans {
    /// The root, as in the paper
    Root,
    /// A node above the first key, to which filter and hash table lead
    Table,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum FilterEviction {
    /// One that no search has found for long
    SecondChance,
    /// A random one, for comparison
    Random,
}

impl SphinxOptions {
    /// The identifiers of the options.
    pub(crate) const NAMES: [&str; 4] = ["node_reads", "leaf_locks", "scan_starts", "filter_eviction"];

    /// The options that were chosen.
    pub(crate) fn overrides(self) -> SphinxOverrides {
        let node_reads = |part| match part {
            PartRead::Slot => NodeReads::OneSlot,
            PartRead::Whole => NodeReads::Whole,
        };
        let leaf_locks = |locks| match locks {
            LeafLocks::Queued => papers::LeafLocks::Queued,
            LeafLocks::HandedOver => papers::LeafLocks::HandedOver,
            LeafLocks::Contended => papers::LeafLocks::Contended,
        };
        let scan_starts = |start| match start {
            StartOfScans::Root => ScanStarts::Root,
            StartOfScans::Table => ScanStarts::Table,
        };
        let eviction = |eviction| match eviction {
            FilterEviction::SecondChance => Eviction::SecondChance,
            FilterEviction::Random => Eviction::Random,
        };
        SphinxOverrides {
            node_reads: self.node_reads.map(node_reads),
            leaf_locks: self.leaf_locks.map(leaf_locks),
            scan_starts: self.scan_starts.map(scan_starts),
            eviction: self.filter_eviction.map(eviction),
        }
    }
}
