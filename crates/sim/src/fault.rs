//! Fault injection: rules that apply to the stream of verbs.
//!
//! A rule waits for its trigger and then injects its fault once. Triggers count verbs or virtual time, so a run with
//! rules is repeatable.

use crate::trace::micros;
use farwood_fabric::NodeId;
use std::fmt;

/// Time for which a NIC retries a request before the request fails, nanoseconds. [Common knowledge: some milliseconds.]
pub const RETRY_NS: u64 = 4_000_000;

/// An injected fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InjectedFault {
    /// The virtual time of the fault, in nanoseconds.
    pub time: u64,
    /// The fault.
    pub fault: Fault,
}

/// A rule: a fault with its trigger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultRule {
    /// The event at which the fault happens.
    pub when: FaultTrigger,
    /// The fault.
    pub fault: Fault,
}

/// The trigger of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultTrigger {
    /// A compute node sends its verb of this number, counted from 1.
    Verb {
        /// The compute node.
        compute_node: usize,
        /// The number of the verb.
        number: u64,
    },
    /// A compute node sends a verb after it hit a coverage mark ([`farwood_fabric::Fabric::record_coverage`]) for the
    /// first time.
    Mark {
        /// The compute node.
        compute_node: usize,
        /// The coverage mark.
        mark: &'static str,
        /// The number of the verb after the mark, counted from 1.
        number: u64,
    },
    /// This virtual time, nanoseconds.
    Time(u64),
}

/// A failure that the simulator injects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A compute node crashes with all its clients.
    Crash {
        /// The compute node.
        compute_node: usize,
        /// The progress of the triggering verb. Ignored if the trigger is a time.
        point: CrashPoint,
    },
    /// The threads of a compute node stop for some time. Posted verbs continue.
    Freeze {
        /// The compute node.
        compute_node: usize,
        /// The duration.
        nanoseconds: u64,
    },
    /// The triggering verb, and the later verbs on its queue pair, arrive late. Ignored if the trigger is a time.
    Delay {
        /// The delay.
        nanoseconds: u64,
    },
    /// A memory node is unreachable for a while and keeps its memory.
    Down {
        /// The memory node.
        node: NodeId,
        /// The duration.
        nanoseconds: u64,
    },
    /// The NICs of a memory node slow down permanently.
    Slow {
        /// The memory node.
        node: NodeId,
        /// The factor by which service times grow.
        times: u64,
    },
    /// A compute node and a memory node cannot reach each other.
    Partition {
        /// The compute node.
        compute_node: usize,
        /// The memory node.
        node: NodeId,
        /// The duration.
        nanoseconds: u64,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Crash { compute_node, point } => {
                let moment = match point {
                    CrashPoint::Before => "before it sends a verb",
                    CrashPoint::At => "after it sent a verb",
                    CrashPoint::After => "after a verb was answered",
                };
                write!(f, "compute node {compute_node} crashes {moment}")
            }
            Self::Freeze { compute_node, nanoseconds } => {
                write!(f, "compute node {compute_node} stops for {}", micros(nanoseconds))
            }
            Self::Delay { nanoseconds } => write!(f, "a verb arrives {} late", micros(nanoseconds)),
            Self::Down { node, nanoseconds } => {
                write!(f, "memory node {node} is unreachable for {}", micros(nanoseconds))
            }
            Self::Slow { node, times } => {
                write!(f, "the NIC of memory node {node} becomes {times} times slower")
            }
            Self::Partition { compute_node, node, nanoseconds } => {
                let time = micros(nanoseconds);
                write!(f, "compute node {compute_node} cannot reach memory node {node} for {time}")
            }
        }
    }
}

/// The progress of a verb when its compute node crashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashPoint {
    /// The NIC has not sent it.
    Before,
    /// The NIC has sent it, and the memory node will execute it.
    At,
    /// The answer of the verb has arrived.
    After,
}

/// The number of injected faults, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCounts {
    /// Compute nodes crashed.
    pub crashes: u64,
    /// Compute nodes frozen.
    pub freezes: u64,
    /// Verbs delayed.
    pub delays: u64,
    /// Outages of memory nodes.
    pub downs: u64,
    /// Memory nodes slowed down.
    pub slow: u64,
    /// Network partitions.
    pub partitions: u64,
    /// Verbs lost because of a crash, an outage or a partition.
    pub lost: u64,
    /// CASes in device memory that the device made fail.
    pub outrun: u64,
}

impl FaultCounts {
    /// All faults, without lost verbs and intercepted CASes.
    pub fn faults(&self) -> u64 {
        self.crashes + self.freezes + self.delays + self.downs + self.slow + self.partitions
    }
}

impl std::ops::AddAssign for FaultCounts {
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
