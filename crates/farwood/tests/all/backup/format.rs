//! Backups that earlier versions wrote. Each version of the format has a file in `tests/data`.

use super::{contents, varied};
use farwood::Pool;
use farwood::backup::{BackupReader, Restore};
use std::path::{Path, PathBuf};

fn stored() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/backup-1.farwood")
}

/// `FARWOOD_BLESS=1` writes the file of the present format, if there is none.
#[test]
fn a_backup_of_format_1_is_restored() {
    let path = stored();
    let pool = varied();
    if std::env::var_os("FARWOOD_BLESS").is_some() && !path.exists() {
        farwood::backup::Dump::of(&pool).to_file(&path).unwrap();
    }
    let other = Pool::anonymous(256 << 20).unwrap();
    Restore::into(&other).from_file(&path).unwrap();
    assert_eq!(contents(&pool), contents(&other));
}

#[test]
fn a_backup_describes_its_indexes() {
    let file = std::fs::read(stored()).unwrap();
    let mut backup = BackupReader::new(file.as_slice()).unwrap();
    assert_eq!(backup.header().farwood, "0.1.0");
    let mut lines = Vec::new();
    while let Some(index) = backup.next_index().unwrap() {
        let header = index.header();
        let kind = header.types.map_or(header.ids.clone().unwrap_or_default(), |types| {
            format!(
                "{} {:?} to {} {:?}",
                types.keys.kind(),
                types.keys.bytes,
                types.values.kind(),
                types.values.bytes
            )
        });
        lines.push(format!("{}: {} {kind}", header.name, header.system));
    }
    assert_eq!(
        lines,
        [
            "empty: sherman u64 Some(8) to structured Some(0)",
            "names: smart text None to text None",
            "number: catfish number",
            "numbers: sherman u64 Some(8) to u64 Some(8)",
            "places: catfish repeated",
            "text: catfish text",
            "tuples: sphinx structured None to structured None",
            "words: sherman text Some(24) to hex None",
        ]
    );
}
