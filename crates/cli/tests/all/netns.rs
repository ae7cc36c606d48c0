//! Links that are cut or slow, and machines that become unreachable: memory node and compute node run in separate
//! network namespaces, joined by a veth pair.
//!
//! The tests need root, or CAP_NET_ADMIN and CAP_SYS_ADMIN, and `ip` and `tc` of iproute2
//! (`farwood_testkit::need`).

use farwood::{Error, Index, Pool};
use farwood_testkit::need;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The task of a process of this program in the compute node's namespace.
const ROLE: &str = "FARWOOD_NETNS_ROLE";
/// The client reports a memory node as lost that is silent for 10 s (`REPLY_MAX`) and that it cannot reconnect to
/// within 3 s; the other 2 s are for the test to notice.
const LOST_MAX: Duration = Duration::from_secs(15);
/// A compute node whose machine has failed counts as dead after 15 s; the rest is time for the check.
const GONE_MAX: Duration = Duration::from_secs(20);
const MEMORY: [&str; 2] = ["--memory", "64MiB"];

/// Two namespaces and the link between them; removed when dropped.
struct Link {
    server: String,
    client: String,
}

fn run(words: &[&str]) -> Result<(), String> {
    let output = Command::new(words[0]).args(&words[1..]).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{}: {error}", words[0]))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr).trim()))
}

impl Link {
    /// Creates a link, if the machine permits network namespaces.
    fn make() -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("fw{}x{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
        let link = Self { server: format!("{name}s"), client: format!("{name}c") };
        need::met(need::NETNS, link.set_up()).map(|()| link)
    }

    fn set_up(&self) -> Result<(), String> {
        let Self { server, client } = self;
        run(&["ip", "netns", "add", server])?;
        run(&["ip", "netns", "add", client])?;
        let peer = ["peer", "name", "veth0", "netns", client];
        run(&[&["ip", "link", "add", "veth0", "netns", server, "type", "veth"][..], &peer].concat())?;
        for (space, address) in [(server, "10.77.0.3/24"), (client, "10.77.0.2/24")] {
            run(&["ip", "-n", space, "addr", "add", address, "dev", "veth0"])?;
            run(&["ip", "-n", space, "link", "set", "lo", "up"])?;
            run(&["ip", "-n", space, "link", "set", "veth0", "up"])?;
        }
        // The memory node's address is its machine's own, so it stays reachable locally if the link fails.
        run(&["ip", "-n", server, "addr", "add", "10.77.0.1/32", "dev", "lo"])?;
        run(&["ip", "-n", client, "route", "add", "10.77.0.1", "via", "10.77.0.3"])
    }

    /// Takes the link down or up. While it is down, packets are lost without an error.
    fn set(&self, state: &str) {
        // The memory node's end goes down; the compute node's keeps its routes.
        run(&["ip", "-n", &self.server, "link", "set", "veth0", state]).unwrap();
    }

    /// A command in a namespace.
    fn command(space: &str, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", space, program]).stdin(Stdio::null());
        command
    }

    /// Starts a memory node; yields it when it listens.
    fn serve(&self) -> Process {
        let mut command = Self::command(&self.server, env!("CARGO_BIN_EXE_farwood"));
        command.args(["serve", "--listen", "tcp://10.77.0.1:7470", "--insecure"]).args(MEMORY);
        let mut node = Process::start(command);
        node.line("tcp://");
        node
    }

    /// Starts this program in the compute node's namespace with a role.
    fn play(&self, test: &str, role: &str) -> Process {
        let mut command = Self::command(&self.client, std::env::current_exe().unwrap().to_str().unwrap());
        command.args(["--exact", test, "--nocapture"]).env(ROLE, role);
        Process::start(command)
    }

    /// The number of connections that the memory node reports.
    fn connections(&self) -> u64 {
        let mut command = Self::command(&self.server, env!("CARGO_BIN_EXE_farwood"));
        let output = command.args(["stat", URL_POOL, "--json"]).output().unwrap();
        let stat: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        stat["nodes"][0]["connections"].as_u64().unwrap()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        for space in [&self.server, &self.client] {
            let _ = run(&["ip", "netns", "delete", space]);
        }
    }
}

/// A process in a namespace; killed when dropped. `ip netns exec` becomes the program, so it is that one.
struct Process {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Process {
    fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Self { child, out }
    }

    /// Waits for a line that begins so; yields the rest of it.
    fn line(&mut self, start: &str) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert!(self.out.read_line(&mut line).unwrap() > 0, "it ended before it said '{start}'");
            if let Some(rest) = line.strip_prefix(start) {
                return rest.trim().to_owned();
            }
        }
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const URL_POOL: &str = "tcp://10.77.0.1:7470";

fn say(line: &str) {
    // The output begins on a new line, because the test runner has begun a line.
    let mut out = std::io::stdout().lock();
    writeln!(out, "\n{line}").and_then(|()| out.flush()).unwrap();
}

fn create() -> Index<u64, u64> {
    let pool = Pool::open(URL_POOL).unwrap();
    pool.create_index("i", &farwood::BTree::new()).unwrap()
}

/// Puts until it fails; says how long that took, and why.
fn put_until_lost(index: &Index<u64, u64>) {
    let mut last = Instant::now();
    let error = loop {
        match index.put(1, 2) {
            Ok(_) => last = Instant::now(),
            Err(error) => break error,
        }
    };
    say(&format!("LOST {} {error}", last.elapsed().as_millis()));
    let lost = matches!(&error, Error::Index { .. } | Error::Fabric { .. });
    assert!(lost, "{error:?}");
}

/// The milliseconds and the words that a compute node prints after `LOST`.
fn lost(line: &str) -> (Duration, &str) {
    let (ms, words) = line.split_once(' ').unwrap();
    (Duration::from_millis(ms.parse().unwrap()), words)
}

#[test]
fn a_cut_link_is_reported_in_time_and_a_restored_one_is_used_again() {
    const TEST: &str = "netns::a_cut_link_is_reported_in_time_and_a_restored_one_is_used_again";
    if std::env::var(ROLE).is_ok() {
        let index = create();
        say("READY");
        put_until_lost(&index);
        let since = Instant::now();
        while index.get(1).is_err() {
            assert!(since.elapsed() < Duration::from_secs(59), "it does not come back");
            std::thread::sleep(Duration::from_millis(100));
        }
        assert_eq!(index.get(1).unwrap(), Some(2));
        say("BACK");
        return;
    }
    let Some(link) = Link::make() else { return };
    let _node = link.serve();
    let mut client = link.play(TEST, "cut");
    client.line("READY");
    std::thread::sleep(Duration::from_millis(200));
    link.set("down");
    let line = client.line("LOST ");
    let (took, words) = lost(&line);
    assert!(took < LOST_MAX, "{line}");
    assert!(words.contains("memory node 0 cannot be reached"), "{words}");
    link.set("up");
    client.line("BACK");
    assert!(client.child.wait().unwrap().success());
}

#[test]
fn a_slow_link_causes_no_error() {
    const TEST: &str = "netns::a_slow_link_causes_no_error";
    const RATE_BITS: u64 = 2_000_000;
    const KEYS: u64 = 300;
    if std::env::var(ROLE).is_ok() {
        let index = create();
        let start = Instant::now();
        for key in 0..KEYS {
            index.put(key, key * key).unwrap();
        }
        for key in 0..KEYS {
            assert_eq!(index.get(key).unwrap(), Some(key * key));
        }
        assert_eq!(index.count().unwrap(), KEYS);
        say(&format!("DONE {}", start.elapsed().as_millis()));
        return;
    }
    let Some(link) = Link::make() else { return };
    let _node = link.serve();
    // What the memory node sends; the burst lets a whole node of the tree pass.
    let rate = RATE_BITS.to_string();
    let shape =
        ["qdisc", "add", "dev", "veth0", "root", "tbf", "rate", &rate, "burst", "4kb", "latency", "400ms"];
    run(&[&["tc", "-n", &link.server], &shape[..]].concat()).unwrap();
    let mut client = link.play(TEST, "slow");
    let took = Duration::from_millis(client.line("DONE ").parse().unwrap());
    // Each get reads a node of 1 KiB, and so does each put.
    let least = Duration::from_millis(2 * KEYS * 1024 * 8 * 1000 / RATE_BITS * 8 / 10);
    assert!(took > least, "the link was not slow: {took:?}, {least:?}");
    assert!(client.child.wait().unwrap().success());
}

#[test]
fn a_compute_node_whose_machine_is_unreachable_counts_as_crashed_in_time() {
    const TEST: &str = "netns::a_compute_node_whose_machine_is_unreachable_counts_as_crashed_in_time";
    if std::env::var(ROLE).is_ok() {
        let index = create();
        index.put(1, 2).unwrap();
        say("READY");
        std::thread::sleep(Duration::from_secs(100));
        return;
    }
    let Some(link) = Link::make() else { return };
    let _node = link.serve();
    let mut client = link.play(TEST, "vanish");
    client.line("READY");
    let alone = {
        let with = link.connections();
        assert!(with >= 4, "the client's two, and those of who asks: {with}");
        with - 2
    };
    // From now on nothing of the client arrives, not even its end.
    link.set("down");
    client.kill();
    let since = Instant::now();
    while link.connections() > alone {
        assert!(since.elapsed() < GONE_MAX, "its connections are still there");
        std::thread::sleep(Duration::from_millis(500));
    }
    assert!(
        since.elapsed() > Duration::from_secs(2),
        "a machine that is silent for a moment is not considered crashed"
    );
}

#[test]
fn a_memory_node_that_restarts_with_fresh_memory_is_not_used() {
    const TEST: &str = "netns::a_memory_node_that_restarts_with_fresh_memory_is_not_used";
    if std::env::var(ROLE).is_ok() {
        let index = create();
        say("READY");
        put_until_lost(&index);
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).unwrap();
        let since = Instant::now();
        // Once the client has reconnected, the error states that the memory node has fresh memory.
        loop {
            let error = index.get(1).expect_err("what the pool had there is lost");
            if error.to_string().contains("fresh memory") {
                break;
            }
            assert!(since.elapsed() < LOST_MAX, "{error}");
            std::thread::sleep(Duration::from_millis(100));
        }
        say("REFUSED");
        // It cannot leave a pool that no longer exists, and the attempt fails immediately.
        return;
    }
    let Some(link) = Link::make() else { return };
    let node = link.serve();
    let mut command = Link::command(&link.client, std::env::current_exe().unwrap().to_str().unwrap());
    command.args(["--exact", TEST, "--nocapture"]).env(ROLE, "half-open").stdin(Stdio::piped());
    let mut client = Process::start(command);
    client.line("READY");
    // The compute node is killed while its link is down: its connections stay half-open at the compute node.
    link.set("down");
    node.kill();
    let line = client.line("LOST ");
    assert!(lost(&line).0 < LOST_MAX, "{line}");
    link.set("up");
    let _fresh = link.serve();
    writeln!(client.child.stdin.take().unwrap(), "go on").unwrap();
    client.line("REFUSED");
    assert!(client.child.wait().unwrap().success());
}
