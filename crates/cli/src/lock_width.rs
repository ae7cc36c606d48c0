//! `--lock-width`: how large a lock is, as people write it.

use farwood::LockWidth;

/// A width of locks, by its bits.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum LockBits {
    /// Names its holder under an epoch: the lock of a dead client is taken from it
    #[value(name = "64")]
    Word,
    /// The paper's. Names no epoch: a dead client's lock cannot be taken. For reproduction only
    #[value(name = "16")]
    Packed,
}

impl From<LockBits> for LockWidth {
    fn from(bits: LockBits) -> Self {
        match bits {
            LockBits::Word => Self::Word,
            LockBits::Packed => Self::Packed,
        }
    }
}
