//! Small files that a user names: configurations, tokens, certificates, keys. A pipe or a device in place of one does
//! not block the reader, and does not fill its memory.

use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Longest file, bytes.
const BYTES_MAX: u64 = 1 << 20;

/// Reads a regular file of at most 1 MiB.
///
/// # Errors
/// The error of the operating system; [`ErrorKind::InvalidInput`] if it is another kind of file, or longer.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let (mut file, _) = open(path)?;
    read_all(&mut file)
}

/// Opens a regular file of any length.
///
/// # Errors
/// The error of the operating system; [`ErrorKind::InvalidInput`] if it is another kind of file.
pub fn open(path: &Path) -> io::Result<(File, Metadata)> {
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(io::Error::from_raw_os_error(libc::EISDIR));
    }
    if !metadata.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it is not a regular file"));
    }
    Ok((file, metadata))
}

/// Reads all bytes of an open file, at most 1 MiB.
pub(crate) fn read_all(file: &mut File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it is longer than 1 MiB"));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn regular_files_of_one_mebibyte_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, vec![7; 1 << 20]).unwrap();
        assert_eq!(read(&path).unwrap().len(), 1 << 20);
        std::fs::write(&path, vec![7; (1 << 20) + 1]).unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("longer than 1 MiB"));
    }

    #[test]
    fn other_files_are_refused_without_a_wait() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for path in [&pipe, Path::new("/dev/zero")] {
            let error = read(path).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
            assert!(error.to_string().contains("not a regular file"), "{error}");
        }
        assert_eq!(read(folder.path()).unwrap_err().kind(), ErrorKind::IsADirectory);
        assert_eq!(read(&folder.path().join("none")).unwrap_err().kind(), ErrorKind::NotFound);
    }
}
