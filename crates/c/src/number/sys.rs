//! The exported functions that convert numbers.

use super::{BYTES, decoded, encoded};
use crate::caller::{bytes, write_all};

/// Encodes a number for an index with keys or values of kind `FW_U64`.
///
/// # Safety
/// `key` has 8 bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_key_u64be(number: u64, key: *mut u8) {
    // SAFETY: the caller promises 8 bytes at `key`.
    unsafe { write_all(&encoded(&number), key) };
}

/// Encodes a number for an index with keys or values of kind `FW_I64`.
///
/// # Safety
/// `key` has 8 bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_key_i64be(number: i64, key: *mut u8) {
    // SAFETY: the caller promises 8 bytes at `key`.
    unsafe { write_all(&encoded(&number), key) };
}

/// Encodes a number for an index with keys or values of kind `FW_F64`. The order is that of the numbers, with -0 below
/// 0 and NaN at the ends.
///
/// # Safety
/// `key` has 8 bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_key_f64be(number: f64, key: *mut u8) {
    // SAFETY: the caller promises 8 bytes at `key`.
    unsafe { write_all(&encoded(&number), key) };
}

/// Decodes a number of kind `FW_U64`.
///
/// # Safety
/// `key` has 8 bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_u64_of_key(key: *const u8) -> u64 {
    // SAFETY: the caller promises 8 bytes at `key`.
    decoded(unsafe { bytes(key.cast(), BYTES, "key") }.unwrap_or_default())
}

/// Decodes a number of kind `FW_I64`.
///
/// # Safety
/// `key` has 8 bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_i64_of_key(key: *const u8) -> i64 {
    // SAFETY: the caller promises 8 bytes at `key`.
    decoded(unsafe { bytes(key.cast(), BYTES, "key") }.unwrap_or_default())
}

/// Decodes a number of kind `FW_F64`.
///
/// # Safety
/// `key` has 8 bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_f64_of_key(key: *const u8) -> f64 {
    // SAFETY: the caller promises 8 bytes at `key`.
    decoded(unsafe { bytes(key.cast(), BYTES, "key") }.unwrap_or_default())
}
