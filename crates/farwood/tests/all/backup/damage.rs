//! Backups that are cut off or damaged at any byte: an error, and a pool without any of the indexes.

use super::{dumped, point, pool};
use farwood::backup::{BackupError, BackupReader, Restore};
use farwood::error::{Effect, ErrorKind};
use farwood::spatial::{Item, RTree};
use farwood::{BTree, Error, Pool, Radix};

/// A small backup of two indexes of keys and one of rectangles.
fn small() -> Vec<u8> {
    let pool = pool();
    let numbers = pool.create_index::<u64, u64>("numbers", &BTree::new()).unwrap();
    let names = pool.create_index::<String, String>("names", &Radix::new()).unwrap();
    for number in 0..40 {
        numbers.put(number, number).unwrap();
        names.put(format!("{number}"), format!("{number}")).unwrap();
    }
    let places = pool.create_spatial("places", &RTree::new()).unwrap();
    places.bulk_load(&[Item { bounds: point(1.0, 2.0), id: 3 }], 0.8).unwrap();
    dumped(&pool)
}

fn refused(other: &Pool, file: &[u8], what: &str) -> Error {
    let error = Restore::into(other).from_reader(file).expect_err(what);
    assert_eq!(error.effect(), Effect::None, "{what}: {error}");
    assert_eq!(other.indexes().unwrap(), [], "{what}: {error}");
    error
}

#[test]
fn a_backup_that_is_cut_off_leaves_no_index() {
    let (file, other) = (small(), pool());
    for length in 0..file.len() {
        let error = refused(&other, &file[..length], &format!("a cut at {length}"));
        let Error::Backup { source: BackupError::CutOff { at }, .. } = error else {
            panic!("{length}: {error}")
        };
        assert_eq!(at, length as u64);
    }
    let mut longer = file.clone();
    longer.push(0);
    let error = refused(&other, &longer, "a byte after the end");
    assert!(error.to_string().contains("bytes follow the end"), "{error}");
    Restore::into(&other).from_reader(file.as_slice()).unwrap();
}

#[test]
fn a_backup_with_a_changed_byte_leaves_no_index() {
    let (file, other) = (small(), pool());
    for at in 0..file.len() {
        let mut damaged = file.clone();
        damaged[at] ^= 1 << (at % 8);
        let error = refused(&other, &damaged, &format!("a change at {at}"));
        let expected = match at {
            0..8 => ErrorKind::TypeMismatch,
            8..12 => ErrorKind::Unsupported,
            _ => ErrorKind::Damaged,
        };
        assert_eq!(error.kind(), expected, "{at}: {error}");
    }
}

#[test]
fn blocks_that_are_missing_repeated_or_moved_are_detected() {
    let (file, other) = (small(), pool());
    let mut blocks: Vec<std::ops::Range<usize>> = Vec::new();
    blocks.push(0..16);
    while blocks.last().unwrap().end < file.len() {
        let start = blocks.last().unwrap().end;
        let stored = u32::from_le_bytes(file[start + 4..start + 8].try_into().unwrap()) as usize;
        blocks.push(start..start + 24 + stored);
    }
    // The head of the file, the pool, three blocks for each of the three indexes, and the end.
    assert_eq!(blocks.len(), 12);
    let whole: Vec<_> = blocks.into_iter().map(|range| &file[range]).collect();
    for at in 1..whole.len() {
        let mut missing = whole.clone();
        missing.remove(at);
        refused(&other, &missing.concat(), &format!("block {at} is missing"));
        let mut repeated = whole.clone();
        repeated.insert(at, whole[at]);
        refused(&other, &repeated.concat(), &format!("block {at} is repeated"));
        let mut moved = whole.clone();
        moved.swap(at, at.max(2) - 1);
        if moved != whole {
            refused(&other, &moved.concat(), &format!("block {at} is moved"));
        }
    }
}

#[test]
fn other_files_are_refused_by_name() {
    let error = BackupReader::new(&b"{\"name\": \"something else\"}"[..]).unwrap_err();
    assert_eq!(error.to_string(), "it is not a backup of Farwood");
    assert!(matches!(BackupReader::new(&b""[..]), Err(BackupError::CutOff { at: 0 })));
}
