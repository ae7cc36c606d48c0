//! Keys and values on their way to stdout.

use farwood::Kind;
use serde_json::Value;

/// A key or a value for JSON: a number where it is one, else the words that the command line would take for it.
pub(crate) fn json(kind: Kind, bytes: &[u8]) -> Value {
    match (kind, <[u8; 8]>::try_from(bytes)) {
        (Kind::U64, Ok(bytes)) => u64::from_be_bytes(bytes).into(),
        _ => kind.show(bytes).into(),
    }
}
