//! The folder of `--out`, checked before the work whose results it receives.

use super::Failure;
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::Path;

/// Creates the folder and checks that these files can be written in it. Files that exist keep their contents. `command`
/// is the command with the option.
pub(crate) fn prepare(command: &'static str, folder: &Path, files: &[&str]) -> Result<(), Failure> {
    fs::create_dir_all(folder).map_err(|source| {
        // A file has the name of the folder.
        let is_file = source.kind() == ErrorKind::AlreadyExists;
        let source = if is_file { ErrorKind::NotADirectory.into() } else { source };
        Failure::file(command, "create", folder, source)
    })?;
    for file in files {
        let path = folder.join(file);
        check_writable(&path).map_err(|source| Failure::file(command, "write", &path, source))?;
    }
    Ok(())
}

/// Opens the file for writing; a file that did not exist is removed again.
fn check_writable(path: &Path) -> io::Result<()> {
    match OpenOptions::new().append(true).open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            OpenOptions::new().write(true).create_new(true).open(path)?;
            fs::remove_file(path)
        }
        opened => opened.map(drop),
    }
}
