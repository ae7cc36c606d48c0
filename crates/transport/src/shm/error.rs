//! Errors of a pool's files: each names the operation, the path and the remedy.

use crate::remedy;
use farwood_fabric::ByteCount;
use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

/// The reason why a pool, or one of its segments, could not be created, found, used or removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShmError {
    /// The pool does not exist.
    #[error(
        "no pool '{pool}' on this machine ({} does not exist){}", path.display(), self.suffix()
    )]
    NotFound {
        /// The pool's name.
        pool: String,
        /// The path of the missing segment.
        path: PathBuf,
    },
    /// The pool exists, but one of its memory nodes does not.
    #[error(
        "pool '{pool}' is damaged: the segment {} of its memory node {node} does not exist ({nodes} belong to the \
         pool){}",
        path.display(),
        self.suffix()
    )]
    SegmentLost {
        /// The pool's name.
        pool: String,
        /// The path of the missing segment.
        path: PathBuf,
        /// Its memory node.
        node: u16,
        /// The number of memory nodes of the pool.
        nodes: u16,
    },
    /// The path of a segment or a journal names something else than a regular file.
    #[error("{} is {what}, where a pool has a regular file{}", path.display(), self.suffix())]
    NotAFile {
        /// The path.
        path: PathBuf,
        /// The kind of the object, with its article.
        what: &'static str,
        /// Whether it is a directory.
        is_directory: bool,
    },
    /// The pool exists already.
    #[error("pool '{pool}' exists already ({}){}", path.display(), self.suffix())]
    Exists {
        /// The pool's name.
        pool: String,
        /// The existing segment.
        path: PathBuf,
    },
    /// Another process is creating the same segment now.
    #[error("pool '{pool}' is being created by another process right now ({}){}", path.display(), self.suffix())]
    BeingCreated {
        /// The pool's name.
        pool: String,
        /// The other process's unfinished segment.
        path: PathBuf,
    },
    /// The operating system denies permission.
    #[error("not permitted to {operation} {}{}", path.display(), self.suffix())]
    Permission {
        /// The failed operation.
        operation: &'static str,
        /// The file.
        path: PathBuf,
    },
    /// The file system cannot be written.
    #[error("cannot {operation} {}: its file system is read-only{}", path.display(), self.suffix())]
    ReadOnly {
        /// The failed operation.
        operation: &'static str,
        /// The file.
        path: PathBuf,
    },
    /// A file belongs to another user.
    #[error(
        "{} belongs to user {owner}, and this process is of user {user}: the owner of a pool's file can read and \
         change the data in it{}",
        path.display(),
        self.suffix()
    )]
    ForeignOwner {
        /// The file.
        path: PathBuf,
        /// The user that it belongs to.
        owner: u32,
        /// The user of this process.
        user: u32,
    },
    /// A file is shared with a group that this process does not trust.
    #[error(
        "{} of user {owner} is shared with group {group}, whose members can read and change the data in it{}",
        path.display(),
        self.suffix()
    )]
    UntrustedGroup {
        /// The file.
        path: PathBuf,
        /// The user that it belongs to.
        owner: u32,
        /// The group that shares it.
        group: u32,
    },
    /// There is no such group.
    #[error("'{group}' is no group of this machine{}", self.suffix())]
    UnknownGroup {
        /// The name.
        group: String,
    },
    /// There is no such user.
    #[error("'{user}' is no user of this machine{}", self.suffix())]
    UnknownUser {
        /// The name.
        user: String,
    },
    /// Other users can change a file.
    #[error(
        "{} has mode {mode:04o}: other users may have changed what is stored in it, and only the owner of a pool and a \
         group that shares it write its files{}",
        path.display(),
        self.suffix()
    )]
    WideMode {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// A segment is smaller than required.
    #[error(
        "{} has {}, and {} are needed{}",
        path.display(),
        ByteCount(*bytes),
        ByteCount(*needed),
        self.suffix()
    )]
    TooSmall {
        /// The segment.
        path: PathBuf,
        /// Its size, in bytes.
        bytes: u64,
        /// The least size, in bytes.
        needed: u64,
    },
    /// The journal with the identity that node 0 has does not exist, or is too short.
    #[error(
        "pool '{pool}' is damaged: its journal {} does not exist or is cut off, because somebody removed or truncated \
         it or the identity in the pool's first segment changed{}",
        path.display(),
        self.suffix()
    )]
    JournalLost {
        /// The pool's name.
        pool: String,
        /// The path of the missing journal.
        path: PathBuf,
    },
    /// The machine stopped while processes used a pool on a disk.
    #[error(
        "pool '{pool}' was in use when the machine stopped, or could not be written to its disk ({}): each page of its \
         files may be old or new{}",
        path.display(),
        self.suffix()
    )]
    Unsaved {
        /// The pool's name.
        pool: String,
        /// The journal, which has the record.
        path: PathBuf,
    },
    /// Memory or the file system is full.
    #[error(
        "not enough memory to {operation} {} for {}{}",
        ByteCount(*bytes),
        path.display(),
        self.suffix()
    )]
    NoSpace {
        /// The failed operation.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// The requested bytes.
        bytes: u64,
    },
    /// The name is not valid for a pool.
    #[error("'{name}' cannot name a pool: {reason}{}", self.suffix())]
    BadName {
        /// The name.
        name: String,
        /// The violated rule.
        reason: &'static str,
    },
    /// A pool cannot have these sizes.
    #[error("pool '{pool}' cannot be created: {why}")]
    BadShape {
        /// The pool's name.
        pool: String,
        /// The reason, and a correct value.
        why: String,
    },
    /// The segments exist, and the pool cannot be used.
    #[error("pool '{pool}': {error}")]
    Pool {
        /// The pool's name.
        pool: String,
        /// The reason.
        error: farwood_fabric::FabricError,
    },
    /// Any other error of the operating system.
    #[error("cannot {operation} {}: {error}{}", path.display(), self.suffix())]
    Io {
        /// The failed operation.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        error: io::Error,
    },
}

/// The action that lets an operation succeed which failed with an error of the operating system.
fn remedy_of_system(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EMFILE | libc::ENFILE) => "raise the limit on open files (`ulimit -n`)",
        Some(libc::ENOENT | libc::ENOTDIR) => {
            "create the directory of segments first, or name another one (FARWOOD_SHM_DIR)"
        }
        _ => "check the directory of segments (FARWOOD_SHM_DIR)",
    }
}

impl ShmError {
    /// The text without the remedy.
    pub fn description(&self) -> String {
        match self {
            Self::Pool { pool, error } => format!("pool '{pool}': {}", error.description()),
            error => remedy::without(error, &error.suffix()),
        }
    }

    /// The remedy at the end of the text, for a user of the command `farwood`.
    pub fn remedy(&self) -> Option<Cow<'static, str>> {
        let remedy = match self {
            Self::BeingCreated { .. } => "try again",
            Self::Permission { .. } => {
                "ask the owner of that file or its directory for access, or choose another name or directory \
                 (FARWOOD_SHM_DIR); the owner shares a pool by creating it with `--group GROUP`, and members of the \
                 group use it with FARWOOD_SHM_GROUP=GROUP; a pool that its owner created with `--mode 0640` or \
                 `--mode 0644` is opened with --read-only"
            }
            Self::ReadOnly { .. } => {
                "mount it read-write, or name a directory of segments on another file system (FARWOOD_SHM_DIR)"
            }
            Self::ForeignOwner { .. } => {
                "run as its owner, let that user or root remove it, or choose another name or directory \
                 (FARWOOD_SHM_DIR); the owner shares a pool by creating it with `--group GROUP`, and members of the \
                 group use it with FARWOOD_SHM_GROUP=GROUP; a process that trusts the owner of a pool reads it with \
                 FARWOOD_SHM_OWNER=USER"
            }
            Self::UnknownUser { .. } => "give the name or the number of a user (FARWOOD_SHM_OWNER)",
            Self::UnknownGroup { .. } => "give the name or the number of a group (FARWOOD_SHM_GROUP)",
            Self::TooSmall { .. } => "it is damaged, or not a pool of Farwood: run `farwood doctor`",
            Self::NoSpace { .. } => {
                "make the pool smaller, free memory, or enlarge the file system (`mount -o remount,size=…`)"
            }
            Self::BadName { .. } => "use 1 to 64 of A-Z a-z 0-9 . _ - and no dot at the start",
            Self::Io { error, .. } => remedy_of_system(error),
            Self::Pool { error, .. } => return error.remedy().map(Cow::from),
            // The reason contains the remedy.
            Self::BadShape { .. } => return None,
            Self::NotFound { .. }
            | Self::SegmentLost { .. }
            | Self::NotAFile { .. }
            | Self::Exists { .. }
            | Self::UntrustedGroup { .. }
            | Self::WideMode { .. }
            | Self::JournalLost { .. }
            | Self::Unsaved { .. } => return Some(self.remedy_with_names().into()),
        };
        Some(remedy.into())
    }

    /// The remedies that name a pool or a file.
    fn remedy_with_names(&self) -> String {
        match self {
            Self::NotFound { pool, .. } => format!("create it with `farwood create shm://{pool}`"),
            Self::SegmentLost { pool, .. } => format!(
                "put the file back, or remove the pool with `farwood drop shm://{pool} --force` and create it again"
            ),
            Self::NotAFile { path, is_directory, .. } => {
                format!("remove it with `rm {}{}`", if *is_directory { "-r " } else { "" }, path.display())
            }
            Self::Exists { pool, .. } => {
                format!("choose another name, or remove it with `farwood drop shm://{pool}`")
            }
            Self::UntrustedGroup { path, group, .. } => format!(
                "if you trust them, set FARWOOD_SHM_GROUP={group}; otherwise, if the file is yours, run `chmod 600 {}`",
                path.display()
            ),
            Self::WideMode { path, .. } => {
                format!("if you trust its content, run `chmod 600 {}`", path.display())
            }
            Self::JournalLost { pool, .. } => format!(
                "the pool cannot be used without it: remove the pool with `farwood drop shm://{pool} --force`, and \
                 create it again"
            ),
            Self::Unsaved { pool, .. } => format!(
                "remove it with `farwood drop shm://{pool} --force` and restore a backup; or, if its processes had \
                 ended before an orderly shutdown, accept it with `farwood save shm://{pool} --accept-unclean` and \
                 check each index"
            ),
            other => unreachable!("the remedy of {other:?} names nothing"),
        }
    }

    /// The end of the text: the remedy, unless another error that the text contains has added it.
    fn suffix(&self) -> String {
        match self {
            Self::Pool { .. } => String::new(),
            error => remedy::suffix(error.remedy()),
        }
    }

    /// Classifies the system's error of `operation` on `path`; `bytes` is the requested size, if any.
    pub(super) fn from_io(operation: &'static str, path: &Path, bytes: u64, source: io::Error) -> Self {
        use io::ErrorKind as Kind;
        let path = path.to_owned();
        match source.kind() {
            Kind::PermissionDenied => Self::Permission { operation, path },
            Kind::ReadOnlyFilesystem => Self::ReadOnly { operation, path },
            Kind::StorageFull | Kind::FileTooLarge | Kind::OutOfMemory | Kind::QuotaExceeded => {
                Self::NoSpace { operation, path, bytes }
            }
            _ => Self::Io { operation, path, error: source },
        }
    }

    /// [`ShmError::from_io`] as an argument of `map_err`.
    pub(super) fn on<'a>(operation: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> Self + 'a {
        move |source| Self::from_io(operation, path, 0, source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farwood_fabric::FabricError;

    fn sorted(errno: i32) -> ShmError {
        let error = io::Error::from_raw_os_error(errno);
        ShmError::from_io("provision", Path::new("/dev/shm/farwood.demo.0"), 4096, error)
    }

    #[test]
    fn system_errors_are_classified() {
        for errno in [libc::ENOSPC, libc::EFBIG, libc::ENOMEM, libc::EDQUOT] {
            assert!(matches!(sorted(errno), ShmError::NoSpace { bytes: 4096, .. }), "{errno}");
        }
        for errno in [libc::EACCES, libc::EPERM] {
            assert!(matches!(sorted(errno), ShmError::Permission { .. }), "{errno}");
        }
        assert!(matches!(sorted(libc::EROFS), ShmError::ReadOnly { .. }));
        assert!(matches!(sorted(libc::EIO), ShmError::Io { .. }));
        assert!(sorted(libc::EMFILE).to_string().contains("ulimit -n"));
    }

    /// An error of each variant, and one of each class of system errors.
    fn errors() -> Vec<ShmError> {
        let (pool, path) = (|| "demo".to_owned(), || PathBuf::from("/dev/shm/farwood.demo.0"));
        let mut errors: Vec<_> =
            [libc::ENOSPC, libc::EACCES, libc::EROFS, libc::EIO, libc::EMFILE, libc::ENOENT]
                .map(sorted)
                .into();
        errors.extend([
            ShmError::NotFound { pool: pool(), path: path() },
            ShmError::SegmentLost { pool: pool(), path: path(), node: 1, nodes: 2 },
            ShmError::NotAFile { path: path(), what: "a directory", is_directory: true },
            ShmError::NotAFile { path: path(), what: "a pipe", is_directory: false },
            ShmError::Exists { pool: pool(), path: path() },
            ShmError::BeingCreated { pool: pool(), path: path() },
            ShmError::ForeignOwner { path: path(), owner: 1, user: 2 },
            ShmError::UntrustedGroup { path: path(), owner: 1, group: 2 },
            ShmError::UnknownGroup { group: "gis".to_owned() },
            ShmError::UnknownUser { user: "gis".to_owned() },
            ShmError::WideMode { path: path(), mode: 0o666 },
            ShmError::TooSmall { path: path(), bytes: 0, needed: 4096 },
            ShmError::JournalLost { pool: pool(), path: path() },
            ShmError::Unsaved { pool: pool(), path: path() },
            ShmError::BadName { name: ".".to_owned(), reason: "it begins with a dot" },
            ShmError::BadShape { pool: pool(), why: "give at least 1 MiB".to_owned() },
            ShmError::Pool { pool: pool(), error: FabricError::Forked },
        ]);
        errors
    }

    #[test]
    fn the_text_is_the_description_and_the_remedy() {
        for error in errors() {
            remedy::assert_in_text(&error, &error.description(), error.remedy());
        }
        let (error, pool) = (FabricError::Forked, "demo".to_owned());
        let text = ShmError::Pool { pool, error: error.clone() }.to_string();
        assert_eq!(text, format!("pool 'demo': {error}"));
    }

    #[test]
    fn errors_name_the_path_the_operation_and_the_remedy() {
        let text = sorted(libc::ENOSPC).to_string();
        for part in ["provision", "4 KiB", "/dev/shm/farwood.demo.0", "smaller"] {
            assert!(text.contains(part), "{part:?} is missing in: {text}");
        }
        let missing = ShmError::NotFound { pool: "demo".into(), path: "/dev/shm/farwood.demo.0".into() };
        assert!(missing.to_string().contains("`farwood create shm://demo`"));
    }
}
