//! The server of a spatial index in a separate process: `farwood serve`.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdout};

use serde_json::Value;

use crate::driver::processes::WorkerCommand;
use crate::driver::program::{ProgramJob, ProgramOutput, failed};
use crate::driver::worker::message;
use crate::{Error, Result};

/// A running server. It exits when this object is dropped, and when this process dies.
pub(super) struct SpatialServer {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl SpatialServer {
    /// Starts `farwood serve --json` with these arguments.
    pub(super) fn start(worker: &WorkerCommand, arguments: &[&str]) -> Result<SpatialServer> {
        let arguments = ["--json", "serve"].iter().chain(arguments).map(|&argument| argument.to_owned());
        let job = ProgramJob {
            program: None,
            arguments: arguments.collect(),
            cpus: Vec::new(),
            output: ProgramOutput::Parent,
        };
        let mut child = worker.command().spawn().map_err(failed("start a server"))?;
        let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            unreachable!("both are pipes")
        };
        let server = SpatialServer { child, output: BufReader::new(output) };
        let job = serde_json::to_string(&message(&job)).expect("a job has a JSON form");
        writeln!(input, "{job}").map_err(failed("send a server its job"))?;
        Ok(server)
    }

    /// Waits until the server prints an object with `key`, and yields the value.
    pub(super) fn wait_for(&mut self, key: &str) -> Result<String> {
        loop {
            let mut line = String::new();
            if self.output.read_line(&mut line).map_err(failed("read a server's output"))? == 0 {
                let status = self.child.wait().map_err(failed("wait for a server"))?;
                let problem =
                    format!("the server exited before it served ({status}); its messages are above");
                return Err(Error::Worker { compute_node: 0, problem });
            }
            let object: Value = serde_json::from_str(&line).unwrap_or_default();
            if let Some(value) = object.get(key).and_then(Value::as_str) {
                return Ok(value.to_owned());
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
