//! The steps that a process of clients has requested and completed, in a file that survives the kill of the process.
//! Words are written atomically.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// For each key of a process, the last step that was requested and the last that was acknowledged.
pub(super) struct ProgressFile(File);

/// The steps of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Steps {
    pub(super) asked: u64,
    pub(super) done: u64,
}

/// The file of process `number`.
fn path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number}.progress"))
}

impl ProgressFile {
    /// Opens or creates the file of process `number`, for `keys` keys.
    pub(super) fn open(folder: &Path, number: u64, keys: u64) -> Self {
        let file =
            File::options().read(true).write(true).create(true).truncate(false).open(path(folder, number));
        let file = file.expect("the file is opened");
        file.set_len(16 * keys + 8).expect("the file grows");
        Self(file)
    }

    pub(super) fn steps(&self, key: u64) -> Steps {
        Steps { asked: self.word(16 * key), done: self.word(16 * key + 8) }
    }

    pub(super) fn ask(&self, key: u64, step: u64) {
        self.note(16 * key, step);
    }

    pub(super) fn done(&self, key: u64, step: u64) {
        self.note(16 * key + 8, step);
    }

    fn word(&self, at: u64) -> u64 {
        let mut word = [0; 8];
        self.0.read_exact_at(&mut word, at).expect("the file is read");
        u64::from_le_bytes(word)
    }

    fn note(&self, at: u64, word: u64) {
        self.0.write_all_at(&word.to_le_bytes(), at).expect("the file is written");
    }
}
