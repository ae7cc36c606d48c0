//! The worker's side: a process that does what its parent says, and ends with it.

use std::io::{BufRead, Write};
use std::process;
use std::sync::mpsc::{self, Receiver};
use std::thread;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::protocol::{Job, Order, Report};
use crate::{Error, Result, redis, tour};

/// Exit code of a worker whose parent is gone.
const ORPHANED: i32 = 3;

/// Does the job that `input` names, step by step, and reports to `output`. This is all that a worker process does;
/// the process ends with exit code 3 when `input` closes before it is told to end.
///
/// # Errors
/// What failed; it has been reported.
pub fn serve(mut input: impl BufRead + Send + 'static, output: impl Write) -> Result<()> {
    let mut line = String::new();
    let got = input.read_line(&mut line);
    got.map_err(|source| Error::Processes { doing: "read the job".to_owned(), source })?;
    let job: Job = parsed(&line)?;
    if let Job::Janitor(litter) = job {
        // Whatever comes, the end of the pipe is what counts.
        while input.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {}
        litter.remove();
        return Ok(());
    }
    if let Job::RedisServer(job) = &job {
        let mut output = output;
        return super::servers::become_redis(job, &mut output);
    }
    if let Job::Program(job) = &job {
        return super::spatial::server::become_program(job);
    }
    // Before the first thread: those that it starts stay there as well.
    keep_on_processors(&job)?;
    let mut parent = Parent { orders: follow(input), output };
    let done = match job {
        Job::Node(job) => super::node::serve(&job, &mut parent),
        Job::Peer(job) => super::contest::serve_peer(&job, &mut parent),
        Job::Tour(job) => tour::serve(&job, &mut parent),
        Job::Map(job) => tour::serve_map(&job, &mut parent),
        Job::Spatial(job) => super::spatial::node::serve(&job, &mut parent),
        Job::SpatialPeer(job) => super::spatial::peer::serve(&job, &mut parent),
        Job::Redis(job) => redis::serve(&job, &mut parent),
        Job::Memory(job) => super::servers::serve_memory(&job, &mut parent),
        Job::Janitor(_) | Job::RedisServer(_) | Job::Program(_) => unreachable!("it has returned"),
    };
    if let Err(error) = &done {
        parent.report(&Report::Failed(error.to_string()))?;
    }
    done
}

/// Keeps the process of clients where they are to be.
fn keep_on_processors(job: &Job) -> Result<()> {
    let cpus = match job {
        Job::Node(job) => &job.clients.cpus,
        Job::Redis(job) => &job.clients.cpus,
        _ => return Ok(()),
    };
    let doing = || "keep clients on their processors".to_owned();
    super::pins::pin(cpus).map_err(|source| Error::Processes { doing: doing(), source })
}

/// A worker's line to its parent.
pub(crate) struct Parent<W> {
    orders: Receiver<String>,
    output: W,
}

impl<W: Write> Parent<W> {
    /// The next order.
    pub(crate) fn order(&mut self) -> Result<Order> {
        // The thread that reads ends the process before it hangs up.
        self.orders.recv().map_or(Ok(Order::End), |line| parsed(&line))
    }

    /// Tells the parent something.
    pub(crate) fn report(&mut self, report: &impl Serialize) -> Result<()> {
        let line = serde_json::to_string(report).expect("a report has a JSON form");
        let told = writeln!(self.output, "{line}").and_then(|()| self.output.flush());
        told.map_err(|source| Error::Processes { doing: "report to the parent".to_owned(), source })
    }
}

/// Reads orders on a thread of its own, which ends the process when the parent is gone.
fn follow(input: impl BufRead + Send + 'static) -> Receiver<String> {
    let (sender, orders) = mpsc::channel();
    thread::spawn(move || {
        let end = serde_json::to_string(&Order::End).expect("an order has a JSON form");
        for line in input.lines() {
            let Ok(line) = line else { break };
            let is_last = line == end;
            if sender.send(line).is_err() || is_last {
                return;
            }
        }
        process::exit(ORPHANED);
    });
    orders
}

fn parsed<T: DeserializeOwned>(line: &str) -> Result<T> {
    serde_json::from_str(line).map_err(|error| {
        let problem =
            format!("{error}; workers are started by `farwood bench` and `farwood demo`, not by people");
        Error::parameter("worker", "this is no job", problem)
    })
}
