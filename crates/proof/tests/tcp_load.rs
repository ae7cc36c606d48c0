//! A little of the load that `cargo run --release -p farwood-proof --example load` puts on memory nodes for minutes.

use farwood_proof::load::{Load, play};
use std::io::Write as _;
use std::process::Command;

#[test]
fn under_load_with_clients_killed_nothing_is_wrong_lost_or_left() {
    const NAME: &str = "under_load_with_clients_killed_nothing_is_wrong_lost_or_left";
    if play() {
        return;
    }
    let folder = std::env::temp_dir().join(format!("farwood-load-test-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let program = || {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", NAME, "--nocapture"]);
        command
    };
    let report = Load { seconds: 8, processes: 3, clients: 3, seed: 1 }.run(&program, &folder);
    let _ = writeln!(std::io::stderr(), "{report}");
    report.expect_flat();
    assert!(report.kills > 5 && report.operations > 2_000, "{report}");
    std::fs::remove_dir_all(&folder).unwrap();
}
