//! The reasons why a key or a value does not fit an index.

use farwood_fabric::ByteCount;

/// The reason why a key or a value does not fit an index.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unfit {
    /// The key or value has the wrong length.
    #[error("has {found} bytes, and this index needs exactly {expected}")]
    Length {
        /// The index's length, bytes.
        expected: usize,
        /// The length given, bytes.
        found: usize,
    },
    /// The key or value is too long.
    #[error(
        "has {}, and the limit of this index is {}; shorten it, or create an index with a higher limit (keys have at \
         most 1 KiB in a B-link tree and 4 KiB in a radix tree, values 16 MiB)",
        ByteCount(*found as u64),
        ByteCount(*most as u64)
    )]
    TooLong {
        /// The maximum length of the index, bytes.
        most: usize,
        /// The length given, bytes.
        found: usize,
    },
    /// The text contains a NUL, which would mark its end.
    #[error("contains a NUL at byte {at}, which marks the end of a text; use byte strings for such data")]
    Nul {
        /// The position of the NUL in the text, bytes.
        at: usize,
    },
    /// The bytes in the index are not UTF-8 text.
    #[error("is not UTF-8 text; open the index with byte strings to read the bytes")]
    NoText,
    /// The bytes in the index are not an encoding of the type.
    #[error("is not a {expected}; open the index with byte strings to read the bytes")]
    Malformed {
        /// The type.
        expected: &'static str,
    },
    /// A value could not be serialised, or bytes could not be deserialised.
    #[error("cannot be stored as or read from its serialised form: {why}")]
    Unserialised {
        /// The error of the serialisation.
        why: String,
    },
    /// The text cannot be parsed as the type of the index.
    #[error("'{text}' is not a {expected}")]
    Unreadable {
        /// The text.
        text: String,
        /// The expected type.
        expected: String,
    },
    /// The index would print another text for the number.
    #[error(
        "'{text}' would be stored as the number {number}; remove the sign or the leading zeros, or use an index of \
         texts"
    )]
    Respelled {
        /// The text.
        text: String,
        /// The number that the text denotes.
        number: u64,
    },
}
