//! The parent's side: real processes that work together, step by step.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use super::protocol::{Job, Litter, Order, Report};
use crate::{Error, Result};

/// How a worker process is started: a program whose process ends up in [`serve`](super::serve).
#[derive(Clone, Debug)]
pub struct WorkerCommand {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
}

impl WorkerCommand {
    /// This very program with one argument.
    ///
    /// # Errors
    /// Where the system does not know the program's file.
    pub fn this_program(argument: &str) -> Result<WorkerCommand> {
        let program = std::env::current_exe()
            .map_err(|source| Error::Processes { doing: "find this program".to_owned(), source })?;
        Ok(WorkerCommand { program, arguments: vec![argument.into()] })
    }

    pub(super) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        command
    }
}

/// One worker process. Dropped, it is killed and waited for.
struct Worker {
    child: Child,
    /// `None` once it has been told to end.
    input: Option<ChildStdin>,
}

/// The worker processes of one contestant.
pub(crate) struct Crew {
    workers: Vec<Worker>,
    reports: Receiver<(usize, Option<Report>)>,
}

impl Crew {
    /// Starts one process for each job, and waits until all are ready.
    pub(crate) fn start(command: &WorkerCommand, jobs: &[Job]) -> Result<Crew> {
        Self::start_and_hear(command, jobs).map(|(crew, _)| crew)
    }

    /// The same; yields what they have to say when they are ready.
    pub(crate) fn start_and_hear(command: &WorkerCommand, jobs: &[Job]) -> Result<(Crew, Vec<Report>)> {
        let (sender, reports) = mpsc::channel();
        let mut crew = Crew { workers: Vec::new(), reports };
        for (number, job) in jobs.iter().enumerate() {
            let (worker, output) = Worker::start(command.command(), number)?;
            let sender = sender.clone();
            thread::spawn(move || listen(number, output, &sender));
            crew.workers.push(worker);
            crew.tell(number, job)?;
        }
        drop(sender);
        let reports = crew.answers("starting")?;
        Ok((crew, reports))
    }

    /// Gives all workers an order, and waits for all their reports.
    pub(crate) fn ask(&mut self, order: Order) -> Result<Vec<Report>> {
        for number in 0..self.workers.len() {
            self.tell(number, &order)?;
        }
        self.answers(match order {
            Order::WarmUp(_) => "warming up",
            Order::Go(_) => "working",
            Order::End => "leaving",
        })
    }

    /// Ends all workers and waits for them, so that none is attached to anything.
    pub(crate) fn end(mut self) -> Result<()> {
        for number in 0..self.workers.len() {
            self.tell(number, &Order::End)?;
        }
        for (number, worker) in self.workers.iter_mut().enumerate() {
            worker.input = None;
            let status = worker.child.wait().map_err(|source| Error::Processes {
                doing: format!("wait for compute node {number}"),
                source,
            })?;
            if !status.success() {
                return Err(died(number, "leaving", &status.to_string()));
            }
        }
        Ok(())
    }

    fn tell(&mut self, number: usize, what: &impl serde::Serialize) -> Result<()> {
        let mut line = serde_json::to_string(what).expect("what is said has a JSON form");
        line.push('\n');
        let Some(input) = &mut self.workers[number].input else {
            unreachable!("only end() closes the pipe, and consumes the crew")
        };
        if input.write_all(line.as_bytes()).and_then(|()| input.flush()).is_err() {
            return Err(self.obituary(number, "being told what to do"));
        }
        Ok(())
    }

    /// One report of each worker, in their order.
    fn answers(&mut self, doing: &str) -> Result<Vec<Report>> {
        let mut answers: Vec<Option<Report>> = self.workers.iter().map(|_| None).collect();
        while answers.iter().any(Option::is_none) {
            match self.reports.recv() {
                Ok((compute_node, Some(Report::Failed(problem)))) => {
                    return Err(Error::Worker { compute_node, problem });
                }
                Ok((number, Some(report))) => answers[number] = Some(report),
                Ok((number, None)) => return Err(self.obituary(number, doing)),
                Err(_) => unreachable!("each listener says how its worker ended before it hangs up"),
            }
        }
        Ok(answers.into_iter().flatten().collect())
    }

    /// How a worker ended that should not have. It may have said why.
    fn obituary(&mut self, number: usize, doing: &str) -> Error {
        while let Ok((compute_node, report)) = self.reports.try_recv() {
            if let Some(Report::Failed(problem)) = report {
                return Error::Worker { compute_node, problem };
            }
        }
        let status = self.workers[number].child.wait();
        died(number, doing, &status.map_or_else(|error| error.to_string(), |status| status.to_string()))
    }
}

fn died(compute_node: usize, doing: &str, status: &str) -> Error {
    let problem = format!("its process ended while {doing} ({status}); the run is void, start it again");
    Error::Worker { compute_node, problem }
}

impl Worker {
    fn start(mut command: Command, number: usize) -> Result<(Worker, ChildStdout)> {
        let mut child = command.spawn().map_err(|source| Error::Processes {
            doing: format!("start a process for compute node {number}"),
            source,
        })?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let Some(output) = output else { unreachable!("its output is a pipe") };
        Ok((Worker { child, input }, output))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.input = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Passes on what a worker says; `None` when it says no more.
fn listen(number: usize, output: ChildStdout, sender: &Sender<(usize, Option<Report>)>) {
    for line in BufReader::new(output).lines() {
        let Ok(line) = line else { break };
        let report = serde_json::from_str(&line)
            .unwrap_or_else(|error| Report::Failed(format!("it said something else: {error}: {line}")));
        let _ = sender.send((number, Some(report)));
    }
    let _ = sender.send((number, None));
}

/// A process that removes what the run made when the run is over, also when it was killed: it notices that its pipe
/// closes. It has a process group of its own, so that an interrupt from the terminal does not reach it.
pub(crate) struct Janitor(Worker);

impl Janitor {
    /// Starts one for what this run has just made, or has drawn a name for: never for what may be another run's. Where
    /// none can be started, the litter is removed at once.
    pub(crate) fn start(command: &WorkerCommand, litter: Litter) -> Result<Janitor> {
        let job = Job::Janitor(litter);
        let started = Self::start_with(command, &job);
        if let (Err(_), Job::Janitor(litter)) = (&started, &job) {
            litter.remove();
        }
        started
    }

    fn start_with(command: &WorkerCommand, job: &Job) -> Result<Janitor> {
        let mut command = command.command();
        command.process_group(0);
        let (worker, output) = Worker::start(command, 0)?;
        drop(output);
        let mut janitor = Janitor(worker);
        let line = serde_json::to_string(job).expect("a job has a JSON form");
        let told = janitor.0.input.as_mut().map_or(Ok(()), |input| writeln!(input, "{line}"));
        told.map_err(|source| Error::Processes { doing: "start the janitor".to_owned(), source })?;
        Ok(janitor)
    }
}

impl Drop for Janitor {
    fn drop(&mut self) {
        self.0.input = None;
        let _ = self.0.child.wait();
    }
}
