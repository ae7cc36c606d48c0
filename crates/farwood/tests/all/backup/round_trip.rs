//! Dumps that are restored: into the same structures, and into others.

use super::{contents, dumped, point, pool, restored, varied};
use farwood::backup::{BackupError, Dump, Restore, RestoredStructure};
use farwood::error::ErrorKind;
use farwood::spatial::{Item, RTree};
use farwood::stats::EntryLayout;
use farwood::types::{Bytes, Text};
use farwood::{BTree, Error, Hashed, Pool, Radix};

#[test]
fn a_backup_restores_contents_and_options_of_every_kind_of_index() {
    let pool = varied();
    let file = dumped(&pool);
    let (other, summary) = restored(&file);
    assert_eq!(contents(&pool), contents(&other));
    let layouts = |pool: &Pool| -> Vec<(String, EntryLayout)> {
        pool.indexes().unwrap().into_iter().map(|index| (index.name, index.layout.unwrap())).collect()
    };
    assert_eq!(layouts(&pool), layouts(&other));
    assert_eq!(summary.bytes, file.len() as u64);
    let counts: Vec<_> = summary.indexes.iter().map(|index| (index.name.as_str(), index.entries)).collect();
    let expected =
        [("empty", 0), ("names", 300), ("number", 200), ("numbers", 3000), ("places", 500), ("text", 200)];
    assert_eq!(counts[..6], expected);
    assert_eq!(other.open_index::<u64, ()>("empty").unwrap().count().unwrap(), 0);
    // The types keep their names.
    assert!(other.open_index::<(u32, Text), Option<u64>>("tuples").is_ok());
    assert!(other.open_index::<(u64, Text), Option<u64>>("tuples").is_err());
}

#[test]
fn an_index_is_restored_into_every_other_structure() {
    let pool = pool();
    let names = pool.create_index::<Text, Text>("names", &Radix::new()).unwrap();
    let flags = pool.create_index::<u16, bool>("flags", &BTree::new()).unwrap();
    for number in 0..1000_u16 {
        names.put(format!("name {number}"), "x".repeat(number.into())).unwrap();
        flags.put(number << 3, number.is_multiple_of(2)).unwrap();
    }
    // From each structure into the next one, and at last into the first.
    let mut file = dumped(&pool);
    let structures: [(&str, RestoredStructure); 4] = [
        ("sherman", BTree::new().key_bytes(16).any_length_values().into()),
        ("sphinx", Hashed::new().into()),
        ("sherman", BTree::new().key_bytes(24).value_bytes(1000).node_bytes(8192).into()),
        ("smart", Radix::new().into()),
    ];
    for (system, structure) in structures {
        let other = super::pool();
        let given = Restore::into(&other).index("names").structure(structure.clone());
        given.from_reader(file.as_slice()).unwrap();
        // The type determines the lengths of the flags.
        let structure = match structure {
            RestoredStructure::BTree(_) => BTree::new().into(),
            other => other,
        };
        Restore::into(&other).index("flags").structure(structure).from_reader(file.as_slice()).unwrap();
        let restored = other.open_index::<Text, Text>("names").unwrap();
        assert!(restored.iter().map(Result::unwrap).eq(names.iter().map(Result::unwrap)));
        let restored = other.open_index::<u16, bool>("flags").unwrap();
        assert!((0..1000).all(|number| restored.get(number << 3).unwrap() == Some(number % 2 == 0)));
        assert_eq!((restored.get(1).unwrap(), restored.count().unwrap()), (None, 1000));
        for index in other.indexes().unwrap() {
            assert_eq!(index.ordered().unwrap().system.name(), system);
        }
        file = dumped(&other);
    }
}

#[test]
fn lengths_that_do_not_fit_are_refused_and_leave_nothing() {
    let pool = pool();
    let names = pool.create_index::<Text, Bytes>("names", &Radix::new()).unwrap();
    names.put("a name of more than eight bytes", b"1").unwrap();
    let file = dumped(&pool);
    let other = super::pool();
    for (options, reason) in [
        (BTree::new(), "needs a length"),
        (BTree::new().key_bytes(8), "entry 0: the key"),
        (BTree::new().key_bytes(64).value_bytes(8), "entry 0: the value"),
    ] {
        let error = Restore::into(&other).structure(options).from_reader(file.as_slice()).unwrap_err();
        assert!(error.to_string().contains(reason), "{error}");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert_eq!(other.indexes().unwrap(), []);
    }
    Restore::into(&other).structure(BTree::new().key_bytes(64)).from_reader(file.as_slice()).unwrap();
    let restored = other.open_index::<Text, Bytes>("names").unwrap();
    assert_eq!(restored.get("a name of more than eight bytes").unwrap(), Some(b"1".to_vec()));
}

#[test]
fn indexes_are_chosen_and_renamed_and_never_replaced() {
    let pool = pool();
    for name in ["a", "b", "c"] {
        pool.create_index::<u64, u64>(name, &BTree::new()).unwrap().put(1, 2).unwrap();
    }
    let mut file = Vec::new();
    let summary = Dump::of(&pool).index("a").index("c").to_writer(&mut file).unwrap();
    assert_eq!(summary.indexes.len(), 2);
    let exists = Restore::into(&pool).index("c").from_reader(file.as_slice()).unwrap_err();
    assert_eq!(exists.kind(), ErrorKind::Exists);
    let summary = Restore::into(&pool).index("c").rename("c", "d").from_reader(file.as_slice()).unwrap();
    assert_eq!(summary.indexes[0].name, "d");
    assert_eq!(pool.open_index::<u64, u64>("d").unwrap().get(1).unwrap(), Some(2));
    let twice = Restore::into(&super::pool()).rename("a", "c").from_reader(file.as_slice()).unwrap_err();
    assert!(matches!(twice, Error::Backup { source: BackupError::IndexExists { .. }, .. }), "{twice}");
    for (name, error) in [
        ("b", Restore::into(&pool).index("b").from_reader(file.as_slice()).unwrap_err()),
        ("x", Dump::of(&pool).index("x").to_writer(Vec::new()).unwrap_err()),
    ] {
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
        assert!(error.to_string().contains(&format!("'{name}'")), "{error}");
    }
}

#[test]
fn a_spatial_index_moves_to_a_pool_without_its_memory_node() {
    let options = farwood::PoolOptions::new().memory_bytes(64 << 20).nodes(2);
    let scratch = farwood::testing::ScratchPool::with(&options).unwrap();
    let pool = scratch.open().unwrap();
    let places = pool.create_spatial("places", &RTree::new().memory_node(1)).unwrap();
    places.bulk_load(&[Item { bounds: point(1.0, 2.0), id: 3 }], 0.8).unwrap();
    let (other, _) = restored(&dumped(&pool));
    assert_eq!(other.open_spatial("places").unwrap().nearest([0.0; 2], 1).unwrap()[0].item.id, 3);
}

#[test]
fn a_file_is_replaced_only_by_a_complete_backup() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("backup");
    std::fs::write(&path, "old").unwrap();
    let pool = pool();
    assert!(Dump::of(&pool).index("absent").to_file(&path).is_err());
    assert_eq!(std::fs::read(&path).unwrap(), b"old");
    pool.create_index::<u64, u64>("a", &Hashed::new()).unwrap().put(1, 2).unwrap();
    Dump::of(&pool).to_file(&path).unwrap();
    let other = super::pool();
    Restore::into(&other).from_file(&path).unwrap();
    assert_eq!(other.open_index::<u64, u64>("a").unwrap().get(1).unwrap(), Some(2));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    let error = Restore::into(&other).from_file(folder.path().join("none")).unwrap_err();
    assert!(error.to_string().contains("none: No such file"), "{error}");
}

#[test]
fn a_restore_that_fails_leaves_what_another_process_uses_and_says_so() {
    let pool = pool();
    pool.create_index::<u64, u64>("a", &BTree::new()).unwrap().put(1, 2).unwrap();
    let file = dumped(&pool);
    let scratch = farwood::testing::ScratchPool::new(64 << 20).unwrap();
    let (other, user) = (scratch.open().unwrap(), scratch.open().unwrap());
    // The index appears before it has its entries.
    let mut used = None;
    let restore = Restore::into(&other).progress(|_| {
        used.get_or_insert_with(|| user.open_index::<u64, u64>("a").unwrap());
    });
    let error = restore.from_reader(&file[..file.len() - 1]).unwrap_err();
    assert!(matches!(error, Error::Backup { source: BackupError::NotRemoved { .. }, .. }), "{error}");
    assert_eq!(error.effect(), farwood::error::Effect::Unknown);
    assert!(error.to_string().contains("before the end of the backup; incomplete indexes"), "{error}");
    drop(used);
    other.drop_index("a").unwrap();
}

#[test]
fn indexes_cannot_be_dropped_during_a_dump_or_a_restore() {
    let scratch = farwood::testing::ScratchPool::new(64 << 20).unwrap();
    let (pool, other) = (scratch.open().unwrap(), scratch.open().unwrap());
    for name in ["a", "b"] {
        pool.create_index::<u64, u64>(name, &Radix::new()).unwrap().put(1, 2).unwrap();
    }
    let mut refused = 0;
    let mut file = Vec::new();
    let dump = Dump::of(&pool).progress(|_| refused += u32::from(other.drop_index("b").is_err()));
    dump.to_writer(&mut file).unwrap();
    assert!(refused > 3, "{refused}");
    other.drop_index("a").unwrap();
    other.drop_index("b").unwrap();
    let mut refused = 0;
    let restore = Restore::into(&pool).progress(|_| refused += u32::from(other.drop_index("a").is_err()));
    restore.from_reader(file.as_slice()).unwrap();
    assert!(refused > 1, "{refused}");
    assert_eq!(pool.open_index::<u64, u64>("a").unwrap().count().unwrap(), 1);
}

#[test]
fn a_file_keeps_its_kind_and_its_permissions() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    let folder = tempfile::tempdir().unwrap();
    let [path, link] = ["backup", "link"].map(|name| folder.path().join(name));
    let mode = || std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
    let pool = pool();
    Dump::of(&pool).to_file(&path).unwrap();
    assert_eq!(mode(), 0o600, "nobody else reads a new backup");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    symlink(&path, &link).unwrap();
    Dump::of(&pool).to_file(&link).unwrap();
    assert_eq!(mode(), 0o640, "a replaced file keeps its permissions");
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    Dump::of(&pool).to_file("/dev/null").unwrap();
    assert!(!std::fs::metadata("/dev/null").unwrap().is_file());
    assert!(Dump::of(&pool).to_file(folder.path()).is_err());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
}
