//! The sources of a run's keys, and the English words that come with the program.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{FileKeys, KeyLength, Keys, emails, letters};
use crate::Result;

/// The source of a run's keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeySource {
    /// Integers that are spread over the range of 64 bits, encoded in keys of this many bytes.
    Integers(usize),
    /// The lines of a file.
    File(PathBuf, KeyLength),
    /// The English words that come with the program.
    Words(KeyLength),
    /// This many generated keys that resemble e-mail addresses, of at most 32 bytes.
    Emails(u32, KeyLength),
    /// This many generated keys of eight letters, each one of 64.
    Letters(u32),
}

impl KeySource {
    /// Reads or generates the keys.
    ///
    /// # Errors
    /// The file cannot be read, or a line cannot be a key.
    pub fn keys(&self) -> Result<Keys> {
        match self {
            KeySource::Integers(key_bytes) => Keys::integers(*key_bytes),
            KeySource::File(file, length) => Keys::from_file(file, *length),
            KeySource::Words(length) => Ok(words(*length)),
            KeySource::Emails(count, length) => Ok(emails(*count, *length)),
            KeySource::Letters(count) => Ok(letters(*count)),
        }
    }

    /// The same source with keys of a known length, so that worker processes need not determine it again.
    #[must_use]
    pub fn with_length(self, key_bytes: usize) -> KeySource {
        match self {
            KeySource::File(file, KeyLength::Longest) => KeySource::File(file, KeyLength::Padded(key_bytes)),
            other => other,
        }
    }
}

/// The 274,937 English words that come with the program.
pub fn words(length: KeyLength) -> Keys {
    let text = include_bytes!("../../../../../data/english-words.txt");
    let parsed = FileKeys::parse(Path::new("data/english-words.txt"), text, length);
    Keys::File(parsed.expect("a test checks the file that comes with the program"))
}
