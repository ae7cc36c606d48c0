//! Errors of an index, and of the commands.

use farwood_fabric::FabricError;

/// An error of an operation.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// An error of the fabric, for example a memory node that cannot be reached.
    #[error(transparent)]
    Fabric(#[from] FabricError),
    /// An error of the index, for example that it is full.
    #[error("{0}")]
    Index(String),
    /// An error of a measurement.
    #[error(transparent)]
    Bench(#[from] farwood_bench::Error),
}

/// The result of an operation.
pub type LabResult<T> = std::result::Result<T, LabError>;

impl LabError {
    /// An error of the index.
    pub fn index(what: impl Into<String>) -> Self {
        Self::Index(what.into())
    }
}
