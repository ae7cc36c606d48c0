//! Consistency schemes: they let a reader without a lock distinguish one version of a node from a mixture of two.
//!
//! Three schemes; the capabilities of the fabric determine the choice when an index is created:
//!
//! * [`versions`]: equal versions before and after the bytes of one WRITE, for nodes and for leaf entries (Sherman
//!   §4.4). Requires [`Capability::VersionPair`] over the size of a node.
//! * [`byte_versions`]: the same, with versions of one byte in leaf entries. Requires [`Capability::BriefReads`] too.
//! * [`checksum`]: a hash over the bytes of one WRITE; requires only that the fabric does not tear words. FG uses it
//!   for whole nodes (Sherman §3.2.3, Figure 4a); as a hash per entry, it replaces two-level versions if nodes are
//!   larger than the limit of the fabric's version pairs.
//!
//! All are pure: they check local copies.

pub mod byte_versions;
pub mod checksum;
pub mod versions;

use farwood_fabric::{Capabilities, Capability};

/// The scheme of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consistency {
    /// Versions at the front and at the rear.
    Versions,
    /// Versions at the front and at the rear, of one byte in entries.
    ByteVersions,
    /// A hash of the object's bytes, stored with the object.
    Checksum,
}

/// Whether a leaf entry is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryUse {
    /// The entry has a key.
    InUse,
    /// The entry is free.
    Free,
}

impl Consistency {
    /// Returns the scheme for nodes of `node_bytes` with WRITEs of single entries: the shortest versions that the
    /// fabric proves, or a hash.
    pub fn for_nodes(node_bytes: usize, capabilities: &Capabilities) -> Self {
        let proves = |scheme: Self| capabilities.missing(&scheme.needs(node_bytes)).is_none();
        [Self::ByteVersions, Self::Versions]
            .into_iter()
            .find(|&scheme| proves(scheme))
            .unwrap_or(Self::Checksum)
    }

    /// The guard bytes of an entry: in front of its key, and all.
    pub(crate) const fn entry_guards(self) -> (usize, usize) {
        match self {
            Self::Versions => (versions::ENTRY_GUARD_BYTES / 2, versions::ENTRY_GUARD_BYTES),
            Self::ByteVersions => (byte_versions::ENTRY_GUARD_BYTES / 2, byte_versions::ENTRY_GUARD_BYTES),
            Self::Checksum => (checksum::GUARD_BYTES, checksum::GUARD_BYTES),
        }
    }

    /// Returns the capabilities that the proof of the scheme requires, over nodes of `node_bytes`.
    pub fn needs(self, node_bytes: usize) -> Vec<Capability> {
        match self {
            Self::Versions => vec![Capability::VersionPair(node_bytes), Capability::ArrivalSeesWrite],
            Self::ByteVersions => [Self::Versions.needs(node_bytes), vec![Capability::BriefReads]].concat(),
            Self::Checksum => vec![Capability::ArrivalSeesWrite],
        }
    }

    /// The scheme's name in records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Versions => "versions",
            Self::ByteVersions => "byte-versions",
            Self::Checksum => "checksum",
        }
    }
}
