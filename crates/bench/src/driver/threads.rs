//! The threads of a worker process. Each thread runs its own clients and waits for the next step, which the parent
//! process commands.

use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, Builder, Scope};

use farwood_transport::heap::into_huge_pages;

use super::clock::Clock;
use super::protocol::{Amount, Order, Report, Round};
use super::worker::ParentConnection;
use crate::record::measurement::Measurement;
use crate::{Error, Result};

/// The clients of one thread.
pub(crate) trait ThreadDriver {
    /// Scans the whole store once.
    fn scan_all(&mut self) -> Result<()>;

    /// Fills the caches that a scan does not fill, by reading this thread's share of the keys.
    fn fill_caches(&mut self) -> Result<()> {
        Ok(())
    }

    /// Executes operations from the warm-up streams of the clients for this number of seconds.
    fn warm_up(&mut self, seconds: f64) -> Result<()>;

    /// Runs the clients and measures them. Every client executes `amount` of work.
    fn measure(&mut self, amount: Amount) -> Result<Measurement>;
}

/// A step of a thread.
#[derive(Clone, Copy)]
enum Step {
    ScanAll,
    FillCaches,
    WarmUp(f64),
    Measure(Amount),
}

/// The channels to and from one client thread.
struct WorkerThread {
    steps: Sender<Step>,
    results: Receiver<Result<Round>>,
}

/// Runs `threads` threads, each with the driver that `make` creates on it, and executes the parent's commands.
/// `used_bytes` reports the memory that the process uses after a round.
pub(crate) fn serve<D: ThreadDriver>(
    parent: &mut ParentConnection<'_>,
    threads: usize,
    clients_of_run: u64,
    make: impl Fn(usize) -> Result<D> + Sync,
    used_bytes: impl Fn() -> Option<u64>,
) -> Result<()> {
    parent.follow();
    thread::scope(|scope| {
        let make = &make;
        let threads: Vec<WorkerThread> =
            (0..threads).map(|number| WorkerThread::start(scope, number, make)).collect::<Result<_>>()?;
        for thread in &threads {
            thread.result()?;
        }
        parent.report(&Report::Ready)?;
        loop {
            match parent.order()? {
                Order::End => return Ok(()),
                Order::WarmUp(seconds) => {
                    run_step(&threads[..1], Step::ScanAll)?;
                    run_step(&threads, Step::FillCaches)?;
                    run_step(&threads, Step::WarmUp(seconds))?;
                    // The caches are read in random order, so huge pages save TLB misses. Without them the run is only
                    // slower, so an error is ignored.
                    let _ = into_huge_pages();
                    parent.report(&Report::Warm)?;
                }
                Order::Measure(amount) => {
                    let mut round = run_step(&threads, Step::Measure(amount.share(clients_of_run)))?;
                    round.bytes = used_bytes();
                    parent.report(&Report::Measured(round))?;
                }
            }
        }
    })
}

/// Runs a step on all threads at the same time, and merges their results.
fn run_step(threads: &[WorkerThread], step: Step) -> Result<Round> {
    for thread in threads {
        // A thread that has ended has sent its error, which result() returns.
        let _ = thread.steps.send(step);
    }
    let mut all = Round::default();
    for thread in threads {
        all.merge(&thread.result()?);
    }
    Ok(all)
}

impl WorkerThread {
    fn start<'s, D: ThreadDriver>(
        scope: &'s Scope<'s, '_>,
        number: usize,
        make: &'s (impl Fn(usize) -> Result<D> + Sync),
    ) -> Result<WorkerThread> {
        let (steps, received) = mpsc::channel();
        let (sender, results) = mpsc::channel();
        let spawned = Builder::new()
            .spawn_scoped(scope, move || run_thread(make(number), &received, &sender))
            .map_err(|source| Error::Processes { doing: format!("start thread {number}"), source });
        spawned.map(|_| WorkerThread { steps, results })
    }

    fn result(&self) -> Result<Round> {
        let panicked = || Error::WrongAnswer("a client thread panicked; its message is above".to_owned());
        self.results.recv().map_err(|_| panicked())?
    }
}

/// Runs the steps of one thread until the sender of the steps is dropped.
fn run_thread<D: ThreadDriver>(driver: Result<D>, steps: &Receiver<Step>, results: &Sender<Result<Round>>) {
    let mut driver = match driver {
        Ok(driver) => driver,
        Err(error) => {
            let _ = results.send(Err(error));
            return;
        }
    };
    let _ = results.send(Ok(Round::default()));
    while let Ok(step) = steps.recv() {
        let clock = Clock::new();
        let done = match step {
            Step::ScanAll => driver.scan_all().map(|()| Measurement::new()),
            Step::FillCaches => driver.fill_caches().map(|()| Measurement::new()),
            Step::WarmUp(seconds) => driver.warm_up(seconds).map(|()| Measurement::new()),
            Step::Measure(amount) => driver.measure(amount),
        };
        let seconds = clock.now() as f64 / 1e9;
        let _ = results.send(done.map(|measurement| Round { measurement, seconds, bytes: None }));
    }
}
