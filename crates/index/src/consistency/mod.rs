//! Consistency schemes: they let a reader without a lock distinguish one version of a node from a mixture of two.
//!
//! Two schemes; the capabilities of the fabric determine the choice when an index is created:
//!
//! * [`versions`]: equal versions before and after the bytes of one WRITE, for nodes and for leaf entries (Sherman
//!   §4.4). Requires [`Capability::VersionPair`] over the size of a node.
//! * [`checksum`]: a hash over the bytes of one WRITE; requires only that the fabric does not tear words. FG uses it
//!   for whole nodes (Sherman §3.2.3, Figure 4a); as a hash per entry, it replaces two-level versions if nodes are
//!   larger than the limit of the fabric's version pairs.
//!
//! Both are pure: they check local copies.

pub mod checksum;
pub mod versions;

use farwood_fabric::{Capabilities, Capability};

/// The scheme of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consistency {
    /// Versions at the front and at the rear.
    Versions,
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
    /// Returns the scheme for nodes of `node_bytes` with WRITEs of single entries: versions if the fabric proves them.
    pub fn for_nodes(node_bytes: usize, capabilities: &Capabilities) -> Self {
        if capabilities.has(Capability::VersionPair(node_bytes)) { Self::Versions } else { Self::Checksum }
    }

    /// Returns the capabilities that the proof of the scheme requires, over nodes of `node_bytes`.
    pub fn needs(self, node_bytes: usize) -> Vec<Capability> {
        match self {
            Self::Versions => vec![Capability::VersionPair(node_bytes), Capability::ArrivalSeesWrite],
            Self::Checksum => vec![Capability::ArrivalSeesWrite],
        }
    }

    /// The scheme's name in records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Versions => "versions",
            Self::Checksum => "checksum",
        }
    }
}
