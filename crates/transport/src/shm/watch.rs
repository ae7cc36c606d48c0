//! Monitors the files of an attached pool: another process may remove, truncate or replace them.
//!
//! The memory of a removed file stays mapped, so an attached process would continue in a pool that no other process can
//! find: logind's `RemoveIPC`, or `rm` and a new pool of the same name, would divide the processes of a pool into two
//! groups without an error. A thread compares the open files with their names four times a second. If the files are
//! lost, every later operation fails; an operation itself only loads one word.
//!
//! An access to a page beyond the end of a truncated file kills the process with SIGBUS. The monitor prevents only
//! accesses after it has detected the truncation. Other users cannot truncate a file of a pool, except the members of a
//! group that shares it.

use super::error::ShmError;
use super::journal::Journal;
use super::segment::Segment;
use crate::fork::ForkCount;
use farwood_fabric::{FabricError, NodeId};
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::{Arc, OnceLock, Weak};
use std::thread::{self, Thread};
use std::time::Duration;

/// Time between two examinations.
const INTERVAL: Duration = Duration::from_millis(250);

/// The watch over the files of one attachment.
pub(super) struct FileWatch {
    files: Arc<WatchedFiles>,
    thread: Thread,
    /// The fork count of the process that runs the thread.
    forks: ForkCount,
}

/// The files of one attachment.
struct WatchedFiles {
    pool: String,
    segments: Vec<Arc<Segment>>,
    /// `None`: this process only reads, and does not use the journal.
    journal: Option<Arc<Journal>>,
    lost: OnceLock<FabricError>,
}

impl FileWatch {
    /// Starts to watch the files of a pool.
    pub(super) fn start(segments: &[Arc<Segment>], journal: Option<&Arc<Journal>>) -> Result<Self, ShmError> {
        let files = Arc::new(WatchedFiles {
            pool: segments[0].name().to_string(),
            segments: segments.to_vec(),
            journal: journal.cloned(),
            lost: OnceLock::new(),
        });
        let watched = Arc::downgrade(&files);
        let thread = thread::Builder::new().name("farwood-watch".to_owned()).spawn(move || watch(&watched));
        let thread = thread.map_err(ShmError::on("start a thread that monitors", segments[0].path()))?;
        Ok(Self { files, thread: thread.thread().clone(), forks: ForkCount::now() })
    }

    /// Returns the error of a pool whose files were found to be lost.
    #[inline]
    pub(super) fn check(&self) -> Result<(), FabricError> {
        self.files.lost.get().map_or(Ok(()), |lost| Err(lost.clone()))
    }

    /// Examines the files now.
    pub(super) fn examine(&self) -> Result<(), FabricError> {
        self.files.examine();
        self.check()
    }
}

impl Drop for FileWatch {
    /// Wakes the thread, which ends when the files are dropped.
    fn drop(&mut self) {
        if self.forks.is_current() {
            self.thread.unpark();
        }
    }
}

/// Examines the files until they are lost, or dropped.
fn watch(files: &Weak<WatchedFiles>) {
    while let Some(files) = files.upgrade() {
        files.examine();
        if files.lost.get().is_some() {
            return;
        }
        drop(files);
        thread::park_timeout(INTERVAL);
    }
}

impl WatchedFiles {
    fn examine(&self) {
        let segments = self.segments.iter().find_map(|segment| {
            let what = loss(segment.file(), fs::symlink_metadata(segment.path()), segment.mapping().bytes())?;
            Some((NodeId(segment.node()), segment.path(), what))
        });
        let lost = segments.or_else(|| {
            let journal = self.journal.as_ref()?;
            let what = loss(journal.file(), fs::symlink_metadata(journal.path()), Journal::BYTES)?;
            Some((NodeId(0), journal.path(), what))
        });
        if let Some((node, path, what)) = lost {
            self.lost.get_or_init(|| self.error(node, path, what));
        }
    }

    fn error(&self, node: NodeId, path: &Path, what: &str) -> FabricError {
        let pool = &self.pool;
        let why = format!(
            "{} of pool '{pool}' was {what} while this process was attached, so no other process sees what it stores; \
             open the pool again, or create it again with `farwood create shm://{pool}`; `farwood doctor` finds the \
             usual cause (RemoveIPC)",
            path.display()
        );
        FabricError::MemoryLost { node, why }
    }
}

/// Returns what happened to an open file of at least `bytes` bytes, if something did; `named` is what its path names
/// now.
pub(crate) fn loss(file: &File, named: io::Result<Metadata>, bytes: u64) -> Option<&'static str> {
    let open = file.metadata().ok()?;
    if open.nlink() == 0 {
        return Some("removed");
    }
    if open.len() < bytes {
        return Some("truncated");
    }
    // A renamed file has no entry under its path, and counts as lost only when another file has the path.
    let named = named.ok()?;
    ((named.dev(), named.ino()) != (open.dev(), open.ino())).then_some("replaced")
}

#[cfg(test)]
mod tests {
    use super::super::create::{PoolSpec, create};
    use super::super::pool::ShmPool;
    use super::super::segment::{Backing, SegmentDir};
    use super::super::testing::{Scratch, eventually};
    use super::*;
    use crate::runtime::block_on;
    use farwood_fabric::{Fabric as _, client_table};

    /// A pool of two memory nodes with an attachment.
    fn attach(dir: &SegmentDir) -> ShmPool {
        let spec = PoolSpec {
            name: "demo".parse().unwrap(),
            nodes: 2,
            host_bytes: 16 << 20,
            host_bytes_max: None,
            device_bytes: 64 << 10,
            backing: Backing::Growable,
            group: None,
            mode: None,
        };
        create(dir, &spec).unwrap();
        ShmPool::open(dir, &spec.name).unwrap()
    }

    fn post(pool: &ShmPool) -> Result<(), FabricError> {
        block_on(client_table::slot_state(&pool.client(), pool.identity().slot)).map(|_| ())
    }

    /// Attaches to a pool, lets `lose` change its files, and expects that the process detects it.
    #[track_caller]
    fn expect_noticed(what: &str, file: &str, lose: impl FnOnce(&Path, &str)) {
        let scratch = Scratch::new();
        let pool = attach(&scratch.dir());
        post(&pool).unwrap();
        let journal = scratch.entries().into_iter().find(|file| file.ends_with(".journal")).unwrap();
        let file = if file == "journal" { journal } else { file.to_owned() };
        lose(scratch.path(), &file);
        eventually("the process notices", || post(&pool).is_err());
        let text = post(&pool).unwrap_err().to_string();
        for part in [&file, what, "pool 'demo'", "`farwood create shm://demo`", "farwood doctor"] {
            assert!(text.contains(part), "{part:?} is missing in: {text}");
        }
        assert!(pool.check_files().is_err());
        let at = farwood_fabric::Address::new(NodeId(0), farwood_fabric::Memory::Host, 8 << 20).unwrap();
        assert!(block_on(pool.fabric().provision(at, 4096)).is_err(), "it would make the file longer");
    }

    #[test]
    fn an_attached_process_notices_a_removed_file() {
        for file in ["farwood.demo.0", "farwood.demo.1", "journal"] {
            expect_noticed("removed", file, |directory, file| fs::remove_file(directory.join(file)).unwrap());
        }
    }

    #[test]
    fn an_attached_process_notices_a_truncated_file() {
        // All pages but the last one remain; no process has used that one.
        for (file, bytes) in [("farwood.demo.1", (16 << 20) - 4096), ("journal", 1 << 30)] {
            expect_noticed("truncated", file, |directory, file| {
                File::options().write(true).open(directory.join(file)).unwrap().set_len(bytes).unwrap();
            });
        }
    }

    #[test]
    fn an_attached_process_notices_another_pool_of_the_name() {
        expect_noticed("replaced", "farwood.demo.0", |directory, file| {
            fs::rename(directory.join(file), directory.join("elsewhere")).unwrap();
            fs::write(directory.join(file), "another").unwrap();
        });
    }

    #[test]
    fn a_pool_whose_files_do_not_change_is_not_lost() {
        let scratch = Scratch::new();
        let pool = attach(&scratch.dir());
        std::thread::sleep(3 * INTERVAL);
        post(&pool).unwrap();
        pool.check_files().unwrap();
    }
}
