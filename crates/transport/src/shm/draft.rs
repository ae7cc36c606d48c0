//! The creation of a segment: it is built under a temporary name and published in one step, so that no process sees an
//! incomplete segment.
//!
//! ```text
//! .farwood.NAME.I.new   created exclusively, locked (flock)      the lock shows that its creator is alive
//!        │ size, pages, contents
//!        ▼
//! farwood.NAME.I        hard link: fails if the name is taken    published
//!        │
//! .farwood.NAME.I.new   unlinked
//! ```
//!
//! The kernel releases the lock when the process ends, so an unlocked draft is stale, and the next creator removes it.
//! It is never reused, because the crashed process may have linked it already.
//!
//! A segment in huge pages lives on another file system, with its own draft there. The draft in the ordinary directory
//! is created first in that case as well: its lock makes the creation of one name exclusive across both.

use super::error::ShmError;
use super::name::PoolName;
use super::ownership;
use crate::fork::OwnDescriptor;
use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Maximum attempts to take the draft; more failures indicate another error.
const ATTEMPTS_MAX: u32 = 64;

/// The exclusive right to create one segment; released on drop together with the draft's name.
#[derive(Debug)]
pub(super) struct Draft {
    file: OwnDescriptor<File>,
    path: PathBuf,
}

impl Draft {
    /// Claims the right to create memory node `node` of pool `name`, whose ordinary directory is `dir`.
    pub(super) fn begin(dir: &Path, name: &PoolName, node: u16, mode: u32) -> Result<Self, ShmError> {
        let path = dir.join(name.draft_file(node));
        for _ in 0..ATTEMPTS_MAX {
            match create_exclusively(&path, mode) {
                Ok(file) => {
                    // A child that is forked now must not keep the lock.
                    let file = OwnDescriptor::new(file);
                    // Another process may have taken it for a stale draft between the two calls.
                    if try_lock(&file, &path)? && is_at(&file, &path) {
                        return Ok(Self { file, path });
                    }
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    if !remove_if_dead(&path)? {
                        return Err(ShmError::BeingCreated { pool: name.to_string(), path });
                    }
                }
                Err(error) => return Err(ShmError::from_io("create", &path, 0, error)),
            }
        }
        Err(ShmError::BeingCreated { pool: name.to_string(), path })
    }

    /// Returns the draft: an empty file that only this process uses. The handle shares the draft's file
    /// description.
    pub(super) fn file(&self) -> Result<File, ShmError> {
        self.file.try_clone().map_err(ShmError::on("use", &self.path))
    }

    /// Returns the draft's name.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // While this process holds the lock, no other takes the name. If this fails, the next creator finds a
        // stale draft.
        let _ = fs::remove_file(&self.path);
        let _ = self.file.unlock();
    }
}

/// Creates a file that did not exist before, with exactly the permissions of `mode`.
pub(super) fn create_exclusively(path: &Path, mode: u32) -> std::io::Result<File> {
    let file = File::options().read(true).write(true).create_new(true).mode(mode).open(path)?;
    // The process's umask restricted the mode at creation; the pool's mode is exact.
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    Ok(file)
}

/// Publishes `draft` under its name, if the name is free.
pub(super) fn publish(draft: &Path, path: &Path, name: &PoolName) -> Result<(), ShmError> {
    fs::hard_link(draft, path).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => ShmError::Exists { pool: name.to_string(), path: path.to_owned() },
        _ => ShmError::from_io("publish", path, 0, error),
    })
}

/// The state of a draft.
enum DraftState {
    Absent,
    /// The process of the draft has ended, and this process holds the lock of the draft.
    Stale(File),
    /// A live process holds its lock.
    Live,
}

/// Returns whether there is a draft at `path` whose process has ended.
pub(super) fn is_dead(path: &Path) -> Result<bool, ShmError> {
    Ok(matches!(find(path)?, DraftState::Stale(_)))
}

/// Removes a draft whose process has ended. Returns true if the name is free, and false if a live process holds the
/// draft.
pub(super) fn remove_if_dead(path: &Path) -> Result<bool, ShmError> {
    match find(path)? {
        DraftState::Absent => Ok(true),
        DraftState::Live => Ok(false),
        // The lock is held until the name is removed, so that no other process takes the draft for a stale one.
        DraftState::Stale(lock) => {
            if is_at(&lock, path) {
                fs::remove_file(path).map_err(ShmError::on("remove", path))?;
            }
            Ok(true)
        }
    }
}

fn find(path: &Path) -> Result<DraftState, ShmError> {
    match fs::symlink_metadata(path) {
        // The owner is checked before the file is opened, because the error of opening another user's file does not
        // name the owner.
        Ok(data) => {
            ownership::check_owner(path, &data)?;
            ownership::check_regular(path, &data)?;
        }
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(DraftState::Absent),
        Err(error) => return Err(ShmError::from_io("examine", path, 0, error)),
    }
    let open = File::options().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path);
    match open {
        Ok(file) if try_lock(&file, path)? => Ok(DraftState::Stale(file)),
        Ok(_) => Ok(DraftState::Live),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(DraftState::Absent),
        Err(error) => Err(ShmError::from_io("open", path, 0, error)),
    }
}

fn try_lock(file: &File, path: &Path) -> Result<bool, ShmError> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(ShmError::from_io("lock", path, 0, error)),
    }
}

/// Returns whether `path` names this file.
pub(super) fn is_at(file: &File, path: &Path) -> bool {
    let identity = |data: fs::Metadata| (data.dev(), data.ino());
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(file), Ok(named)) => identity(file) == identity(named),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Scratch;
    use super::*;

    fn demo() -> PoolName {
        "demo".parse().unwrap()
    }

    #[test]
    fn only_one_process_creates_a_segment() {
        let scratch = Scratch::new();
        let draft = Draft::begin(scratch.path(), &demo(), 0, 0o600).unwrap();
        let second = Draft::begin(scratch.path(), &demo(), 0, 0o600).unwrap_err();
        assert!(matches!(second, ShmError::BeingCreated { .. }), "{second}");
        let other = Draft::begin(scratch.path(), &demo(), 1, 0o600).unwrap();
        drop((draft, other));
        assert!(scratch.entries().is_empty());
        Draft::begin(scratch.path(), &demo(), 0, 0o600).unwrap();
    }

    #[test]
    fn a_stale_draft_is_replaced_but_never_reused() {
        let scratch = Scratch::new();
        let stale = scratch.file(".farwood.demo.0.new", 4096);
        // The process died after publishing: both names lead to the same file.
        fs::hard_link(scratch.path().join(".farwood.demo.0.new"), scratch.path().join("farwood.demo.0"))
            .unwrap();
        let draft = Draft::begin(scratch.path(), &demo(), 0, 0o600).unwrap();
        assert!(!is_at(&stale, draft.path()));
        drop(draft);
        assert_eq!(scratch.entries(), ["farwood.demo.0"]);
        assert_eq!(stale.metadata().unwrap().len(), 4096, "the published segment was touched");
    }

    #[test]
    fn removing_a_draft_that_no_longer_exists_succeeds() {
        let scratch = Scratch::new();
        assert!(remove_if_dead(&scratch.path().join(".farwood.demo.0.new")).unwrap());
    }

    #[test]
    fn publishing_does_not_overwrite() {
        let scratch = Scratch::new();
        scratch.file("new", 8);
        let old = scratch.file("farwood.demo.0", 16);
        let path = scratch.path().join("farwood.demo.0");
        let error = publish(&scratch.path().join("new"), &path, &demo()).unwrap_err();
        assert!(matches!(error, ShmError::Exists { .. }), "{error}");
        assert!(is_at(&old, &path));
    }

    #[test]
    fn the_mode_is_exact_whatever_the_umask() {
        let scratch = Scratch::new();
        let file = create_exclusively(&scratch.path().join("open"), 0o666).unwrap();
        assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o666);
    }
}
