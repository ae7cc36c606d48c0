//! Tests of pools and their journals.

use super::super::create::{PoolSpec, create};
use super::super::segment::Backing;
use super::super::testing::Scratch;
use super::*;
use crate::fork::is_true_in_child;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;

fn spec() -> PoolSpec {
    let name = "demo".parse().unwrap();
    PoolSpec {
        name,
        nodes: 2,
        host_bytes: 64 << 20,
        device_bytes: 64 << 10,
        backing: Backing::Growable,
        group: None,
    }
}

fn journal(scratch: &Scratch) -> File {
    let mut journals = scratch.dir().journals(&spec().name).unwrap();
    assert_eq!(journals.len(), 1, "{journals:?}");
    File::options().write(true).open(journals.remove(0)).unwrap()
}

#[test]
fn a_damaged_journal_does_not_prevent_attaching() {
    let scratch = Scratch::new();
    create(&scratch.dir(), &spec()).unwrap();
    journal(&scratch).write_all_at(&u64::MAX.to_le_bytes(), 0).unwrap();
    let pool = ShmPool::open(&scratch.dir(), &spec().name).unwrap();
    assert_eq!(pool.identity().slot, 1, "slot 0 keeps its damaged journal");
}

#[test]
fn a_damaged_client_slot_does_not_prevent_attaching() {
    let scratch = Scratch::new();
    create(&scratch.dir(), &spec()).unwrap();
    let segment = File::options().write(true).open(scratch.path().join("farwood.demo.0")).unwrap();
    segment.write_all_at(&0xdead_u64.to_le_bytes(), farwood_fabric::client_table::state_offset(0)).unwrap();
    let pools = [(); 2].map(|()| ShmPool::open(&scratch.dir(), &spec().name).unwrap());
    assert_eq!(pools.map(|pool| pool.identity().slot), [1, 2], "slot 0 keeps its damaged state");
}

#[test]
fn a_pool_that_exists_keeps_its_journal() {
    let scratch = Scratch::new();
    create(&scratch.dir(), &spec()).unwrap();
    let before = scratch.entries();
    assert!(matches!(create(&scratch.dir(), &spec()), Err(ShmError::Exists { .. })));
    assert_eq!(scratch.entries(), before);
    ShmPool::open(&scratch.dir(), &spec().name).unwrap();
}

#[test]
fn journals_of_crashed_creators_are_removed_with_the_next_pool() {
    let scratch = Scratch::new();
    let orphan = scratch.path().join(spec().name.journal_file(7));
    fs::write(&orphan, []).unwrap();
    create(&scratch.dir(), &spec()).unwrap();
    assert!(!orphan.exists());
    journal(&scratch);
}

#[test]
fn a_forked_child_cannot_ask_whether_a_client_is_alive() {
    let scratch = Scratch::new();
    create(&scratch.dir(), &spec()).unwrap();
    let pool = ShmPool::open(&scratch.dir(), &spec().name).unwrap();
    assert!(pool.is_alive(pool.identity()).unwrap());
    assert!(is_true_in_child(|| {
        matches!(pool.is_alive(pool.identity()), Err(ShmError::Pool { error: FabricError::Forked, .. }))
    }));
}
