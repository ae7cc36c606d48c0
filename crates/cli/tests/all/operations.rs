//! The commands of `docs/operations.md`, in their order.

use crate::machine::{Machine, Ran};
use crate::serve::unused_address;
use std::path::Path;

const OPERATIONS: &str = include_str!("../../../../docs/operations.md");

/// The blocks of commands of a page.
fn blocks(page: &str) -> Vec<&str> {
    page.split("```sh\n").skip(1).filter_map(|rest| rest.split_once("```")).map(|(block, _)| block).collect()
}

#[test]
fn the_commands_of_the_operations_page_run() {
    let (machine, disk) = (Machine::new(), Machine::on_disk());
    let blocks = blocks(OPERATIONS);
    assert!(blocks.len() > 8, "{blocks:?}");
    let folder = Path::new(env!("CARGO_BIN_EXE_farwood")).parent().unwrap();
    // The ports of the page may be in use.
    let addresses = [unused_address(), unused_address()];
    let [first, second] = addresses.each_ref().map(|address| address.trim_start_matches("tcp://"));
    for block in blocks {
        let block = block.replace("127.0.0.1:7470", first).replace("127.0.0.1:7471", second);
        let block = block.replace("/var/lib/pools", disk.path().to_str().unwrap());
        let mut shell = std::process::Command::new("sh");
        shell.args(["-e", "-c", &block]).current_dir(machine.path());
        shell.env("FARWOOD_SHM_DIR", machine.path()).env("HOME", machine.path());
        let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
        let ran = Ran::of(shell.env("PATH", path).output().unwrap());
        assert_eq!(ran.code, 0, "{block}{ran:?}");
        if block.contains("scan shm://demo/words") {
            assert!(ran.out.contains("ant\t1\nbee\t2\ncat\t3\n"), "{block}{ran:?}");
        }
    }
    assert_eq!(machine.ok(&["doctor", "--json"]).matches("shm://").count(), 0);
}
