//! The files of memory nodes that a run starts.

use farwood_transport::tcp::Durability;
use std::path::PathBuf;

/// The durability of memory nodes that a run starts, and the directory of their files.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeFiles {
    /// The level.
    pub durability: Durability,
    /// The directory in which the run creates a folder, and removes it at its end.
    pub directory: PathBuf,
}

impl NodeFiles {
    /// The value of `appendfsync` with which Redis promises about the same; `None`: none.
    pub(crate) fn redis_level(&self) -> Option<&'static str> {
        match self.durability {
            Durability::Orderly => None,
            Durability::Interval(_) => Some("everysec"),
            Durability::Always => Some("always"),
        }
    }
}
