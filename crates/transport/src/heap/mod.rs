//! Huge pages for the heap of a compute node, which contains its caches.
//!
//! Lookups in a cache are random, so that with pages of 4 KiB nearly each lookup misses the TLB. Allocators request no
//! huge pages, and by default most systems provide none; but Linux 6.1 and later can collapse existing pages into huge
//! ones.

#[allow(unsafe_code)]
mod sys;

use crate::shm;
use std::fs;
use std::io;
use std::ops::Range;

const HUGE_PAGE_BYTES: usize = shm::HUGE_PAGE_BYTES as usize;
/// The kernel's list of mappings, with their resident bytes.
const SMAPS: &str = "/proc/self/smaps";

/// Moves this process's private memory that is in use now into huge pages; returns the number of bytes in huge pages.
/// Takes 0.7 s for each GiB, while other threads continue; call it after large caches have been filled. It allocates
/// more memory only for partly used mappings, and skips a mapping that is less than three quarters in use.
///
/// # Errors
/// If the system does not list the mappings. On a kernel without the call, the function returns 0.
pub fn into_huge_pages() -> io::Result<usize> {
    let smaps = fs::read_to_string(SMAPS)?;
    let pages = private(&smaps).flat_map(|range| range.step_by(HUGE_PAGE_BYTES));
    Ok(pages.filter(|page| sys::collapse(*page, HUGE_PAGE_BYTES).is_ok()).count() * HUGE_PAGE_BYTES)
}

/// The whole huge pages of private, writable, anonymous memory that is in use.
fn private(smaps: &str) -> impl Iterator<Item = Range<usize>> {
    let mut mapping = None;
    smaps.lines().filter_map(move |line| {
        if let Some((range, is_heap)) = mapping_of(line) {
            mapping = is_heap.then_some(range);
        }
        let resident = kibibytes(line.strip_prefix("Rss:")?)? << 10;
        let range = mapping.take()?;
        let in_use = resident >= range.len() / 4 * 3;
        let start = range.start.checked_next_multiple_of(HUGE_PAGE_BYTES)?;
        let end = range.end / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
        (in_use && start < end).then_some(start..end)
    })
}

/// Returns the mapping that a line begins, if it does, and whether it is private, writable and anonymous.
fn mapping_of(line: &str) -> Option<(Range<usize>, bool)> {
    let mut words = line.split_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let [start, end] = [start, end].map(|address| usize::from_str_radix(address, 16).ok());
    let is_private = words.next()? == "rw-p";
    // Offset, device, inode; then the name, if there is one.
    let name = words.nth(3);
    Some((start?..end?, is_private && matches!(name, None | Some("[heap]"))))
}

fn kibibytes(text: &str) -> Option<usize> {
    text.strip_suffix("kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_resident_memory_is_found() {
        let smaps = "\
            55d0c0000000-55d0c0800000 rw-p 00000000 00:00 0                          [heap]\n\
            Size:               8192 kB\n\
            Rss:                8000 kB\n\
            7f0000001000-7f0000a01000 rw-p 00000000 00:00 0 \n\
            Rss:               10240 kB\n\
            7f1000000000-7f1000800000 rw-p 00000000 00:00 0 \n\
            Rss:                 132 kB\n\
            7f2000000000-7f2000800000 rw-s 00000000 00:1a 7          /dev/shm/farwood.pool.0\n\
            Rss:                8192 kB\n\
            7f3000000000-7f3000800000 r-xp 00000000 08:01 9          /usr/lib/libc.so.6\n\
            Rss:                8192 kB\n\
            7f4000000000-7f4000100000 rw-p 00000000 00:00 0 \n\
            Rss:                1024 kB\n";
        let found: Vec<_> = private(smaps).collect();
        assert_eq!(found, [0x55d0_c000_0000..0x55d0_c080_0000, 0x7f00_0020_0000..0x7f00_00a0_0000]);
    }

    #[test]
    fn collapsing_keeps_the_contents_of_the_heap() {
        let numbers: Vec<u64> =
            (0..4 << 20).map(|number: u64| number.wrapping_mul(0x9E37_79B9_7F4A_7C15)).collect();
        into_huge_pages().unwrap();
        let same = |(number, word): (u64, &u64)| *word == number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        assert!((0..).zip(&numbers).all(same));
    }
}
