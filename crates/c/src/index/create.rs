//! The options of an ordered index, and its creation.

use super::FwIndex;
use super::encoding::{Encoding, name_of};
use crate::code::{FW_BTREE, FW_ERR_TYPE_MISMATCH, FW_HASHED, FW_RADIX};
use crate::failure::{CallResult, Failure};
use crate::pool::{FwPool, structure_of};
use farwood::error::ErrorKind;
use farwood::types::{Kind, Width};
use farwood::{BTree, Hashed, Radix};

/// The options of an ordered index. Create it with `fw_index_options_default`, or set all bytes to 0 and `size` to
/// `sizeof(fw_index_options)`. A field that is 0 has its default.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct FwIndexOptions {
    /// The size of this struct in bytes.
    pub size: usize,
    /// The bytes of a key in a B-link tree, 8 to 1024; required for byte strings and texts, and 0 for numbers.
    pub key_bytes: u64,
    /// The bytes of a value in a B-link tree, up to 4096; 0: numbers have their own length, and byte strings and texts
    /// have any length up to 16 MiB.
    pub value_bytes: u64,
    /// The bytes of a node of a B-link tree; the default is 1 KiB.
    pub node_bytes: u64,
    /// The budget of this process's cache of nodes or filter in bytes, if the call creates the index.
    pub cache_bytes: u64,
    /// The longest duration of a call in milliseconds, which then fails with `FW_ERR_TIMED_OUT`; 0: no limit.
    pub timeout_ms: u64,
    /// `FW_BTREE`, `FW_RADIX` or `FW_HASHED`. `fw_index_open` ignores it.
    pub structure: i32,
    /// The kind of the keys: `FW_BYTES`, `FW_U64`, `FW_TEXT`, `FW_I64`, `FW_F64`, `FW_BOOL` or `FW_STRUCTURED`.
    pub key_kind: i32,
    /// The kind of the values.
    pub value_kind: i32,
    /// Must be 0.
    pub reserved: u32,
}

/// The reaction to an index that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IfExists {
    /// An error.
    Fail,
    /// The index is opened, if its types are those of the options.
    Open,
}

impl FwPool {
    /// Creates an index, or opens it if `if_exists` permits.
    pub(super) fn create_index(
        &self,
        name: &str,
        options: &FwIndexOptions,
        if_exists: IfExists,
    ) -> CallResult<FwIndex> {
        if if_exists == IfExists::Open
            && let Some(index) = self.existing(name, options)?
        {
            return Ok(index);
        }
        let kinds = options.kinds()?;
        let created = match options.structure {
            FW_BTREE => self.0.create_untyped(name, kinds, &options.btree(kinds[1])),
            FW_RADIX => self.0.create_untyped(name, kinds, &options.radix()?),
            FW_HASHED => self.0.create_untyped(name, kinds, &options.hashed()?),
            other => return Err(Failure::argument(format!("there is no structure {other}"))),
        };
        match created {
            // Another process has created it.
            Err(error) if error.kind() == ErrorKind::Exists && if_exists == IfExists::Open => {
                let gone =
                    || Failure::argument(format!("the index {name} is created and dropped repeatedly"));
                self.existing(name, options)?.ok_or_else(gone)
            }
            created => Ok(FwIndex::of(created?, options.timeout_ms)),
        }
    }

    /// Opens an index of the types of the options, if it exists.
    fn existing(&self, name: &str, options: &FwIndexOptions) -> CallResult<Option<FwIndex>> {
        match self.0.open_untyped(name) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            opened => {
                let index = FwIndex::of(opened?, options.timeout_ms);
                options.check_structure(&index)?;
                options.check(&index)?;
                Ok(Some(index))
            }
        }
    }

    /// Opens an index of any types.
    pub(super) fn open_index(&self, name: &str, timeout_ms: u64) -> CallResult<FwIndex> {
        Ok(FwIndex::of(self.0.open_untyped(name)?, timeout_ms))
    }
}

impl FwIndexOptions {
    /// The kinds of keys and values.
    pub(super) fn kinds(&self) -> CallResult<[Kind; 2]> {
        if self.reserved != 0 {
            return Err(Failure::argument("fw_index_options.reserved must be 0"));
        }
        let kind = |number: i32| {
            let unknown = || Failure::argument(format!("there is no kind {number} of keys and values"));
            u8::try_from(number).map(Kind::from_number).map_err(|_| unknown())
        };
        Ok([kind(self.key_kind)?, kind(self.value_kind)?])
    }

    /// Checks that an existing index has the structure of the options.
    fn check_structure(&self, index: &FwIndex) -> CallResult<()> {
        let stats = index.index.stats();
        let structure = structure_of(stats.layout.system);
        if structure == self.structure {
            return Ok(());
        }
        let name = match structure {
            FW_BTREE => "FW_BTREE",
            FW_RADIX => "FW_RADIX",
            _ => "FW_HASHED",
        };
        let text = format!("open {}: the index has the structure {name}; open it with this one", stats.url);
        Err(Failure::Refused(FW_ERR_TYPE_MISMATCH, text))
    }

    /// Checks that an existing index has the types of the options.
    pub(super) fn check(&self, index: &FwIndex) -> CallResult<()> {
        let [keys, values] = self.kinds()?;
        check_column(index, ("keys", keys, self.key_bytes), index.keys)?;
        check_column(index, ("values", values, self.value_bytes), index.values)
    }

    fn btree(&self, values: Kind) -> BTree {
        let mut options = BTree::new();
        if self.key_bytes != 0 {
            options = options.key_bytes(self.key_bytes as usize);
        }
        options = match self.value_bytes {
            0 if values.width().is_none() => options.any_length_values(),
            0 => options,
            bytes => options.value_bytes(bytes as usize),
        };
        if self.node_bytes != 0 {
            options = options.node_bytes(self.node_bytes as usize);
        }
        if self.cache_bytes != 0 {
            options = options.cache_bytes(self.cache_bytes as usize);
        }
        options
    }

    fn radix(&self) -> CallResult<Radix> {
        self.refuse_lengths()?;
        Ok(match self.cache_bytes {
            0 => Radix::new(),
            bytes => Radix::new().cache_bytes(bytes as usize),
        })
    }

    fn hashed(&self) -> CallResult<Hashed> {
        self.refuse_lengths()?;
        Ok(match self.cache_bytes {
            0 => Hashed::new(),
            bytes => Hashed::new().filter_bytes(bytes as usize),
        })
    }

    /// Refuses lengths, which a radix tree does not have.
    fn refuse_lengths(&self) -> CallResult<()> {
        if self.key_bytes == 0 && self.value_bytes == 0 && self.node_bytes == 0 {
            return Ok(());
        }
        let text = "only a B-link tree has key_bytes, value_bytes and node_bytes; set them to 0";
        Err(Failure::argument(text))
    }
}

/// Checks that the keys or the values of an index have this kind, and this length if it is not 0.
fn check_column(index: &FwIndex, (what, kind, bytes): (&str, Kind, u64), found: Encoding) -> CallResult<()> {
    let fits = match found.width {
        Width::Exactly(stored) => bytes == 0 || bytes == stored as u64,
        Width::UpTo(_) => bytes == 0,
    };
    if kind == found.kind && fits {
        return Ok(());
    }
    let (url, stored) = (index.index.url(), name_of(found.kind));
    let width = match found.width {
        Width::Exactly(bytes) => format!("{bytes} bytes"),
        Width::UpTo(most) => format!("up to {most} bytes"),
    };
    Err(Failure::Refused(
        FW_ERR_TYPE_MISMATCH,
        format!("open {url}: the {what} are of kind {stored} with {width}; open the index with these types"),
    ))
}
