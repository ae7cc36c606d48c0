//! Runs clients on memory nodes over TCP at full load, kills and starts clients at random, and prints a report.
//!
//! `cargo run --release -p farwood-proof --example load -- [--index sherman] [--seconds 300] [--processes 4]
//! [--clients 4] [--seed 1]`
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program that reports")]

use farwood_index::ordered::System;
use farwood_proof::load::{Load, run_child};
use std::process::{Command, ExitCode};

const HELP: &str = "\
Puts full load on two memory nodes over TCP, while client processes are killed, leave and start at random. Checks every
answer, and at the end that no lock is held and that the memory of the memory nodes has not grown.

Usage: load [--index NAME] [--seconds N] [--processes N] [--clients N] [--seed N]

  --index NAME    sherman, smart or sphinx [default: sherman]
  --seconds N     duration [default: 300]
  --processes N   client processes that run at the same time [default: 4]
  --clients N     clients in each process [default: 4]
  --seed N        seed of all random draws [default: 1]
";

fn parse(words: &[String]) -> Option<Load> {
    let mut load = Load { system: System::Sherman, seconds: 300, processes: 4, clients: 4, seed: 1 };
    for pair in words.chunks(2) {
        let [flag, number] = pair else { return None };
        if flag == "--index" {
            load.system = number.parse().ok()?;
            continue;
        }
        let number = number.parse::<u64>().ok()?;
        match &flag[..] {
            "--seconds" => load.seconds = number,
            "--processes" => load.processes = number.max(1),
            "--clients" => load.clients = number.max(1),
            "--seed" => load.seed = number,
            _ => return None,
        }
    }
    Some(load)
}

fn main() -> ExitCode {
    if run_child() {
        return ExitCode::SUCCESS;
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    let Some(load) = parse(&words) else {
        eprint!("{HELP}");
        return ExitCode::from(2);
    };
    let folder = std::env::temp_dir().join(format!("farwood-load-{}", std::process::id()));
    std::fs::create_dir(&folder).expect("a folder is created");
    let program = || Command::new(std::env::current_exe().expect("the path of this program"));
    let report = load.run(&program, &folder);
    println!("{report}");
    report.expect_no_leak();
    let _ = std::fs::remove_dir_all(&folder);
    ExitCode::SUCCESS
}
