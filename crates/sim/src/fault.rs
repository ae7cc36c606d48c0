//! Faults: rules on the stream of verbs.
//!
//! A rule waits for a moment and then does something, once. Moments are counted in verbs or in virtual time, so a run
//! with rules can be repeated as any other.

use farwood_fabric::NodeId;

/// How long a card sends a request again before it gives up, nanoseconds. [Common knowledge: some milliseconds.]
pub const RETRY_NS: u64 = 4_000_000;

/// A fault that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Happened {
    /// When, nanoseconds.
    pub time: u64,
    /// What.
    pub fault: Fault,
}

/// A rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// When.
    pub when: When,
    /// What.
    pub fault: Fault,
}

/// The moment of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// When a compute node sends its verb of this number, counted from 1.
    Verb {
        /// The compute node.
        compute_node: usize,
        /// Which of its verbs.
        number: u64,
    },
    /// When a compute node sends a verb after it has come to a mark ([`farwood_fabric::Fabric::mark`]) for the first
    /// time.
    Mark {
        /// The compute node.
        compute_node: usize,
        /// The mark.
        mark: &'static str,
        /// Which of the verbs that it sends from then on, counted from 1.
        number: u64,
    },
    /// At this time, nanoseconds.
    Time(u64),
}

/// What a rule does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The compute node crashes, all its clients with it.
    Crash {
        /// Which.
        compute_node: usize,
        /// Where the verb is then that the rule waited for; of no meaning for a rule of time.
        point: CrashPoint,
    },
    /// The threads of a compute node stop for a while. Verbs that have been posted go on.
    Freeze {
        /// Which.
        compute_node: usize,
        /// For how long.
        nanoseconds: u64,
    },
    /// The verb that the rule waited for, and what follows it on its queue pair, arrives late. Of no meaning for a
    /// rule of time.
    Delay {
        /// By how much.
        nanoseconds: u64,
    },
    /// A memory node goes down, and comes back with its memory as it was.
    Down {
        /// Which.
        node: NodeId,
        /// For how long.
        nanoseconds: u64,
    },
    /// A machine's NIC takes several times as long as it should, for good.
    Slow {
        /// The memory node whose machine it is.
        node: NodeId,
        /// How many times as long.
        times: u64,
    },
    /// A compute node and a memory node cannot reach each other.
    Partition {
        /// The one.
        compute_node: usize,
        /// The other.
        node: NodeId,
        /// For how long.
        nanoseconds: u64,
    },
}

/// Where a verb is when its compute node crashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashPoint {
    /// It has not left.
    Before,
    /// It has left, and will be executed.
    At,
    /// It is answered.
    After,
}

/// How often rules did what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Met {
    /// Compute nodes crashed.
    pub crashes: u64,
    /// Compute nodes frozen.
    pub freezes: u64,
    /// Verbs delayed.
    pub delays: u64,
    /// Memory nodes gone down.
    pub downs: u64,
    /// Machines slowed.
    pub slow: u64,
    /// Pairs of nodes cut off.
    pub partitions: u64,
    /// Verbs that were lost because of a crash, a memory node that was down, or a partition.
    pub lost: u64,
    /// CASes in device memory that a rival was faster than.
    pub outrun: u64,
}

impl Met {
    /// All faults; lost verbs and those that were outrun are not counted.
    pub fn faults(&self) -> u64 {
        self.crashes + self.freezes + self.delays + self.downs + self.slow + self.partitions
    }
}

impl std::ops::AddAssign for Met {
    fn add_assign(&mut self, other: Self) {
        self.crashes += other.crashes;
        self.freezes += other.freezes;
        self.delays += other.delays;
        self.downs += other.downs;
        self.slow += other.slow;
        self.partitions += other.partitions;
        self.lost += other.lost;
        self.outrun += other.outrun;
    }
}
