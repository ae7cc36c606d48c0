//! What a fabric promises about order and tearing, written down once.
//!
//! An index names the capabilities that its proofs use and refuses to open on a fabric that lacks them; each
//! capability has a litmus test in `farwood-testkit`. What every fabric promises without being asked:
//!
//! * eight aligned bytes are whole;
//! * WRITE then WRITE, and WRITE then READ or atomic, of one chain execute in that order (reliable connection);
//! * atomics are atomic against other atomics of the same memory node, and against nothing else;
//! * requests of different chains have no order, and nothing is ordered across memory nodes.

use std::fmt;

/// The promises of one fabric. Values, so that a test can withdraw one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a promise of its own, not a state")]
pub struct Capabilities {
    /// Largest READ, in bytes, for which equal front and rear versions prove that no WRITE overlapped it.
    ///
    /// On NICs: READs fetch upward and a READ does not overtake a WRITE (Sherman §3.2.3 footnote 5), up to
    /// 1 KiB. Through shared memory: READs copy downward while WRITEs place upward, any size. 0: never.
    pub version_pair_bytes_max: usize,
    /// Aligned bytes that a READ never sees half-written: 8 everywhere, 64 (a line) on NICs.
    pub whole_bytes: usize,
    /// The bytes of one WRITE become visible in increasing address order.
    pub write_upward: bool,
    /// An atomic and a READ posted after it in one chain execute in that order.
    pub atomic_then_read: bool,
    /// What arrives at a memory node after a WRITE executed there sees that WRITE, from any client.
    ///
    /// Every one-sided lock rests on it: the next holder's READ must see the last holder's write-back.
    pub arrival_sees_write: bool,
    /// A WRITE of a whole word stays, whatever compare-and-swap fails on that word meanwhile: one that fails stores
    /// nothing, or nobody's WRITE comes between its load and its store.
    ///
    /// A lock that is released by WRITE rests on it.
    pub write_beside_cas: bool,
    /// Compare-and-swap on part of a word.
    pub masked_cas: bool,
    /// Longest WRITE, in bytes, that lands whole or not at all when the process that posted it dies: half of it may
    /// be seen until [`revoke`](crate::Fabric::revoke) says that the client is gone. Of a longer one pieces of this
    /// length may have landed, from its front on, and not the rest.
    ///
    /// On NICs: a packet. Through shared memory: 256 KiB.
    pub write_survives_writer_bytes_max: usize,
    /// The memory node's own CPU sees a WRITE as soon as its completion is known.
    pub cpu_sees_write: bool,
}

/// One promise, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    /// Versions front and rear prove a READ of this many bytes whole.
    VersionPair(usize),
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
    /// A WRITE of this many bytes survives its writer, see [`Capabilities::write_survives_writer_bytes_max`].
    WriteSurvivesWriter(usize),
    /// See [`Capabilities::cpu_sees_write`].
    CpuSeesWrite,
}

impl Capabilities {
    /// Whether the fabric promises `capability`.
    pub const fn has(&self, capability: Capability) -> bool {
        match capability {
            Capability::VersionPair(bytes) => bytes <= self.version_pair_bytes_max,
            Capability::WriteUpward => self.write_upward,
            Capability::AtomicThenRead => self.atomic_then_read,
            Capability::ArrivalSeesWrite => self.arrival_sees_write,
            Capability::WriteBesideCas => self.write_beside_cas,
            Capability::MaskedCas => self.masked_cas,
            Capability::WriteSurvivesWriter(bytes) => bytes <= self.write_survives_writer_bytes_max,
            Capability::CpuSeesWrite => self.cpu_sees_write,
        }
    }

    /// The first of `needed` that the fabric does not promise.
    pub fn missing(&self, needed: &[Capability]) -> Option<Capability> {
        needed.iter().copied().find(|&capability| !self.has(capability))
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::VersionPair(bytes) => write!(f, "front/rear versions over {bytes} bytes"),
            Self::WriteUpward => f.write_str("bytes of a WRITE placed upward"),
            Self::AtomicThenRead => f.write_str("atomic then READ in order"),
            Self::ArrivalSeesWrite => f.write_str("later arrivals see an executed WRITE"),
            Self::WriteBesideCas => f.write_str("a WRITE stays beside a failed compare-and-swap"),
            Self::MaskedCas => f.write_str("masked compare-and-swap"),
            Self::WriteSurvivesWriter(bytes) => {
                write!(f, "a WRITE of {bytes} bytes outlives its writer whole")
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
