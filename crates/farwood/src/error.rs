//! The library's error.

/// Why a call did not do what it was asked to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Not yet.
    #[error("not yet")]
    NotYet,
}

impl Error {
    /// The exit code.
    pub fn exit_code(&self) -> u8 {
        10
    }
}
