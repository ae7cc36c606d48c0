//! The permitted length of keys and values.

use crate::unfit::Unfit;
use farwood_index::ordered::Length;

/// The permitted length of a key or a value in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// Exactly this length.
    Exactly(usize),
    /// At most this length.
    UpTo(usize),
}

impl From<Length> for Width {
    #[inline]
    fn from(length: Length) -> Self {
        match length {
            Length::Exactly(bytes) => Self::Exactly(bytes),
            Length::UpTo(most) => Self::UpTo(most),
        }
    }
}

impl Width {
    /// Checks a length.
    ///
    /// # Errors
    /// [`Unfit`] if it is not permitted.
    pub fn check(self, found: usize) -> Result<(), Unfit> {
        match self {
            Self::Exactly(expected) if found != expected => Err(Unfit::Length { expected, found }),
            Self::UpTo(most) if found > most => Err(Unfit::TooLong { most, found }),
            Self::Exactly(_) | Self::UpTo(_) => Ok(()),
        }
    }

    /// The maximum length.
    pub fn most(self) -> usize {
        let (Self::Exactly(most) | Self::UpTo(most)) = self;
        most
    }
}
