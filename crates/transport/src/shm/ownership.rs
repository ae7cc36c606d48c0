//! The owners and permissions of a pool's files.
//!
//! Pools are found by name in a directory in which every user may create files. Another user could create a pool, or
//! one file of it, under the name that this user opens; read and change what this user stores; and truncate the file,
//! which kills every process that has it mapped. So a file is used only if it belongs to this user or to root, and if
//! no other user has access to it.
//!
//! A pool may be shared with a group of users: its files belong to that group and have mode 0660. A process uses them
//! only if it *trusts* the group ([`SegmentDir`](super::SegmentDir)): being a member is not enough, because a member
//! may create a pool under any name. Files of a trusted group may belong to any of its members, for only a member or
//! root can give a file to the group.

use super::error::ShmError;
use super::sys;
use std::fs::{File, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::Path;

/// The permissions of every file of a pool: only processes of its owner have access.
pub(super) const MODE: u32 = 0o600;
/// The permissions of every file of a pool that is shared with a group.
pub(super) const SHARED_MODE: u32 = 0o660;
/// The bits of a mode that are permissions, and those of them that are not the owner's.
const PERMISSIONS: u32 = 0o777;
const OF_OTHERS: u32 = 0o077;
const ROOT: u32 = 0;

/// Refuses a file that is not this user's or root's, or that others may access, unless it is shared with the group
/// `trusted`. `data` is the metadata of the open file.
pub(super) fn check_file(path: &Path, data: &Metadata, trusted: Option<u32>) -> Result<(), ShmError> {
    let mode = data.mode() & PERMISSIONS;
    if mode == SHARED_MODE {
        let group = data.gid();
        return if trusted == Some(group) {
            Ok(())
        } else {
            Err(ShmError::UntrustedGroup { path: path.to_owned(), owner: data.uid(), group })
        };
    }
    check_owner(path, data)?;
    if mode & OF_OTHERS == 0 { Ok(()) } else { Err(ShmError::WideMode { path: path.to_owned(), mode }) }
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

/// Shares a new file with a group. The group comes before its permissions.
pub(super) fn share(file: &File, group: u32) -> io::Result<()> {
    std::os::unix::fs::fchown(file, None, Some(group))?;
    file.set_permissions(Permissions::from_mode(SHARED_MODE))
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
