//! Reads and writes memory that the caller describes by pointers and lengths.

use crate::code::{FW_OK, FW_TOO_SMALL};
use crate::failure::{CallResult, Failure};
use std::ffi::{CStr, c_char, c_void};
use std::mem::MaybeUninit;
use std::{ptr, slice};

/// The largest struct of a newer caller, bytes.
const STRUCT_BYTES_MAX: usize = 4096;

/// A struct of options, whose first field is the size that the caller's header gives it.
///
/// # Safety
/// Every sequence of bytes of the type's size is a valid value.
pub(crate) unsafe trait CallerStruct: Copy {}

/// The elements of an array of the caller; `start` may be null if there are none.
///
/// # Safety
/// `start` points to `count` elements that nobody changes during `'a`.
pub(crate) unsafe fn array<'a, T>(start: *const T, count: usize, name: &str) -> CallResult<&'a [T]> {
    if count == 0 {
        return Ok(&[]);
    }
    let is_too_long = count.checked_mul(size_of::<T>()).is_none_or(|bytes| bytes > isize::MAX as usize);
    if start.is_null() || !start.is_aligned() || is_too_long {
        return Err(Failure::argument(format!("the argument {name} is no array of {count} elements")));
    }
    // SAFETY: the pointer is aligned and not null, the size fits isize, and the caller promises the elements.
    Ok(unsafe { slice::from_raw_parts(start, count) })
}

/// A byte string of the caller; `start` may be null if it is empty.
///
/// # Safety
/// As [`array`], for `length` bytes.
pub(crate) unsafe fn bytes<'a>(start: *const c_void, length: usize, name: &str) -> CallResult<&'a [u8]> {
    // SAFETY: the caller promises `length` bytes at `start`.
    unsafe { array(start.cast(), length, name) }
}

/// A byte string of the caller; `None` if `start` is null.
///
/// # Safety
/// As [`bytes`].
pub(crate) unsafe fn optional_bytes<'a>(
    start: *const c_void,
    length: usize,
    name: &str,
) -> CallResult<Option<&'a [u8]>> {
    if start.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller promises `length` bytes at `start`.
    unsafe { bytes(start, length, name) }.map(Some)
}

/// A text of the caller.
///
/// # Safety
/// `start` is null or points to bytes with a NUL at their end, which nobody changes during `'a`.
pub(crate) unsafe fn text<'a>(start: *const c_char, name: &str) -> CallResult<&'a str> {
    if start.is_null() {
        return Err(Failure::argument(format!("the argument {name} is a null pointer")));
    }
    // SAFETY: the pointer is not null, and the caller promises a NUL at the end of the bytes.
    let text = unsafe { CStr::from_ptr(start) };
    text.to_str().map_err(|_| Failure::argument(format!("the argument {name} is not UTF-8 text")))
}

/// A text of the caller; `None` if `start` is null.
///
/// # Safety
/// As [`text`].
pub(crate) unsafe fn text_or_none<'a>(start: *const c_char, name: &str) -> CallResult<Option<&'a str>> {
    if start.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller promises a NUL at the end of the bytes.
    unsafe { text(start, name) }.map(Some)
}

/// The options of the caller: fields that an older header lacks are 0, and those of a newer one must be 0.
///
/// # Safety
/// `given` is null, or points to a struct whose first field is its size in bytes.
pub(crate) unsafe fn sized<T: CallerStruct>(given: *const T, name: &str) -> CallResult<T> {
    let mut own = MaybeUninit::<T>::zeroed();
    if !given.is_null() {
        // SAFETY: the caller promises a size as the first field; an unaligned read accepts every address.
        let size = unsafe { given.cast::<usize>().read_unaligned() };
        if !(size_of::<usize>()..=STRUCT_BYTES_MAX).contains(&size) {
            let remedy = "set its field `size` to `sizeof` of the struct";
            return Err(Failure::argument(format!(
                "the struct {name} states a size of {size} bytes; {remedy}"
            )));
        }
        // SAFETY: the caller promises that the struct has this size.
        let bytes = unsafe { bytes(given.cast(), size, name) }?;
        let (known, newer) = bytes.split_at(size.min(size_of::<T>()));
        if newer.iter().any(|&byte| byte != 0) {
            let text =
                format!("the struct {name} has options that this version of the library does not know");
            return Err(Failure::argument(text));
        }
        // SAFETY: the source has `known.len()` bytes, no more than the target, which is a separate local value.
        unsafe { ptr::copy_nonoverlapping(known.as_ptr(), own.as_mut_ptr().cast(), known.len()) };
    }
    // SAFETY: all bytes are initialised by zeros or by the copy, and every sequence of bytes is a valid value of `T`.
    Ok(unsafe { own.assume_init() })
}

/// Copies a result into a buffer of the caller, if it fits, and stores its length.
///
/// # Safety
/// `buffer` is null or points to `capacity` bytes that nobody else uses during the call.
pub(crate) unsafe fn fill(
    value: &[u8],
    (buffer, capacity): (*mut c_void, usize),
    length: Option<&mut MaybeUninit<usize>>,
) -> i32 {
    super::store(length, value.len());
    if value.len() > capacity || (buffer.is_null() && !value.is_empty()) {
        return FW_TOO_SMALL;
    }
    if !value.is_empty() {
        // SAFETY: the caller promises `capacity` bytes at `buffer`, at least as many as `value` has; they are no memory
        // of the library, of which `value` is a part.
        unsafe { ptr::copy_nonoverlapping(value.as_ptr(), buffer.cast(), value.len()) };
    }
    FW_OK
}

/// Stores `values` in an array of the caller, unless it is null.
///
/// # Safety
/// `out` is null or points to memory for as many elements as `values` has, which nobody else uses during the call.
pub(crate) unsafe fn write_all<T: Copy>(values: &[T], out: *mut T) {
    if !out.is_null() {
        // SAFETY: the caller promises memory for the elements; it is no memory of the library, which has `values`.
        unsafe { ptr::copy_nonoverlapping(values.as_ptr(), out, values.len()) };
    }
}
