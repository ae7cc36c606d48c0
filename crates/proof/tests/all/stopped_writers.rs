//! A process that is stopped (SIGSTOP) in the middle of a write-back over shared memory, while it holds the lock of the
//! node: other processes neither report damage nor get a wrong answer, and the process completes its put after SIGCONT.
//!
//! The fabric of the stopped process executes the beginning of one WRITE, and stops itself. After SIGCONT it executes
//! the whole post.

use farwood_fabric::{Address, Client, Doorbell, Fabric, FabricError, Op, Remote, Words, write};
use farwood_index::IndexError;
use farwood_index::consistency::Consistency;
use farwood_index::ordered::{Entries, Ordered, OrderedConfig};
use farwood_index::sherman::layout::Sizes;
use farwood_index::sherman::{Direction, Range, ShermanConfig, ShermanVariant};
use farwood_index::{smart, sphinx};
use farwood_proof::children::rerun;
use farwood_proof::hooked::{Hooked, PostHook};
use farwood_proof::shm::{Shm, attach};
use farwood_transport::runtime::block_on;
use farwood_transport::shm::ShmFabric;
use std::cell::Cell;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const CHILD: &str = "FARWOOD_STOP_CHILD";
const CACHE_BYTES: usize = 64 << 10;
/// The shortest WRITE that is interrupted, bytes: longer than an unlock.
const WRITE_BYTES_MIN: usize = 24;
/// Its bytes that are stored before the process stops: at most a version or hash and a key, and no value.
const INTERRUPTED_BYTES: usize = 16;
/// The keys of the index. The stopped process changes the first one.
const KEYS: u64 = 20;
const VALUE_BYTES: usize = 64;

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

fn value(version: u8) -> [u8; VALUE_BYTES] {
    [version; VALUE_BYTES]
}

/// Stops the process in the middle of the next long WRITE, once armed.
struct StopInWrite {
    armed: Cell<bool>,
}

/// The address and the first bytes of the first long WRITE of a post.
fn beginning(doorbell: &Doorbell) -> Option<(Address, &[u8])> {
    doorbell.requests().iter().find_map(|request| match &request.op {
        Op::Write { data, .. } if data.len() >= WRITE_BYTES_MIN => {
            Some((request.at, &doorbell.payload()[data.clone()][..INTERRUPTED_BYTES]))
        }
        _ => None,
    })
}

impl<F: Fabric> PostHook<F> for StopInWrite {
    async fn submit(&self, fabric: &F, doorbell: Doorbell) -> Result<Doorbell, FabricError> {
        if self.armed.get()
            && let Some((at, beginning)) = beginning(&doorbell)
        {
            self.armed.set(false);
            Client::new(fabric).post(write(Remote::<Words>::at(at), beginning)).await?;
            signal(std::process::id(), "STOP");
            // Another thread may receive the signal, and stops this one a moment later.
            std::thread::sleep(Duration::from_secs(1));
        }
        fabric.submit(doorbell).await
    }
}

fn signal(process: u32, name: &str) {
    let sent = Command::new("kill").args([format!("-{name}"), process.to_string()]).status().unwrap();
    assert!(sent.success());
}

/// Runs a child: it stops itself in the middle of a put.
fn child(path: &Path) {
    let pool = attach(path);
    let hook = StopInWrite { armed: Cell::new(false) };
    let client = Client::new(Hooked { fabric: pool.fabric(), hook });
    let tree = block_on(Ordered::open(&client, "stop", CACHE_BYTES)).unwrap();
    assert_eq!(block_on(tree.get(&client, &key(0))).unwrap().as_deref(), Some(&value(1)[..]));
    client.fabric().hook.armed.set(true);
    block_on(tree.put(&client, &key(0), &value(2))).expect("a put after SIGCONT");
    assert!(!client.fabric().hook.armed.get(), "the put has no WRITE that can be interrupted");
    drop(tree);
    let mut out = std::io::stdout().lock();
    writeln!(out, "stored").unwrap();
}

/// The state of a process in `/proc`: `T` is stopped.
fn state(process: u32) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let (_, after_name) = stat.rsplit_once(')').unwrap();
    after_name.trim_start().chars().next().unwrap()
}

/// A process that stops itself; killed on drop.
struct Stopped(Child);

impl Stopped {
    /// Starts the child of the test `test`, and waits until it has stopped.
    fn start(test: &str, path: &Path) -> Self {
        let mut command = rerun(module_path!(), test);
        let mut child = Self(command.env(CHILD, path).stdout(Stdio::piped()).spawn().unwrap());
        let deadline = Instant::now() + Duration::from_secs(20);
        while state(child.0.id()) != 'T' {
            assert!(Instant::now() < deadline && child.0.try_wait().unwrap().is_none(), "it does not stop");
            std::thread::sleep(Duration::from_millis(2));
        }
        child
    }

    /// Continues it, and waits until it has stored its value and ended.
    fn go_on(mut self) {
        signal(self.0.id(), "CONT");
        let mut lines = Vec::new();
        lines.extend(BufReader::new(self.0.stdout.take().unwrap()).lines().map_while(Result::ok));
        assert!(
            self.0.wait().unwrap().success() && lines.iter().any(|line| line.ends_with("stored")),
            "{lines:?}"
        );
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whether an operation that did not end because of the stopped process says so.
fn is_busy(error: &IndexError) -> bool {
    matches!(error, IndexError::LockHeld { .. } | IndexError::Exhausted { .. })
}

/// Reads everything while the writer is stopped.
fn read_beside(tree: &Ordered, client: &Client<ShmFabric>) {
    for number in 0..KEYS {
        match block_on(tree.get(client, &key(number))) {
            Ok(found) => assert_eq!(found.as_deref(), Some(&value(1)[..]), "key {number}"),
            Err(error) => assert!(is_busy(&error), "key {number}: {error}"),
        }
    }
    let mut found = Entries::new();
    match block_on(tree.scan(client, Range::default(), Direction::Forward, usize::MAX, &mut found)) {
        Ok(()) => assert!(found.len() as u64 == KEYS && found.iter().all(|(_, stored)| stored == value(1))),
        Err(error) => assert!(is_busy(&error), "scan: {error}"),
    }
}

/// The test with an index of that configuration.
fn check(test: &str, config: OrderedConfig) {
    if let Ok(path) = std::env::var(CHILD) {
        return child(Path::new(&path));
    }
    let shm = Shm::new();
    let client = shm.pool().client();
    let tree = block_on(Ordered::create(&client, "stop", config, CACHE_BYTES)).expect("a tree is created");
    for number in 0..KEYS {
        block_on(tree.put(&client, &key(number), &value(1))).expect("a put");
    }
    let writer = Stopped::start(test, shm.path());
    read_beside(&tree, &client);
    writer.go_on();
    assert_eq!(block_on(tree.get(&client, &key(0))).unwrap().as_deref(), Some(&value(2)[..]));
    block_on(tree.put(&client, &key(0), &value(3))).expect("a put after the writer");
    assert_eq!(block_on(tree.walk(&client)).unwrap().problems(), []);
}

fn sherman(consistency: Consistency, variant: ShermanVariant) -> OrderedConfig {
    OrderedConfig::Sherman(ShermanConfig {
        sizes: Sizes { key_bytes: 8, value_bytes: VALUE_BYTES, node_bytes: 4096 },
        consistency: Some(consistency),
        options: variant.features(),
        ..ShermanConfig::default()
    })
}

#[test]
fn a_stopped_writer_of_sherman_is_not_damage() {
    let config = sherman(Consistency::Checksum, ShermanVariant::RECOMMENDED);
    check("a_stopped_writer_of_sherman_is_not_damage", config);
}

#[test]
fn a_stopped_writer_of_sherman_with_versions_is_not_damage() {
    let config = sherman(Consistency::Versions, ShermanVariant::RECOMMENDED);
    check("a_stopped_writer_of_sherman_with_versions_is_not_damage", config);
}

/// Its leaves are written as a whole.
#[test]
fn a_stopped_writer_of_sorted_leaves_is_not_damage() {
    check(
        "a_stopped_writer_of_sorted_leaves_is_not_damage",
        sherman(Consistency::Checksum, ShermanVariant::Fg),
    );
}

#[test]
fn a_stopped_writer_of_smart_is_not_damage() {
    let config = OrderedConfig::Smart(smart::SmartConfig::default());
    check("a_stopped_writer_of_smart_is_not_damage", config);
}

#[test]
fn a_stopped_writer_of_overflow_values_is_not_damage() {
    let config = smart::SmartConfig { inline_bytes: 12, ..smart::SmartConfig::default() };
    check("a_stopped_writer_of_overflow_values_is_not_damage", OrderedConfig::Smart(config));
}

#[test]
fn a_stopped_writer_of_sphinx_is_not_damage() {
    let config = OrderedConfig::Sphinx(sphinx::SphinxConfig::default());
    check("a_stopped_writer_of_sphinx_is_not_damage", config);
}
