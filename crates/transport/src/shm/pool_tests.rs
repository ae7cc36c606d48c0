//! Tests of pools and their journals.

use super::super::create::{PoolSpec, create};
use super::super::segment::Backing;
use super::super::testing::Scratch;
use super::*;
use crate::fork::is_true_in_child;
use crate::runtime::block_on;
use farwood_fabric::{Address, Fabric as _, Memory, Remote, Revocation, cas, client_table, faa, read, write};
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;

fn spec() -> PoolSpec {
    let name = "demo".parse().unwrap();
    PoolSpec {
        name,
        nodes: 2,
        host_bytes: 64 << 20,
        host_bytes_max: None,
        device_bytes: 64 << 10,
        backing: Backing::Growable,
        group: None,
        mode: None,
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

/// A word that no table uses.
fn word() -> Remote<u64> {
    Remote::at(Address::new(NodeId(0), Memory::Host, 9 << 20).unwrap())
}

#[test]
fn a_reader_takes_no_slot_and_changes_nothing() {
    let scratch = Scratch::new();
    create(&scratch.dir(), &spec()).unwrap();
    let writer = ShmPool::open(&scratch.dir(), &spec().name).unwrap();
    block_on(writer.client().post(write(word(), &42_u64.to_le_bytes()))).unwrap();
    let reader = ShmPool::open_read_only(&scratch.dir(), &spec().name).unwrap();
    assert_eq!((reader.identity(), reader.shape()), (ClientId::NONE, writer.shape()));
    let client = reader.client();
    let value = || block_on(client.post(read(word()))).unwrap().whole_word();
    assert_eq!(value(), 42);
    for refused in [
        block_on(client.post(write(word(), &[1; 8]))).map(drop),
        block_on(client.post(cas(word(), 42, 1))).map(drop),
        block_on(client.post(faa(word(), 1))).map(drop),
        block_on(client.fabric().provision(word().address(), 4096)),
        block_on(client_table::enter(&client, 7, 1)).map(drop),
    ] {
        assert_eq!(refused, Err(FabricError::ReadOnly));
    }
    assert!(!client.post_detached(faa(word(), 1)));
    assert_eq!(value(), 42);
    assert_eq!(block_on(client.fabric().revoke(writer.identity())), Ok(Revocation::Alive));
    assert!(reader.server(NodeId(0)).is_none(), "a server changes its memory");
    assert!(reader.is_alive(writer.identity()).unwrap());
    assert_eq!(block_on(client_table::load(&client)).unwrap().attached.len(), 1);
    let other = ShmPool::open(&scratch.dir(), &spec().name).unwrap();
    assert_eq!(other.identity().slot, 1, "the reader holds no presence lock");
    drop(writer);
    let ended = block_on(client.fabric().revoke(ClientId { slot: 0, epoch: 1 }));
    assert!(matches!(ended, Ok(Revocation::Gone)), "its slot is free: {ended:?}");
    fs::remove_file(scratch.path().join("farwood.demo.0")).unwrap();
    let lost = || block_on(client.post(read(word()))).is_err();
    super::super::testing::eventually("the reader notices that the file was removed", lost);
}

#[test]
fn a_mapping_for_reading_refuses_every_store() {
    let scratch = Scratch::new();
    create(&scratch.dir(), &spec()).unwrap();
    let path = scratch.path().join("farwood.demo.0");
    let mapping =
        super::super::Mapping::with_access(&File::open(path).unwrap(), 1 << 20, Access::ReadOnly).unwrap();
    let fault = Some(super::super::AccessFault::OutOfRange);
    assert_eq!(mapping.write_up(64, &[1; 24]).err(), fault);
    assert_eq!(mapping.compare_exchange(64, 0, 1).err(), fault);
    assert_eq!(mapping.masked_compare_exchange(64, 0, 0, 1, 1).err(), fault);
    assert_eq!(mapping.fetch_add(64, 1).err(), fault);
    mapping.load(64).unwrap();
    mapping.load_line(64).unwrap();
    mapping.read_down(0, &mut [0; 512]).unwrap();
    mapping.prefault(0, 1 << 20).unwrap();
}

#[test]
fn all_files_of_a_pool_have_its_mode() {
    use std::os::unix::fs::PermissionsExt as _;
    for mode in [0o600, 0o640, 0o644, 0o604] {
        let scratch = Scratch::new();
        create(&scratch.dir(), &PoolSpec { mode: Some(mode), ..spec() }).unwrap();
        let files = scratch.entries();
        assert_eq!(files.len(), 3, "two segments and a journal: {files:?}");
        for file in files {
            let found = fs::metadata(scratch.path().join(&file)).unwrap().permissions().mode() & 0o7777;
            assert_eq!(found, mode, "{file}");
        }
        ShmPool::open(&scratch.dir(), &spec().name).unwrap();
    }
    for (mode, words) in [
        (0o400, "owner must be able"),
        (0o700, "nobody executes"),
        (0o666, "not everybody"),
        (0o1644, "nobody executes"),
        (0o660, "--group"),
    ] {
        let scratch = Scratch::new();
        let error = create(&scratch.dir(), &PoolSpec { mode: Some(mode), ..spec() }).unwrap_err();
        assert!(matches!(error, ShmError::BadShape { .. }) && error.to_string().contains(words), "{error}");
        assert!(scratch.entries().is_empty());
    }
}

#[test]
fn a_reader_trusts_the_owner_or_the_group_of_the_files() {
    use farwood_testkit::need;
    const OWNER: u32 = 4242;
    const GROUP: u32 = 4343;
    let scratch = Scratch::new();
    create(&scratch.dir(), &PoolSpec { mode: Some(0o640), ..spec() }).unwrap();
    for file in scratch.entries() {
        let given = std::os::unix::fs::chown(scratch.path().join(file), Some(OWNER), Some(GROUP));
        let Some(()) = need::met(need::ROOT, given) else { return };
    }
    let dir = scratch.dir();
    for trusting in [dir.clone().trusting("4343"), dir.clone().trusting_owner("4242")] {
        ShmPool::open_read_only(&trusting, &spec().name).unwrap();
    }
    for other in [dir.clone(), dir.clone().trusting("4344"), dir.clone().trusting_owner("4243")] {
        let error = ShmPool::open_read_only(&other, &spec().name).unwrap_err();
        assert!(matches!(error, ShmError::ForeignOwner { owner: OWNER, .. }), "{error}");
        assert!(error.to_string().contains("FARWOOD_SHM_OWNER"), "{error}");
    }
    let error = ShmPool::open_read_only(&dir.trusting_owner("no such user"), &spec().name).unwrap_err();
    assert!(matches!(error, ShmError::UnknownUser { .. }), "{error}");
}
