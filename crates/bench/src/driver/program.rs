//! Workers that execute another program in their place (`exec`), such as a server of the system under measurement.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use rustix::process::{Signal, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};

use super::cpu::pin;
use super::protocol::Report;
use super::worker::{Job, ParentConnection};
use crate::{Error, Result};

/// The program that a worker becomes. The kernel kills it when the parent dies.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ProgramJob {
    /// The path of the program. `None` starts the running program again.
    pub(crate) program: Option<String>,
    pub(crate) arguments: Vec<String>,
    /// The CPUs that it may use; empty: all.
    pub(crate) cpus: Vec<usize>,
    pub(crate) output: ProgramOutput,
}

/// The destination of the program's standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ProgramOutput {
    /// The parent, which reads the output instead of reports.
    Parent,
    /// None. The worker reports that it is ready before it becomes the program.
    Discarded,
}

impl Job for ProgramJob {
    const KIND: &'static str = "program";

    /// Returns only if the program cannot be started.
    fn run(self, parent: &mut ParentConnection<'_>) -> Result<()> {
        pin(&self.cpus).map_err(failed("pin a server to its CPUs"))?;
        let dies_with_parent = set_parent_process_death_signal(Some(Signal::KILL));
        dies_with_parent.map_err(|error| failed("set the parent-death signal of a server")(error.into()))?;
        let mut command = match &self.program {
            Some(program) => Command::new(program),
            None => Command::new(std::env::current_exe().map_err(failed("find this program"))?),
        };
        command.args(&self.arguments);
        if self.output == ProgramOutput::Discarded {
            parent.report(&Report::Ready)?;
            command.stdout(Stdio::null());
        }
        Err(failed("start a server")(command.exec()))
    }
}

/// Wraps an operating system error of a server process.
pub(crate) fn failed(doing: &str) -> impl Fn(std::io::Error) -> Error + use<'_> {
    move |source| Error::Processes { doing: doing.to_owned(), source }
}
