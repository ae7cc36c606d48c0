//! Progress bars: the commands that report their progress, with a terminal as stderr.

use crate::machine::{Machine, lines};
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::fs::File;
use std::io::Read as _;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

/// Far more than any command here needs.
const PATIENCE: Duration = Duration::from_mins(1);

/// Columns and rows of the terminals: an ordinary one, and a serial console, which does not report its size.
const SIZES: [(u16, u16); 2] = [(80, 24), (0, 0)];

/// Runs a command that must succeed, with a terminal as stderr; yields everything that was written to the terminal.
fn on_terminal(mut command: Command, (columns, rows): (u16, u16)) -> String {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let theirs = rustix::fs::open(ptsname(&ours, Vec::new()).unwrap(), flags, Mode::empty()).unwrap();
    tcsetwinsize(&ours, Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();

    command.env("TERM", "xterm").stdout(Stdio::null()).stderr(Stdio::from(theirs));
    let mut child = command.spawn().unwrap();
    // Closes the last handle of the other end in this process, so that reading ends when the child exits.
    drop(command);
    let told = told_to(File::from(ours));
    let Ok(told) = told.recv_timeout(PATIENCE) else {
        child.kill().unwrap();
        panic!("on a terminal of {columns} columns, it is stuck");
    };
    assert!(child.wait().unwrap().success(), "{told}");
    told
}

/// Everything that is written to the other end of a terminal until all processes have closed it.
fn told_to(mut terminal: File) -> Receiver<String> {
    let (done, told) = channel();
    thread::spawn(move || {
        let mut all = Vec::new();
        let mut some = [0; 4096];
        // A terminal without another end is an error to read on Linux, and the end of a file elsewhere.
        while let Ok(read @ 1..) = terminal.read(&mut some) {
            all.extend_from_slice(&some[..read]);
        }
        done.send(String::from_utf8_lossy(&all).into_owned())
    });
    told
}

#[test]
fn load_and_check_show_their_progress() {
    let machine = Machine::with_index();
    machine.ok(&["create", "shm://p/boxes", "--index", "catfish"]);
    let keys = machine.file("keys.tsv", lines((0..10_000).map(|key| format!("{key}\t{key}"))));
    let boxes = machine.file("boxes.csv", lines((0..10_000).map(|at| format!("{at},{at},{at},{at}"))));
    for size in SIZES {
        // Only the load of an empty index is in bulk.
        machine.ok(&["drop", "shm://p/i"]);
        machine.ok(&["create", "shm://p/i"]);
        for (url, file) in [("shm://p/i", &keys), ("shm://p/boxes", &boxes)] {
            let told = on_terminal(machine.command(&["load", url, file]), size);
            let written = if url == "shm://p/i" { "/10000 entries" } else { "writing" };
            for words in ["KiB/", " 10000 ", written] {
                assert!(told.contains(words), "{size:?}, load {url}, {words}: {told:?}");
            }
            let told = on_terminal(machine.command(&["check", url]), size);
            assert!(told.contains("checking the index"), "{size:?}, check {url}: {told:?}");
        }
    }
}

#[test]
fn put_reports_on_a_terminal_whether_the_key_is_new() {
    let machine = Machine::with_index();
    let put = || on_terminal(machine.command(&["put", "shm://p/i", "1", "2"]), SIZES[0]);
    assert!(put().contains("added the key '1'"));
    assert!(put().contains("replaced the value of the key '1'"));
    assert_eq!(machine.run(&["put", "shm://p/i", "1", "2"]).err, "");
}

#[test]
fn bench_shows_its_progress() {
    let machine = Machine::new();
    let bench =
        ["bench", "--fabric", "shm", "--keys", "1k", "--operations", "1k", "--clients", "1", "--warmup", "0"];
    for size in SIZES {
        let told = on_terminal(machine.command(&bench), size);
        assert!(told.contains("loading"), "{size:?}: {told:?}");
    }
}
