//! Pools: creation, statistics, and the list of indexes.

mod json;
#[allow(unsafe_code)]
mod sys;

pub use sys::*;

use crate::code::{FW_BTREE, FW_BYTES, FW_HASHED, FW_RADIX, FW_RESERVE_MEMORY, FW_SPATIAL, FW_UNREADABLE};
use crate::failure::{CallResult, Failure};
use farwood::papers::System;
use farwood::stats::{EntryLayout, IndexEntry};
use farwood::{Pool, PoolOptions};
use std::ffi::{CString, c_char, c_void};

/// A pool: this process's attachment to its memory nodes. Any number of threads may use it. Indexes keep it attached
/// after it is closed.
pub struct FwPool(pub(crate) Pool);

/// The options for creating a pool in shared memory. Create it with `fw_pool_options_default`, or set all bytes to 0
/// and `size` to `sizeof(fw_pool_options)`. A field that is 0 has its default.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct FwPoolOptions {
    /// The size of this struct in bytes.
    pub size: usize,
    /// The memory of each memory node in bytes, a multiple of 8 MiB; the default is 1 GiB.
    pub memory_bytes: u64,
    /// The device memory of each memory node in bytes, which holds the locks; the default is 256 KiB.
    pub device_bytes: u64,
    /// The name or number of a group of users that shares the pool; the default is none.
    pub group: *const c_char,
    /// The number of memory nodes, 1 to 256; the default is 1.
    pub nodes: u32,
    /// `FW_RESERVE_MEMORY` or 0.
    pub flags: u32,
    /// The permissions of the files of the pool, such as 0640 for a group that reads it; the default is 0600, or 0660
    /// with a group.
    pub mode: u32,
    /// Must be 0.
    pub reserved: u32,
}

/// An index in the directory of a pool.
#[repr(C)]
pub struct FwIndexInfo {
    /// The size of this struct in bytes.
    pub size: usize,
    /// The name. It is valid during the callback.
    pub name: *const c_char,
    /// The bytes of a key; 0: any length.
    pub key_bytes: u64,
    /// The bytes of a value; 0: any length, or values without bytes.
    pub value_bytes: u64,
    /// `FW_BTREE`, `FW_RADIX`, `FW_HASHED`, `FW_SPATIAL` or `FW_UNREADABLE`.
    pub structure: i32,
    /// The kind of the keys, such as `FW_U64`; `FW_BYTES` for a spatial index.
    pub key_kind: i32,
    /// The kind of the values, such as `FW_U64`; `FW_BYTES` for a spatial index.
    pub value_kind: i32,
}

/// Receives an index of a pool. A result other than 0 ends the call with `FW_STOPPED`.
pub type FwIndexInfoFn = Option<extern "C" fn(context: *mut c_void, info: &FwIndexInfo) -> i32>;

/// The options of the library. `group` is the text of the field.
fn options_of(given: &FwPoolOptions, group: Option<&str>) -> CallResult<PoolOptions> {
    if given.flags & !FW_RESERVE_MEMORY != 0 {
        return Err(Failure::argument("fw_pool_options.flags has unknown bits"));
    }
    if given.reserved != 0 {
        return Err(Failure::argument("fw_pool_options.reserved must be 0"));
    }
    let mut options = PoolOptions::new();
    if given.mode != 0 {
        options = options.mode(given.mode);
    }
    if given.memory_bytes != 0 {
        options = options.memory_bytes(given.memory_bytes);
    }
    if given.device_bytes != 0 {
        options = options.device_bytes(given.device_bytes);
    }
    if given.nodes != 0 {
        let nodes = u16::try_from(given.nodes);
        options = options.nodes(nodes.map_err(|_| Failure::argument("fw_pool_options.nodes exceeds 256"))?);
    }
    if given.flags & FW_RESERVE_MEMORY != 0 {
        options = options.reserve_memory();
    }
    Ok(match group {
        Some(group) => options.group(group),
        None => options,
    })
}

/// Passes the indexes of a pool to `receive`, until it returns a number other than 0; returns whether it did.
fn list(pool: &FwPool, mut receive: impl FnMut(&FwIndexInfo) -> i32) -> CallResult<bool> {
    for entry in pool.0.indexes()? {
        // A name of the directory contains no NUL.
        let name = CString::new(entry.name.as_str()).unwrap_or_default();
        if receive(&info_of(&entry, name.as_ptr())) != 0 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The number of a structure.
pub(crate) const fn structure_of(system: System) -> i32 {
    match system {
        System::Sherman => FW_BTREE,
        System::Smart => FW_RADIX,
        System::Sphinx => FW_HASHED,
    }
}

fn info_of(entry: &IndexEntry, name: *const c_char) -> FwIndexInfo {
    let mut info = FwIndexInfo {
        size: size_of::<FwIndexInfo>(),
        name,
        key_bytes: 0,
        value_bytes: 0,
        structure: FW_UNREADABLE,
        key_kind: FW_BYTES,
        value_kind: FW_BYTES,
    };
    match &entry.layout {
        Err(_) => {}
        Ok(EntryLayout::Spatial(_)) => info.structure = FW_SPATIAL,
        Ok(EntryLayout::Ordered(layout)) => {
            info.structure = structure_of(layout.system);
            info.key_kind = i32::from(layout.keys.kind.number());
            info.value_kind = i32::from(layout.values.kind.number());
            info.key_bytes = layout.keys.bytes.unwrap_or(0) as u64;
            info.value_bytes = layout.values.bytes.unwrap_or(0) as u64;
        }
    }
    info
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_becomes_that_of_the_library() {
        let given = FwPoolOptions {
            size: size_of::<FwPoolOptions>(),
            memory_bytes: 16 << 20,
            device_bytes: 0,
            group: std::ptr::null(),
            nodes: 0,
            flags: 0,
            mode: 0o640,
            reserved: 0,
        };
        let options = options_of(&given, Some("staff")).unwrap();
        assert_eq!(options, PoolOptions::new().memory_bytes(16 << 20).mode(0o640).group("staff"));
        assert!(options_of(&FwPoolOptions { reserved: 1, ..given }, None).is_err());
    }
}
