//! The exported functions that return texts.

use super::{VERSION, beginning};
use crate::caller::write_all;
use crate::code::text_of;
use crate::failure::last;
use std::ffi::c_char;

/// Returns the version of the library, such as "0.1.0". The text is never freed.
#[unsafe(no_mangle)]
pub extern "C" fn fw_version() -> *const c_char {
    VERSION.as_ptr()
}

/// Returns `FW_ABI_VERSION` of the library: compare it with that of the header.
#[unsafe(no_mangle)]
pub extern "C" fn fw_abi_version() -> i32 {
    crate::code::FW_ABI_VERSION
}

/// Returns a short text for a code that a call has returned. The text is never freed.
#[unsafe(no_mangle)]
pub extern "C" fn fw_strerror(code: i32) -> *const c_char {
    text_of(code).as_ptr()
}

/// Stores the text of the last error of this thread: the operation, its object, the cause and the remedy. A text that
/// does not fit into `cap` bytes is cut; the stored text ends with a NUL. Calls that succeed keep the last error.
///
/// Returns the length of the whole text without NUL, as snprintf does; 0 if no call of this thread has failed.
///
/// # Safety
/// `buf` has `cap` bytes, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_last_error(buf: *mut c_char, cap: usize) -> usize {
    let text = last().text;
    if cap > 0 {
        let mut stored = beginning(&text, cap - 1).as_bytes().to_vec();
        stored.push(0);
        // SAFETY: the caller promises `cap` bytes or null; the stored text has at most `cap` bytes with its NUL.
        unsafe { write_all(&stored, buf.cast()) };
    }
    text.len()
}

/// Returns `FW_EFFECT_NONE` if the last call of this thread that failed has changed nothing, and `FW_EFFECT_UNKNOWN` if
/// its change may have been made, wholly or in part.
#[unsafe(no_mangle)]
pub extern "C" fn fw_last_effect() -> i32 {
    last().effect
}

/// Returns 1 if the last call of this thread that failed may succeed later without a remedy, and 0 otherwise.
#[unsafe(no_mangle)]
pub extern "C" fn fw_last_retryable() -> i32 {
    i32::from(last().is_retryable)
}
