//! `cargo xtask`: runs the house's checks and reports what breaks them.
//!
//! Exit codes: 0 when the check holds, 1 when it does not, 2 when the command line is wrong or the check
//! could not run.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program that reports")]

use std::process::ExitCode;

use xtask::{licences, root, rxe, tidy};

const HELP: &str = "\
The house's own checks.

Usage: cargo xtask <COMMAND>

Commands:
  tidy           Check the rules of the tree: layers, forbidden words, length, format maps, ...
  tidy --rules   List the rules and what each one asks
  licences       Check the licence of every dependency against the allow-list
  swarm          Run seeds with faults in the laboratory; `cargo xtask swarm --help` has its flags
  rxe            Test the RDMA fabric on Soft-RoCE in a virtual machine; `rxe NAME` only test binaries of that name
  ci-list        List the sections of .ci/run: name and command

Examples:
  cargo xtask tidy
  cargo xtask licences
  cargo xtask swarm --seconds 60
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["tidy"] => run_tidy(),
        ["tidy", "--rules"] => say(&tidy::list()),
        ["tidy", "--counts"] => with_tree(|tree| say(&tidy::counts(tree))),
        ["tidy", "--shrink"] => with_tree(shrink_baseline),
        ["tidy", "--all", rule] => with_tree(|tree| list_violations(tree, rule)),
        ["licences"] => run_licences(),
        ["ci-list"] => run_ci_list(),
        ["swarm", flags @ ..] => run_swarm(flags),
        ["rxe"] => run_rxe(None),
        ["rxe", filter] => run_rxe(Some(filter)),
        ["--help" | "-h" | "help"] => say(HELP),
        _ => {
            eprint!("{HELP}");
            ExitCode::from(2)
        }
    }
}

fn say(text: &str) -> ExitCode {
    print!("{text}");
    ExitCode::SUCCESS
}

/// Prints the sections of the script itself, so that the list cannot differ from what runs.
fn run_ci_list() -> ExitCode {
    match std::fs::read_to_string(root().join(".ci/run")) {
        Ok(script) => {
            let sections = script.lines().filter_map(|line| line.strip_prefix("section "));
            say(&sections.map(|section| section.to_string() + "\n").collect::<String>())
        }
        Err(trouble) => could_not_run(&format!(".ci/run: {trouble}")),
    }
}

fn with_tree(run: impl FnOnce(&tidy::Tree) -> ExitCode) -> ExitCode {
    match tidy::Tree::load(&root()) {
        Ok(tree) => run(&tree),
        Err(trouble) => could_not_run(&trouble.to_string()),
    }
}

fn run_tidy() -> ExitCode {
    with_tree(|tree| {
        let violations = tidy::check(tree);
        for violation in &violations {
            println!("{violation}");
        }
        let lower = tidy::lower_than_baseline(tree);
        if !lower.is_empty() {
            eprintln!(
                "fewer violations than the baseline in {} places; `cargo xtask tidy --shrink`",
                lower.len()
            );
        }
        verdict(violations.len(), &format!("{} files, {} rules", tree.len(), tidy::RULES.len()))
    })
}

fn shrink_baseline(tree: &tidy::Tree) -> ExitCode {
    for line in tidy::lower_than_baseline(tree) {
        println!("{line}");
    }
    let written = tidy::shrunk_baseline(tree).and_then(|(path, text)| {
        std::fs::write(root().join(path), text).map_err(|error| format!("{path}: {error}"))
    });
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(trouble) => could_not_run(&trouble),
    }
}

fn list_violations(tree: &tidy::Tree, rule: &str) -> ExitCode {
    let Some(violations) = tidy::check_one(tree, rule) else {
        return could_not_run(&format!("no rule is called '{rule}'; see `cargo xtask tidy --rules`"));
    };
    for violation in &violations {
        println!("{violation}");
    }
    ExitCode::SUCCESS
}

fn run_licences() -> ExitCode {
    let report = match licences::check(&root()) {
        Ok(report) => report,
        Err(trouble) => return could_not_run(&trouble),
    };
    for refusal in &report.refused {
        println!("{refusal}");
    }
    verdict(report.refused.len(), &format!("{} packages", report.packages))
}

/// The swarm lives with the other proofs, on which nothing depends: it is run, not called.
fn run_swarm(flags: &[&str]) -> ExitCode {
    let swarm = ["run", "--quiet", "--release", "--package", "farwood-proof", "--example", "swarm", "--"];
    let status =
        std::process::Command::new(env!("CARGO")).args(swarm).args(flags).current_dir(root()).status();
    match status.map(|status| status.code()) {
        Ok(Some(code)) => ExitCode::from(code as u8),
        Ok(None) => could_not_run("the swarm was killed"),
        Err(trouble) => could_not_run(&format!("cargo: {trouble}")),
    }
}

fn run_rxe(filter: Option<&str>) -> ExitCode {
    match rxe::run(&root(), filter) {
        Ok(code) => ExitCode::from(code),
        Err(trouble) => could_not_run(&trouble),
    }
}

fn verdict(violations: usize, looked_at: &str) -> ExitCode {
    eprintln!("{looked_at}: {violations} violations");
    ExitCode::from(u8::from(violations > 0))
}

fn could_not_run(trouble: &str) -> ExitCode {
    eprintln!("xtask: {trouble}");
    ExitCode::from(2)
}
