//! The only unsafe call of this crate: opening an LMDB environment.

#![allow(unsafe_code)]

use std::path::Path;

use heed::{Env, EnvFlags, EnvOpenOptions};

/// Opens the environment in `folder`, mapped with `map_bytes`, for up to `readers_max` readers.
///
/// The environment does not sync, as LMDB's documentation advises for data that need not survive a crash of the
/// machine, and has a writable map, which saves copies of pages. Every process of a run uses these flags, because LMDB
/// forbids mixing them.
pub(super) fn open(folder: &Path, map_bytes: usize, readers_max: u32) -> heed::Result<Env> {
    let mut options = EnvOpenOptions::new();
    options.map_size(map_bytes).max_readers(readers_max);
    // SAFETY: both flags only remove durability after a crash of the machine; the folder belongs to one run and is
    // removed after it. NO_LOCK, which is unsafe for several processes, is not set.
    unsafe { options.flags(EnvFlags::NO_SYNC | EnvFlags::WRITE_MAP) };
    // SAFETY: the mapped file is changed by LMDB only (the folder is made for a run and used by nothing else), on
    // a local file system, and under its lock file; transactions here end within the call that began them.
    unsafe { options.open(folder) }
}
