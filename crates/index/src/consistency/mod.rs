//! How a reader that holds no lock tells one version of a node from a mixture of two.
//!
//! Two schemes, chosen from the fabric's capabilities when an index is created:
//!
//! * [`versions`]: a version in front and a version behind what one WRITE covers, at the level of nodes and of
//!   leaf entries (Sherman §4.4). Needs [`Capability::VersionPair`] over the size of a node.
//! * [`checksum`]: a hash over what one WRITE covers; needs nothing of the fabric but whole words. It is what FG
//!   uses for whole nodes (Sherman §3.2.3, Figure 4a), and, entry by entry, what takes the place of two-level
//!   versions where nodes are larger than the fabric proves.
//!
//! Both are pure: they look at local copies.

pub mod checksum;
pub mod versions;

use farwood_fabric::{Capabilities, Capability};

/// Which scheme an index uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consistency {
    /// Versions in front and behind.
    Versions,
    /// A hash.
    Checksum,
}

impl Consistency {
    /// The scheme for nodes of `node_bytes` with entry-wise writes: versions where they prove something.
    pub fn for_nodes(node_bytes: usize, capabilities: &Capabilities) -> Self {
        if capabilities.has(Capability::VersionPair(node_bytes)) { Self::Versions } else { Self::Checksum }
    }

    /// What the scheme's proof asks of the fabric, over nodes of `node_bytes`.
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
