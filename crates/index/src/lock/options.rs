//! The locking method of nodes, as values chosen at run time.

use farwood_fabric::Capabilities;

/// The memory that holds the global locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockMemory {
    /// The locked node itself, in host memory: every atomic crosses PCIe twice, and nodes whose size is a power of two
    /// share few of a NIC's atomic slots.
    Node,
    /// A table in host memory.
    Host,
    /// A table in the NIC's on-chip memory.
    Device,
}

/// The size of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockWidth {
    /// 64 bits: the lock names its holder and the holder's epoch, so that a client can take over the lock of a crashed
    /// one.
    Word,
    /// 16 bits, four to a word, acquired by masked CAS (the paper's; 131,072 locks in 256 KiB). The lock names the
    /// holder's slot but not its epoch, so no client can take over the lock of a crashed client. For reproduction of
    /// the paper only.
    Packed,
}

/// The verb that releases a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// FAA (FG).
    Faa,
    /// WRITE (FG+, Sherman).
    Write,
}

/// The coordination of the clients of one compute node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalLocks {
    /// None: each client competes for the global lock.
    None,
    /// A local lock on which they spin.
    Spinning,
    /// A local lock with a first-come-first-served queue; the holder hands the global lock over within the compute
    /// node at most `hand_over_max` times in a row.
    Queued {
        /// Consecutive hand-overs; 0: none.
        hand_over_max: u8,
    },
}

/// The pauses of a client that competes for a global lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockPauses {
    /// None: a failed attempt is followed by the next one at once (the paper's).
    None,
    /// After a wait of 50 ms, because the holder is then stopped, not busy.
    LongWait,
    /// An eighth of the time waited, up to 20 µs: many compute nodes wait for one lock, and their attempts delay the
    /// holder. After a wait of 50 ms as [`LongWait`](Self::LongWait).
    Growing,
}

/// The locking method of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockOptions {
    /// The memory that holds the global locks.
    pub memory: LockMemory,
    /// The size of a lock.
    pub width: LockWidth,
    /// The verb that releases a lock.
    pub release: Release,
    /// The coordination of the clients of one compute node.
    pub local: LocalLocks,
    /// The pauses of a client that competes for a global lock.
    pub pauses: LockPauses,
}

impl LockOptions {
    /// Adapts the options to a fabric: where a failed compare-and-swap may undo a WRITE, locks are released by FAA,
    /// which costs the same.
    #[must_use]
    pub fn on(self, capabilities: &Capabilities) -> Self {
        let release = if capabilities.write_beside_cas { self.release } else { Release::Faa };
        Self { release, ..self }
    }
}

impl LockMemory {
    /// The name in records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Host => "host",
            Self::Device => "device",
        }
    }
}

impl LockWidth {
    /// The name in records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Word => "64 bit",
            Self::Packed => "16 bit",
        }
    }
}

impl LockPauses {
    /// The name in records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::LongWait => "after 50 ms",
            Self::Growing => "growing",
        }
    }
}

impl Release {
    /// The name in records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Faa => "faa",
            Self::Write => "write",
        }
    }
}
