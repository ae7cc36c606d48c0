//! The page size of segments, as the kernel's tables (`/proc`, `/sys`) report it.
//!
//! A random READ of a node in a large segment mostly waits for memory twice: for the page table entry, and for
//! the node. Pages of 2 MiB make the first wait rare. There are three sources:
//!
//! - **hugetlbfs**: the administrator reserves pages and mounts a file system of them. It is used if the whole segment
//!   fits into its free pages.
//! - **transparent**: the kernel builds them without a request, if `shmem_enabled` allows that for shared memory
//!   (most systems: never).
//! - **collapsed**: Linux 6.1 and later collapse a range on request (`MADV_COLLAPSE`), whatever `shmem_enabled` says,
//!   unless it is `deny`. The request follows the provisioning of a range; all processes that map it share the result.

use super::sys::{self, HUGE_PAGE_BYTES};
use std::fmt;
use std::fs;
use std::path::PathBuf;

const MOUNTS: &str = "/proc/mounts";
const MEMINFO: &str = "/proc/meminfo";
const HUGE_POOL: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB";
const SHMEM_ENABLED: &str = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";

/// The pages of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// Ordinary pages of the system, of that many bytes.
    Ordinary(u64),
    /// Ordinary pages that the kernel was asked to replace by huge ones.
    Transparent,
    /// Pages of 2 MiB from hugetlbfs.
    Huge,
}

impl Pages {
    /// Returns the unit of the segment's length, in bytes.
    pub fn bytes(self) -> u64 {
        match self {
            Self::Ordinary(bytes) => bytes,
            Self::Transparent => sys::page_bytes(),
            Self::Huge => HUGE_PAGE_BYTES,
        }
    }
}

impl fmt::Display for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ordinary(bytes) => write!(f, "{} KiB pages", bytes >> 10),
            Self::Transparent => f.write_str("transparent huge pages where the kernel finds some"),
            Self::Huge => f.write_str("2 MiB pages"),
        }
    }
}

/// Returns the mount point of a file system of 2 MiB pages, if there is one.
pub(super) fn huge_mount() -> Option<PathBuf> {
    huge_mount_in(&fs::read_to_string(MOUNTS).ok()?)
}

/// Returns the bytes of 2 MiB pages that are free and not reserved.
pub(crate) fn huge_bytes_free() -> u64 {
    let count = |file: &str| -> Option<u64> {
        fs::read_to_string(format!("{HUGE_POOL}/{file}")).ok()?.trim().parse().ok()
    };
    let free = count("free_hugepages").unwrap_or(0);
    free.saturating_sub(count("resv_hugepages").unwrap_or(0)).saturating_mul(HUGE_PAGE_BYTES)
}

/// Returns whether the kernel may give huge pages to shared memory on request.
pub(super) fn transparent_allowed() -> bool {
    fs::read_to_string(SHMEM_ENABLED).is_ok_and(|text| transparent_allowed_in(&text))
}

/// Returns the bytes of memory that can be allocated before the kernel has to kill processes. `None` if it
/// does not say.
pub(super) fn memory_bytes_available() -> Option<u64> {
    memory_bytes_available_in(&fs::read_to_string(MEMINFO).ok()?)
}

fn huge_mount_in(mounts: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let mut fields = line.split(' ');
        let (_device, at, kind, options) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        let mut options = options.split(',');
        // A path with escaped characters (`\040`) is skipped, not decoded.
        let usable =
            kind == "hugetlbfs" && options.any(|option| option == "pagesize=2M") && !at.contains('\\');
        usable.then(|| PathBuf::from(at))
    })
}

fn transparent_allowed_in(shmem_enabled: &str) -> bool {
    let chosen = shmem_enabled.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    chosen.is_some_and(|(mode, _)| matches!(mode, "always" | "within_size" | "advise" | "force"))
}

fn memory_bytes_available_in(meminfo: &str) -> Option<u64> {
    let kib = |name: &str| -> Option<u64> {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.split_whitespace().next()?.parse().ok()
    };
    Some((kib("MemAvailable")? + kib("SwapFree").unwrap_or(0)) << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mount_of_huge_pages_is_found() {
        let mounts = "tmpfs /dev/shm tmpfs rw,size=1g 0 0\n\
                      hugetlbfs /mnt/huge1G hugetlbfs rw,relatime,pagesize=1024M 0 0\n\
                      hugetlbfs /with\\040space hugetlbfs rw,pagesize=2M 0 0\n\
                      none /dev/hugepages hugetlbfs rw,relatime,pagesize=2M 0 0\n";
        assert_eq!(huge_mount_in(mounts), Some(PathBuf::from("/dev/hugepages")));
        assert_eq!(huge_mount_in("tmpfs /dev/hugepages tmpfs rw,pagesize=2M 0 0\n\nodd"), None);
    }

    #[test]
    fn the_kernels_choice_is_the_one_in_brackets() {
        assert!(transparent_allowed_in("always within_size [advise] never deny force\n"));
        assert!(!transparent_allowed_in("always within_size advise [never] deny force\n"));
        assert!(!transparent_allowed_in("always within_size advise never [deny] force\n"));
        assert!(!transparent_allowed_in(""));
    }

    #[test]
    fn available_memory_includes_free_swap() {
        let text = "MemTotal:       9 kB\nMemAvailable:   5 kB\nSwapTotal: 8 kB\nSwapFree:       2 kB\n";
        assert_eq!(memory_bytes_available_in(text), Some(7 << 10));
        assert_eq!(memory_bytes_available_in("MemTotal: 9 kB\n"), None);
    }

    #[test]
    fn pages_are_displayed_with_their_size() {
        assert_eq!(Pages::Ordinary(4096).to_string(), "4 KiB pages");
        assert_eq!((Pages::Huge.bytes(), Pages::Huge.to_string().as_str()), (2 << 20, "2 MiB pages"));
    }
}
