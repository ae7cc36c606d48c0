//! The exported functions of ordered indexes.

use super::create::IfExists;
use super::{FwIndex, FwIndexOptions};
use crate::caller::{CallerStruct, bytes, fill, give, optional_bytes, required, sized, store, text};
use crate::code::{FW_NOT_FOUND, FW_OK};
use crate::failure::{CallResult, guard};
use crate::pool::FwPool;
use std::ffi::{c_char, c_void};
use std::mem::MaybeUninit;

// SAFETY: the fields are integers, for which every sequence of bytes is a value.
unsafe impl CallerStruct for FwIndexOptions {}

/// Creates an index and opens it.
///
/// # Safety
/// The arguments are as stated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_index_create(
    pool: Option<&FwPool>,
    name: *const c_char,
    options: *const FwIndexOptions,
    index: Option<&mut MaybeUninit<*mut FwIndex>>,
) -> i32 {
    // SAFETY: the caller promises a text and a struct with its size.
    guard(|| unsafe { create(pool, (name, options), IfExists::Fail, index) })
}

/// Opens an index, or creates it if it does not exist. Several processes may do this at once. An existing index must
/// have the structure and the kinds of the options, and the lengths that they state; otherwise the call fails with
/// `FW_ERR_TYPE_MISMATCH`.
///
/// # Safety
/// The arguments are as stated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_index_open_or_create(
    pool: Option<&FwPool>,
    name: *const c_char,
    options: *const FwIndexOptions,
    index: Option<&mut MaybeUninit<*mut FwIndex>>,
) -> i32 {
    // SAFETY: the caller promises a text and a struct with its size.
    guard(|| unsafe { create(pool, (name, options), IfExists::Open, index) })
}

/// Creates an index with the arguments of a caller.
///
/// # Safety
/// As [`fw_index_create`].
unsafe fn create(
    pool: Option<&FwPool>,
    (name, options): (*const c_char, *const FwIndexOptions),
    if_exists: IfExists,
    index: Option<&mut MaybeUninit<*mut FwIndex>>,
) -> CallResult {
    let (pool, out) = (required(pool, "pool")?, required(index, "index")?);
    // SAFETY: the caller promises a text.
    let name = unsafe { text(name, "name") }?;
    // SAFETY: the caller promises a struct with its size, or null.
    let options = unsafe { sized(options, "options") }?;
    give(out, pool.create_index(name, &options, if_exists)?);
    Ok(FW_OK)
}

/// Opens an existing index. `options` may be NULL: the index is then opened whatever its types are. Otherwise it must
/// have the kinds of the options and the lengths that they state, and `timeout_ms` limits the calls of this handle.
///
/// # Safety
/// The arguments are as stated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_index_open(
    pool: Option<&FwPool>,
    name: *const c_char,
    options: *const FwIndexOptions,
    index: Option<&mut MaybeUninit<*mut FwIndex>>,
) -> i32 {
    guard(|| {
        let (pool, out) = (required(pool, "pool")?, required(index, "index")?);
        // SAFETY: the caller promises a text.
        let name = unsafe { text(name, "name") }?;
        // SAFETY: the caller promises a struct with its size, or null.
        let given = unsafe { sized(options, "options") }?;
        let opened = pool.open_index(name, given.timeout_ms)?;
        if !options.is_null() {
            given.check(&opened)?;
        }
        give(out, opened);
        Ok(FW_OK)
    })
}

/// Closes an index; NULL is permitted. The call waits for operations of sessions on the index that have begun. Open
/// iterators keep the index open in this process until they are closed.
#[unsafe(no_mangle)]
pub extern "C" fn fw_index_close(index: Option<Box<FwIndex>>) -> i32 {
    guard(|| {
        if let Some(index) = index {
            index.close();
        }
        Ok(FW_OK)
    })
}

/// Stores the kinds of the keys and the values, such as `FW_U64`. Each pointer may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn fw_index_kinds(
    index: Option<&FwIndex>,
    key_kind: Option<&mut MaybeUninit<i32>>,
    value_kind: Option<&mut MaybeUninit<i32>>,
) -> i32 {
    guard(|| {
        let index = required(index, "index")?;
        store(key_kind, i32::from(index.keys.kind.number()));
        store(value_kind, i32::from(index.values.kind.number()));
        Ok(FW_OK)
    })
}

/// Stores the largest lengths of keys and values in bytes: with these buffers no call returns `FW_TOO_SMALL`. Each
/// pointer may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn fw_index_lengths(
    index: Option<&FwIndex>,
    key_max: Option<&mut MaybeUninit<usize>>,
    value_max: Option<&mut MaybeUninit<usize>>,
) -> i32 {
    guard(|| {
        let index = required(index, "index")?;
        store(key_max, index.keys.width.most());
        store(value_max, index.values.width.most());
        Ok(FW_OK)
    })
}

/// Copies the value of a key into `buf`. `len` receives its length, unless it is NULL. [1 round trip]
///
/// Returns `FW_NOT_FOUND`; `FW_TOO_SMALL` if the value has more than `cap` bytes: `buf` is then unchanged.
///
/// # Safety
/// The arguments are as stated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_get(
    index: Option<&FwIndex>,
    key: *const c_void,
    key_len: usize,
    buf: *mut c_void,
    cap: usize,
    len: Option<&mut MaybeUninit<usize>>,
) -> i32 {
    guard(|| {
        let index = required(index, "index")?;
        // SAFETY: the caller promises `key_len` bytes at `key`.
        let key = index.key("get", unsafe { bytes(key, key_len, "key") }?)?;
        let copied = index.index.get_with(&*key, |value| {
            // SAFETY: the caller promises `cap` bytes at `buf`.
            unsafe { fill(index.values.shown(value), (buf, cap), len) }
        })?;
        Ok(copied.unwrap_or(FW_NOT_FOUND))
    })
}

/// Calls `work` with the key and the value.
///
/// # Safety
/// The pointers are valid for their lengths.
unsafe fn change(
    index: Option<&FwIndex>,
    (key, key_len): (*const c_void, usize),
    (value, value_len): (*const c_void, usize),
    work: fn(&FwIndex, &[u8], &[u8]) -> CallResult,
) -> i32 {
    guard(|| {
        // SAFETY: the caller promises `key_len` bytes at `key`.
        let key = unsafe { bytes(key, key_len, "key") }?;
        // SAFETY: the caller promises `value_len` bytes at `value`.
        let value = unsafe { bytes(value, value_len, "value") }?;
        work(required(index, "index")?, key, value)
    })
}

/// Stores a value under a key, whether or not the key exists. [2 round trips]
///
/// # Safety
/// The arguments are as stated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_put(
    index: Option<&FwIndex>,
    key: *const c_void,
    key_len: usize,
    value: *const c_void,
    value_len: usize,
) -> i32 {
    // SAFETY: the caller makes the same promises.
    unsafe { change(index, (key, key_len), (value, value_len), FwIndex::put) }
}

/// Stores a value under a key that does not exist. Returns `FW_EXISTS` if it does. [2 round trips]
///
/// # Safety
/// The arguments are as stated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_insert(
    index: Option<&FwIndex>,
    key: *const c_void,
    key_len: usize,
    value: *const c_void,
    value_len: usize,
) -> i32 {
    // SAFETY: the caller makes the same promises.
    unsafe { change(index, (key, key_len), (value, value_len), FwIndex::insert) }
}

/// Replaces the value of a key that exists. Returns `FW_NOT_FOUND` if it does not. [2 round trips]
///
/// # Safety
/// The arguments are as stated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_update(
    index: Option<&FwIndex>,
    key: *const c_void,
    key_len: usize,
    value: *const c_void,
    value_len: usize,
) -> i32 {
    // SAFETY: the caller makes the same promises.
    unsafe { change(index, (key, key_len), (value, value_len), FwIndex::update) }
}

/// Removes a key. Returns `FW_NOT_FOUND` if it does not exist. [2 round trips]
///
/// # Safety
/// The arguments are as stated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_remove(index: Option<&FwIndex>, key: *const c_void, key_len: usize) -> i32 {
    guard(|| {
        // SAFETY: the caller promises `key_len` bytes at `key`.
        let key = unsafe { bytes(key, key_len, "key") }?;
        required(index, "index")?.remove(key)
    })
}

/// Replaces the value `expected` of a key by `desired`, in one atomic step. `expected` is NULL for a key that must not
/// exist; a `desired` of NULL removes the key. [2 round trips]
///
/// Returns `FW_NOT_FOUND` if the key does not exist; `FW_MISMATCH` if it has another value, which is copied into `buf`
/// if it fits into `cap` bytes. `len` receives the length of that value. `buf` and `len` may be NULL.
///
/// # Safety
/// The arguments are as stated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_compare_exchange(
    index: Option<&FwIndex>,
    key: *const c_void,
    key_len: usize,
    expected: *const c_void,
    expected_len: usize,
    desired: *const c_void,
    desired_len: usize,
    buf: *mut c_void,
    cap: usize,
    len: Option<&mut MaybeUninit<usize>>,
) -> i32 {
    guard(|| {
        // SAFETY: the caller promises `key_len` bytes at `key`.
        let key = unsafe { bytes(key, key_len, "key") }?;
        // SAFETY: the caller promises `expected_len` bytes at `expected`, or null.
        let expected = unsafe { optional_bytes(expected, expected_len, "expected") }?;
        // SAFETY: the caller promises `desired_len` bytes at `desired`, or null.
        let desired = unsafe { optional_bytes(desired, desired_len, "desired") }?;
        required(index, "index")?.compare_exchange(key, [expected, desired], |current| {
            // SAFETY: the caller promises `cap` bytes at `buf`, or null.
            unsafe { fill(current, (buf, cap), len) };
        })
    })
}

/// Adds `by` to the number of a key, which is 0 if the key does not exist, in one atomic step. The values are of kind
/// `FW_U64` or `FW_I64`; a sum of unsigned numbers has the same bits. `before` receives the number before, unless it is
/// NULL. [2 round trips]
///
/// # Safety
/// The arguments are as stated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_fetch_add(
    index: Option<&FwIndex>,
    key: *const c_void,
    key_len: usize,
    by: i64,
    before: Option<&mut MaybeUninit<i64>>,
) -> i32 {
    guard(|| {
        // SAFETY: the caller promises `key_len` bytes at `key`.
        let key = unsafe { bytes(key, key_len, "key") }?;
        store(before, required(index, "index")?.fetch_add(key, by)?);
        Ok(FW_OK)
    })
}

/// Counts the entries of the index, which takes as long as a scan. The count is not of one moment.
#[unsafe(no_mangle)]
pub extern "C" fn fw_count(index: Option<&FwIndex>, count: Option<&mut MaybeUninit<u64>>) -> i32 {
    guard(|| {
        store(count, required(index, "index")?.index.count()?);
        Ok(FW_OK)
    })
}
