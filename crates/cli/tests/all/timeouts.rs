//! The option `--timeout`: commands that wait for a memory node or a lock end.

use crate::machine::Machine;
use crate::serve::Served;
use crate::waiting::{rerun, stop};
use std::io::{BufRead as _, BufReader, Lines, Read as _, Write as _};
use std::process::{Child, ChildStdout, Stdio};

/// Commands that each make one call of the index at `url`.
fn commands(url: &str) -> [Vec<&str>; 6] {
    [
        vec!["get", url, "1"],
        vec!["get", url, "1", "2"],
        vec!["put", url, "1", "2"],
        vec!["del", url, "1"],
        vec!["incr", url, "1"],
        vec!["scan", url],
    ]
}

#[test]
fn a_command_that_opens_an_index_of_a_stopped_memory_node_ends() {
    let machine = Machine::new();
    let node = Served::start(&machine);
    let url = format!("{}/i", node.url);
    machine.ok(&["create", &url]);
    machine.ok(&["put", &url, "1", "10", "--timeout", "20"]);
    stop(&node.process_number().to_string());
    for command in commands(&url) {
        let command = [&command[..], &["--timeout", "0.3"]].concat();
        machine.refused(9, &command, &["did not end within 300ms", "nothing was changed", "--timeout"]);
    }
    node.signal("-CONT");
    assert_eq!(machine.ok(&["get", &url, "1", "--timeout", "20"]), "10\n");
}

/// The variable that tells a child process to hold a lock.
const HOLDS: &str = "FARWOOD_TEST_HOLDS";

/// Holds the lock of the leaf of key 1 until stdin ends.
#[test]
fn a_process_holds_a_lock() {
    let Ok(url) = std::env::var(HOLDS) else { return };
    let index = farwood::Pool::open(&url).unwrap().open_index::<u64, u64>("i").unwrap();
    let hold = |value: Option<&u64>| {
        writeln!(std::io::stdout(), "\nheld").unwrap();
        std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
        value.copied()
    };
    index.fetch_update(1, hold).unwrap();
}

#[test]
fn a_change_that_waits_for_a_lock_ends_and_states_its_effect() {
    let machine = Machine::with_index();
    machine.ok(&["put", "shm://p/i", "1", "10"]);
    let mut holder = rerun("timeouts::a_process_holds_a_lock");
    holder.env(HOLDS, "shm://p").env("FARWOOD_SHM_DIR", machine.path());
    let mut holder = holder.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(holder.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line == "held"));
    for command in
        [&["put", "shm://p/i", "1", "2"][..], &["incr", "shm://p/i", "1"], &["del", "shm://p/i", "1"]]
    {
        let words =
            [&format!("farwood: {} shm://p/i", command[0]), "did not end within 300ms", "may have been"];
        machine.refused(9, &[command, &["--timeout", "0.3"]].concat(), &words);
    }
    assert_eq!(machine.ok(&["get", "shm://p/i", "1", "--timeout", "20"]), "10\n", "a lookup needs no lock");
    drop(holder.stdin.take());
    assert!(holder.wait().unwrap().success());
    assert_eq!(machine.ok(&["incr", "shm://p/i", "1", "--timeout", "20"]), "11\n");
}

/// The variable that tells a child process to count the clients of a pool.
const COUNTS: &str = "FARWOOD_TEST_COUNTS";

/// Prints the number of clients of the pool, itself included, for each line of stdin.
#[test]
fn a_process_counts_clients() {
    let Ok(url) = std::env::var(COUNTS) else { return };
    let pool = farwood::Pool::open(&url).unwrap();
    for _ in std::io::stdin().lines() {
        writeln!(std::io::stdout(), "\nclients {}", pool.stats().unwrap().clients.len()).unwrap();
    }
}

/// A process that stays attached to the pool. Any other process that attaches would take the slot of a crashed one.
struct Watcher {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Watcher {
    fn start(machine: &Machine) -> Self {
        let mut process = rerun("timeouts::a_process_counts_clients");
        process.env(COUNTS, "shm://p").env("FARWOOD_SHM_DIR", machine.path());
        let mut process = process.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut watcher = Self { process, lines };
        assert_eq!(watcher.clients(), 1);
        watcher
    }

    fn clients(&mut self) -> usize {
        writeln!(self.process.stdin.as_ref().unwrap()).unwrap();
        let mut lines = self.lines.by_ref().map_while(Result::ok);
        lines.find_map(|line| line.strip_prefix("clients ")?.parse().ok()).expect("the process answers")
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

#[test]
fn commands_with_time_enough_do_what_they_do_without_a_limit() {
    let machine = Machine::with_index();
    let mut watcher = Watcher::start(&machine);
    for command in commands("shm://p/i") {
        let with = machine.run(&[&command[..], &["--timeout", "60"]].concat());
        assert!(with.code <= 1 && !with.err.contains("did not end"), "{command:?}: {with:?}");
        assert_eq!(watcher.clients(), 1, "{command:?} has left the pool");
    }
}

#[test]
fn limits_that_are_no_durations_are_refused() {
    let machine = Machine::with_index();
    for limit in ["0", "-1", "2s", "inf", ""] {
        machine.refused(2, &["get", "shm://p/i", "1", "--timeout", limit], &["--timeout", "give"]);
    }
    machine.ok(&["create", "shm://p/s", "--index", "catfish", "--ids", "number"]);
    for command in
        [&["get", "shm://p/s", "1"][..], &["put", "shm://p/s", "1", "2,3"], &["del", "shm://p/s", "1"]]
    {
        machine.refused(2, &[command, &["--timeout", "2"]].concat(), &["--timeout applies to keys"]);
    }
    machine.file("farwood.toml", "[put]\ntimeout = 30\n");
    machine.ok(&["put", "shm://p/s", "1", "2,3"]);
    machine.ok(&["put", "shm://p/i", "1", "2"]);
}
