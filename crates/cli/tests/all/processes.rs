//! Several processes at once, and processes that crash.

use crate::machine::{Machine, lines};
use std::io::Write as _;
use std::process::{Child, ChildStdin, Stdio};
use std::time::{Duration, Instant};

#[test]
fn four_processes_put_at_once() {
    let machine = Machine::with_index();
    let start = |process: u64| {
        let mut command =
            machine.command(&["load", "shm://p/i", "-", "--sort-memory", "0", "--format", "csv"]);
        let mut child = command.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        // The keys of the processes alternate, so the processes contend for every leaf.
        for number in 0..2_000 {
            writeln!(input, "{},{}", number * 4 + process, process).unwrap();
        }
        child
    };
    let mut children: Vec<_> = (0..4).map(start).collect();
    assert!(children.iter_mut().all(|child| child.wait().unwrap().success()));
    let found = machine.ok(&["scan", "shm://p/i"]);
    let expected = lines((0..8_000).map(|key| format!("{key}\t{}", key % 4)));
    assert!(found == expected, "an entry is missing or wrong");
    assert_eq!(machine.run(&["check", "shm://p/i"]).code, 0);
}

#[test]
fn a_load_from_a_removed_pool_does_not_promise_that_its_entries_remain() {
    let machine = Machine::with_index();
    let mut command = machine.command(&["load", "shm://p/i", "-", "--sort-memory", "0", "--format", "csv"]);
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    // The command reads a pipe in blocks.
    let rows = lines((0..20_000).map(|key| format!("{key},{key}")));
    input.write_all(rows.as_bytes()).unwrap();
    let start = Instant::now();
    while machine.run(&["get", "shm://p/i", "5"]).code != 0 {
        assert!(start.elapsed() < Duration::from_secs(30));
    }
    machine.ok(&["drop", "shm://p", "--force"]);
    // The load ends before it has read these.
    let _ = (0..100).try_for_each(|_| {
        std::thread::sleep(Duration::from_millis(20));
        input.write_all(rows.as_bytes())
    });
    drop(input);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(8), "{said}");
    assert!(said.contains("unless the pool has lost their memory"), "{said}");
    assert!(!said.contains("remain in the index"), "{said}");
}

#[test]
fn four_commands_put_at_once() {
    let machine = Machine::with_index();
    for round in 0..10u64 {
        let put = |process: u64| {
            let key = (round * 4 + process).to_string();
            machine.command(&["put", "shm://p/i", &key, &key]).spawn().unwrap()
        };
        let mut children: Vec<_> = (0..4).map(put).collect();
        assert!(children.iter_mut().all(|child| child.wait().unwrap().success()));
    }
    assert_eq!(machine.ok(&["scan", "shm://p/i"]).lines().count(), 40);
}

#[test]
fn one_of_four_creators_succeeds() {
    let machine = Machine::new();
    let create = |_| {
        let mut command = machine.command(&["create", "shm://p/i", "--memory", "32MiB", "--nodes", "2"]);
        command.stderr(Stdio::null()).spawn().unwrap()
    };
    let mut children: Vec<_> = (0..4).map(create).collect();
    let codes: Vec<_> = children.iter_mut().map(|child| child.wait().unwrap().code().unwrap()).collect();
    assert_eq!(codes.iter().filter(|&&code| code == 0).count(), 1, "{codes:?}");
    assert!(codes.iter().all(|code| [0, 3, 4, 9].contains(code)), "{codes:?}");
    machine.ok(&["stat", "shm://p/i"]);
}

/// A process that has `shm://p/i` open and waits for its input, killed when the test ends.
struct Resident {
    child: Child,
    /// This pipe is kept open, so that the process waits for more input.
    _input: ChildStdin,
}

impl Resident {
    fn start(machine: &Machine) -> Self {
        let mut command = machine.command(&["load", "shm://p/i", "-", "--sort-memory", "0"]);
        let mut child = command.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let resident = Self { child, _input: input };
        let process = resident.process();
        let end = Instant::now() + Duration::from_secs(20);
        while !machine.ok(&["stat", "shm://p"]).contains(&format!("process {process}, alive, open: i")) {
            assert!(Instant::now() < end, "the process does not open the index");
            std::thread::sleep(Duration::from_millis(5));
        }
        resident
    }

    fn process(&self) -> String {
        self.child.id().to_string()
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Resident {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_pool_or_index_that_a_live_process_uses_is_not_dropped() {
    let machine = Machine::with_index();
    let resident = Resident::start(&machine);
    let process = resident.process();
    machine.refused(9, &["drop", "shm://p/i"], &["drop shm://p/i", "has the index 'i' open"]);
    machine.refused(9, &["drop", "shm://p"], &[&process, "--force"]);
    assert!(machine.ok(&["doctor"]).contains(&format!("attached: {process}")));
    machine.ok(&["drop", "shm://p", "--force"]);
    machine.refused(3, &["stat", "shm://p"], &["no pool"]);
}

#[test]
fn crashed_processes_are_reported_and_swept_and_block_no_command() {
    let machine = Machine::with_index();
    let mut residents = [Resident::start(&machine), Resident::start(&machine)];
    residents.iter_mut().for_each(Resident::kill);
    // The next client takes the lowest slot. A crashed process had it, unless a `stat` occupied it each time that one
    // of the processes attached.
    let stat = machine.ok(&["stat", "shm://p"]);
    let gone = residents.iter().filter(|dead| stat.contains(&format!("process {}, crashed", dead.process())));
    let crashed = gone.count();
    assert!([1, 2].contains(&crashed), "{stat}");
    let report = machine.ok(&["doctor"]);
    let found = format!("crashed clients: {crashed};");
    assert!(report.contains(&found) && report.contains("farwood doctor --sweep"), "{report}");
    let swept = machine.ok(&["doctor", "--sweep"]);
    assert!(
        swept.contains(&format!("freed the slots of {crashed}")) && swept.contains("no problems found"),
        "{swept}"
    );
    Resident::start(&machine).kill();
    machine.ok(&["drop", "shm://p/i"]);
    machine.ok(&["drop", "shm://p"]);
}
