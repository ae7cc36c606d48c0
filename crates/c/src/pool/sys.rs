//! The exported functions of pools.

use super::{FwIndexInfoFn, FwPool, FwPoolOptions, json, list, options_of};
use crate::caller::{CallerStruct, fill, give, required, sized, text, text_or_none};
use crate::code::{FW_OK, FW_STOPPED};
use crate::failure::guard;
use farwood::Pool;
use std::ffi::{c_char, c_void};
use std::mem::MaybeUninit;

// SAFETY: the fields are integers and a pointer, for which every sequence of bytes is a value.
unsafe impl CallerStruct for FwPoolOptions {}

/// Creates a pool in shared memory, `shm://NAME`. A pool over a network is created by starting its memory nodes
/// (`farwood serve`). `options` may be NULL.
///
/// # Safety
/// The arguments are as stated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_pool_create(url: *const c_char, options: *const FwPoolOptions) -> i32 {
    guard(|| {
        // SAFETY: the caller promises a text.
        let url = unsafe { text(url, "url") }?;
        // SAFETY: the caller promises a struct with its size, or null.
        let given = unsafe { sized(options, "options") }?;
        // SAFETY: the caller promises a text, or null.
        let group = unsafe { text_or_none(given.group, "group") }?;
        Pool::create(url, &options_of(&given, group)?)?;
        Ok(FW_OK)
    })
}

/// Gives the caller the pool that `attach` opens.
///
/// # Safety
/// `url` is a text, and `pool` is null or writable.
unsafe fn give_pool(
    url: *const c_char,
    pool: Option<&mut MaybeUninit<*mut FwPool>>,
    attach: impl FnOnce(&str) -> farwood::Result<Pool>,
) -> i32 {
    guard(|| {
        let out = required(pool, "pool")?;
        // SAFETY: the caller promises a text.
        let url = unsafe { text(url, "url") }?;
        give(out, FwPool(attach(url)?));
        Ok(FW_OK)
    })
}

/// Attaches this process to a pool: `shm://NAME`, `tcp://HOST:PORT,..`, `rdma://..` or `etcd://..`. New memory nodes
/// over a network become a pool. Close it with `fw_pool_close`.
///
/// # Safety
/// The arguments are as stated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_pool_open(
    url: *const c_char,
    pool: Option<&mut MaybeUninit<*mut FwPool>>,
) -> i32 {
    // SAFETY: the arguments are as the caller promises.
    unsafe { give_pool(url, pool, |url| Pool::open(url)) }
}

/// Attaches this process to an existing pool, as `fw_pool_open`, but does not make new memory nodes a pool.
///
/// # Safety
/// The arguments are as stated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_pool_find(
    url: *const c_char,
    pool: Option<&mut MaybeUninit<*mut FwPool>>,
) -> i32 {
    // SAFETY: the arguments are as the caller promises.
    unsafe { give_pool(url, pool, |url| Pool::find(url)) }
}

/// Attaches this process to an existing pool for reading only. The permission to read its files is enough, or the token
/// for reading. Calls that change something fail with `FW_ERR_READ_ONLY`, and other processes do not see this one.
///
/// # Safety
/// The arguments are as stated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_pool_open_read_only(
    url: *const c_char,
    pool: Option<&mut MaybeUninit<*mut FwPool>>,
) -> i32 {
    // SAFETY: the arguments are as the caller promises.
    unsafe { give_pool(url, pool, |url| Pool::open_read_only(url)) }
}

/// Creates a pool for this process alone, without a name, with one memory node of `memory_bytes` bytes, a multiple of 8
/// MiB. It vanishes when it and its indexes are closed, or the process ends.
#[unsafe(no_mangle)]
pub extern "C" fn fw_pool_anonymous(memory_bytes: u64, pool: Option<&mut MaybeUninit<*mut FwPool>>) -> i32 {
    guard(|| {
        let out = required(pool, "pool")?;
        give(out, FwPool(Pool::anonymous(memory_bytes)?));
        Ok(FW_OK)
    })
}

/// Closes a pool; NULL is permitted. The process stays attached until the indexes of the pool are closed, too.
#[unsafe(no_mangle)]
pub extern "C" fn fw_pool_close(pool: Option<Box<FwPool>>) -> i32 {
    guard(|| {
        drop(pool);
        Ok(FW_OK)
    })
}

/// Removes a pool in shared memory. No live process may be attached to it, including the calling one.
///
/// # Safety
/// The arguments are as stated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_pool_remove(url: *const c_char) -> i32 {
    guard(|| {
        // SAFETY: the caller promises a text.
        Pool::remove(unsafe { text(url, "url") }?)?;
        Ok(FW_OK)
    })
}

/// Removes a pool in shared memory in any state. Calls of attached processes fail with `FW_ERR_DAMAGED`.
///
/// # Safety
/// The arguments are as stated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_pool_remove_by_force(url: *const c_char) -> i32 {
    guard(|| {
        // SAFETY: the caller promises a text.
        Pool::remove_by_force(unsafe { text(url, "url") }?)?;
        Ok(FW_OK)
    })
}

/// Passes the indexes of the pool to `receive`, by name.
#[unsafe(no_mangle)]
pub extern "C" fn fw_pool_indexes(
    pool: Option<&FwPool>,
    receive: FwIndexInfoFn,
    context: *mut c_void,
) -> i32 {
    guard(|| {
        let (pool, receive) = (required(pool, "pool")?, required(receive, "receive")?);
        Ok(if list(pool, |info| receive(context, info))? { FW_STOPPED } else { FW_OK })
    })
}

/// Drops an index of any structure and frees its memory. No process may have it open, including the calling one.
///
/// # Safety
/// The arguments are as stated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_index_drop(pool: Option<&FwPool>, name: *const c_char) -> i32 {
    guard(|| {
        // SAFETY: the caller promises a text.
        let name = unsafe { text(name, "name") }?;
        required(pool, "pool")?.0.drop_index(name)?;
        Ok(FW_OK)
    })
}

/// Stores the state of the pool as JSON, without a NUL: an object with the arrays `nodes`, `clients` and `indexes`.
///
/// Returns `FW_TOO_SMALL` if the text has more than `cap` bytes. `len` receives its length, unless it is NULL.
///
/// # Safety
/// `buf` has `cap` bytes, or is NULL and `cap` is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_pool_stats_json(
    pool: Option<&FwPool>,
    buf: *mut c_char,
    cap: usize,
    len: Option<&mut MaybeUninit<usize>>,
) -> i32 {
    guard(|| {
        let json = json::of_stats(&required(pool, "pool")?.0.stats()?);
        // SAFETY: the caller promises `cap` bytes at `buf`.
        Ok(unsafe { fill(json.as_bytes(), (buf.cast(), cap), len) })
    })
}
