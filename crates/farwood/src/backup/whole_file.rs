//! Files of backups: one that is written replaces another one when it is complete.

use super::block::BLOCK_BYTES;
use super::error::BackupError;
use crate::error::{Error, Result};
use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io::{self, BufReader, BufWriter, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Permissions of a new file: those of a pool. A file that replaces another one gets the permissions of that one.
const MODE: u32 = 0o600;

/// A new file beside the one that it replaces, whose name it takes in [`complete`](Self::complete). It is removed
/// otherwise. A pipe or a device is written directly.
#[derive(Debug)]
pub(super) struct WholeFile {
    file: File,
    /// The name now, and at the end; `None`: the file has its name.
    names: Option<[PathBuf; 2]>,
}

impl WholeFile {
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        // A symbolic link stays, and the file that it names is replaced.
        let (path, found) = match fs::canonicalize(path) {
            Ok(path) => {
                let found = fs::metadata(&path)?;
                (path, Some(found))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => (path.to_owned(), None),
            Err(error) => return Err(error),
        };
        match found {
            Some(found) if found.is_dir() => Err(ErrorKind::IsADirectory.into()),
            Some(found) if !found.is_file() => {
                Ok(Self { file: File::options().write(true).open(path)?, names: None })
            }
            found => Self::beside(path, found.as_ref()),
        }
    }

    fn beside(path: PathBuf, replaced: Option<&Metadata>) -> io::Result<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let Some(name) = path.file_name() else { return Err(ErrorKind::IsADirectory.into()) };
        loop {
            let mut temporary = OsString::from(".");
            temporary.push(name);
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            temporary.push(format!(".{}.{number}.partial", std::process::id()));
            let temporary = path.with_file_name(temporary);
            // A file of that name belongs to somebody else.
            match File::options().write(true).create_new(true).mode(MODE).open(&temporary) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
                Ok(file) => {
                    let file = Self { file, names: Some([temporary, path]) };
                    if let Some(replaced) = replaced {
                        file.file.set_permissions(replaced.permissions())?;
                    }
                    return Ok(file);
                }
            }
        }
    }

    /// Waits until the file is on the disk, and gives it its name.
    pub(super) fn complete(mut self) -> io::Result<()> {
        let Some([temporary, path]) = &self.names else { return Ok(()) };
        self.file.sync_all()?;
        fs::rename(temporary, path)?;
        // The new name is in the folder.
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = File::open(folder.unwrap_or(Path::new(".")));
        self.names = None;
        folder?.sync_all()
    }
}

/// Writes a whole file by `write`; the errors name it.
pub(super) fn write_whole<T>(
    path: &Path,
    operation: &'static str,
    write: impl FnOnce(&mut BufWriter<WholeFile>) -> Result<T>,
) -> Result<T> {
    let failed = |error| Error::Backup { operation, path: None, source: BackupError::Io(error) };
    let written = WholeFile::create(path).map_err(failed).and_then(|file| {
        let mut out = BufWriter::with_capacity(BLOCK_BYTES, file);
        let result = write(&mut out)?;
        out.into_inner().map_err(|error| failed(error.into_error()))?.complete().map_err(failed)?;
        Ok(result)
    });
    written.map_err(|error| error.about_file(path))
}

/// Reads a file by `read`; the errors name it.
pub(super) fn read_whole<T>(path: &Path, read: impl FnOnce(BufReader<File>) -> Result<T>) -> Result<T> {
    let failed = |error| Error::Backup { operation: "restore", path: None, source: BackupError::Io(error) };
    let opened = File::open(path).map_err(failed);
    let done = opened.and_then(|file| read(BufReader::with_capacity(BLOCK_BYTES, file)));
    done.map_err(|error| error.about_file(path))
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        if let Some([temporary, _]) = &self.names {
            let _ = fs::remove_file(temporary);
        }
    }
}
