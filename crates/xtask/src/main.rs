//! `cargo xtask`: the project checks, and the commands that build on them.
//!
//! `quick`, `test` and `campaign` are three tiers of checks, from minutes to hours.
//!
//! Exit codes: 0 when what was checked holds, 1 when it does not, 2 when the command line is wrong or the command
//! could not run.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program that reports")]

mod campaign;
mod changes;
mod features;
mod msrv;
mod quick;
mod skips;
mod steps;
mod suite;

use std::process::ExitCode;

use steps::Output;
use xtask::{licences, root, rxe, tidy};

/// A command of `cargo xtask`.
struct Command {
    name: &'static str,
    /// One line for the list of commands.
    summary: &'static str,
    /// The help text; none for a command that prints its own.
    help: Option<&'static str>,
    run: fn(&[&str]) -> Result<ExitCode, Failure>,
}

/// The reason why a command ends with exit code 2.
enum Failure {
    /// The command line is wrong.
    Usage,
    /// The command could not run.
    CouldNotRun(String),
}

const COMMANDS: &[Command] = &[
    Command {
        name: "quick",
        summary: "Run the checks of the inner loop: a few minutes",
        help: Some(quick::HELP),
        run: run_quick,
    },
    Command {
        name: "test",
        summary: "Run everything that a change must pass",
        help: Some(suite::HELP),
        run: run_test,
    },
    Command {
        name: "campaign",
        summary: "Run the long searches for bugs: hours",
        help: Some(campaign::HELP),
        run: run_campaign,
    },
    Command {
        name: "tidy",
        summary: "Check the rules of the source tree",
        help: Some(TIDY_HELP),
        run: run_tidy,
    },
    Command {
        name: "licences",
        summary: "Check the licence of every dependency against the allow-list",
        help: Some(LICENCES_HELP),
        run: run_licences,
    },
    Command {
        name: "features",
        summary: "Check that each package compiles on its own, with each of its features",
        help: Some(features::HELP),
        run: run_features,
    },
    Command {
        name: "msrv",
        summary: "Check that the library compiles with the oldest supported Rust",
        help: Some(msrv::HELP),
        run: run_msrv,
    },
    Command { name: "swarm", summary: "Run seeds with faults in the simulator", help: None, run: run_swarm },
    Command {
        name: "rxe",
        summary: "Test the RDMA fabric on Soft-RoCE in a virtual machine",
        help: Some(RXE_HELP),
        run: run_rxe,
    },
    Command {
        name: "ci-list",
        summary: "List the sections of .ci/run",
        help: Some(CI_LIST_HELP),
        run: run_ci_list,
    },
];

const TIDY_HELP: &str = "\
Checks the rules of the source tree: layers, forbidden paths, function length, format maps, prose, ...

Usage: cargo xtask tidy [--rules | --counts | --shrink | --all RULE]

  --rules      list the rules and what each one asks
  --counts     sum the violations that the baseline still covers, by crate and rule
  --shrink     lower the baseline to the violations that are left
  --all RULE   list all violations of a rule, those that the baseline covers included

Examples:
  cargo xtask tidy
  cargo xtask tidy --rules
  cargo xtask tidy --all prose
";

const LICENCES_HELP: &str = "\
Checks the licence of every dependency, of all features and platforms, against the list in deny.toml.

Usage: cargo xtask licences

Examples:
  cargo xtask licences
";

const RXE_HELP: &str = "\
Tests the RDMA fabric on Soft-RoCE, in virtual machines that QEMU emulates: no NIC, no KVM and no root is needed.

Usage: cargo xtask rxe [NAME]

  NAME   run only the tests whose names contain it; `demo` runs the command-line demo

Examples:
  cargo xtask rxe
  cargo xtask rxe catfish
  cargo xtask rxe demo
";

const CI_LIST_HELP: &str = "\
Lists the sections of .ci/run: name and command.

Usage: cargo xtask ci-list

Examples:
  cargo xtask ci-list
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let Some((name, rest)) = words.split_first() else { return misuse(&overview()) };
    if matches!(*name, "--help" | "-h" | "help") {
        return print(&overview());
    }
    let Some(command) = COMMANDS.iter().find(|command| command.name == *name) else {
        eprintln!("xtask: no command is called '{name}'\n");
        return misuse(&overview());
    };
    if let (Some(help), ["--help" | "-h", ..]) = (command.help, rest) {
        return print(help);
    }
    match (command.run)(rest) {
        Ok(code) => code,
        Err(Failure::Usage) => misuse(command.help.unwrap_or_default()),
        Err(Failure::CouldNotRun(why)) => {
            eprintln!("xtask {name}: {why}");
            ExitCode::from(2)
        }
    }
}

fn overview() -> String {
    let list = COMMANDS.iter().map(|command| format!("  {:<10} {}\n", command.name, command.summary));
    format!(
        "Project checks.\n\nUsage: cargo xtask COMMAND\n\nCommands:\n{}\n`cargo xtask COMMAND --help` describes a \
         command.\n\nExamples:\n  cargo xtask quick\n  cargo xtask test\n  cargo xtask tidy --rules\n",
        list.collect::<String>()
    )
}

fn print(text: &str) -> ExitCode {
    print!("{text}");
    ExitCode::SUCCESS
}

fn misuse(help: &str) -> ExitCode {
    eprint!("{help}");
    ExitCode::from(2)
}

/// The exit code of a check with that number of failures.
fn verdict(failures: usize) -> ExitCode {
    ExitCode::from(u8::from(failures > 0))
}

fn run_quick(arguments: &[&str]) -> Result<ExitCode, Failure> {
    let output = match arguments {
        [] => Output::OnFailure,
        ["--verbose"] => Output::Shown,
        _ => return Err(Failure::Usage),
    };
    quick::quick(&root(), output).map(verdict).map_err(Failure::CouldNotRun)
}

fn run_test(arguments: &[&str]) -> Result<ExitCode, Failure> {
    suite::test(&root(), arguments).map(verdict).map_err(Failure::CouldNotRun)
}

fn run_campaign(arguments: &[&str]) -> Result<ExitCode, Failure> {
    let count = |text: &str| text.parse().ok().filter(|count| *count > 0).ok_or(Failure::Usage);
    let failures = match arguments {
        [] => campaign::campaign(&root(), campaign::MINUTES),
        ["--minutes", minutes] => campaign::campaign(&root(), count(minutes)?),
        ["damage"] => campaign::damage(&root(), campaign::TRIALS),
        ["damage", "--trials", trials] => campaign::damage(&root(), count(trials)?),
        _ => return Err(Failure::Usage),
    };
    Ok(verdict(failures))
}

fn run_tidy(arguments: &[&str]) -> Result<ExitCode, Failure> {
    if let ["--rules"] = arguments {
        return Ok(print(&tidy::list()));
    }
    let tree = tidy::SourceTree::load(&root()).map_err(|error| Failure::CouldNotRun(error.to_string()))?;
    match arguments {
        [] => Ok(check_tree(&tree)),
        ["--counts"] => Ok(print(&tidy::counts(&tree))),
        ["--shrink"] => shrink_baseline(&tree),
        ["--all", rule] => list_violations(&tree, rule),
        _ => Err(Failure::Usage),
    }
}

fn check_tree(tree: &tidy::SourceTree) -> ExitCode {
    let violations = tidy::check(tree);
    for violation in &violations {
        println!("{violation}");
    }
    let lower = tidy::lower_than_baseline(tree).len();
    if lower > 0 {
        eprintln!("the baseline can be lowered in {lower} places: cargo xtask tidy --shrink");
    }
    eprintln!("{} files, {} rules: {} violations", tree.len(), tidy::RULES.len(), violations.len());
    verdict(violations.len())
}

fn shrink_baseline(tree: &tidy::SourceTree) -> Result<ExitCode, Failure> {
    for line in tidy::lower_than_baseline(tree) {
        println!("{line}");
    }
    let (path, text) = tidy::shrunk_baseline(tree).map_err(Failure::CouldNotRun)?;
    std::fs::write(root().join(path), text)
        .map_err(|error| Failure::CouldNotRun(format!("{path}: {error}")))?;
    Ok(ExitCode::SUCCESS)
}

fn list_violations(tree: &tidy::SourceTree, rule: &str) -> Result<ExitCode, Failure> {
    let violations = tidy::check_one(tree, rule).ok_or_else(|| {
        Failure::CouldNotRun(format!("no rule is called '{rule}'; `cargo xtask tidy --rules` lists them"))
    })?;
    for violation in &violations {
        println!("{violation}");
    }
    Ok(verdict(violations.len()))
}

fn run_licences(arguments: &[&str]) -> Result<ExitCode, Failure> {
    if !arguments.is_empty() {
        return Err(Failure::Usage);
    }
    let report = licences::check(&root()).map_err(Failure::CouldNotRun)?;
    for refusal in &report.refused {
        println!("{refusal}");
    }
    eprintln!("{} packages: {} violations", report.packages, report.refused.len());
    Ok(verdict(report.refused.len()))
}

fn run_features(arguments: &[&str]) -> Result<ExitCode, Failure> {
    let only = match arguments {
        [] => None,
        [package] => Some(*package),
        _ => return Err(Failure::Usage),
    };
    features::check(&root(), only).map(verdict).map_err(Failure::CouldNotRun)
}

fn run_msrv(arguments: &[&str]) -> Result<ExitCode, Failure> {
    if !arguments.is_empty() {
        return Err(Failure::Usage);
    }
    msrv::check(&root()).map(verdict).map_err(Failure::CouldNotRun)
}

/// Runs the swarm, an example of the package `farwood-proof`, on which this package may not depend.
fn run_swarm(flags: &[&str]) -> Result<ExitCode, Failure> {
    let swarm = ["run", "--quiet", "--release", "--package", "farwood-proof", "--example", "swarm", "--"];
    let status =
        std::process::Command::new(env!("CARGO")).args(swarm).args(flags).current_dir(root()).status();
    match status.map(|status| status.code()) {
        Ok(Some(code)) => Ok(ExitCode::from(code as u8)),
        Ok(None) => Err(Failure::CouldNotRun("a signal ended the swarm".to_owned())),
        Err(error) => Err(Failure::CouldNotRun(format!("cargo: {error}"))),
    }
}

fn run_rxe(arguments: &[&str]) -> Result<ExitCode, Failure> {
    let filter = match arguments {
        [] => None,
        [filter] => Some(*filter),
        _ => return Err(Failure::Usage),
    };
    rxe::run(&root(), filter).map(ExitCode::from).map_err(Failure::CouldNotRun)
}

/// Prints the sections of the script itself, so that the list cannot differ from what runs.
fn run_ci_list(arguments: &[&str]) -> Result<ExitCode, Failure> {
    if !arguments.is_empty() {
        return Err(Failure::Usage);
    }
    let path = root().join(".ci/run");
    let script = std::fs::read_to_string(&path)
        .map_err(|error| Failure::CouldNotRun(format!("{}: {error}", path.display())))?;
    let sections: Vec<&str> = script.lines().filter_map(|line| line.strip_prefix("section ")).collect();
    Ok(print(&(sections.join("\n") + "\n")))
}
