//! A file system that is too small for the pools in it.
//!
//! Memory of a pool is allocated as it is used, so a pool may be larger than the file system; `/dev/shm` of a container
//! often has 64 MiB. When it is full, operations that need a new chunk fail.

use super::{Finding, Segment, Space, segments, space};
use crate::error::Result;
use crate::url::Url;
use farwood_transport::shm::SegmentDir;
use std::fmt;
use std::path::PathBuf;

/// A file system that has less free memory than the pools in it may still allocate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// The directory of the segments.
    pub directory: PathBuf,
    /// Bytes that the pools may still allocate.
    pub needed_bytes: u64,
    /// Bytes that are free.
    pub free_bytes: u64,
}

impl Shortage {
    /// The shortage of `segments` in a file system. Segments in other file systems (of huge pages) are ignored.
    pub(super) fn of<'s>(space: &Space, segments: impl Iterator<Item = &'s Segment>) -> Option<Self> {
        let inside = segments.filter(|segment| segment.path.parent() == Some(&space.path));
        let needed_bytes = inside.map(|segment| segment.bytes.saturating_sub(segment.resident_bytes)).sum();
        let (directory, free_bytes) = (space.path.clone(), space.free_bytes);
        (needed_bytes > free_bytes).then_some(Self { directory, needed_bytes, free_bytes })
    }

    pub(super) fn finding(&self) -> Finding {
        let directory = self.directory.display();
        Finding {
            what: format!("{self}; operations fail when it is full"),
            remedy: format!(
                "mount -o remount,size=SIZE {directory}    (a container: docker run --shm-size=SIZE)"
            ),
        }
    }
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} has {} MiB free, and the memory in it may grow by {} MiB",
            self.directory.display(),
            self.free_bytes >> 20,
            self.needed_bytes.div_ceil(1 << 20)
        )
    }
}

/// Returns the shortage of one pool in shared memory, if its memory does not fit into the file system. Always `None`
/// for other pools.
///
/// # Errors
/// [`Error::Pool`](crate::Error::Pool), [`Error::System`](crate::Error::System) if the directory of segments cannot be
/// read; [`Error::Url`](crate::Error::Url).
pub fn shortage(url: &Url) -> Result<Option<Shortage>> {
    let segments = segments(url)?;
    Ok(Shortage::of(&space(SegmentDir::from_env().path())?, segments.iter()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn segment(directory: &str, mib: u64, resident_mib: u64) -> Segment {
        let path = Path::new(directory).join("farwood.p.0");
        Segment {
            path,
            bytes: mib << 20,
            resident_bytes: resident_mib << 20,
            owner: 0,
            group: 0,
            mode: 0o600,
        }
    }

    fn shortage_of(free_mib: u64, segments: &[Segment]) -> Option<Shortage> {
        let space = Space { path: "/dev/shm".into(), bytes: 64 << 20, free_bytes: free_mib << 20 };
        Shortage::of(&space, segments.iter())
    }

    #[test]
    fn pools_that_may_outgrow_the_file_system_are_a_shortage() {
        let both = [segment("/dev/shm", 1024, 8), segment("/dev/shm", 16, 16)];
        let found = shortage_of(40, &both).unwrap();
        assert_eq!((found.needed_bytes, found.free_bytes), (1016 << 20, 40 << 20));
        let finding = found.finding();
        assert!(
            finding.what.contains("/dev/shm has 40 MiB free") && finding.what.contains("1016 MiB"),
            "{finding:?}"
        );
        assert!(finding.remedy.contains("--shm-size"), "{finding:?}");
    }

    #[test]
    fn pools_that_fit_are_not_a_shortage() {
        assert_eq!(shortage_of(40, &[segment("/dev/shm", 48, 8)]), None);
        assert_eq!(shortage_of(0, &[segment("/dev/shm", 64, 64)]), None, "all is allocated");
        assert_eq!(shortage_of(0, &[segment("/dev/hugepages", 64, 0)]), None, "another file system");
    }
}
