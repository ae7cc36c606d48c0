//! Forks: handles that a child inherited open the pool again, its sessions and scans are refused, and the parent is not
//! disturbed.
//!
//! Each test runs alone in a separate process, because a fork copies only the thread that calls it, and the threads of
//! other tests may hold locks.

mod async_handles;
#[allow(unsafe_code, reason = "the calls of the operating system")]
mod sys;

use crate::alone;
use crate::spatial_pool::{SpatialPool, in_mode, served, served_over_tcp};
use farwood::error::{ErrorKind, FabricError, IndexError};
use farwood::index::{Scan, Session, Structure};
use farwood::node::{Identity, MemoryNode, NodeSpec, Registrant, ServerTls};
use farwood::runtime::{block_on, run_all};
use farwood::spatial::{Item, Query, RTree, Rectangle, SearchMode, ServeOptions, Spatial};
use farwood::{BTree, Error, Hashed, Index, Pool, PoolOptions, Radix};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::future::Future as _;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

type Bytes = Vec<u8>;

const MEMORY_BYTES: u64 = 128 << 20;
/// Runs the test `name` in a separate process; returns whether this is that process.
fn is_alone(name: &str) -> bool {
    alone::is_alone(&format!("fork::{name}"))
}

/// A pool of one memory node.
struct Place {
    url: String,
    /// The memory node over TCP, in this process.
    node: Option<MemoryNode>,
}

impl Place {
    fn shm() -> Self {
        let url = "shm://forked".to_owned();
        Pool::create(&url, &PoolOptions::new().memory_bytes(MEMORY_BYTES)).unwrap();
        Self { url, node: None }
    }

    fn tcp() -> Self {
        let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let node = MemoryNode::start(&NodeSpec::new(listen, MEMORY_BYTES)).unwrap();
        Self { url: format!("tcp://{}", node.address()), node: Some(node) }
    }

    /// A pool over TLS, whose state is copied to the child.
    fn tls() -> Self {
        let mut authority = CertificateParams::new(Vec::new()).unwrap();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let server = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let server = server.signed_by(&key, &authority).unwrap();
        let folder = PathBuf::from(std::env::var_os("FARWOOD_SHM_DIR").unwrap());
        let files = ["ca.pem", "cert.pem", "key.pem"].map(|name| folder.join(name));
        let texts = [authority.pem(), server.pem(), key.serialize_pem()];
        files.iter().zip(texts).for_each(|(file, text)| std::fs::write(file, text).unwrap());
        let [ca, cert, key] = &files;
        let tls = ServerTls::from_files(Identity { cert, key }, None).unwrap();
        let spec = NodeSpec::new(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), MEMORY_BYTES);
        let node = MemoryNode::start(&NodeSpec { tls: Some(tls), ..spec }).unwrap();
        Self { url: format!("tcp://{}?tls-ca={}", node.address(), ca.display()), node: Some(node) }
    }
}

/// The way in which a child ends.
#[derive(Clone, Copy, Debug)]
enum End {
    /// No destructor runs.
    AtOnce,
    /// The destructors of thread-local variables run.
    Exit,
    /// All handles are dropped first.
    Drop,
    /// It returns from the test, and from `main`.
    Return,
}

const ENDS: [End; 4] = [End::AtOnce, End::Exit, End::Drop, End::Return];

/// One handle of each kind that a process can have.
struct Handles {
    index: Index<Bytes, Bytes>,
    session: Session<Bytes, Bytes>,
    /// A scan that has returned its first entry.
    scan: Scan<Bytes, Bytes>,
    spatial: Spatial,
    pool: Pool,
    place: Place,
}

fn key(number: u64) -> Bytes {
    number.to_be_bytes().to_vec()
}

fn item(id: u64) -> Item {
    Item { bounds: Rectangle::point([id as f64, 0.0]).unwrap(), id }
}

fn any_length() -> BTree {
    BTree::new().key_bytes(8).any_length_values()
}

impl Handles {
    fn open(place: Place, options: &impl Structure) -> Self {
        let pool = Pool::open(&place.url).unwrap();
        let index = pool.create_index::<Bytes, Bytes>("x", options).unwrap();
        for number in 0..200 {
            index.put(key(number), [b'v'; 200]).unwrap();
        }
        let session = index.session();
        block_on(session.put(&key(200), &[b's'; 200])).unwrap();
        let mut scan = index.iter();
        scan.next().unwrap().unwrap();
        let spatial = pool.create_spatial("s", &RTree::new()).unwrap();
        if place.node.is_none() {
            spatial.insert(&item(1)).unwrap();
        }
        Self { index, session, scan, spatial, pool, place }
    }

    /// The parent's scan and session fail, with an error that names the cause and the remedy. The other handles open
    /// the pool again.
    fn use_inherited(&mut self) {
        let Self { index, session, scan, spatial, pool, place } = self;
        refused(scan.next().unwrap());
        refused(block_on(session.get(&key(0))));
        refused(block_on(session.put(&key(1000), &[b'c'; 200])));
        assert!(!index.put(key(1000), [b'c'; 200]).unwrap());
        assert!(!index.insert(key(1000), [b'd'; 200]).unwrap());
        assert!(index.update(key(1000), [b'e'; 200]).unwrap());
        assert_eq!(index.get(key(1000)).unwrap().unwrap(), [b'e'; 200]);
        assert_eq!(block_on(index.session().get(&key(1000))).unwrap().unwrap(), [b'e'; 200]);
        assert!(index.remove(key(1000)).unwrap());
        assert_eq!(index.get_many([key(0), key(1000)]).unwrap().iter().flatten().count(), 1);
        assert!(index.count().unwrap() >= 201);
        assert_eq!(index.range(key(0)..key(9)).into_iter().count(), 9);
        assert_eq!(pool.indexes().unwrap().len(), 2);
        let own = pool.stats().unwrap().clients.into_iter().find(|client| client.is_own).unwrap();
        assert_eq!(own.process, u64::from(std::process::id()));
        let again = pool.open_index::<Bytes, Bytes>("x").unwrap();
        assert!(again.get(key(1)).unwrap().is_some());
        if place.node.is_none() {
            assert_eq!(spatial.search(&Query::intersecting(item(1).bounds)).unwrap().len(), 1);
            spatial.insert(&item(2)).unwrap();
            assert!(spatial.remove(&item(2)).unwrap());
        }
        assert!(spatial.check().unwrap().problems.is_empty());
        assert!(place.node.as_ref().is_none_or(|node| !node.is_running()), "the parent runs the memory node");
    }

    /// Uses a pool that the child opens itself.
    fn use_own(url: &str, number: u64) {
        let pool = Pool::open(url).unwrap();
        let index = pool.open_index::<Bytes, Bytes>("x").unwrap();
        for at in 0..100 {
            index.put(key(number + at), [b'o'; 100]).unwrap();
        }
        assert_eq!(index.get(key(number)).unwrap().unwrap(), [b'o'; 100]);
    }
}

#[track_caller]
fn refused<T: Debug>(result: farwood::Result<T>) {
    let error = result.expect_err("a forked child used a handle of its parent");
    let (text, remedy) = (error.to_string(), error.help().unwrap());
    assert!(text.contains("forked child") && remedy.contains("Pool::open"), "{text}; {remedy}");
    assert_eq!((error.kind(), error.exit_code()), (ErrorKind::Forked, 10), "{text}");
    let forked = match &error {
        Error::Fabric { source, .. } | Error::Index { source: IndexError::Fabric(source), .. } => source,
        other => panic!("{other}"),
    };
    assert_eq!(*forked, FabricError::Forked);
}

/// Whether the process continues as the parent.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
enum Role {
    Parent,
    Child,
}

/// Uses inherited handles in a child, and ends the child.
fn inherit(mut handles: Handles, end: End, number: u64) {
    let url = handles.place.url.clone();
    handles.use_inherited();
    Handles::use_own(&url, number);
    match end {
        End::AtOnce => sys::end_at_once(),
        End::Exit => {
            std::mem::forget(handles);
            std::process::exit(0)
        }
        End::Drop => {
            drop(handles);
            Handles::use_own(&url, number + 100);
            std::process::exit(0)
        }
        End::Return => {}
    }
}

/// Runs children that use inherited handles, one after the other, while the parent waits or writes.
fn fork_children(place: Place, options: &impl Structure, parent_writes: bool) -> Role {
    let handles = Handles::open(place, options);
    let mut written = 10_000;
    for (end, number) in ENDS.into_iter().zip((1..).map(|child| child * 1_000_000)) {
        let Some(child) = sys::fork() else {
            inherit(handles, end, number);
            return Role::Child;
        };
        let until = if parent_writes { written + 500 } else { written };
        for number in written..until {
            handles.index.put(key(number), [b'p'; 200]).unwrap();
        }
        sys::expect_success(child);
        for number in until..until + 50 {
            handles.index.put(key(number), [b'q'; 200]).unwrap();
        }
        written = until + 50;
    }
    expect_undisturbed(&handles, written);
    Role::Parent
}

/// Checks that the parent still has its client slot, and that its index has all entries.
fn expect_undisturbed(handles: &Handles, written: u64) {
    let Handles { index, session, spatial, pool, place, .. } = handles;
    assert!(place.node.as_ref().is_none_or(MemoryNode::is_running));
    let other = Pool::open(&place.url).unwrap();
    let stats = other.stats().unwrap();
    let living = stats.clients.iter().filter(|client| client.alive && !client.is_own);
    let living: Vec<u64> = living.map(|client| client.process).collect();
    assert_eq!(living, [u64::from(std::process::id())], "the children have left, and the parent has not");
    let view = other.open_index::<Bytes, Bytes>("x").unwrap();
    for number in (0..200).chain(10_000..written) {
        assert!(view.get(key(number)).unwrap().is_some(), "{number} is lost");
    }
    assert_eq!(view.get(key(1000)).unwrap(), None, "a child wrote with a handle of its parent");
    let own = 100 * (ENDS.len() as u64 + 1);
    assert_eq!(view.count().unwrap(), 201 + (written - 10_000) + own);
    assert_eq!(view.check().unwrap().problems().len(), 0);
    block_on(session.put(&key(200), &[b't'; 200])).unwrap();
    assert_eq!(index.get(key(200)).unwrap().unwrap(), [b't'; 200]);
    if place.node.is_none() {
        spatial.insert(&item(3)).unwrap();
        assert_eq!(spatial.count_all().unwrap(), 2);
    }
    assert!(spatial.check().unwrap().problems.is_empty());
    assert_eq!(pool.indexes().unwrap().len(), 2);
}

fn all_cases(place: fn() -> Place, options: &impl Structure) {
    for parent_writes in [false, true] {
        if fork_children(place(), options, parent_writes) == Role::Child {
            return;
        }
        let _ = Pool::remove_by_force("shm://forked");
    }
}

#[test]
fn sherman_in_shared_memory() {
    if is_alone("sherman_in_shared_memory") {
        all_cases(Place::shm, &any_length());
    }
}

#[test]
fn smart_in_shared_memory() {
    if is_alone("smart_in_shared_memory") {
        all_cases(Place::shm, &Radix::new());
    }
}

#[test]
fn sphinx_in_shared_memory() {
    if is_alone("sphinx_in_shared_memory") {
        all_cases(Place::shm, &Hashed::new());
    }
}

#[test]
fn sherman_over_tcp() {
    if is_alone("sherman_over_tcp") {
        all_cases(Place::tcp, &any_length());
    }
}

#[test]
fn sherman_over_tls() {
    if is_alone("sherman_over_tls") {
        all_cases(Place::tls, &any_length());
    }
}

#[test]
fn smart_over_tcp() {
    if is_alone("smart_over_tcp") {
        all_cases(Place::tcp, &Radix::new());
    }
}

#[test]
fn sphinx_over_tcp() {
    if is_alone("sphinx_over_tcp") {
        all_cases(Place::tcp, &Hashed::new());
    }
}

/// At most moments of a fork, some thread of the parent holds a lock of the index, locally and in the pool.
fn fork_beside_writers(place: Place, options: &impl Structure) {
    let Handles { index, session, scan, spatial, pool, place } = Handles::open(place, options);
    drop((session, scan, spatial));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (index, stop) = (&index, &stop);
            scope.spawn(move || {
                for round in 0.. {
                    if stop.load(Ordering::Acquire) {
                        break;
                    }
                    index.put(key(round % 4), [thread; 200]).unwrap();
                }
            });
        }
        for _ in 0..40 {
            let Some(child) = sys::fork() else {
                index.put(key(1), [b'c'; 200]).unwrap();
                pool.open_index::<Bytes, Bytes>("x").unwrap();
                std::mem::drop((index.clone(), pool.clone()));
                sys::end_at_once();
            };
            sys::expect_success(child);
        }
        stop.store(true, Ordering::Release);
    });
    assert_eq!(index.check().unwrap().problems().len(), 0);
    drop((index, pool, place));
}

#[test]
fn a_child_waits_for_no_lock_of_a_thread_of_the_parent() {
    if is_alone("a_child_waits_for_no_lock_of_a_thread_of_the_parent") {
        for place in [Place::shm, Place::tcp] {
            fork_beside_writers(place(), &any_length());
            let _ = Pool::remove_by_force("shm://forked");
        }
        fork_beside_writers(Place::shm(), &Hashed::new());
    }
}

/// Children of one process have the same state of generators in memory. One of them creates the pool; the others must
/// not touch its files.
#[test]
fn one_of_several_forked_children_creates_a_pool() {
    if !is_alone("one_of_several_forked_children_creates_a_pool") {
        return;
    }
    let options = PoolOptions::new().memory_bytes(64 << 20);
    Pool::create("shm://before", &options).unwrap();
    for round in 0..20 {
        let url = format!("shm://forked-{round}");
        let start = Instant::now() + Duration::from_millis(20);
        let children: Vec<_> = (0..4)
            .map(|_| {
                let Some(child) = sys::fork() else {
                    while Instant::now() < start {
                        std::hint::spin_loop();
                    }
                    if let Err(error) = Pool::create(&url, &options) {
                        assert!(matches!(error.kind(), ErrorKind::Exists | ErrorKind::Busy), "{error}");
                    }
                    sys::end_at_once();
                };
                child
            })
            .collect();
        children.into_iter().for_each(sys::expect_success);
        let pool = Pool::open(&url).unwrap();
        pool.create_index::<u64, u64>("x", &BTree::new()).unwrap().put(1, 1).unwrap();
    }
}

/// A process is killed whose child lives and has not dropped what it inherited.
fn kill_a_parent(place: &Place, options: &impl Structure) {
    let pool = Pool::open(&place.url).unwrap();
    let index = pool.create_index::<Bytes, Bytes>("x", options).unwrap();
    let Some(parent) = sys::fork() else {
        let pool = Pool::open(&place.url).unwrap();
        let index = pool.open_index::<Bytes, Bytes>("x").unwrap();
        index.put(key(1), [b'p'; 200]).unwrap();
        if sys::fork().is_some() {
            sys::kill_self();
        }
        std::thread::sleep(Duration::from_secs(3));
        index.put(key(2), [b'c'; 200]).unwrap();
        sys::end_at_once();
    };
    sys::expect_killed(parent);
    let killed = || pool.stats().unwrap().clients.into_iter().find(|client| client.process == parent as u64);
    let begun = Instant::now();
    while killed().is_some_and(|client| client.alive) {
        assert!(begun.elapsed() < Duration::from_secs(2), "a living child keeps its parent alive");
        std::thread::sleep(Duration::from_millis(10));
    }
    while index.get(key(2)).unwrap().is_none() {
        assert!(begun.elapsed() < Duration::from_mins(1), "the child did not use its handle");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(index.get(key(1)).unwrap().is_some());
}

#[test]
fn a_living_child_keeps_no_locks_of_its_killed_parent() {
    if is_alone("a_living_child_keeps_no_locks_of_its_killed_parent") {
        for place in [Place::shm, Place::tcp] {
            kill_a_parent(&place(), &any_length());
            let _ = Pool::remove_by_force("shm://forked");
        }
    }
}

/// Each generation uses the same handles.
#[test]
fn a_child_of_a_child_uses_inherited_handles() {
    if !is_alone("a_child_of_a_child_uses_inherited_handles") {
        return;
    }
    let place = Place::shm();
    let pool = Pool::open(&place.url).unwrap();
    let index = pool.create_index::<u64, u64>("x", &BTree::new()).unwrap();
    for generation in 1..=4 {
        index.put(generation, u64::from(std::process::id())).unwrap();
        if let Some(child) = sys::fork() {
            sys::expect_success(child);
            assert_eq!(index.count().unwrap(), 4);
            return;
        }
    }
    let processes: BTreeSet<u64> = index.iter().map(|entry| entry.unwrap().1).collect();
    assert_eq!(processes.len(), 4);
}

#[test]
fn an_anonymous_pool_is_refused_in_a_child() {
    if !is_alone("an_anonymous_pool_is_refused_in_a_child") {
        return;
    }
    let pool = Pool::anonymous(MEMORY_BYTES).unwrap();
    let index = pool.create_index::<u64, u64>("numbers", &BTree::new()).unwrap();
    index.put(1, 2).unwrap();
    let Some(child) = sys::fork() else {
        refused(index.put(1, 3));
        refused(index.get(1));
        refused(pool.stats());
        drop((index, pool));
        let own = Pool::anonymous(16 << 20).unwrap();
        own.create_index::<u64, u64>("numbers", &BTree::new()).unwrap().put(1, 4).unwrap();
        std::process::exit(0)
    };
    sys::expect_success(child);
    assert_eq!(index.get(1).unwrap(), Some(2));
    index.put(1, 5).unwrap();
    assert_eq!(pool.stats().unwrap().clients.len(), 1);
}

/// A child of a spatial server inherits its rings, its heartbeat and its lease.
#[test]
fn a_child_of_a_spatial_server_does_not_serve() {
    if !is_alone("a_child_of_a_spatial_server_does_not_serve") {
        return;
    }
    let place = Place::shm();
    let (served, pool) = (Pool::open(&place.url).unwrap(), Pool::open(&place.url).unwrap());
    let server = served.create_spatial("s", &RTree::new()).unwrap();
    let client = pool.open_spatial("s").unwrap();
    let (stop, ready) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let serving = scope
            .spawn(|| server.serve(&ServeOptions::default(), &stop, || ready.store(true, Ordering::Release)));
        while !ready.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        for id in 0..20 {
            let Some(child) = sys::fork() else {
                client.insert(&item(1000 + id)).unwrap();
                let serving = server.serve(&ServeOptions::default(), &AtomicBool::new(false), || ());
                assert_eq!(serving.unwrap_err().kind(), ErrorKind::Busy);
                sys::end_at_once();
            };
            client.insert(&item(id)).unwrap();
            sys::expect_success(child);
        }
        let forked_inside = client.change(|editor| {
            let Some(child) = sys::fork() else {
                refused(editor.insert(&item(100)));
                sys::end_at_once();
            };
            sys::expect_success(child);
            editor.insert(&item(101))
        });
        forked_inside.unwrap();
        stop.store(true, Ordering::Release);
        serving.join().unwrap().unwrap();
    });
    assert_eq!(client.count_all().unwrap(), 41);
    assert!(client.check().unwrap().problems.is_empty());
}

/// Forks while `session` has a connection, and while a search waits for its response.
fn fork_with_session(spatial: Spatial) {
    let session = Arc::new(spatial).session();
    let everything = Query::intersecting(Rectangle::new([-1.0; 2], [1e6; 2]).unwrap());
    block_on(session.insert(&item(1))).unwrap();
    for round in 2..12 {
        let mut waiting = Box::pin(session.count(&everything));
        let _ = waiting.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        let Some(child) = sys::fork() else {
            refused(block_on(waiting));
            refused(block_on(session.insert(&item(100))));
            refused(block_on(session.search(&everything)));
            drop(session);
            sys::end_at_once();
        };
        assert_eq!(block_on(waiting).unwrap(), round - 1);
        block_on(session.insert(&item(round))).unwrap();
        sys::expect_success(child);
        assert_eq!(block_on(session.count(&everything)).unwrap(), round);
    }
}

#[test]
fn a_child_is_refused_a_spatial_session() {
    if !is_alone("a_child_is_refused_a_spatial_session") {
        return;
    }
    served_over_tcp(&RTree::new(), |_, open| {
        fork_with_session(open(SearchMode::Message));
    });
    let scratch = SpatialPool::new();
    let pool = scratch.open();
    let places = pool.create_spatial("places", &RTree::new()).unwrap();
    let client = in_mode(scratch.open().open_spatial("places").unwrap(), SearchMode::Message);
    served(&places, &ServeOptions::default(), || fork_with_session(client));
}

/// The caller's code may fork in the middle of a call.
#[test]
fn a_call_in_which_the_process_forks_fails_in_the_child() {
    if !is_alone("a_call_in_which_the_process_forks_fails_in_the_child") {
        return;
    }
    let place = Place::shm();
    let pool = Pool::open(&place.url).unwrap();
    let spatial = pool.create_spatial("s", &RTree::new()).unwrap();
    // No other process serves the index: this one is its server during the change.
    let changed = spatial.change(|editor| {
        editor.insert(&item(1))?;
        let Some(child) = sys::fork() else {
            refused(editor.insert(&item(2)));
            return Ok(true);
        };
        sys::expect_success(child);
        editor.insert(&item(3)).map(|()| false)
    });
    match changed {
        Ok(is_child) => assert!(!is_child, "the child ended the change of its parent"),
        refusal => {
            refused(refusal);
            sys::end_at_once();
        }
    }
    assert_eq!(spatial.count_all().unwrap(), 2);
    let index = pool.create_index::<u64, u64>("x", &BTree::new()).unwrap();
    let mut child = None;
    let forks = |_| {
        child.get_or_insert_with(sys::fork);
    };
    let loaded = index.bulk_load().progress(forks).run((0..20_000).map(|number| (number, number)));
    let Some(child) = child.unwrap() else {
        refused(loaded);
        sys::end_at_once();
    };
    sys::expect_success(child);
    assert_eq!(loaded.unwrap(), 20_000);
    assert_eq!(index.check().unwrap().problems().len(), 0);
}

/// Some operations of the parent wait for their answers at the fork, others for locks.
#[test]
fn operations_in_progress_fail_in_the_child_and_continue_in_the_parent() {
    if !is_alone("operations_in_progress_fail_in_the_child_and_continue_in_the_parent") {
        return;
    }
    let place = Place::tcp();
    let pool = Pool::open(&place.url).unwrap();
    let index = pool.create_index::<u64, u64>("x", &BTree::new()).unwrap();
    let (session, child) = (index.session(), Cell::new(None));
    let writer = |me: u64| {
        let (session, child) = (&session, &child);
        Box::pin(async move {
            for round in 0..100 {
                // A fork of a process that waits for the answers of the other writers.
                if (me, round) == (7, 50) {
                    child.set(Some(sys::fork()));
                }
                session.put(&(round % 10), &me).await?;
            }
            Ok(())
        }) as Pin<Box<dyn Future<Output = farwood::Result<()>> + '_>>
    };
    let ended = run_all((0..16).map(writer).collect());
    let Some(child) = child.get().unwrap() else {
        let (whole, cut): (Vec<_>, Vec<_>) = ended.into_iter().partition(Result::is_ok);
        assert!(cut.len() > whole.len(), "{} of 16 ended in the child", whole.len());
        cut.into_iter().for_each(refused);
        return;
    };
    sys::expect_success(child);
    assert!(ended.iter().all(Result::is_ok), "{ended:?}");
    assert_eq!(index.count().unwrap(), 10);
    assert_eq!(index.check().unwrap().problems().len(), 0);
}

/// Answers like etcd, and sends the path of each request to `asked`.
fn answer_as_etcd(listener: &TcpListener, asked: &Sender<String>) {
    for stream in listener.incoming() {
        let mut stream = stream.unwrap();
        let mut text = String::new();
        // The body is one JSON object.
        while !text.ends_with('}') {
            let mut part = [0; 4096];
            let length = stream.read(&mut part).unwrap();
            text.push_str(std::str::from_utf8(&part[..length]).unwrap());
        }
        let what = text.split(' ').nth(1).unwrap_or_default().to_owned();
        let answer = r#"{"ID":"7","succeeded":true,"result":{"TTL":"10"}}"#;
        let head = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length";
        stream.write_all(format!("{head}: {}\r\n\r\n{answer}", answer.len()).as_bytes()).unwrap();
        let is_last = what.ends_with("revoke");
        asked.send(what).unwrap();
        if is_last {
            return;
        }
    }
}

#[test]
fn a_child_does_not_end_the_registration_of_its_parent_in_etcd() {
    if !is_alone("a_child_does_not_end_the_registration_of_its_parent_in_etcd") {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let etcd = format!("{}/pool", listener.local_addr().unwrap()).parse().unwrap();
    let (sender, asked) = channel();
    let server = std::thread::spawn(move || answer_as_etcd(&listener, &sender));
    let registrant = Registrant { etcd, node: 0, nodes: 1, address: "127.0.0.1:7470".parse().unwrap() };
    let registration = registrant.register(|_| ()).unwrap();
    let Some(child) = sys::fork() else {
        drop(registration);
        sys::end_at_once();
    };
    sys::expect_success(child);
    let before: Vec<String> = asked.try_iter().collect();
    assert!(before.iter().all(|what| !what.ends_with("revoke")), "{before:?}");
    assert!(before.iter().any(|what| what.ends_with("lease/grant")), "{before:?}");
    drop(registration);
    server.join().unwrap();
    assert!(asked.try_iter().any(|what| what.ends_with("revoke")), "the parent ends the registration");
}
