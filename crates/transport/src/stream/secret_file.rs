//! Files with secrets: tokens and private keys. A file that other users can read, or change, is not a secret.

use crate::small_file;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// The mode bits by which others, or a group, can read or write a file.
const OTHERS: u32 = 0o066;
/// The mode bits by which a user other than the owner can write the file, or a user outside the group can read it.
const BEYOND_GROUP: u32 = 0o026;
const ROOT: u32 = 0;

/// The users that can read or change a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Exposure {
    /// The owner, or root and a group: systemd and Kubernetes (with `defaultMode: 0440`) mount secrets so.
    Private,
    /// The file belongs to root, and others can read it: Kubernetes mounts secrets so by default, and the container is
    /// the only reader.
    Mounted,
    /// Other users can read or change it.
    Exposed,
}

fn exposure(metadata: &Metadata) -> Exposure {
    judge(metadata.mode(), metadata.uid())
}

const fn judge(mode: u32, owner: u32) -> Exposure {
    if mode & OTHERS == 0 || (owner == ROOT && mode & BEYOND_GROUP == 0) {
        Exposure::Private
    } else if owner == ROOT && mode & 0o022 == 0 {
        Exposure::Mounted
    } else {
        Exposure::Exposed
    }
}

/// Reads a secret.
///
/// # Errors
/// The error of the system, or an error if other users can access the file.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, String> {
    let (mut file, metadata) = small_file::open(path).map_err(|error| error.to_string())?;
    if exposure(&metadata) == Exposure::Exposed {
        let mode = metadata.mode() & 0o777;
        return Err(format!(
            "other users can read or change it (mode {mode:03o}); run `chmod 600 {}`",
            path.display()
        ));
    }
    small_file::read_all(&mut file).map_err(|error| error.to_string())
}

/// Returns a warning about a secret that all users of its machine can read, if that is accepted because it belongs to
/// root.
pub fn secret_warning(path: &Path) -> Option<String> {
    let metadata = std::fs::metadata(path).ok()?;
    (exposure(&metadata) == Exposure::Mounted).then(|| {
        format!(
            "{}: every user of this machine can read this secret; mount it with mode 0440 (Kubernetes: defaultMode)",
            path.display()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_secret_is_private_or_mounted_by_root() {
        for (mode, owner, expected) in [
            (0o100_600, 1000, Exposure::Private),
            (0o100_400, ROOT, Exposure::Private),
            (0o100_440, ROOT, Exposure::Private),
            (0o100_644, ROOT, Exposure::Mounted),
            (0o100_444, ROOT, Exposure::Mounted),
            (0o100_440, 1000, Exposure::Exposed),
            (0o100_644, 1000, Exposure::Exposed),
            (0o100_660, ROOT, Exposure::Exposed),
            (0o100_666, ROOT, Exposure::Exposed),
            (0o100_620, 1000, Exposure::Exposed),
        ] {
            assert_eq!(judge(mode, owner), expected, "{mode:o} {owner}");
        }
    }

    #[test]
    fn a_file_that_others_can_change_is_refused_with_the_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, "secret").unwrap();
        for (mode, is_accepted) in [(0o600, true), (0o666, false)] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            match read(&path) {
                Ok(bytes) => assert!(is_accepted && bytes == b"secret"),
                Err(why) => assert!(!is_accepted && why.contains("chmod 600"), "{why}"),
            }
        }
    }
}
