//! The options of SMART, for commands that create an index.

use farwood::papers::{self, Allocation, NodeSizing};
use farwood_bench::spec::smart_overrides::SmartOverrides;

/// Options of SMART.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct SmartOptions {
    /// smart only: sizes of inner nodes [default: fitting]
    #[arg(long, value_name = "SIZES", value_enum)]
    node_sizes: Option<NodeSizes>,
    /// smart only: round the memory of each node and leaf up to 256 bytes, as the paper's published code does: for
    /// comparisons of memory
    #[arg(long)]
    round_allocations: bool,
    /// smart only: the copies of nodes that a full cache evicts [default: lru]
    #[arg(long, value_name = "POLICY", value_enum)]
    cache_policy: Option<CachePolicy>,
}

/// Sizes of the inner nodes of a radix tree.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum NodeSizes {
    /// The smallest of 4, 16, 48 and 256 slots; a full node is replaced by a larger one
    Fitting,
    /// As in the published code of the paper: memory for 256 slots, of which clients read those in use (4, 8, 16, ..
    /// 256); a full node grows in place. Each inner node takes 2 KiB, so that trees of words take ten times the memory
    Typed,
    /// 256 slots, all of which clients read and keep in their caches
    #[value(name = "256")]
    Preallocated,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum CachePolicy {
    /// The least recently used copies
    Lru,
    /// The copies that were inserted first, and the root is not kept, as in the published code of the paper: for
    /// comparison
    Fifo,
}

impl SmartOptions {
    /// The identifiers of the options.
    pub(crate) const NAMES: [&str; 3] = ["node_sizes", "round_allocations", "cache_policy"];

    /// The options that were chosen.
    pub(crate) fn overrides(self) -> SmartOverrides {
        let node_sizing = |sizes| match sizes {
            NodeSizes::Fitting => NodeSizing::Fitting,
            NodeSizes::Typed => NodeSizing::Typed,
            NodeSizes::Preallocated => NodeSizing::Preallocated,
        };
        let cache_policy = |policy| match policy {
            CachePolicy::Lru => papers::CachePolicy::RecentlyUsed,
            CachePolicy::Fifo => papers::CachePolicy::FirstIn,
        };
        SmartOverrides {
            node_sizing: self.node_sizes.map(node_sizing),
            allocation: self.round_allocations.then_some(Allocation::Steps256),
            cache_policy: self.cache_policy.map(cache_policy),
        }
    }
}
