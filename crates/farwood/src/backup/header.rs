//! The blocks of JSON: the pool, an index, and their ends. A reader ignores members that it does not know.

use super::block::BlockReader;
use super::error::BackupResult;
use crate::kind::Kind;
use crate::width::Width;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::Read;
use std::time::{SystemTime, UNIX_EPOCH};

/// The first block of a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BackupHeader {
    /// The version of Farwood that wrote the file.
    pub farwood: String,
    /// The URL of the pool.
    pub source: String,
    /// Seconds since 1970 at the start of the dump.
    pub created: u64,
    /// What the contents of the indexes have in common.
    pub consistency: Consistency,
    /// The names of the indexes, in the order of the file.
    pub indexes: Vec<String>,
}

/// The moment of the contents, if other clients changed them during the dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Consistency {
    /// Each index by itself: an index of keys as its scans promise (each entry as it was at some moment during the
    /// dump; all entries that nothing changed are there), a spatial index as it was at one moment.
    EachIndex,
    /// All indexes as they were at one cut: if the dump has a change, it has everything that the client of the change
    /// had read or written in the pool before.
    OneCut,
}

/// An index of a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct IndexHeader {
    /// The name.
    pub name: String,
    /// The system: `sherman`, `smart`, `sphinx` or `catfish`.
    pub system: String,
    /// The types of an index of keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub types: Option<EntryTypes>,
    /// The ids of a spatial index: `repeated`, `number` or `text`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ids: Option<String>,
    /// The coordinates of a spatial index: `degrees`, `planar`; absent: not stated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coordinates: Option<String>,
    /// The version of the format of the index's nodes.
    pub(crate) format: u32,
    /// The parameters of the index in the directory of the pool, as hexadecimal digits.
    pub(crate) parameters: String,
}

/// The types of the entries of an index of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryTypes {
    /// The type of the keys.
    pub keys: ColumnHeader,
    /// The type of the values.
    pub values: ColumnHeader,
}

/// The type of keys or of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColumnHeader {
    /// The number of the [`Kind`].
    pub kind: u8,
    /// The length of all of them; `None`: it varies.
    pub bytes: Option<usize>,
    /// The hash of the name of the type, if the index records one.
    pub type_hash: Option<u64>,
}

impl ColumnHeader {
    pub(super) fn new(kind: u8, width: Width, type_hash: Option<u64>) -> Self {
        let bytes = match width {
            Width::Exactly(bytes) => Some(bytes),
            Width::UpTo(_) => None,
        };
        Self { kind, bytes, type_hash }
    }

    /// The kind.
    pub fn kind(&self) -> Kind {
        Kind::from_number(self.kind)
    }
}

/// The end of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct IndexEnd {
    /// Entries, rectangles or records.
    pub(super) entries: u64,
}

/// The first block of the image of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ImageHeader {
    /// The version of Farwood that wrote the file.
    pub farwood: String,
    /// The URL of the pool.
    pub source: String,
    /// Seconds since 1970 at the start of the save.
    pub created: u64,
    /// The version of the layout of the pool.
    pub layout: u32,
    /// Memory nodes.
    pub nodes: u16,
    /// Host memory to which each can grow, bytes.
    pub host_bytes: u64,
    /// Host memory of each, bytes; absent in files of earlier versions, whose pools did not grow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Device memory of each, bytes.
    pub device_bytes: u64,
    /// The permissions of the files, as octal digits; absent in files of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// The number of their group, if the permissions give it rights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<u32>,
}

/// The end of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ImageEnd {
    /// Bytes of all blocks of memory.
    pub(super) bytes: u64,
}

/// Seconds since 1970.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// The end of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileEnd {
    pub(super) indexes: usize,
}

/// The JSON of a block.
pub(super) fn to_json(header: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(header).expect("the headers have no maps and no other sources of errors")
}

/// Parses the JSON of the block that was read last.
pub(super) fn of_json<T: DeserializeOwned, R: Read>(
    contents: &[u8],
    blocks: &BlockReader<R>,
) -> BackupResult<T> {
    serde_json::from_slice(contents).map_err(|error| blocks.damaged(&error.to_string()))
}
