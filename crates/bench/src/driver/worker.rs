//! The worker's side of the protocol: a process that executes one job and the commands of its parent process.

use std::io::{BufRead, Write};
use std::process;
use std::sync::mpsc::{self, Receiver};
use std::thread;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::protocol::{JobMessage, Order, Report};
use crate::{Error, Result};

/// Exit code of a worker whose parent has ended.
const PARENT_GONE: i32 = 3;

/// The job of one worker process: its parameters, and what the worker does with them.
pub trait Job: Serialize + DeserializeOwned {
    /// The name of the job in messages; no two jobs of a program share one.
    const KIND: &'static str;

    /// Executes the job.
    ///
    /// # Errors
    /// Any error of the job; the worker sends it to the parent.
    fn run(self, parent: &mut ParentConnection<'_>) -> Result<()>;
}

/// A job that a program can execute, by its name.
#[derive(Clone, Copy, Debug)]
pub struct JobKind {
    name: &'static str,
    run: fn(Value, &mut ParentConnection<'_>) -> Result<()>,
}

impl JobKind {
    /// The kind of the jobs `J`.
    pub const fn of<J: Job>() -> JobKind {
        JobKind { name: J::KIND, run: |body, parent| parse(body, serde_json::from_value::<J>)?.run(parent) }
    }
}

/// The message that starts `job` in a worker.
pub(crate) fn message<J: Job>(job: &J) -> JobMessage {
    let body = serde_json::to_value(job).expect("a job has a JSON form");
    JobMessage { kind: J::KIND.to_owned(), body }
}

/// Executes the job that `input` names, which must be one of `kinds`, and reports to `output`. The process exits with
/// code 3 if `input` closes before an order to end.
///
/// # Errors
/// An unknown job, and every error of the job; the error has been reported to the parent.
pub fn serve(
    mut input: impl BufRead + Send + 'static,
    mut output: impl Write,
    kinds: &[JobKind],
) -> Result<()> {
    let mut line = String::new();
    let read = input.read_line(&mut line);
    read.map_err(|source| Error::Processes { doing: "read the job".to_owned(), source })?;
    let JobMessage { kind, body } = parse(&line, |line| serde_json::from_str(line))?;
    let Some(known) = kinds.iter().find(|known| known.name == kind) else {
        let problem = format!("this program has no job '{kind}'");
        return Err(Error::parameter("worker", problem, "run the program that started the worker"));
    };
    let mut parent = ParentConnection { input: Some(Box::new(input)), orders: None, output: &mut output };
    let done = (known.run)(body, &mut parent);
    if let Err(error) = &done {
        parent.report(&Report::Failed(error.to_string()))?;
    }
    done
}

/// A worker's connection to its parent.
pub struct ParentConnection<'w> {
    /// `None` after a thread has begun to read from it.
    input: Option<Box<dyn BufRead + Send>>,
    orders: Option<Receiver<String>>,
    output: &'w mut dyn Write,
}

impl ParentConnection<'_> {
    /// Starts the thread that reads orders, and that ends the process as soon as the parent has ended. A job calls this
    /// after it has pinned itself to CPUs, which threads inherit, and before it begins its work.
    pub fn follow(&mut self) {
        if let Some(input) = self.input.take() {
            self.orders = Some(read_orders(input));
        }
    }

    /// Waits for the next order.
    ///
    /// # Errors
    /// The line is not an order.
    pub fn order(&mut self) -> Result<Order> {
        self.follow();
        let Some(orders) = &self.orders else { unreachable!("follow() has started the reader") };
        // The reader ends the process before it closes the channel.
        orders.recv().map_or(Ok(Order::End), |line| parse(&line, |line| serde_json::from_str(line)))
    }

    /// Waits until the parent closes the pipe, without ending this process.
    pub(crate) fn wait_for_close(&mut self) {
        let mut line = String::new();
        if let Some(input) = &mut self.input {
            while input.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
                line.clear();
            }
        }
    }

    /// Sends a report.
    ///
    /// # Errors
    /// The pipe is closed.
    pub fn report(&mut self, report: &Report) -> Result<()> {
        let line = serde_json::to_string(report).expect("a report has a JSON form");
        let sent = writeln!(self.output, "{line}").and_then(|()| self.output.flush());
        sent.map_err(|source| Error::Processes { doing: "report to the parent".to_owned(), source })
    }

    /// Sends a result whose format only the job and its parent define.
    ///
    /// # Errors
    /// The pipe is closed.
    pub fn output(&mut self, output: &impl Serialize) -> Result<()> {
        self.report(&Report::Output(serde_json::to_value(output).expect("an output has a JSON form")))
    }
}

/// Reads orders on a separate thread, which ends the process when the parent has ended.
fn read_orders(input: Box<dyn BufRead + Send>) -> Receiver<String> {
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
        process::exit(PARENT_GONE);
    });
    orders
}

fn parse<I, T>(input: I, read: impl FnOnce(I) -> serde_json::Result<T>) -> Result<T> {
    read(input).map_err(|error| {
        let remedy = format!("{error}; `farwood bench` and `farwood demo` start workers themselves");
        Error::parameter("worker", "the input is not a job", remedy)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Serialize, Deserialize)]
    struct Echo(u64);

    impl Job for Echo {
        const KIND: &'static str = "echo";

        fn run(self, parent: &mut ParentConnection<'_>) -> Result<()> {
            if self.0 == 0 {
                return Err(Error::WrongAnswer("zero".to_owned()));
            }
            parent.output(&self.0)
        }
    }

    fn answer(job: &JobMessage) -> (Result<()>, String) {
        let input = serde_json::to_vec(job).unwrap();
        let mut output = Vec::new();
        let done = serve(std::io::Cursor::new(input), &mut output, &[JobKind::of::<Echo>()]);
        (done, String::from_utf8(output).unwrap())
    }

    #[test]
    fn a_registered_job_runs_and_its_error_is_reported() {
        assert_eq!(answer(&message(&Echo(7))).1, "{\"Output\":7}\n");
        let (done, output) = answer(&message(&Echo(0)));
        assert!(done.is_err() && output.contains("Failed") && output.contains("zero"), "{output}");
    }

    #[test]
    fn an_unknown_job_and_a_body_of_another_job_are_refused() {
        let unknown = JobMessage { kind: "nosuch".to_owned(), body: Value::Null };
        assert!(answer(&unknown).0.unwrap_err().to_string().contains("no job 'nosuch'"));
        let wrong = JobMessage { kind: "echo".to_owned(), body: Value::from("seven") };
        assert!(answer(&wrong).0.unwrap_err().to_string().contains("not a job"));
    }
}
