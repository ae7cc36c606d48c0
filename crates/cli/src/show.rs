//! Keys and values as JSON.

use farwood::Kind;
use serde_json::Value;

/// A key or value as JSON: a number, or the text that the command line accepts for it.
pub(crate) fn json(kind: Kind, bytes: &[u8]) -> Value {
    match (kind, <[u8; 8]>::try_from(bytes)) {
        (Kind::U64, Ok(bytes)) => u64::from_be_bytes(bytes).into(),
        _ => kind.show(bytes).into(),
    }
}
