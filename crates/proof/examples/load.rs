//! Full load over TCP with clients killed and connected at random; says what it saw.
//!
//! `cargo run --release -p farwood-proof --example load -- [--index sherman] [--seconds 300] [--processes 4]
//! [--clients 4] [--seed 1]`
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that reports")]

use farwood_index::ordered::System;
use farwood_proof::load::{Load, run_child};
use std::process::{Command, ExitCode};

const HELP: &str = "\
Full load over TCP, to two memory nodes, while processes of clients are killed and come and go at random. Every answer
is checked; at the end no lock may be left, and the memory nodes' memory must not have grown.

Usage: load [--index NAME] [--seconds N] [--processes N] [--clients N] [--seed N]

  --index NAME    sherman, smart or sphinx [default: sherman]
  --seconds N     for so long [default: 300]
  --processes N   of clients, at a time [default: 4]
  --clients N     of each process [default: 4]
  --seed N        of everything that is drawn [default: 1]
";

fn asked(words: &[String]) -> Option<Load> {
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
    let Some(load) = asked(&words) else {
        eprint!("{HELP}");
        return ExitCode::from(2);
    };
    let folder = std::env::temp_dir().join(format!("farwood-load-{}", std::process::id()));
    std::fs::create_dir(&folder).expect("a folder can be made");
    let program = || Command::new(std::env::current_exe().expect("this is a program"));
    let report = load.run(&program, &folder);
    println!("{report}");
    report.expect_no_leak();
    let _ = std::fs::remove_dir_all(&folder);
    ExitCode::SUCCESS
}
