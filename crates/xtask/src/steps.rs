//! Runs the steps of a command one after the other, and reports the steps that ran, their durations, and the skipped
//! tests.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::skips::Skips;

/// One program to run.
pub(crate) struct CheckStep {
    name: &'static str,
    arguments: Vec<String>,
    variables: Vec<(&'static str, String)>,
    kind: StepKind,
}

/// The kind of a step.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StepKind {
    /// Tests. The step fails if no test ran, because a filter that matches no test proves nothing.
    Tests,
    /// Another program.
    Program,
}

/// The output that is printed while a step runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// Everything.
    Shown,
    /// Nothing, unless the step fails.
    OnFailure,
}

/// The outcome of a step.
struct Outcome {
    name: &'static str,
    failure: Option<String>,
    duration: Duration,
    tests_passed: u64,
}

impl CheckStep {
    /// A run of a program.
    pub(crate) fn program(name: &'static str, program: &str, arguments: &[&str]) -> Self {
        let arguments = [program].iter().chain(arguments).map(|argument| (*argument).to_owned()).collect();
        Self { name, arguments, variables: Vec::new(), kind: StepKind::Program }
    }

    /// A run of cargo.
    pub(crate) fn cargo(name: &'static str, arguments: &[&str]) -> Self {
        Self::program(name, env!("CARGO"), arguments)
    }

    /// Tests that cargo builds and runs.
    pub(crate) fn tests(name: &'static str, arguments: &[&str]) -> Self {
        let arguments = [&["test", "--locked"], arguments].concat();
        Self { kind: StepKind::Tests, ..Self::cargo(name, &arguments) }
    }

    /// Sets an environment variable for the program.
    pub(crate) fn with(mut self, variable: &'static str, value: impl std::fmt::Display + Copy) -> Self {
        self.variables.push((variable, value.to_string()));
        self
    }

    /// The command as a person would type it.
    pub(crate) fn shown(&self) -> String {
        let variables = self.variables.iter().map(|(name, value)| format!("{name}={value}"));
        let program = if self.arguments[0] == env!("CARGO") { "cargo" } else { &self.arguments[0] };
        let words = [program.to_owned()].into_iter().chain(self.arguments[1..].iter().cloned());
        variables.chain(words).collect::<Vec<_>>().join(" ")
    }

    fn run(&self, root: &Path, skips: &Skips, output: Output) -> Outcome {
        println!("\n== {}: {}", self.name, self.shown());
        let start = Instant::now();
        let (text, mut failure) = self.output(root, skips, output).unwrap_or_else(|error| {
            (String::new(), Some(format!("cannot run {}: {error}", self.arguments[0])))
        });
        let tests_passed = tests_passed(&text);
        if failure.is_none() && self.kind == StepKind::Tests && tests_passed == 0 {
            failure = Some("no test ran: the filter matches none".to_owned());
        }
        if failure.is_some() && output == Output::OnFailure {
            print!("{text}");
        }
        Outcome { name: self.name, failure, duration: start.elapsed(), tests_passed }
    }

    /// Runs the program; yields its standard output, and the reason of a failure.
    fn output(
        &self,
        root: &Path,
        skips: &Skips,
        output: Output,
    ) -> std::io::Result<(String, Option<String>)> {
        let mut command = Command::new(&self.arguments[0]);
        command.args(&self.arguments[1..]).current_dir(root).stdout(Stdio::piped());
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.env(Skips::VARIABLE, skips.path());
        let mut child = command.spawn()?;
        let mut text = String::new();
        let mut lines = BufReader::new(child.stdout.take().expect("its output is piped"));
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line)? > 0 {
            if output == Output::Shown {
                std::io::stdout().write_all(&line)?;
            }
            text += &String::from_utf8_lossy(&line);
            line.clear();
        }
        let status = child.wait()?;
        Ok((text, (!status.success()).then(|| status.to_string())))
    }
}

/// Number of tests that passed, from the summaries of test programs.
fn tests_passed(output: &str) -> u64 {
    let summaries = output.lines().filter_map(|line| line.strip_prefix("test result: "));
    let count = |summary: &str| summary.split(' ').nth(1)?.parse::<u64>().ok();
    summaries.filter_map(count).sum()
}

/// Runs all steps, also those after one that fails, and prints a report. Yields the number of failed steps.
pub(crate) fn run(root: &Path, steps: &[CheckStep], output: Output) -> usize {
    let start = Instant::now();
    let skips = Skips::new(root);
    let outcomes: Vec<Outcome> = steps.iter().map(|step| step.run(root, &skips, output)).collect();
    println!("\n== summary, {} s", start.elapsed().as_secs());
    for outcome in &outcomes {
        println!("{}", outcome.line());
    }
    println!("{} tests passed", outcomes.iter().map(|outcome| outcome.tests_passed).sum::<u64>());
    print!("{}", skips.report());
    outcomes.iter().filter(|outcome| outcome.failure.is_some()).count()
}

impl Outcome {
    fn line(&self) -> String {
        let word = if self.failure.is_some() { "FAILED" } else { "ok" };
        let tests = match self.tests_passed {
            0 => String::new(),
            tests => format!("  {tests} tests"),
        };
        let why = self.failure.as_ref().map_or(String::new(), |why| format!("  {why}"));
        format!("{:<12} {word:<6} {:>5} s{tests}{why}", self.name, self.duration.as_secs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(step: &CheckStep) -> Outcome {
        step.run(Path::new("/"), &Skips::new(Path::new("/nonexistent")), Output::OnFailure)
    }

    #[test]
    fn passed_tests_are_counted() {
        let output =
            "test result: ok. 12 passed; 0 failed; 0 ignored\nx\ntest result: FAILED. 3 passed; 1 failed\n";
        assert_eq!(tests_passed(output), 15);
    }

    #[test]
    fn a_step_shows_its_command() {
        let step = CheckStep::tests("seeds", &["-p", "a"]).with("FARWOOD_SEEDS", 3);
        assert_eq!(step.shown(), "FARWOOD_SEEDS=3 cargo test --locked -p a");
    }

    #[test]
    fn a_failure_is_reported() {
        assert!(outcome(&CheckStep::program("true", "true", &[])).failure.is_none());
        assert!(outcome(&CheckStep::program("false", "false", &[])).failure.is_some());
        assert!(
            outcome(&CheckStep::program("none", "/nonexistent/program", &[])).line().contains("cannot run")
        );
        let idle = CheckStep {
            kind: StepKind::Tests,
            ..CheckStep::program("echo", "echo", &["test result: ok. 0 passed"])
        };
        assert!(outcome(&idle).line().contains("no test ran"));
    }
}
