//! The owners and permissions of a pool's files.
//!
//! Pools are found by name in a directory in which every user may create files. Another user could create a pool, or
//! one file of it, under the name that this user opens; read and change what this user stores; and truncate the file,
//! which kills every process that has it mapped. So a file is used only if it belongs to this user or to root, and if
//! no other user has access to it.

use super::error::ShmError;
use super::sys;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// The permissions of every file of a pool: only processes of its owner have access.
pub(super) const MODE: u32 = 0o600;
/// The bits of a mode that are permissions, and those of them that are not the owner's.
const PERMISSIONS: u32 = 0o777;
const OF_OTHERS: u32 = 0o077;
const ROOT: u32 = 0;

/// Refuses a file that is not this user's or root's, or that others may access. `data` is the metadata of the open
/// file.
pub(super) fn check_file(path: &Path, data: &Metadata) -> Result<(), ShmError> {
    check_owner(path, data)?;
    let mode = data.mode() & PERMISSIONS;
    if mode & OF_OTHERS == 0 { Ok(()) } else { Err(ShmError::WideMode { path: path.to_owned(), mode }) }
}

/// Refuses a file that is neither this user's nor root's.
pub(super) fn check_owner(path: &Path, data: &Metadata) -> Result<(), ShmError> {
    if is_trusted(data) {
        return Ok(());
    }
    Err(ShmError::ForeignOwner { path: path.to_owned(), owner: data.uid(), user: sys::effective_user() })
}

/// Returns whether the file belongs to this user or to root.
pub(crate) fn is_trusted(data: &Metadata) -> bool {
    data.uid() == ROOT || data.uid() == sys::effective_user()
}
