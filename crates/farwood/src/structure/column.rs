//! The types of the keys and the values of a new index.

use crate::codec::{Codec, KEY_BYTES_MIN, TypeName};
use crate::kind::Kind;

/// The type of the keys or the values of a new index.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    pub(crate) kind: Kind,
    /// The length in bytes, if the type determines it.
    width: Option<usize>,
    /// The name of the type, if it is known.
    name: Option<&'static TypeName>,
}

impl Column {
    pub(crate) fn of<T: Codec>() -> Self {
        const { assert!(T::KIND.is_creatable(), "`Codec::KIND` is a `Kind::Other` below 128; use 128 or more") }
        Self { kind: T::KIND, width: T::WIDTH, name: Some(&T::NAME) }
    }

    pub(crate) fn of_kind(kind: Kind) -> Self {
        Self { kind, width: kind.width(), name: kind.type_name() }
    }

    /// The hash of the name of the type, which the index records.
    pub(crate) fn type_hash(self) -> Option<u64> {
        self.name.map(TypeName::hash)
    }

    /// Refuses a kind that belongs to the library.
    pub(crate) fn check(self) -> Result<(), String> {
        if self.kind.is_creatable() {
            return Ok(());
        }
        Err(format!("{} belongs to the library; give a number of 128 to 255", self.kind))
    }

    /// The name of the type for errors.
    fn shown(self) -> String {
        self.name.filter(|_| self.kind == Kind::Structured).map_or(self.kind.to_string(), ToString::to_string)
    }

    /// The length of a key: that of the type, padded, or the chosen one.
    pub(crate) fn key_bytes(self, chosen: Option<usize>) -> Result<usize, String> {
        let padded = |own: usize| own.max(KEY_BYTES_MIN);
        let chosen =
            chosen.filter(|&chosen| self.width.map(padded) != Some(chosen) || self.width == Some(chosen));
        self.bytes("key", chosen).map(|bytes| if self.width.is_some() { padded(bytes) } else { bytes })
    }

    /// The length of a key or a value: that of the type, or the chosen one.
    pub(crate) fn bytes(self, what: &str, chosen: Option<usize>) -> Result<usize, String> {
        let (width, kind) = (self.width, self.shown());
        match (width, chosen) {
            (Some(own), Some(chosen)) if own != chosen => Err(format!(
                "a {what} of type {kind} has {own} bytes, not {chosen}; omit the length of the {what}"
            )),
            (Some(own), _) => Ok(own),
            (None, Some(chosen)) => Ok(chosen),
            (None, None) => Err(format!(
                "a {what} of type {kind} needs a length; set {what}_bytes, or give --{what}-bytes N"
            )),
        }
    }
}
