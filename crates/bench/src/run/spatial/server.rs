//! The server of a spatial index as a process of its own: `farwood serve`, as anybody would start it.

use std::io::{BufRead as _, BufReader, Write};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdout, Command};

use rustix::process::{Signal, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::crew::WorkerCommand;
use super::super::protocol::Job;
use crate::{Error, Result};

/// What a process is to become: this program, with other arguments.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ProgramJob {
    arguments: Vec<String>,
}

/// A server at work. It ends when this is dropped, and also if this process ends in another way.
pub(super) struct SpatialServer {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl SpatialServer {
    /// Starts `farwood serve --json` with these arguments.
    pub(super) fn start(worker: &WorkerCommand, arguments: &[&str]) -> Result<SpatialServer> {
        let arguments =
            ["--json", "serve"].iter().chain(arguments).map(|&argument| argument.to_owned()).collect();
        let job = serde_json::to_string(&Job::Program(ProgramJob { arguments }));
        let mut child = worker.command().spawn().map_err(failed("start a server"))?;
        let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            unreachable!("both are pipes")
        };
        let server = SpatialServer { child, output: BufReader::new(output) };
        writeln!(input, "{}", job.expect("a job has a JSON form"))
            .map_err(failed("tell a server its job"))?;
        Ok(server)
    }

    /// Waits until it says `key`, and yields what.
    pub(super) fn heard(&mut self, key: &str) -> Result<String> {
        loop {
            let mut line = String::new();
            if self.output.read_line(&mut line).map_err(failed("listen to a server"))? == 0 {
                let status = self.child.wait().map_err(failed("wait for a server"))?;
                let problem = format!("it ended before it served ({status}); what it said is above");
                return Err(Error::Worker { compute_node: 0, problem });
            }
            let said: Value = serde_json::from_str(&line).unwrap_or_default();
            if let Some(said) = said.get(key).and_then(Value::as_str) {
                return Ok(said.to_owned());
            }
        }
    }
}

impl Drop for SpatialServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Becomes the program that `job` names. Returns only where that fails.
pub(crate) fn become_program(job: &ProgramJob) -> Result<()> {
    let dies_with_parent = set_parent_process_death_signal(Some(Signal::KILL));
    dies_with_parent.map_err(|error| failed("tie a server to this run")(error.into()))?;
    let program = std::env::current_exe().map_err(failed("find this program"))?;
    Err(failed("start a server")(Command::new(program).args(&job.arguments).exec()))
}

fn failed(doing: &str) -> impl Fn(std::io::Error) -> Error + use<'_> {
    move |source| Error::Processes { doing: doing.to_owned(), source }
}
