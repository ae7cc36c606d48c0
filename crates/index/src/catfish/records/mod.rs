//! Records: an index of unique ids stores for each id its rectangle and a payload, in a second tree beside the R*-tree.
//!
//! The second tree is a B+-tree by id, of nodes in the same slots as those of the R*-tree, which are written once and
//! never changed as well ([`catfish`](super)). A commit stores the new nodes of both trees, then the two roots
//! ([`head`](super::head)): a reader sees both trees of one commit.
//!
//! | module | content |
//! |---|---|
//! | `page` | nodes of the tree by id: pages of records, inner nodes |
//! | `blob` | payloads that do not fit into a page |
//! | `node` | decoded nodes, and how they are read |
//! | `draft`, `bulk`, `finished` | changes of the tree by id; bulk loading; slots of the new nodes |
//! | `lookup` | lookups of several records at once |
//!
//! An entry of the R*-tree has 64 bits for the id. They are the *word* of the id: a number itself, or the hash of a
//! text. Different texts may have the same word, so a record contains the text, and all records of a word are in one
//! page.

pub(super) mod blob;
mod bulk;
pub(super) mod draft;
#[cfg(test)]
mod draft_tests;
pub(super) mod finished;
pub(super) mod lookup;
pub(super) mod node;
pub(super) mod page;

use super::tree::layout::Layout;
use super::tree::rectangle::Rectangle;
use crate::error::IndexError;
use std::fmt;
use xxhash_rust::xxh3::xxh3_64;

/// Maximum bytes of an id of text.
pub const TEXT_MAX: usize = 255;

/// The ids of an index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IdKind {
    /// Numbers, which may repeat. The index has rectangles only.
    #[default]
    Repeated,
    /// Numbers, each at most once. The index has records.
    Number,
    /// Texts, each at most once. The index has records.
    Text,
}

impl IdKind {
    /// All kinds, in the order of their bytes in the parameters of an index.
    pub(super) const ALL: [Self; 3] = [Self::Repeated, Self::Number, Self::Text];

    /// Whether the index has records.
    pub const fn is_unique(self) -> bool {
        !matches!(self, Self::Repeated)
    }

    /// Checks that the index has records.
    pub(super) fn check_records(self) -> Result<(), IndexError> {
        if self.is_unique() {
            return Ok(());
        }
        Err(IndexError::BadId(
            "the index has rectangles without records; create it with unique ids to have them".to_owned(),
        ))
    }

    /// The name in options and in records of statistics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Repeated => "repeated",
            Self::Number => "number",
            Self::Text => "text",
        }
    }
}

/// The id of a record.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecordId {
    /// A number.
    Number(u64),
    /// A text of 1 to 255 bytes.
    Text(Box<str>),
}

impl RecordId {
    /// The word of the id in entries of the R*-tree.
    pub fn word(&self) -> u64 {
        match self {
            Self::Number(number) => *number,
            // Texts with the same hash, for tests.
            #[cfg(test)]
            Self::Text(text) if text.starts_with("same ") => 1 << 63,
            Self::Text(text) => xxh3_64(text.as_bytes()),
        }
    }

    /// The text of the id; empty for a number.
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Number(_) => "",
            Self::Text(text) => text,
        }
    }

    /// The id with that word and text; `None`: it is none.
    pub(super) fn from_parts(word: u64, text: &str) -> Option<Self> {
        if text.is_empty() {
            return Some(Self::Number(word));
        }
        let id = Self::Text(text.into());
        (text.len() <= TEXT_MAX && id.word() == word).then_some(id)
    }

    /// Checks that an index with ids of that kind can hold the id.
    ///
    /// # Errors
    /// [`IndexError::BadId`].
    pub(super) fn check(&self, kind: IdKind) -> Result<(), IndexError> {
        let refused = match (self, kind) {
            (Self::Number(_), IdKind::Number) => return Ok(()),
            (Self::Text(text), IdKind::Text) if (1..=TEXT_MAX).contains(&text.len()) => return Ok(()),
            (Self::Text(text), IdKind::Text) => {
                format!("an id has 1 to {TEXT_MAX} bytes, not {}", text.len())
            }
            (Self::Number(number), IdKind::Text) => {
                format!("the ids of the index are texts; {number} is a number")
            }
            (Self::Text(text), IdKind::Number) => {
                format!("the ids of the index are numbers; {text:?} is a text")
            }
            (_, IdKind::Repeated) => return kind.check_records(),
        };
        Err(IndexError::BadId(refused))
    }
}

impl fmt::Display for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

impl From<u64> for RecordId {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<&str> for RecordId {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

/// Bytes of a request with the record of the longest id, without its payload, and of the frame of a message.
const MESSAGE_REST_BYTES: usize = 512;

/// Fewest bytes of a ring in an index with records: any change without a payload fits into a message.
pub(super) const RECORD_RING_BYTES_LEAST: u64 = 4096;

/// Maximum bytes of a payload: a request with the record fits into a message, which is a quarter of a ring.
pub(super) const fn payload_max(layout: &Layout) -> usize {
    (layout.ring_bytes as usize / 4).saturating_sub(MESSAGE_REST_BYTES)
}

/// A record: the entry of an id in an index of unique ids.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The id, of which the index has one record.
    pub id: RecordId,
    /// The rectangle by which searches find the record.
    pub bounds: Rectangle,
    /// Any bytes.
    pub payload: Vec<u8>,
}
