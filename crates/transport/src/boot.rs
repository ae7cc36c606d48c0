//! The identity of a machine's start.

use std::fs;
use xxhash_rust::xxh3::xxh3_64;

/// A number that changes when the machine starts; 0: this system has none.
pub(crate) fn boot() -> u64 {
    fs::read("/proc/sys/kernel/random/boot_id").map_or(0, |id| xxh3_64(&id))
}
