//! Keys and values as JSON.

use farwood::Kind;
use serde_json::Value;

/// The form of numbers of 64 bits in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Numbers {
    /// Numbers.
    Plain,
    /// Strings of digits. Many readers of JSON round numbers above 2^53.
    Strings,
}

impl Numbers {
    /// A number as JSON.
    pub(crate) fn json(self, number: u64) -> Value {
        match self {
            Self::Plain => number.into(),
            Self::Strings => number.to_string().into(),
        }
    }

    /// A key or value as JSON: a number, or the text that the command line accepts for it.
    pub(crate) fn entry(self, kind: Kind, bytes: &[u8]) -> Value {
        match (kind, <[u8; 8]>::try_from(bytes)) {
            (Kind::U64, Ok(bytes)) => self.json(u64::from_be_bytes(bytes)),
            _ => kind.show(bytes).into(),
        }
    }
}
