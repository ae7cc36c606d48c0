//! The owners and permissions of a pool's files.
//!
//! Pools are found by name in a directory in which every user may create files. Another user could create a pool, or
//! one file of it, under the name that this user opens; read and change what this user stores; and truncate the file,
//! which kills every process that has it mapped. So a file is used only if it belongs to this user or to root, and if
//! no other user can write it.
//!
//! A pool may be shared with a group of users: its files belong to that group, which can read and write them (mode
//! 0660). A process uses them only if it *trusts* the group ([`SegmentDir`](super::SegmentDir)): being a member is not
//! enough, because a member may create a pool under any name. Files of a trusted group may belong to any of its
//! members, for only a member or root can give a file to the group.
//!
//! The creator of a pool may permit others to read it (mode 0640 or 0644). Their processes must trust the owner or the
//! group of the files for the same reason: an owner can store anything in them, and can truncate them.

use super::error::ShmError;
use super::sys;
use std::fs::{File, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::Path;

/// The default permissions of every file of a pool: only processes of its owner have access.
pub(super) const MODE: u32 = 0o600;
/// The default permissions of every file of a pool that is shared with a group.
const SHARED_MODE: u32 = 0o660;
/// The bits of a mode that are permissions.
pub(super) const PERMISSIONS: u32 = 0o777;
/// The permissions of other users that no file of a pool gives: execution, and writing by everybody.
const OF_NOBODY: u32 = 0o013;
const EXECUTE: u32 = 0o111;
const GROUP_WRITE: u32 = 0o020;
const GROUP_READ: u32 = 0o040;
const ROOT: u32 = 0;

/// The permissions of the files of a pool, and the group that they belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileRights {
    pub(super) mode: u32,
    /// `None`: the group of the process that creates them.
    pub(super) group: Option<u32>,
}

impl FileRights {
    /// Only processes of the owner have access.
    pub const OWNER: Self = Self { mode: MODE, group: None };

    /// The rights with this group and this mode; `None`: 0660 with a group, and 0600 without one.
    ///
    /// # Errors
    /// The reason why no pool may have this mode, with the remedy.
    pub fn new(group: Option<u32>, mode: Option<u32>) -> Result<Self, String> {
        let default = if group.is_some() { SHARED_MODE } else { MODE };
        let mode = mode.unwrap_or(default);
        let refused = |why: &str| Err(format!("its files cannot have mode {mode:04o}: {why}"));
        if mode & MODE != MODE {
            return refused("the owner must be able to read and write them; give 0600 and more");
        }
        if mode & !PERMISSIONS != 0 || mode & (OF_NOBODY | EXECUTE) != 0 {
            return refused(
                "nobody executes them, and not everybody may write them; give 0600, 0640 or 0644",
            );
        }
        if mode & GROUP_WRITE != 0 && (group.is_none() || mode & GROUP_READ == 0) {
            return refused("a group that writes them also reads them, and has a name; give --group as well");
        }
        Ok(Self { mode, group })
    }

    /// The permissions with which a file is created: the group comes before its permissions.
    pub(super) fn first_mode(self) -> u32 {
        if self.group.is_some() { MODE & self.mode } else { self.mode }
    }

    /// Gives a new file its group, and then its exact permissions.
    pub(super) fn give(self, file: &File) -> io::Result<()> {
        if self.group.is_some() {
            std::os::unix::fs::fchown(file, None, self.group)?;
        }
        file.set_permissions(Permissions::from_mode(self.mode))
    }
}

/// The users and groups, besides this user and root, whose files a process uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Trust {
    pub(super) group: Option<u32>,
    pub(super) owner: Option<u32>,
}

/// Refuses a file that users can change whom this process does not trust. `data` is the metadata of the open file.
pub(super) fn check_file(path: &Path, data: &Metadata, trust: Trust) -> Result<(), ShmError> {
    let (mode, group) = (data.mode() & PERMISSIONS, data.gid());
    let is_shared = mode & OF_NOBODY == 0 && mode & GROUP_READ != 0;
    if is_shared && trust.group == Some(group) {
        return Ok(());
    }
    if is_shared && mode & GROUP_WRITE != 0 {
        return Err(ShmError::UntrustedGroup { path: path.to_owned(), owner: data.uid(), group });
    }
    if trust.owner != Some(data.uid()) {
        check_owner(path, data)?;
    }
    let others_write = mode & OF_NOBODY != 0 || mode & GROUP_WRITE != 0;
    if others_write { Err(ShmError::WideMode { path: path.to_owned(), mode }) } else { Ok(()) }
}

/// Refuses a file that is neither this user's nor root's.
pub(super) fn check_owner(path: &Path, data: &Metadata) -> Result<(), ShmError> {
    if is_trusted(data) {
        return Ok(());
    }
    Err(ShmError::ForeignOwner { path: path.to_owned(), owner: data.uid(), user: sys::effective_user() })
}

/// Refuses everything but a regular file. `data` is the metadata of the path itself, not of a link's target.
pub(super) fn check_regular(path: &Path, data: &Metadata) -> Result<(), ShmError> {
    let kind = data.file_type();
    let what = match () {
        () if kind.is_file() => return Ok(()),
        () if kind.is_dir() => "a directory",
        () if kind.is_symlink() => "a symbolic link",
        () if kind.is_fifo() => "a FIFO",
        () if kind.is_socket() => "a socket",
        () => "a device",
    };
    // The remedy is only for the owner.
    check_owner(path, data)?;
    Err(ShmError::NotAFile { path: path.to_owned(), what, is_directory: kind.is_dir() })
}

/// Returns whether the file belongs to this user or to root.
pub(crate) fn is_trusted(data: &Metadata) -> bool {
    data.uid() == ROOT || data.uid() == sys::effective_user()
}

/// Returns the number of the group of that name, or of that number.
///
/// # Errors
/// [`ShmError::UnknownGroup`].
pub fn group_number(group: &str) -> Result<u32, ShmError> {
    let unknown = || ShmError::UnknownGroup { group: group.to_owned() };
    // The number -1 means "no group" to the system.
    let number = || group.parse().ok().filter(|&number| number != u32::MAX);
    sys::group_named(group).or_else(number).ok_or_else(unknown)
}

/// Returns the number of the user of that name, or of that number.
///
/// # Errors
/// [`ShmError::UnknownUser`].
pub(super) fn user_number(user: &str) -> Result<u32, ShmError> {
    let unknown = || ShmError::UnknownUser { user: user.to_owned() };
    // The number -1 means "no user" to the system.
    let number = || user.parse().ok().filter(|&number| number != u32::MAX);
    sys::user_named(user).or_else(number).ok_or_else(unknown)
}
