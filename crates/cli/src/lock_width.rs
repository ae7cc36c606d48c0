//! The option `--lock-width`.

use farwood::papers::LockWidth;

/// The bits of a lock.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum LockBits {
    /// Names its holder and how often the holder's client slot was taken (the epoch), so that the lock of a crashed
    /// client can be taken over
    #[value(name = "64")]
    Word,
    /// As in the paper: does not contain the epoch, so the lock of a crashed client cannot be taken over
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
