//! Tests of segments: creation, growth, discovery, removal, and errors.

use super::super::journal::Journal;
use super::super::testing::{Process, Scratch, as_child_in, eventually};
use super::*;
use farwood_testkit::need;
use std::os::unix::fs::{PermissionsExt as _, symlink};

const PAGE: u64 = 4096;

fn demo() -> PoolName {
    "demo".parse().unwrap()
}

fn spec(bytes: u64) -> SegmentSpec {
    SegmentSpec::new(demo(), 0, bytes)
}

fn create(dir: &SegmentDir, spec: &SegmentSpec) -> Result<Segment, ShmError> {
    dir.create(spec, |_| Ok(()))
}

#[test]
fn attachers_see_the_bytes_of_the_creator() {
    let scratch = Scratch::new();
    let dir = scratch.dir();
    let made: Result<Segment, ShmError> = dir.create(&spec(3 * PAGE), |segment| {
        segment.mapping().write_up(64, b"superblock").unwrap();
        Ok(())
    });
    let made = made.unwrap();
    let opened = dir.open(&demo(), 0, 3 * PAGE).unwrap();
    let mut words = [0; 2];
    opened.mapping().read_down(64, &mut words).unwrap();
    assert_eq!(&words[0].to_ne_bytes(), b"superblo");
    opened.mapping().write_up(PAGE, &7_u64.to_ne_bytes()).unwrap();
    assert_eq!(made.mapping().load(PAGE), Ok(7));
    assert_eq!((opened.mapping().bytes(), opened.node(), opened.name()), (3 * PAGE, 0, &demo()));
    assert_eq!(opened.path(), scratch.path().join("farwood.demo.0"));
    assert_eq!(scratch.entries(), ["farwood.demo.0"]);
}

#[test]
fn a_segment_is_invisible_before_it_is_initialised() {
    let scratch = Scratch::new();
    let dir = scratch.dir();
    let made: Result<Segment, ShmError> = dir.create(&spec(PAGE), |_| {
        assert!(matches!(dir.open(&demo(), 0, 0), Err(ShmError::NotFound { .. })));
        assert!(dir.list()?.is_empty());
        assert!(dir.leftovers()?.is_empty(), "the draft of a live process was removed as stale");
        let second = create(&dir, &spec(PAGE));
        assert!(matches!(second, Err(ShmError::BeingCreated { .. })));
        Ok(())
    });
    made.unwrap();
    dir.open(&demo(), 0, 0).unwrap();
}

#[test]
fn a_creation_that_fails_leaves_nothing() {
    let scratch = Scratch::new();
    let failed: Result<Segment, ShmError> =
        scratch.dir().create(&spec(PAGE), |_| Err(ShmError::BadName { name: String::new(), reason: "test" }));
    assert!(matches!(failed, Err(ShmError::BadName { .. })));
    assert!(scratch.entries().is_empty());
}

#[test]
fn a_segment_is_never_overwritten() {
    let scratch = Scratch::new();
    let dir = scratch.dir();
    let first = create(&dir, &spec(PAGE)).unwrap();
    first.mapping().write_up(0, &[1]).unwrap();
    let second = create(&dir, &spec(PAGE)).unwrap_err();
    assert!(matches!(second, ShmError::Exists { .. }), "{second}");
    assert!(second.to_string().contains("farwood drop shm://demo"));
    assert_eq!(dir.open(&demo(), 0, 0).unwrap().mapping().load(0).unwrap().to_ne_bytes()[0], 1);
    assert_eq!(scratch.entries(), ["farwood.demo.0"]);
}

#[test]
fn one_of_many_creators_succeeds() {
    let scratch = Scratch::new();
    let dir = scratch.dir();
    for _ in 0..50 {
        let made: usize = std::thread::scope(|scope| {
            let creators: Vec<_> = (0..4).map(|_| scope.spawn(|| create(&dir, &spec(PAGE)))).collect();
            let results = creators.into_iter().map(|creator| creator.join().unwrap());
            results
                .filter(|result| match result {
                    Ok(_) => true,
                    Err(ShmError::Exists { .. } | ShmError::BeingCreated { .. }) => false,
                    Err(other) => panic!("{other}"),
                })
                .count()
        });
        assert_eq!(made, 1);
        assert_eq!(dir.remove(&demo()).unwrap(), 1);
    }
}

#[test]
fn a_missing_pool_is_reported_with_the_remedy() {
    let scratch = Scratch::new();
    let dir = scratch.dir();
    for error in [dir.open(&demo(), 0, 0).unwrap_err(), dir.remove(&demo()).unwrap_err()] {
        assert!(matches!(error, ShmError::NotFound { .. }), "{error}");
        assert!(error.to_string().contains("no pool 'demo' on this machine"), "{error}");
    }
    assert!(matches!(dir.remove_segment(&demo(), 3), Err(ShmError::NotFound { .. })));
    let nowhere = SegmentDir::at(scratch.path().join("nowhere"));
    assert!(matches!(create(&nowhere, &spec(PAGE)), Err(ShmError::Io { .. })));
    assert!(matches!(nowhere.list(), Err(ShmError::Io { .. })));
}

#[test]
fn a_growable_segment_takes_pages_as_they_are_provisioned() {
    let scratch = Scratch::new();
    let segment = create(&scratch.dir(), &spec(1 << 30)).unwrap();
    assert_eq!(segment.bytes_resident().unwrap(), 0);
    segment.mapping().write_up(PAGE, &[9]).unwrap();
    segment.provision(PAGE, 16 * PAGE).unwrap();
    assert_eq!(segment.bytes_resident().unwrap(), 16 * PAGE);
    assert_ne!(segment.mapping().load(PAGE), Ok(0), "provisioning erased the contents");
    segment.provision(PAGE, 16 * PAGE).unwrap();
    segment.provision(0, 0).unwrap();
    segment.prefault(PAGE, 1).unwrap();
    assert_eq!(segment.bytes_resident().unwrap(), 16 * PAGE);
}

#[test]
fn provisioning_never_makes_a_segment_longer() {
    let scratch = Scratch::new();
    let segment = create(&scratch.dir(), &spec(2 * PAGE)).unwrap();
    for (offset, bytes) in [(0, 3 * PAGE), (2 * PAGE, 1), (u64::MAX, 2), (1, u64::MAX)] {
        assert!(segment.provision(offset, bytes).is_err(), "{offset} {bytes}");
        assert!(segment.prefault(offset, bytes).is_err(), "{offset} {bytes}");
    }
    assert_eq!(fs::metadata(segment.path()).unwrap().len(), 2 * PAGE);
}

#[test]
fn a_reserved_segment_has_all_its_pages() {
    let scratch = Scratch::new();
    let spec = SegmentSpec { backing: Backing::Reserved, ..spec(100 * PAGE - 5) };
    let segment = create(&scratch.dir(), &spec).unwrap();
    assert_eq!(segment.mapping().bytes(), 100 * PAGE);
    assert_eq!(segment.bytes_resident().unwrap(), 100 * PAGE);
}

#[test]
fn a_segment_beyond_the_available_memory_is_refused() {
    let scratch = Scratch::new();
    let dir = scratch.dir();
    for bytes in [1 << 44, 1 << 62, u64::MAX] {
        let reserved = SegmentSpec { backing: Backing::Reserved, ..spec(bytes) };
        let error = create(&dir, &reserved).unwrap_err();
        assert!(matches!(error, ShmError::NoSpace { .. }), "{bytes}: {error}");
        assert!(scratch.entries().is_empty());
    }
    let segment = create(&dir, &spec(1 << 44)).unwrap();
    let error = segment.provision(0, 1 << 43).unwrap_err();
    assert!(matches!(error, ShmError::NoSpace { .. }), "{error}");
    assert_eq!(segment.bytes_resident().unwrap(), 0);
}

#[test]
fn small_and_irregular_files_are_refused() {
    let scratch = Scratch::new();
    let dir = scratch.dir();
    scratch.file("farwood.demo.0", 2 * PAGE + 100);
    assert_eq!(dir.open(&demo(), 0, 2 * PAGE).unwrap().mapping().bytes(), 2 * PAGE);
    let error = dir.open(&demo(), 0, 2 * PAGE + 1).unwrap_err();
    assert!(matches!(error, ShmError::TooSmall { .. }), "{error}");
    scratch.file("farwood.demo.1", 100);
    assert!(matches!(dir.open(&demo(), 1, 0), Err(ShmError::TooSmall { .. })));
    fs::create_dir(scratch.path().join("farwood.demo.2")).unwrap();
    assert!(matches!(dir.open(&demo(), 2, 0), Err(ShmError::NotAFile { is_directory: true, .. })));
    symlink(scratch.path().join("farwood.demo.0"), scratch.path().join("farwood.demo.3")).unwrap();
    assert!(matches!(dir.open(&demo(), 3, 0), Err(ShmError::NotAFile { .. })), "followed a link");
}

#[test]
fn a_directory_at_the_path_of_a_draft_or_a_journal_is_named() {
    let scratch = Scratch::new();
    let journal = demo().journal_file(7);
    for name in [".farwood.demo.0.new", &journal] {
        fs::create_dir(scratch.path().join(name)).unwrap();
    }
    let created = create(&scratch.dir(), &spec(PAGE)).unwrap_err();
    let opened = Journal::open(&scratch.dir(), &demo(), 7).err().unwrap();
    for (error, name) in [(created, ".farwood.demo.0.new"), (opened, journal.as_str())] {
        let text = error.to_string();
        let path = scratch.path().join(name);
        assert!(text.contains(&format!("{} is a directory", path.display())), "{text}");
        assert!(text.contains(&format!("`rm -r {}`", path.display())), "{text}");
    }
    assert!(scratch.dir().leftovers().unwrap().is_empty(), "a sweep cannot remove a directory");
}

#[test]
fn a_directory_that_forbids_it_is_reported_as_such() {
    // No user, not even root, can create files in sysfs.
    let error = create(&SegmentDir::at("/sys/kernel"), &spec(PAGE)).unwrap_err();
    assert!(matches!(error, ShmError::Permission { .. }), "{error}");
}

#[test]
fn a_file_of_another_mode_is_reported_as_forbidden() {
    let scratch = Scratch::new();
    let spec = SegmentSpec { rights: FileRights { mode: 0o000, group: None }, ..spec(PAGE) };
    let made = create(&scratch.dir(), &spec);
    // Root may open anything.
    if fs::metadata(scratch.path()).unwrap().uid() == 0 {
        assert_eq!(fs::metadata(made.unwrap().path()).unwrap().mode() & 0o777, 0);
    } else {
        assert!(matches!(made, Err(ShmError::Permission { .. })));
    }
}

#[test]
fn only_the_owner_may_attach_by_default() {
    let scratch = Scratch::new();
    let segment = create(&scratch.dir(), &spec(PAGE)).unwrap();
    assert_eq!(fs::metadata(segment.path()).unwrap().mode() & 0o777, 0o600);
}

/// A user that does not run the tests.
const STRANGER: u32 = 4242;

/// Gives a file to another user. `None`: this machine does not permit it.
#[track_caller]
fn give_away(path: &Path) -> Option<()> {
    need::met(need::ROOT, std::os::unix::fs::lchown(path, Some(STRANGER), None))
}

#[test]
fn a_segment_of_another_user_is_refused() {
    let scratch = Scratch::new();
    let segment = create(&scratch.dir(), &spec(PAGE)).unwrap();
    let Some(()) = give_away(segment.path()) else { return };
    let error = scratch.dir().open(&demo(), 0, 0).unwrap_err();
    assert!(matches!(error, ShmError::ForeignOwner { owner: STRANGER, user: 0, .. }), "{error}");
    let text = error.to_string();
    for part in ["farwood.demo.0 belongs to user 4242", "this process is of user 0", "FARWOOD_SHM_DIR"] {
        assert!(text.contains(part), "{part:?} is missing in: {text}");
    }
}

#[test]
fn a_segment_that_others_may_access_is_refused() {
    let scratch = Scratch::new();
    let segment = create(&scratch.dir(), &spec(PAGE)).unwrap();
    for mode in [0o602, 0o620, 0o666, 0o622, 0o662] {
        fs::set_permissions(segment.path(), fs::Permissions::from_mode(mode)).unwrap();
        let error = scratch.dir().open(&demo(), 0, 0).unwrap_err();
        assert!(matches!(error, ShmError::WideMode { mode: found, .. } if found == mode), "{error}");
        assert!(error.to_string().contains("`chmod 600 "), "{error}");
    }
    for mode in [0o600, 0o604, 0o640, 0o644, 0o440] {
        fs::set_permissions(segment.path(), fs::Permissions::from_mode(mode)).unwrap();
        scratch.dir().open_for(&demo(), 0, 0, Access::ReadOnly).unwrap();
    }
    fs::set_permissions(segment.path(), fs::Permissions::from_mode(0o600)).unwrap();
    scratch.dir().open(&demo(), 0, 0).unwrap();
}

/// A group of which no test's user is a member, unless the user is root.
const GROUP: u32 = 4343;

#[test]
fn a_segment_of_a_group_is_used_by_processes_that_trust_the_group() {
    let scratch = Scratch::new();
    let path = scratch.path().join("farwood.demo.0");
    let shared = SegmentSpec { rights: FileRights::new(Some(GROUP), None).unwrap(), ..spec(PAGE) };
    let Some(_) = need::met(need::ROOT, create(&scratch.dir(), &shared).map_err(io::Error::other)) else {
        return;
    };
    let data = fs::metadata(&path).unwrap();
    assert_eq!((data.mode() & 0o777, data.gid()), (0o660, GROUP));
    let trusting = scratch.dir().trusting("4343");
    for owner in [0, STRANGER] {
        std::os::unix::fs::lchown(&path, Some(owner), None).unwrap();
        trusting.open(&demo(), 0, 0).unwrap();
        for other in [scratch.dir(), scratch.dir().trusting("4344")] {
            let error = other.open(&demo(), 0, 0).unwrap_err();
            assert!(
                matches!(error, ShmError::UntrustedGroup { owner: of, group: GROUP, .. } if of == owner),
                "{error}"
            );
            assert!(error.to_string().contains("set FARWOOD_SHM_GROUP=4343;"), "{error}");
        }
    }
    let error = scratch.dir().trusting("no such group").open(&demo(), 0, 0).unwrap_err();
    assert!(matches!(error, ShmError::UnknownGroup { .. }), "{error}");
}

#[test]
fn trust_in_a_group_extends_to_no_other_mode_and_no_other_owner() {
    let scratch = Scratch::new();
    let segment = create(&scratch.dir(), &spec(PAGE)).unwrap();
    let data = fs::metadata(segment.path()).unwrap();
    let trusting = scratch.dir().trusting(&data.gid().to_string());
    trusting.open(&demo(), 0, 0).unwrap();
    for mode in [0o602, 0o620, 0o666, 0o661] {
        fs::set_permissions(segment.path(), fs::Permissions::from_mode(mode)).unwrap();
        let error = trusting.open(&demo(), 0, 0).unwrap_err();
        assert!(matches!(error, ShmError::WideMode { .. }), "{mode:o}: {error}");
    }
    fs::set_permissions(segment.path(), fs::Permissions::from_mode(0o660)).unwrap();
    trusting.open(&demo(), 0, 0).unwrap();
    fs::set_permissions(segment.path(), fs::Permissions::from_mode(0o600)).unwrap();
    let Some(()) = give_away(segment.path()) else { return };
    let error = trusting.open(&demo(), 0, 0).unwrap_err();
    assert!(matches!(error, ShmError::ForeignOwner { .. }), "{error}");
}

#[test]
fn a_journal_is_shared_like_the_segments() {
    let scratch = Scratch::new();
    let trusting = scratch.dir().trusting("4343");
    let made = Journal::create(&scratch.dir(), &demo(), 7, FileRights::new(Some(GROUP), None).unwrap())
        .map_err(io::Error::other);
    let Some(()) = need::met(need::ROOT, made) else { return };
    Journal::open(&trusting, &demo(), 7).unwrap();
    let error = Journal::open(&scratch.dir(), &demo(), 7).err().unwrap();
    assert!(matches!(error, ShmError::UntrustedGroup { group: GROUP, .. }), "{error}");
}

#[test]
fn groups_have_names_and_numbers() {
    assert_eq!(super::super::group_number("root").unwrap(), 0);
    assert_eq!(super::super::group_number("4343").unwrap(), 4343);
    for group in ["", "no such group", "-1", "4294967295", "a\0b"] {
        let error = super::super::group_number(group).unwrap_err();
        assert!(matches!(error, ShmError::UnknownGroup { .. }), "{group:?}: {error}");
    }
}

#[test]
fn a_draft_of_another_user_blocks_creation_with_an_error_that_names_the_user() {
    let scratch = Scratch::new();
    let path = scratch.path().join(".farwood.demo.0.new");
    for mode in [0o600, 0o666] {
        scratch.file(".farwood.demo.0.new", PAGE).set_permissions(fs::Permissions::from_mode(mode)).unwrap();
        let Some(()) = give_away(&path) else { return };
        let error = create(&scratch.dir(), &spec(PAGE)).unwrap_err();
        assert!(matches!(error, ShmError::ForeignOwner { owner: STRANGER, .. }), "{error}");
        assert!(error.to_string().contains("choose another name"), "{error}");
        assert!(scratch.dir().leftovers().unwrap().is_empty(), "not this user's to sweep");
        fs::remove_file(&path).unwrap();
    }
    symlink("/nonexistent", &path).unwrap();
    give_away(&path).unwrap();
    let error = create(&scratch.dir(), &spec(PAGE)).unwrap_err();
    assert!(matches!(error, ShmError::ForeignOwner { .. }), "{error}");
}

#[test]
fn a_journal_of_another_user_is_neither_used_nor_removed() {
    let scratch = Scratch::new();
    let file = demo().journal_file(7);
    scratch.file(&file, PAGE);
    assert_eq!(scratch.dir().journals(&demo()).unwrap().len(), 1);
    let Some(()) = give_away(&scratch.path().join(file)) else { return };
    assert!(scratch.dir().journals(&demo()).unwrap().is_empty());
    let opened = Journal::open(&scratch.dir(), &demo(), 7).err().unwrap();
    assert!(matches!(opened, ShmError::ForeignOwner { .. }), "{opened}");
}

#[test]
fn a_journal_that_others_may_access_is_refused() {
    let scratch = Scratch::new();
    let file = scratch.file(&demo().journal_file(7), Journal::BYTES);
    Journal::open(&scratch.dir(), &demo(), 7).unwrap();
    file.set_permissions(fs::Permissions::from_mode(0o622)).unwrap();
    let opened = Journal::open(&scratch.dir(), &demo(), 7).err().unwrap();
    assert!(matches!(opened, ShmError::WideMode { mode: 0o622, .. }), "{opened}");
}

#[test]
fn pools_are_listed_with_their_segments_and_sizes() {
    let scratch = Scratch::new();
    let dir = scratch.dir();
    for (name, node, bytes) in [("b", 1, PAGE), ("b", 0, 2 * PAGE), ("a.1", 10, PAGE), ("a.1", 9, PAGE)] {
        create(&dir, &SegmentSpec::new(name.parse().unwrap(), node, bytes)).unwrap();
    }
    scratch.file("somebody-elses", 8);
    symlink("nowhere", scratch.path().join("farwood.c.0")).unwrap();
    let listed = dir.list().unwrap();
    let summary: Vec<_> = listed
        .iter()
        .flat_map(|pool| {
            pool.segments.iter().map(|segment| (pool.name.as_str(), segment.node, segment.bytes))
        })
        .collect();
    assert_eq!(summary[..4], [("a.1", 9, PAGE), ("a.1", 10, PAGE), ("b", 0, 2 * PAGE), ("b", 1, PAGE)]);
    assert_eq!(summary[4..], [("c", 0, 7)], "a link at the path of a segment is reported");
    assert_eq!(listed.len(), 3);
}

#[test]
fn a_removed_pool_stays_mapped_in_attached_processes() {
    let scratch = Scratch::new();
    let dir = scratch.dir();
    let node_1 = create(&dir, &SegmentSpec { node: 1, ..spec(PAGE) }).unwrap();
    create(&dir, &spec(PAGE)).unwrap();
    create(&dir, &SegmentSpec::new("demo.1".parse().unwrap(), 0, PAGE)).unwrap();
    assert_eq!(dir.remove(&demo()).unwrap(), 2);
    assert_eq!(scratch.entries(), ["farwood.demo.1.0"]);
    node_1.mapping().write_up(0, &[1]).unwrap();
    create(&dir, &SegmentSpec { node: 1, ..spec(PAGE) }).unwrap();
    dir.remove_segment(&demo(), 1).unwrap();
}

#[test]
fn the_draft_of_a_crashed_creator_is_found_and_removed() {
    let scratch = Scratch::new();
    let dir = scratch.dir();
    let draft = scratch.file(".farwood.demo.0.new", PAGE);
    let found = dir.leftovers().unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!((&found[0].name, found[0].node), (&demo(), 0));
    // While its lock is held, a process uses it.
    draft.lock().unwrap();
    assert!(dir.leftovers().unwrap().is_empty());
    assert!(!SegmentDir::sweep(&found[0]).unwrap());
    draft.unlock().unwrap();
    assert!(SegmentDir::sweep(&found[0]).unwrap());
    assert!(scratch.entries().is_empty());
}

#[test]
fn a_stale_draft_does_not_block_creation() {
    let scratch = Scratch::new();
    let dir = scratch.dir();
    scratch.file(".farwood.demo.0.new", PAGE);
    create(&dir, &spec(2 * PAGE)).unwrap();
    assert_eq!(scratch.entries(), ["farwood.demo.0"]);
    scratch.file(".farwood.demo.0.new", PAGE);
    scratch.file(".farwood.other.0.new", PAGE);
    dir.remove(&demo()).unwrap();
    assert_eq!(scratch.entries(), [".farwood.other.0.new"]);
}

/// The work of the child process of the test below.
fn create_for_ever(dir: &SegmentDir) {
    let never: Result<Segment, ShmError> = dir.create(&spec(PAGE), |_| {
        std::thread::sleep(std::time::Duration::from_mins(1));
        Ok(())
    });
    drop(never);
}

#[test]
fn a_creator_killed_during_creation_leaves_a_draft() {
    if let Some(directory) = as_child_in() {
        return create_for_ever(&SegmentDir::at(directory));
    }
    let scratch = Scratch::new();
    let this_test = "shm::segment::tests::a_creator_killed_during_creation_leaves_a_draft";
    let mut child = Process::run(this_test, scratch.path());
    eventually("the child is at work", || scratch.entries() == [".farwood.demo.0.new"]);
    eventually("the child has locked its draft", || scratch.dir().leftovers().unwrap().is_empty());
    child.0.kill().unwrap();
    child.0.wait().unwrap();
    assert_eq!(scratch.dir().leftovers().unwrap().len(), 1);
    create(&scratch.dir(), &spec(PAGE)).unwrap();
    assert_eq!(scratch.entries(), ["farwood.demo.0"]);
}

#[test]
fn the_directory_of_huge_pages_is_searched_as_well() {
    // Not every machine has huge pages: another directory replaces their mount.
    let (scratch, huge) = (Scratch::new(), Scratch::new());
    let dir = SegmentDir { huge: Some(huge.path().into()), ..scratch.dir() };
    huge.file("farwood.demo.0", 2 * HUGE_PAGE_BYTES);
    let opened = dir.open(&demo(), 0, 0).unwrap();
    assert_eq!((opened.pages(), opened.mapping().bytes()), (Pages::Huge, 2 * HUGE_PAGE_BYTES));
    assert!(matches!(create(&dir, &spec(PAGE)), Err(ShmError::Exists { .. })));
    assert_eq!(dir.list().unwrap().len(), 1);
    assert_eq!(dir.remove(&demo()).unwrap(), 1);
    assert!(huge.entries().is_empty());
}

#[test]
fn a_huge_draft_is_built_and_published_beside_the_ordinary_one() {
    let (scratch, huge) = (Scratch::new(), Scratch::new());
    huge.file(".farwood.demo.0.new", 1);
    let draft = HugeDraft::begin(huge.path(), &spec(PAGE)).unwrap();
    let segment = draft.build(&spec(PAGE)).unwrap();
    assert_eq!((segment.pages(), segment.mapping().bytes()), (Pages::Huge, HUGE_PAGE_BYTES));
    draft::publish(&draft.path, segment.path(), &demo()).unwrap();
    drop(draft);
    assert_eq!(huge.entries(), ["farwood.demo.0"]);
    assert!(scratch.entries().is_empty());
}

#[test]
fn without_free_huge_pages_ordinary_ones_are_used() {
    let (scratch, huge) = (Scratch::new(), Scratch::new());
    let dir = SegmentDir { huge: Some(huge.path().into()), ..scratch.dir() };
    // More than any machine has reserved.
    let segment = create(&dir, &spec(1 << 44)).unwrap();
    assert_ne!(segment.pages(), Pages::Huge);
    assert_eq!(segment.path().parent(), Some(scratch.path()));
}
