//! Guarantees of fabrics about order and tearing.
//!
//! An index names the capabilities that its proofs use and does not open on a fabric that lacks one of them. Each
//! capability has a litmus test in `farwood-testkit`. Every fabric guarantees that:
//!
//! * eight aligned bytes are never torn;
//! * WRITE then WRITE, and WRITE then READ or atomic, of one chain execute in that order (reliable connection);
//! * atomics are atomic with respect to other atomics of the same memory node, and to nothing else;
//! * requests of different chains are not ordered, and nothing is ordered across memory nodes.

use std::fmt;

/// The guarantees of one fabric. They are values, so that a test can withdraw one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is an independent guarantee, not a state")]
pub struct Capabilities {
    /// Largest READ, in bytes, for which equal front and rear versions prove that no WRITE overlapped it.
    ///
    /// On NICs: READs fetch upward and a READ does not overtake a WRITE (Sherman §3.2.3 footnote 5), up to
    /// 1 KiB. Through shared memory: READs copy downward while WRITEs place upward, any size. 0: never.
    pub version_pair_bytes_max: usize,
    /// A READ of at most [`version_pair_bytes_max`](Self::version_pair_bytes_max) bytes samples all of them within
    /// 60 µs, because a NIC executes it, which no operating system stops midway.
    ///
    /// Versions of few bits rely on it: they must not wrap around during one READ.
    pub brief_reads: bool,
    /// Size of aligned memory that a READ never returns torn: 8 bytes everywhere, 64 (a cache line) on NICs.
    pub whole_bytes: usize,
    /// The bytes of one WRITE become visible in increasing address order.
    pub write_upward: bool,
    /// An atomic and a READ posted after it in one chain execute in that order.
    pub atomic_then_read: bool,
    /// A request of any client that arrives at a memory node after a WRITE executed there sees that WRITE.
    ///
    /// Every one-sided lock relies on it: the next holder's READ must see the last holder's write-back.
    pub arrival_sees_write: bool,
    /// A concurrent failed compare-and-swap does not undo a WRITE of a whole word: it stores nothing, or no WRITE
    /// executes between its load and its store.
    ///
    /// Locks that are released by WRITE rely on it.
    pub write_beside_cas: bool,
    /// Compare-and-swap on part of a word.
    pub masked_cas: bool,
    /// Longest WRITE, in bytes, that is placed completely or not at all when the process that posted it crashes.
    /// Readers may see part of it until [`revoke`](crate::Fabric::revoke) confirms that the client can execute no more
    /// verbs. A longer WRITE may stop after any number of pieces of this length.
    ///
    /// On NICs: a packet. Through shared memory: 256 KiB.
    pub write_survives_writer_bytes_max: usize,
    /// The memory node's own CPU sees a WRITE as soon as its completion is known.
    pub cpu_sees_write: bool,
}

/// One guarantee, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    /// Equal front and rear versions prove that a READ of this number of bytes is not torn.
    VersionPair(usize),
    /// See [`Capabilities::brief_reads`].
    BriefReads,
    /// See [`Capabilities::write_upward`].
    WriteUpward,
    /// See [`Capabilities::atomic_then_read`].
    AtomicThenRead,
    /// See [`Capabilities::arrival_sees_write`].
    ArrivalSeesWrite,
    /// See [`Capabilities::write_beside_cas`].
    WriteBesideCas,
    /// See [`Capabilities::masked_cas`].
    MaskedCas,
    /// A WRITE of this number of bytes survives its writer, see [`Capabilities::write_survives_writer_bytes_max`].
    WriteSurvivesWriter(usize),
    /// See [`Capabilities::cpu_sees_write`].
    CpuSeesWrite,
}

impl Capabilities {
    /// Whether the fabric guarantees `capability`.
    pub const fn has(&self, capability: Capability) -> bool {
        match capability {
            Capability::VersionPair(bytes) => bytes <= self.version_pair_bytes_max,
            Capability::BriefReads => self.brief_reads,
            Capability::WriteUpward => self.write_upward,
            Capability::AtomicThenRead => self.atomic_then_read,
            Capability::ArrivalSeesWrite => self.arrival_sees_write,
            Capability::WriteBesideCas => self.write_beside_cas,
            Capability::MaskedCas => self.masked_cas,
            Capability::WriteSurvivesWriter(bytes) => bytes <= self.write_survives_writer_bytes_max,
            Capability::CpuSeesWrite => self.cpu_sees_write,
        }
    }

    /// The first of `needed` that the fabric does not guarantee.
    pub fn missing(&self, needed: &[Capability]) -> Option<Capability> {
        needed.iter().copied().find(|&capability| !self.has(capability))
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::VersionPair(bytes) => write!(f, "front/rear versions over {bytes} bytes"),
            Self::BriefReads => f.write_str("READs that sample all their bytes within 60 µs"),
            Self::WriteUpward => f.write_str("WRITEs placed in upward order"),
            Self::AtomicThenRead => f.write_str("an atomic and a later READ in order"),
            Self::ArrivalSeesWrite => f.write_str("later arrivals see an executed WRITE"),
            Self::WriteBesideCas => f.write_str("a failed compare-and-swap does not undo a WRITE"),
            Self::MaskedCas => f.write_str("masked compare-and-swap"),
            Self::WriteSurvivesWriter(bytes) => {
                write!(
                    f,
                    "a WRITE of {bytes} bytes is placed completely or not at all when its writer crashes"
                )
            }
            Self::CpuSeesWrite => f.write_str("the memory node's CPU sees a completed WRITE"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NIC: Capabilities = Capabilities {
        version_pair_bytes_max: 1024,
        brief_reads: true,
        whole_bytes: 64,
        write_upward: true,
        atomic_then_read: true,
        arrival_sees_write: true,
        write_beside_cas: true,
        masked_cas: false,
        write_survives_writer_bytes_max: 4096,
        cpu_sees_write: false,
    };

    #[test]
    fn the_first_missing_capability_is_named() {
        assert_eq!(NIC.missing(&[Capability::VersionPair(1024), Capability::AtomicThenRead]), None);
        assert_eq!(NIC.missing(&[Capability::VersionPair(1025)]), Some(Capability::VersionPair(1025)));
        let longer = Capability::WriteSurvivesWriter(4097);
        assert_eq!(NIC.missing(&[Capability::WriteSurvivesWriter(4096), longer]), Some(longer));
        assert_eq!(
            NIC.missing(&[Capability::WriteUpward, Capability::MaskedCas, Capability::CpuSeesWrite]),
            Some(Capability::MaskedCas)
        );
    }
}
