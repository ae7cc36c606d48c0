//! A file that replaces another one when it is complete.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A new file beside `path`, which takes that name in [`complete`](Self::complete). It is removed otherwise.
#[derive(Debug)]
pub(super) struct WholeFile {
    file: File,
    path: PathBuf,
    /// The name until then; `None`: the file is complete.
    temporary: Option<PathBuf>,
}

impl WholeFile {
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let Some(name) = path.file_name() else { return Err(io::ErrorKind::IsADirectory.into()) };
        if path.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let mut temporary = OsString::from(name);
        temporary.push(format!(".{}.partial", std::process::id()));
        let temporary = path.with_file_name(temporary);
        let file = File::create(&temporary)?;
        Ok(Self { file, path: path.to_owned(), temporary: Some(temporary) })
    }

    /// Waits until the file is on the disk, and gives it its name.
    pub(super) fn complete(mut self) -> io::Result<()> {
        self.file.sync_all()?;
        if let Some(temporary) = &self.temporary {
            fs::rename(temporary, &self.path)?;
        }
        self.temporary = None;
        // The new name is in the folder.
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    }
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
        if let Some(temporary) = &self.temporary {
            let _ = fs::remove_file(temporary);
        }
    }
}
