//! The exported functions of scans.

use super::{FwEntryFn, FwRange, FwScan, GivenRange};
use crate::caller::{CallerStruct, give, optional_bytes, required, sized, store};
use crate::code::{FW_END, FW_OK, FW_STOPPED};
use crate::failure::{CallResult, guard};
use crate::index::FwIndex;
use std::ffi::c_void;
use std::mem::MaybeUninit;

// SAFETY: the fields are integers and pointers, for which every sequence of bytes is a value.
unsafe impl CallerStruct for FwRange {}

/// The range of the caller; all entries if it is null.
///
/// # Safety
/// `range` is null, or points to a struct with its size, whose byte strings are valid during `'a`.
pub(crate) unsafe fn range_of<'a>(range: *const FwRange) -> CallResult<GivenRange<'a>> {
    // SAFETY: the caller promises a struct with its size, or null.
    let given = unsafe { sized(range, "range") }?;
    given.check()?;
    Ok(GivenRange {
        // SAFETY: the caller promises `lower_len` bytes at `lower`, or null.
        lower: unsafe { optional_bytes(given.lower, given.lower_len, "lower") }?,
        // SAFETY: the caller promises `upper_len` bytes at `upper`, or null.
        upper: unsafe { optional_bytes(given.upper, given.upper_len, "upper") }?,
        // SAFETY: the caller promises `prefix_len` bytes at `prefix`, or null.
        prefix: unsafe { optional_bytes(given.prefix, given.prefix_len, "prefix") }?,
        // SAFETY: the caller promises `after_len` bytes at `after`, or null.
        after: unsafe { optional_bytes(given.after, given.after_len, "after") }?,
        limit: given.limit,
        flags: given.flags,
    })
}

/// Begins a scan of a range; NULL stands for all entries. The range and its keys need not outlive the call. The scan
/// returns every key that exists during the whole scan, and is not of one moment unless the range has `FW_SNAPSHOT`. It
/// reads ahead in growing batches: give a limit if you need few entries. [1 round trip for up to 32 leaves]
///
/// # Safety
/// The arguments are as stated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_scan_open(
    index: Option<&FwIndex>,
    range: *const FwRange,
    scan: Option<&mut MaybeUninit<*mut FwScan>>,
) -> i32 {
    guard(|| {
        let (index, out) = (required(index, "index")?, required(scan, "scan")?);
        // SAFETY: the caller promises a range, or null.
        let range = unsafe { range_of(range) }?;
        give(out, FwScan::open(index, &range)?);
        Ok(FW_OK)
    })
}

/// Moves to the next entry; the first call moves to the first one. Returns `FW_END` if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn fw_scan_next(scan: Option<&mut FwScan>) -> i32 {
    guard(|| required(scan, "scan")?.advance())
}

/// Stores the address and the length of the key of the current entry. They are valid until the next call of
/// `fw_scan_next` or `fw_scan_close`.
#[unsafe(no_mangle)]
pub extern "C" fn fw_scan_key(
    scan: Option<&FwScan>,
    key: Option<&mut MaybeUninit<*const u8>>,
    len: Option<&mut MaybeUninit<usize>>,
) -> i32 {
    guard(|| {
        let (bytes, _) = required(scan, "scan")?.entry()?;
        store(key, bytes.as_ptr());
        store(len, bytes.len());
        Ok(FW_OK)
    })
}

/// Stores the address and the length of the value of the current entry, as `fw_scan_key`.
#[unsafe(no_mangle)]
pub extern "C" fn fw_scan_value(
    scan: Option<&FwScan>,
    value: Option<&mut MaybeUninit<*const u8>>,
    len: Option<&mut MaybeUninit<usize>>,
) -> i32 {
    guard(|| {
        let (_, bytes) = required(scan, "scan")?.entry()?;
        store(value, bytes.as_ptr());
        store(len, bytes.len());
        Ok(FW_OK)
    })
}

/// Closes an iterator; NULL is permitted.
#[unsafe(no_mangle)]
pub extern "C" fn fw_scan_close(scan: Option<Box<FwScan>>) -> i32 {
    guard(|| {
        drop(scan);
        Ok(FW_OK)
    })
}

/// Passes the entries of a range to `receive`; NULL stands for all entries. Otherwise as `fw_scan_open`.
///
/// # Safety
/// The arguments are as stated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_scan_each(
    index: Option<&FwIndex>,
    range: *const FwRange,
    receive: FwEntryFn,
    context: *mut c_void,
) -> i32 {
    guard(|| {
        let (index, receive) = (required(index, "index")?, required(receive, "receive")?);
        // SAFETY: the caller promises a range, or null.
        let range = unsafe { range_of(range) }?;
        let mut scan = FwScan::open(index, &range)?;
        while scan.advance()? != FW_END {
            let (key, value) = scan.entry()?;
            if receive(context, key.as_ptr().cast(), key.len(), value.as_ptr().cast(), value.len()) != 0 {
                return Ok(FW_STOPPED);
            }
        }
        Ok(FW_OK)
    })
}
