//! Scans of ranges: iterators and callbacks.

mod bounds;
#[allow(unsafe_code)]
mod sys;

use crate::code::{FW_END, FW_OK, FW_SNAPSHOT};
use crate::failure::{CallResult, Failure};
use crate::index::{Encoding, FwIndex};
pub(crate) use bounds::{GivenRange, ScanBounds};
use farwood::index::{Direction, Scan};
use std::ffi::c_void;
use std::vec;
pub(crate) use sys::range_of;
pub use sys::*;

/// The bytes of an entry: its key and its value.
pub(crate) type EntryBytes = (Vec<u8>, Vec<u8>);

/// A range of keys. Create it with `fw_range_default`, or set all bytes to 0 and `size` to `sizeof(fw_range)`, which
/// stands for all entries by increasing key.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct FwRange {
    /// The size of this struct in bytes.
    pub size: usize,
    /// The lower bound, which is in the range unless `flags` has `FW_LOWER_EXCLUSIVE`; NULL: no bound.
    pub lower: *const c_void,
    /// The bytes of the lower bound.
    pub lower_len: usize,
    /// The upper bound, which is not in the range unless `flags` has `FW_UPPER_INCLUSIVE`; NULL: no bound.
    pub upper: *const c_void,
    /// The bytes of the upper bound.
    pub upper_len: usize,
    /// The beginning of all keys of the range; NULL: any beginning. Not together with `lower` or `upper`.
    pub prefix: *const c_void,
    /// The bytes of the prefix.
    pub prefix_len: usize,
    /// The key after which the entries begin, in the direction of the scan: for the next page, the last key of the page
    /// before. NULL: the range from its start.
    pub after: *const c_void,
    /// The bytes of that key.
    pub after_len: usize,
    /// The largest number of entries; 0: no limit.
    pub limit: u64,
    /// `FW_LOWER_EXCLUSIVE`, `FW_UPPER_INCLUSIVE`, `FW_REVERSE` and `FW_SNAPSHOT`.
    pub flags: u32,
    /// Must be 0.
    pub reserved: u32,
}

/// An iterator over entries. One thread at a time may use it.
pub struct FwScan {
    source: Source,
    current: Option<EntryBytes>,
    keys: Encoding,
    values: Encoding,
}

/// The entries of an iterator.
enum Source {
    /// They are read in batches.
    Live(Box<Scan<Vec<u8>, Vec<u8>>>),
    /// They have been read.
    Read(vec::IntoIter<EntryBytes>),
}

/// Receives an entry. A result other than 0 ends the scan with `FW_STOPPED`. Key and value are valid during the
/// callback, which may use the library.
pub type FwEntryFn = Option<
    extern "C" fn(
        context: *mut c_void,
        key: *const c_void,
        key_len: usize,
        value: *const c_void,
        value_len: usize,
    ) -> i32,
>;

impl FwScan {
    /// Begins a scan of an index.
    fn open(index: &FwIndex, given: &GivenRange<'_>) -> CallResult<Self> {
        let Some(bounds) = ScanBounds::of(index, given)? else {
            return Ok(Self::of_entries(index, Vec::new()));
        };
        let mut range = index.index.range(bounds.keys());
        if bounds.direction == Direction::Backward {
            range = range.rev();
        }
        range = range.limit(bounds.limit);
        if given.flags & FW_SNAPSHOT != 0 {
            return Ok(Self::of_entries(index, range.snapshot()?));
        }
        Ok(Self::of(index, Source::Live(Box::new(range.into_iter()))))
    }

    /// An iterator over entries that have been read.
    pub(crate) fn of_entries(index: &FwIndex, entries: Vec<EntryBytes>) -> Self {
        Self::of(index, Source::Read(entries.into_iter()))
    }

    /// The same iterator over other entries.
    pub(crate) fn with_entries(self, entries: Vec<EntryBytes>) -> Self {
        Self { source: Source::Read(entries.into_iter()), ..self }
    }

    fn of(index: &FwIndex, source: Source) -> Self {
        Self { source, current: None, keys: index.keys, values: index.values }
    }

    /// Moves to the next entry.
    fn advance(&mut self) -> CallResult {
        self.current = None;
        self.current = match &mut self.source {
            Source::Live(scan) => scan.next().transpose()?,
            Source::Read(entries) => entries.next(),
        };
        Ok(if self.current.is_some() { FW_OK } else { FW_END })
    }

    /// The key and the value of the current entry.
    fn entry(&self) -> CallResult<(&[u8], &[u8])> {
        match &self.current {
            Some((key, value)) => Ok((self.keys.shown(key), self.values.shown(value))),
            None => Err(Failure::argument("the iterator has no current entry; call fw_scan_next first")),
        }
    }
}
