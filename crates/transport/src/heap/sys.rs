//! The one system call of this module.

use std::io;

/// Collapses the pages of a range of addresses into huge pages. The contents do not change.
pub(super) fn collapse(start: usize, bytes: usize) -> io::Result<()> {
    // SAFETY: this advice moves contents to other memory behind the same addresses and changes none, also
    // during concurrent accesses; the kernel refuses unmapped and unsuitable ranges.
    let failed =
        unsafe { libc::madvise(std::ptr::without_provenance_mut(start), bytes, libc::MADV_COLLAPSE) };
    if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
