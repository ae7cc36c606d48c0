//! The parent's side of the protocol: worker processes that take each step together.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::protocol::{Order, Report, Round};
use super::worker::{Job, message};
use crate::{Error, Result};

/// The command that starts a worker process: a program that calls [`serve`](super::worker::serve).
#[derive(Clone, Debug)]
pub struct WorkerCommand {
    /// The path of the program that a worker process runs.
    pub program: PathBuf,
    /// The arguments of the program.
    pub arguments: Vec<OsString>,
}

impl WorkerCommand {
    /// The running program with one argument.
    ///
    /// # Errors
    /// The operating system does not report the program's path.
    pub fn this_program(argument: &str) -> Result<WorkerCommand> {
        let program = std::env::current_exe()
            .map_err(|source| Error::Processes { doing: "find this program".to_owned(), source })?;
        Ok(WorkerCommand { program, arguments: vec![argument.into()] })
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        command
    }
}

/// One worker process. Dropping it kills the process and waits for it.
pub(super) struct WorkerProcess {
    child: Child,
    /// `None` after the pipe is closed.
    input: Option<ChildStdin>,
}

/// The worker processes of one backend.
pub struct WorkerProcesses {
    workers: Vec<WorkerProcess>,
    reports: Receiver<(usize, Option<Report>)>,
}

impl WorkerProcesses {
    /// Starts one process for each job, and waits until all are ready.
    ///
    /// # Errors
    /// A process that does not start, exits, or reports an error.
    pub fn start<J: Job>(command: &WorkerCommand, jobs: &[J]) -> Result<WorkerProcesses> {
        Self::start_with_reports(command, jobs).map(|(processes, _)| processes)
    }

    /// Starts one process for a job whose first report is an output, and yields that.
    pub(crate) fn start_one<T: DeserializeOwned>(
        command: &WorkerCommand,
        job: &impl Job,
    ) -> Result<(WorkerProcesses, T)> {
        let (processes, reports) = Self::start_with_reports(command, std::slice::from_ref(job))?;
        let mut outputs = outputs(reports)?;
        Ok((processes, outputs.pop().expect("one worker sends one report")))
    }

    fn start_with_reports<J: Job>(
        command: &WorkerCommand,
        jobs: &[J],
    ) -> Result<(WorkerProcesses, Vec<Report>)> {
        let (sender, reports) = mpsc::channel();
        let mut processes = WorkerProcesses { workers: Vec::new(), reports };
        for (number, job) in jobs.iter().enumerate() {
            let (worker, output) = WorkerProcess::start(command.command(), number)?;
            let sender = sender.clone();
            thread::spawn(move || forward_reports(number, output, &sender));
            processes.workers.push(worker);
            processes.send(number, &message(job))?;
        }
        drop(sender);
        let reports = processes.reports("starting")?;
        Ok((processes, reports))
    }

    /// Sends all workers an order, and waits for all their reports.
    ///
    /// # Errors
    /// A process that exits or reports an error.
    pub fn order(&mut self, order: Order) -> Result<Vec<Report>> {
        for number in 0..self.workers.len() {
            self.send(number, &order)?;
        }
        self.reports(match order {
            Order::WarmUp(_) => "warming up",
            Order::Measure(_) => "measuring",
            Order::End => "exiting",
        })
    }

    /// Orders all workers to measure a round, and merges their results.
    pub(crate) fn measure(&mut self, order: Order) -> Result<Round> {
        let mut all = Round::default();
        for (compute_node, report) in self.order(order)?.into_iter().enumerate() {
            let Report::Measured(round) = report else { return Err(unexpected(compute_node, &report)) };
            all.merge(&round);
        }
        Ok(all)
    }

    /// Ends all workers and waits until they have exited and so detached from all stores.
    ///
    /// # Errors
    /// A worker that exits with an error.
    pub fn end(mut self) -> Result<()> {
        for number in 0..self.workers.len() {
            self.send(number, &Order::End)?;
        }
        for (number, worker) in self.workers.iter_mut().enumerate() {
            worker.input = None;
            let status = worker.child.wait().map_err(|source| Error::Processes {
                doing: format!("wait for compute node {number}"),
                source,
            })?;
            if !status.success() {
                return Err(exited(number, "exiting", &status.to_string()));
            }
        }
        Ok(())
    }

    fn send(&mut self, number: usize, message: &impl Serialize) -> Result<()> {
        let Some(input) = &mut self.workers[number].input else {
            unreachable!("only end() closes the pipe, and consumes the processes")
        };
        if write_line(input, message).is_err() {
            return Err(self.exit_error(number, "receiving a message"));
        }
        Ok(())
    }

    /// One report of each worker, in their order.
    fn reports(&mut self, doing: &str) -> Result<Vec<Report>> {
        let mut answers: Vec<Option<Report>> = self.workers.iter().map(|_| None).collect();
        while answers.iter().any(Option::is_none) {
            match self.reports.recv() {
                Ok((compute_node, Some(Report::Failed(problem)))) => {
                    return Err(Error::Worker { compute_node, problem });
                }
                Ok((number, Some(report))) => answers[number] = Some(report),
                Ok((number, None)) => return Err(self.exit_error(number, doing)),
                Err(_) => unreachable!("each forwarding thread sends None before it hangs up"),
            }
        }
        Ok(answers.into_iter().flatten().collect())
    }

    /// The error of a worker that exited unexpectedly: its own report of it, or else its exit status.
    fn exit_error(&mut self, number: usize, doing: &str) -> Error {
        while let Ok((compute_node, report)) = self.reports.try_recv() {
            if let Some(Report::Failed(problem)) = report {
                return Error::Worker { compute_node, problem };
            }
        }
        let status = self.workers[number].child.wait();
        exited(number, doing, &status.map_or_else(|error| error.to_string(), |status| status.to_string()))
    }
}

/// The outputs in reports of workers whose jobs answer with a `T`.
///
/// # Errors
/// A report that is not an output, or an output of another form.
pub fn outputs<T: DeserializeOwned>(reports: Vec<Report>) -> Result<Vec<T>> {
    let outputs = reports.into_iter().enumerate().map(|(compute_node, report)| match report {
        Report::Output(output) => serde_json::from_value(output).map_err(|error| Error::Worker {
            compute_node,
            problem: format!("its output is invalid: {error}"),
        }),
        report => Err(unexpected(compute_node, &report)),
    });
    outputs.collect()
}

fn unexpected(compute_node: usize, report: &Report) -> Error {
    Error::Worker { compute_node, problem: format!("unexpected report: {report:?}") }
}

fn exited(compute_node: usize, doing: &str, status: &str) -> Error {
    let problem = format!("its process exited while {doing} ({status}); start the run again");
    Error::Worker { compute_node, problem }
}

fn write_line(input: &mut ChildStdin, message: &impl Serialize) -> std::io::Result<()> {
    let line = serde_json::to_string(message).expect("a message has a JSON form");
    writeln!(input, "{line}").and_then(|()| input.flush())
}

impl WorkerProcess {
    pub(super) fn start(mut command: Command, number: usize) -> Result<(WorkerProcess, ChildStdout)> {
        let mut child = command.spawn().map_err(|source| Error::Processes {
            doing: format!("start a process for compute node {number}"),
            source,
        })?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let Some(output) = output else { unreachable!("its output is a pipe") };
        Ok((WorkerProcess { child, input }, output))
    }

    /// Sends the process a message.
    pub(super) fn send(&mut self, message: &impl Serialize) -> std::io::Result<()> {
        self.input.as_mut().map_or(Ok(()), |input| write_line(input, message))
    }

    /// Closes the process's pipe and waits until it exits.
    pub(super) fn close(&mut self) {
        self.input = None;
        let _ = self.child.wait();
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        self.input = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Forwards a worker's reports; `None` when its output ends.
fn forward_reports(number: usize, output: ChildStdout, sender: &Sender<(usize, Option<Report>)>) {
    for line in BufReader::new(output).lines() {
        let Ok(line) = line else { break };
        let report = serde_json::from_str(&line)
            .unwrap_or_else(|error| Report::Failed(format!("its output is not a report: {error}: {line}")));
        let _ = sender.send((number, Some(report)));
    }
    let _ = sender.send((number, None));
}
