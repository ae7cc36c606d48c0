//! The one system call of this module.

use std::io;

/// Puts the pages of a range of addresses into huge pages, in whole. Whatever lies there stays as it is.
pub(super) fn collapse(start: usize, bytes: usize) -> io::Result<()> {
    // SAFETY: this advice moves contents to other memory behind the same addresses, and changes none, whoever uses
    // them meanwhile; where nothing, or something unsuitable, is mapped the kernel refuses.
    let failed =
        unsafe { libc::madvise(std::ptr::without_provenance_mut(start), bytes, libc::MADV_COLLAPSE) };
    if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
