//! Examination of this machine: shared memory, its pools, and the remains of crashed processes.

mod logout;
#[cfg(feature = "rdma")]
mod rdma;
#[cfg(feature = "tcp")]
mod served;
mod shortage;

use crate::error::{Error, Result};
use crate::pool::Pool;
use crate::pool_stats::PoolStats;
use crate::shell_word::shell_word;
use crate::url::Url;
use farwood_fabric::Access;
use farwood_transport::any::PoolLocation;
#[cfg(feature = "rdma")]
use farwood_transport::rdma::RdmaError;
use farwood_transport::shm::{PoolFiles, SegmentDir, SegmentFile, ShmError};
use logout::Logout;
#[cfg(feature = "rdma")]
pub use rdma::Rdma;
pub use shortage::{Shortage, shortage};
use std::fs;
use std::path::{Path, PathBuf};

/// The result of an examination.
#[derive(Debug)]
pub struct Report {
    /// The directory of the segments.
    pub directory: Space,
    /// The machine's memory.
    pub memory: MachineMemory,
    /// The treatment of the pools when their owner logs out.
    logout: Logout,
    /// The relevant limits of this process; `None` if unlimited.
    pub limits: Vec<(&'static str, Option<u64>)>,
    /// The pools.
    pub pools: Vec<PoolReport>,
    /// Segments whose creator crashed.
    pub drafts: Vec<Draft>,
    /// The RDMA devices; `Err` if RDMA is not available.
    #[cfg(feature = "rdma")]
    pub rdma: std::result::Result<Vec<Rdma>, RdmaError>,
    /// The devices named by `FARWOOD_RDMA_DEVICE` and by the examined pools over RDMA.
    #[cfg(feature = "rdma")]
    pub rdma_requested: Vec<Rdma>,
}

/// The size of a file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Space {
    /// The path.
    pub path: PathBuf,
    /// Total bytes.
    pub bytes: u64,
    /// Free bytes.
    pub free_bytes: u64,
}

/// The machine's memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineMemory {
    /// Total bytes.
    pub bytes: u64,
    /// Available bytes.
    pub available_bytes: u64,
    /// Reserved pages of 2 MiB, and how many of them are free.
    pub huge_pages: (u64, u64),
    /// The mount point of a file system of huge pages.
    pub huge_mount: Option<PathBuf>,
    /// The kernel's setting for transparent huge pages in shared memory.
    pub transparent: String,
}

/// One pool.
#[derive(Debug)]
pub struct PoolReport {
    /// The URL of the pool.
    pub url: String,
    /// The segments of the pool.
    pub segments: Vec<Segment>,
    /// The state of the pool, or the reason why it cannot be opened.
    pub state: Result<PoolStats>,
}

/// One segment: a memory node's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The file.
    pub path: PathBuf,
    /// The size of the segment in bytes.
    pub bytes: u64,
    /// Bytes that are backed by pages.
    pub resident_bytes: u64,
    /// The number of the user that it belongs to.
    pub owner: u32,
    /// The number of the group that it belongs to.
    pub group: u32,
    /// Its permissions.
    pub mode: u32,
}

impl From<SegmentFile> for Segment {
    fn from(file: SegmentFile) -> Self {
        let SegmentFile { path, bytes, bytes_resident, owner, group, mode, .. } = file;
        Self { path, bytes, resident_bytes: bytes_resident, owner, group, mode }
    }
}

/// The segments of a pool in shared memory; none for other pools.
///
/// # Errors
/// [`Error::Pool`] if the directory of segments cannot be read; [`Error::Url`].
pub fn segments(url: &Url) -> Result<Vec<Segment>> {
    let location = url.pool_url().expect_pool()?;
    let pools = SegmentDir::from_env().list();
    let pools = pools.map_err(|source| Error::Pool { operation: "examine", source })?;
    let is_it = |pool: &PoolFiles| matches!(&location, PoolLocation::Shm(name) if *name == pool.name);
    Ok(pools.into_iter().filter(is_it).flat_map(|pool| pool.segments).map(Segment::from).collect())
}

/// A segment whose creation did not finish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// The URL of the pool that was being created.
    pub url: String,
    /// The file.
    pub path: PathBuf,
    /// Bytes of memory that it uses.
    pub resident_bytes: u64,
}

/// A problem, and the command or the action that resolves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The problem.
    pub what: String,
    /// The command or the action.
    pub remedy: String,
}

/// The result of a sweep.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Removed unfinished segments.
    pub drafts: Vec<PathBuf>,
    /// Freed client slots of crashed processes, by pool.
    pub clients: Vec<(String, usize)>,
    /// Freed locks of crashed processes, by pool.
    pub locks: Vec<(String, u64)>,
}

/// Examines the machine. The function attaches to each pool for a moment and takes the lowest slot of its client
/// table that no live process uses. If a crashed client had that slot, the function reuses the slot, and the report
/// contains only the other crashed clients. The function changes nothing else.
///
/// # Errors
/// [`Error::Pool`], [`Error::System`] if the directory of segments cannot be read.
pub fn examine() -> Result<Report> {
    examine_with(&[])
}

/// Examines the machine as [`examine`], and also the pools `others`, which may be over TCP.
///
/// # Errors
/// As [`examine`]. The report lists errors of single pools.
pub fn examine_with(others: &[Url]) -> Result<Report> {
    examine_as(others, Access::ReadWrite)
}

/// Examines the machine as [`examine_with`]. With [`Access::ReadOnly`] it attaches to no pool and takes no slot, so it
/// changes nothing, and it examines pools that this process may only read.
///
/// # Errors
/// As [`examine`]. The report lists errors of single pools.
pub fn examine_as(others: &[Url], access: Access) -> Result<Report> {
    let report_of = |url: String, segments| report_of(url, segments, access);
    let pool_report = |files: PoolFiles| {
        let url = format!("shm://{}", files.name);
        report_of(url, files.segments.into_iter().map(Segment::from).collect())
    };
    let dir = SegmentDir::from_env();
    let examine = |source| Error::Pool { operation: "examine", source };
    let mut pools: Vec<_> = dir.list().map_err(examine)?.into_iter().map(pool_report).collect();
    pools.extend(others.iter().map(|url| report_of(url.pool_url().to_string(), Vec::new())));
    let drafts = dir.leftovers().map_err(examine)?.into_iter().map(|draft| Draft {
        url: format!("shm://{}", draft.name),
        path: draft.path,
        resident_bytes: draft.bytes_resident,
    });
    Ok(Report {
        directory: space(dir.path())?,
        memory: memory(),
        logout: Logout::of_machine(),
        limits: limits(),
        pools,
        drafts: drafts.collect(),
        #[cfg(feature = "rdma")]
        rdma: rdma::all(),
        #[cfg(feature = "rdma")]
        rdma_requested: rdma::requested(others),
    })
}

/// The directory of segments and the memory of this machine.
///
/// # Errors
/// [`Error::System`] if the directory cannot be read.
pub fn machine() -> Result<(Space, MachineMemory)> {
    Ok((space(SegmentDir::from_env().path())?, memory()))
}

/// Removes the remains of crashed processes: unfinished segments, client slots and locks. It removes no pool. The slot
/// that [attaching](examine) reuses is not counted.
///
/// # Errors
/// [`Error::Pool`], [`Error::Fabric`].
pub fn sweep() -> Result<Swept> {
    sweep_with(&[])
}

/// Sweeps as [`sweep`], and also the pools `others`, which may be over TCP.
///
/// # Errors
/// As [`sweep`].
pub fn sweep_with(others: &[Url]) -> Result<Swept> {
    let dir = SegmentDir::from_env();
    let failed = |source| Error::Pool { operation: "sweep", source };
    let mut swept = Swept::default();
    for draft in dir.leftovers().map_err(failed)? {
        if SegmentDir::sweep(&draft).map_err(failed)? {
            swept.drafts.push(draft.path);
        }
    }
    let here = dir.list().map_err(failed)?.into_iter().map(|pool| format!("shm://{}", pool.name));
    for url in here.chain(others.iter().map(|url| url.pool_url().to_string())) {
        // The report lists pools that cannot be opened.
        let Ok(pool) = Pool::find(&url) else { continue };
        let clients = pool.sweep_clients()?;
        if clients > 0 {
            swept.clients.push((url.clone(), clients));
        }
        let locks = pool.sweep_locks()?;
        if locks > 0 {
            swept.locks.push((url, locks));
        }
    }
    Ok(swept)
}

impl Report {
    /// The problems, each with the command that resolves it.
    pub fn findings(&self) -> Vec<Finding> {
        let drafts = self.drafts.iter().map(|draft| Finding {
            what: format!("a process crashed while it created {}: {}", draft.url, draft.path.display()),
            remedy: "farwood doctor --sweep".to_owned(),
        });
        let pools = self.pools.iter().flat_map(PoolReport::findings);
        let findings = drafts.chain(pools).chain(self.shared_memory_findings());
        #[cfg(feature = "rdma")]
        let findings = findings.chain(self.rdma_findings());
        findings.collect()
    }

    /// The problems of the file system of the pools.
    fn shared_memory_findings(&self) -> impl Iterator<Item = Finding> {
        let segments = || self.pools.iter().flat_map(|pool| &pool.segments);
        let shortage = Shortage::of(&self.directory, segments()).map(|shortage| shortage.finding());
        let logout = self.logout.finding(&self.directory.path, segments().map(|segment| segment.owner));
        shortage.into_iter().chain(logout)
    }
}

const LOCKED_MEMORY: &str = "locked memory";

impl PoolReport {
    /// Whether memory nodes serve the pool.
    fn is_served(&self) -> bool {
        !self.url.starts_with("shm://")
    }

    /// The problems of the pool.
    pub fn findings(&self) -> Vec<Finding> {
        match &self.state {
            Err(error) => self.unusable(error).into_iter().collect(),
            Ok(stats) => {
                let damaged = self.damaged_slots(stats).into_iter().chain(self.damaged_entries(stats));
                self.crashed_clients(stats).into_iter().chain(damaged).collect()
            }
        }
    }

    /// The reason why the pool cannot be used, unless it is another user's.
    fn unusable(&self, error: &Error) -> Option<Finding> {
        match error {
            #[cfg(feature = "tcp")]
            error if self.is_served() => Some(Finding {
                what: format!("{} cannot be used: {}", self.url, problem(error)),
                remedy: self.remedy(error),
            }),
            Error::Pool { source: ShmError::WideMode { path, .. }, .. } => Some(Finding {
                what: format!("other users have access to {}: {}", self.url, path.display()),
                remedy: format!("chmod 600 {}", path.display()),
            }),
            Error::Pool { source: ShmError::NotAFile { path, is_directory, .. }, .. } => Some(Finding {
                what: format!("{} cannot be used: {}", self.url, problem(error)),
                remedy: format!("rm {}{}", if *is_directory { "-r " } else { "" }, path.display()),
            }),
            Error::Pool { source: source @ ShmError::Unsaved { .. }, .. } => Some(Finding {
                what: format!("{} cannot be used: {}", self.url, problem(error)),
                remedy: source.remedy().unwrap_or_default().into_owned(),
            }),
            // A pool of another user is not a problem of this one.
            error if error.exit_code() == 6 => None,
            // The pool may be intact.
            Error::Pool {
                source: source @ (ShmError::NoSpace { .. } | ShmError::ReadOnly { .. } | ShmError::Io { .. }),
                ..
            } => Some(Finding {
                what: format!("{} cannot be used: {}", self.url, problem(error)),
                remedy: source.remedy().unwrap_or_default().into_owned(),
            }),
            error => Some(Finding {
                what: format!("{} cannot be used: {}", self.url, problem(error)),
                remedy: format!("farwood drop {} --force", self.url),
            }),
        }
    }

    fn crashed_clients(&self, stats: &PoolStats) -> Option<Finding> {
        let crashed = stats.clients.iter().filter(|client| !client.alive).count();
        let which = if self.is_served() { shell_word(&self.url) } else { String::new() };
        (crashed > 0).then(|| Finding {
            what: format!("{}: crashed clients: {crashed}; other clients take their locks over", self.url),
            remedy: format!("farwood doctor --sweep {which}").trim_end().to_owned(),
        })
    }

    fn damaged_slots(&self, stats: &PoolStats) -> Option<Finding> {
        let first = stats.damaged_slots.first()?;
        let more = match stats.damaged_slots.len() - 1 {
            0 => String::new(),
            more => format!(", and {more} more client slots are damaged"),
        };
        Some(Finding {
            what: format!(
                "{}: {}{more}; reads and changes continue, but no index can be dropped, and locks of the clients in \
                 these slots stay held",
                self.url,
                problem_of(&first.error.to_string())
            ),
            remedy: self.recreation(),
        })
    }

    fn damaged_entries(&self, stats: &PoolStats) -> Option<Finding> {
        let first = stats.damaged_entries.first()?;
        let more = match stats.damaged_entries.len() - 1 {
            0 => String::new(),
            more => format!(", and {more} more directory entries are damaged"),
        };
        Some(Finding {
            what: format!(
                "{}: {}{more}; its index is lost, the other indexes can be used, and none can be created",
                self.url,
                problem_of(&first.error.to_string())
            ),
            remedy: self.recreation(),
        })
    }

    /// The remedy for damaged tables: another pool.
    fn recreation(&self) -> String {
        let recreate = if self.is_served() {
            "start its memory nodes again with new memory".to_owned()
        } else {
            format!("farwood drop {} --force", self.url)
        };
        format!("save the indexes with `farwood scan`, end the processes that use the pool, then {recreate}")
    }
}

/// The text of an error without its remedy, because a finding has its own.
fn problem(error: &Error) -> String {
    problem_of(&error.to_string()).to_owned()
}

fn problem_of(text: &str) -> &str {
    text.split_once("; ").map_or(text, |(problem, _)| problem)
}

fn report_of(url: String, segments: Vec<Segment>, access: Access) -> PoolReport {
    let found = match access {
        Access::ReadWrite => Pool::find(&url),
        Access::ReadOnly => Pool::open_read_only(&url),
    };
    PoolReport { url, segments, state: found.and_then(|pool| pool.stats()) }
}

fn space(path: &Path) -> Result<Space> {
    let stat = rustix::fs::statvfs(path).map_err(|error| Error::System {
        operation: "examine",
        path: path.to_owned(),
        source: error.into(),
    })?;
    Ok(Space {
        path: path.to_owned(),
        bytes: stat.f_blocks.saturating_mul(stat.f_frsize),
        free_bytes: stat.f_bavail.saturating_mul(stat.f_frsize),
    })
}

fn memory() -> MachineMemory {
    let text = |path| fs::read_to_string(path).unwrap_or_default();
    let meminfo = text("/proc/meminfo");
    let kib = |name| meminfo_value(&meminfo, name).unwrap_or(0) << 10;
    let huge = |file| {
        let path = format!("/sys/kernel/mm/hugepages/hugepages-2048kB/{file}");
        fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
    };
    MachineMemory {
        bytes: kib("MemTotal"),
        available_bytes: kib("MemAvailable"),
        huge_pages: (huge("nr_hugepages"), huge("free_hugepages")),
        huge_mount: huge_mount(&text("/proc/mounts")),
        transparent: chosen(&text("/sys/kernel/mm/transparent_hugepage/shmem_enabled")),
    }
}

fn meminfo_value(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse().ok()
}

fn huge_mount(mounts: &str) -> Option<PathBuf> {
    let mut fields = mounts.lines().map(|line| line.split(' '));
    fields.find_map(|mut fields| {
        let (_, at, kind) = (fields.next()?, fields.next()?, fields.next()?);
        (kind == "hugetlbfs").then(|| at.into())
    })
}

/// The word in brackets, by which the kernel marks the selected option.
fn chosen(text: &str) -> String {
    let word = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    word.map_or("unknown", |(word, _)| word).to_owned()
}

fn limits() -> Vec<(&'static str, Option<u64>)> {
    use rustix::process::{Resource, getrlimit};
    let limits = [
        ("address space", Resource::As),
        ("file size", Resource::Fsize),
        (LOCKED_MEMORY, Resource::Memlock),
        ("open files", Resource::Nofile),
    ];
    limits.into_iter().map(|(name, resource)| (name, getrlimit(resource).current)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_of_the_kernel_are_parsed() {
        assert_eq!(meminfo_value("MemTotal:  16 kB\nMemAvailable:   12 kB\n", "MemAvailable"), Some(12));
        assert_eq!(meminfo_value("", "MemTotal"), None);
        assert_eq!(huge_mount("a /x tmpfs rw 0 0\nb /huge hugetlbfs rw 0 0\n"), Some("/huge".into()));
        assert_eq!(chosen("always advise [never] deny"), "never");
        assert_eq!(chosen(""), "unknown");
    }
}
