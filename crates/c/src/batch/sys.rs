//! The exported functions of batches.

use super::Entries;
use crate::caller::{array, bytes, fill, required, store, write_all};
use crate::code::{FW_NOT_FOUND, FW_OK, FW_REPLACED};
use crate::failure::{CallResult, guard};
use crate::index::FwIndex;
use std::ffi::c_void;
use std::mem::MaybeUninit;

/// The byte strings of two arrays of the caller: their addresses and their lengths.
///
/// # Safety
/// Both arrays have `count` elements, and each address has as many bytes as its length says, during `'a`.
unsafe fn strings<'a>(
    starts: *const *const c_void,
    lengths: *const usize,
    count: usize,
    name: &str,
) -> CallResult<Vec<&'a [u8]>> {
    // SAFETY: the caller promises `count` addresses.
    let starts = unsafe { array(starts, count, name) }?;
    // SAFETY: the caller promises `count` lengths.
    let lengths = unsafe { array(lengths, count, name) }?;
    let both = starts.iter().zip(lengths);
    // SAFETY: the caller promises the bytes at each address.
    both.map(|(&start, &length)| unsafe { bytes(start, length, name) }).collect()
}

/// Looks up `count` keys together: `keys[i]` has `key_lens[i]` bytes, and its value is copied into `bufs[i]`, which has
/// `caps[i]` bytes. `lens[i]` receives the length of the value, and `statuses[i]` `FW_OK`, `FW_NOT_FOUND` or
/// `FW_TOO_SMALL`. `lens` may be NULL. [1 round trip for 64 keys]
///
/// Returns `FW_OK` if all keys were looked up, whatever their statuses are. After an error the arrays are unchanged.
///
/// # Safety
/// The arguments are as stated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_get_many(
    index: Option<&FwIndex>,
    count: usize,
    keys: *const *const c_void,
    key_lens: *const usize,
    bufs: *const *mut c_void,
    caps: *const usize,
    lens: *mut usize,
    statuses: *mut i32,
) -> i32 {
    guard(|| {
        let index = required(index, "index")?;
        // SAFETY: the caller promises the keys.
        let keys = unsafe { strings(keys, key_lens, count, "keys") }?;
        // SAFETY: the caller promises `count` addresses.
        let bufs = unsafe { array(bufs, count, "bufs") }?;
        // SAFETY: the caller promises `count` lengths.
        let caps = unsafe { array(caps, count, "caps") }?;
        let found = index.get_many(&keys)?;
        let mut lengths = vec![0; count];
        let mut outcomes = vec![FW_NOT_FOUND; count];
        for (at, value) in found.iter().enumerate() {
            let Some(value) = value else { continue };
            let value = index.values.shown(value);
            lengths[at] = value.len();
            // SAFETY: the caller promises `caps[at]` bytes at `bufs[at]`.
            outcomes[at] = unsafe { fill(value, (bufs[at], caps[at]), None) };
        }
        // SAFETY: the caller promises memory for `count` lengths, or null.
        unsafe { write_all(&lengths, lens) };
        // SAFETY: the caller promises memory for `count` statuses, or null.
        unsafe { write_all(&outcomes, statuses) };
        Ok(FW_OK)
    })
}

/// Stores `count` entries together, those of one key in their order. Each is one atomic change; the batch is not.
/// `statuses[i]` receives `FW_OK`, or `FW_REPLACED` if the key existed; `statuses` may be NULL. [2 round trips for 64
/// keys]
///
/// After an error some of the entries may be stored, unless `fw_last_effect` returns `FW_EFFECT_NONE`.
///
/// # Safety
/// The arguments are as stated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_put_many(
    index: Option<&FwIndex>,
    count: usize,
    keys: *const *const c_void,
    key_lens: *const usize,
    values: *const *const c_void,
    value_lens: *const usize,
    statuses: *mut i32,
) -> i32 {
    guard(|| {
        // SAFETY: the caller promises the keys.
        let keys = unsafe { strings(keys, key_lens, count, "keys") }?;
        // SAFETY: the caller promises the values.
        let values = unsafe { strings(values, value_lens, count, "values") }?;
        let existed = required(index, "index")?.put_many(&Entries { keys: &keys, values: &values })?;
        let outcomes: Vec<i32> =
            existed.iter().map(|&existed| if existed { FW_REPLACED } else { FW_OK }).collect();
        // SAFETY: the caller promises memory for `count` statuses, or null.
        unsafe { write_all(&outcomes, statuses) };
        Ok(FW_OK)
    })
}

/// Removes `count` keys together. `statuses[i]` receives `FW_OK`, or `FW_NOT_FOUND` if the key did not exist;
/// `statuses` may be NULL. Otherwise as `fw_put_many`.
///
/// # Safety
/// The arguments are as stated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_remove_many(
    index: Option<&FwIndex>,
    count: usize,
    keys: *const *const c_void,
    key_lens: *const usize,
    statuses: *mut i32,
) -> i32 {
    guard(|| {
        // SAFETY: the caller promises the keys.
        let keys = unsafe { strings(keys, key_lens, count, "keys") }?;
        let existed = required(index, "index")?.remove_many(&keys)?;
        let outcomes: Vec<i32> =
            existed.iter().map(|&existed| if existed { FW_OK } else { FW_NOT_FOUND }).collect();
        // SAFETY: the caller promises memory for `count` statuses, or null.
        unsafe { write_all(&outcomes, statuses) };
        Ok(FW_OK)
    })
}

/// Loads `count` entries, whose keys increase strictly, into an empty index. `fill_factor` is the part of a node that
/// is filled, 0.5 to 1; 0 stands for the default, 0.8. `loaded` receives the number of entries, unless it is NULL.
/// After an error the index is still empty. [1 round trip for 64 nodes]
///
/// # Safety
/// The arguments are as stated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_bulk_load(
    index: Option<&FwIndex>,
    count: usize,
    keys: *const *const c_void,
    key_lens: *const usize,
    values: *const *const c_void,
    value_lens: *const usize,
    fill_factor: f64,
    loaded: Option<&mut MaybeUninit<u64>>,
) -> i32 {
    guard(|| {
        // SAFETY: the caller promises the keys.
        let keys = unsafe { strings(keys, key_lens, count, "keys") }?;
        // SAFETY: the caller promises the values.
        let values = unsafe { strings(values, value_lens, count, "values") }?;
        let entries = Entries { keys: &keys, values: &values };
        store(loaded, required(index, "index")?.bulk_load(&entries, fill_factor)?);
        Ok(FW_OK)
    })
}
