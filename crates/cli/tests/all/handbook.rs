//! `docs/cli.md` and `--help` name the same options.

use crate::machine::Machine;
use std::collections::BTreeSet;

const HANDBOOK: &str = include_str!("../../../../docs/cli.md");

/// The long options that a text names.
fn options(text: &str) -> BTreeSet<&str> {
    let named = text
        .split("--")
        .skip(1)
        .map(|rest| rest.split(|c: char| !c.is_ascii_lowercase() && c != '-').next().unwrap_or_default());
    named.filter(|name| !name.is_empty()).collect()
}

#[test]
fn every_option_is_in_the_handbook() {
    let machine = Machine::new();
    for command in [
        "serve", "create", "drop", "put", "get", "del", "incr", "scan", "search", "join", "load", "dump",
        "restore", "save", "check", "stat", "top", "doctor",
    ] {
        let help = machine.ok(&[command, "--help"]);
        let (_, help) = help.split_once("Options:").unwrap();
        let (help, _) = help.split_once("Examples:").unwrap();
        for option in options(help) {
            let known = ["help", "version"].contains(&option) || options(HANDBOOK).contains(option);
            assert!(known, "--{option} of {command} is not in docs/cli.md");
        }
    }
}

#[test]
fn every_exit_code_is_in_the_handbook() {
    let help = Machine::new().ok(&["--help"]);
    let (_, codes) = help.split_once("Exit codes:").unwrap();
    let codes = codes.lines().filter_map(|line| line.trim().split_once("  "));
    let codes: Vec<_> = codes.map(|(code, _)| code.to_owned()).collect();
    assert_eq!(codes.len(), 11, "{codes:?}");
    for code in codes {
        assert!(HANDBOOK.contains(&format!("\n| {code} | ")), "exit code {code}");
    }
}
