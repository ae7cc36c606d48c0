//! File systems that are full or read-only. The tests mount small ones, in their own mount namespaces.

use crate::machine::{Machine, Ran};
use farwood_testkit::need;
use std::process::Command;

/// Runs a command of `farwood` in a mount namespace in which `small` in the machine's directory is a file system of
/// 1 MiB. `prepare` is a shell command that runs before, in that directory. `None`: this machine does not permit it.
fn run(machine: &Machine, prepare: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Option<Ran> {
    std::fs::create_dir_all(machine.path().join("small")).unwrap();
    let script = format!("mount -t tmpfs -o size=1M tmpfs small && (cd small && {prepare}) && exec \"$@\"");
    let inner = machine.command(arguments);
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script, "sh"]).arg(inner.get_program()).args(inner.get_args());
    command.current_dir(machine.path()).env("FARWOOD_SHM_DIR", machine.path());
    command.envs(variables.iter().copied());
    let permitted = Command::new("unshare").args(["--mount", "true"]).output();
    need::met(
        need::ROOT,
        permitted.map_err(|error| error.to_string()).and_then(|output| {
            let why = || String::from_utf8_lossy(&output.stderr).into_owned();
            if output.status.success() { Ok(()) } else { Err(why()) }
        }),
    )?;
    Some(Ran::of(command.output().unwrap()))
}

const READ_ONLY: &str = "mkdir folder && mount -o remount,ro .";
const SERVE: [&str; 5] = ["serve", "--listen", "tcp://127.0.0.1:0", "--memory", "16MiB"];

#[test]
fn a_memory_node_on_a_full_or_read_only_file_system_names_the_cause_and_the_remedy() {
    let machine = Machine::new();
    for (prepare, file, code, words) in [
        ("true", "small/node", 5, ["No space left", "free some, name a file on another file system"]),
        (READ_ONLY, "small/node", 6, ["Read-only file system", "mount this one read-write"]),
        (READ_ONLY, "small/none/node", 2, ["No such file or directory", "create the directory of the file"]),
        (READ_ONLY, "small/folder", 2, ["Is a directory", "name a file in the directory"]),
    ] {
        let Some(ran) = run(&machine, prepare, &[&SERVE[..], &["--file", file]].concat(), &[]) else {
            return;
        };
        assert_eq!(ran.code, code, "{prepare}: {ran:?}");
        ran.says(&["serve: --file: ", file]);
        ran.says(&words);
    }
}

#[test]
fn a_pool_on_a_full_or_read_only_file_system_names_the_cause_and_the_remedy() {
    let machine = Machine::new();
    let create = ["create", "shm://p", "--memory", "16MiB", "--nodes", "2"];
    for (prepare, folder, code, words) in [
        ("true", "small", 5, ["not enough memory", "mount -o remount,size"]),
        (READ_ONLY, "small", 6, ["its file system is read-only", "FARWOOD_SHM_DIR"]),
        (READ_ONLY, "small/none", 2, ["No such file or directory", "create the directory of segments"]),
    ] {
        let Some(ran) = run(&machine, prepare, &create, &[("FARWOOD_SHM_DIR", folder)]) else { return };
        assert_eq!(ran.code, code, "{prepare}: {ran:?}");
        ran.says(&["create: "]);
        ran.says(&words);
        assert!(!ran.err.contains("not permitted to remove"), "{ran:?}");
    }
}

#[test]
fn a_demo_on_a_read_only_file_system_is_refused_at_once() {
    let machine = Machine::new();
    let Some(ran) = run(&machine, READ_ONLY, &["demo", "--seconds", "3600", "--out", "small/x"], &[]) else {
        return;
    };
    assert_eq!(ran.code, 6, "{ran:?}");
    ran.says(&["demo: --out: cannot create small/x", "name a path on a file system that can be written"]);
}
