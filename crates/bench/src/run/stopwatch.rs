//! When an operation in the laboratory counts, and how fast the laboratory was.
//!
//! Clients work from the beginning of the warm-up on. In a phase that lasts a certain time those operations count that
//! end in it, whenever they began: what is under way at its end is as much as what was at its beginning. Of a phase of
//! so many operations those count that begin in it. A load's phase may begin when so many keys are in.

use std::cell::{Cell, RefCell};
use std::ops::Range;

use farwood_sim::{Crew, Ended, World};

use super::spec::Amount;
use crate::clock::Clock;
use crate::measure::{CostTotals, Measurement, OperationKind};
use crate::{Error, Result};

/// What the clients of a run in the laboratory share.
pub(crate) struct Stopwatch {
    /// When the measured phase begins, virtual nanoseconds; never, while that is not known.
    from: Cell<u64>,
    /// Operations that come to their end before it does, still.
    ahead: Cell<u64>,
    /// When it ends, if that is a matter of time; else never.
    end: u64,
    /// What each client does in it.
    amount: Amount,
    /// The end of the last operation that counts.
    last: Cell<u64>,
    measurement: RefCell<Measurement>,
    failed: RefCell<Option<Error>>,
}

/// What came of a run.
pub(crate) struct Timed {
    pub(crate) measurement: Measurement,
    /// Virtual seconds of the measured phase.
    pub(crate) seconds: f64,
    /// Verbs that were simulated in a second of real time, in that phase, or in all where keys lead to it.
    pub(crate) verbs_per_second: f64,
}

impl Stopwatch {
    /// Every client does `amount`, after so many virtual seconds.
    pub(crate) fn new(world: &World, warm_up_seconds: f64, amount: Amount) -> Stopwatch {
        let from = world.now() + nanoseconds(warm_up_seconds);
        let end = match amount {
            Amount::Seconds(seconds) => from + nanoseconds(seconds),
            Amount::Operations(_) => u64::MAX,
        };
        Stopwatch {
            from: Cell::new(from),
            ahead: Cell::new(0),
            end,
            amount,
            last: Cell::new(0),
            measurement: RefCell::default(),
            failed: RefCell::default(),
        }
    }

    /// The same for clients that have done so many operations before it begins, all of them together.
    pub(crate) fn behind(self, operations: u64) -> Stopwatch {
        if operations > 0 {
            self.from.set(u64::MAX);
        }
        Stopwatch { ahead: Cell::new(operations), ..self }
    }

    /// When the measured phase begins.
    pub(crate) fn from(&self) -> u64 {
        self.from.get()
    }

    /// Whether a client that has done so many operations that count is to stop.
    pub(crate) fn is_over(&self, now: u64, done: u64) -> bool {
        now >= self.end
            || matches!(self.amount, Amount::Operations(share) if done >= share)
            || self.failed.borrow().is_some()
    }

    /// Records an operation if it counts; yields 1 if it does.
    pub(crate) fn record(&self, kind: OperationKind, time: Range<u64>, costs: &CostTotals) -> u64 {
        let from = self.from.get();
        let counts = match self.amount {
            Amount::Seconds(_) => (from..self.end).contains(&time.end),
            Amount::Operations(_) => time.start >= from,
        };
        if self.ahead.get() > 0 {
            self.ahead.update(|ahead| ahead - 1);
            if self.ahead.get() == 0 {
                self.from.set(time.end);
            }
        }
        if counts {
            self.measurement.borrow_mut().record(kind, time.end - time.start, costs);
            self.last.set(self.last.get().max(time.end));
        }
        u64::from(counts)
    }

    /// Ends the run with an error.
    pub(crate) fn fail(&self, error: impl Into<Error>) {
        self.failed.borrow_mut().get_or_insert(error.into());
    }

    /// Lets the crew work to its end.
    pub(crate) fn run(&self, world: &World, mut crew: Crew<'_>) -> Result<Timed> {
        if self.ahead.get() == 0 {
            run_until(&mut crew, self.from.get())?;
        }
        let (clock, verbs) = (Clock::new(), world.counts().verbs());
        let ended = run_until(&mut crew, self.end)?;
        let (real, verbs) = (clock.now().max(1), world.counts().verbs() - verbs);
        // What has begun comes to its end, so that all is left whole and every answer checked.
        run_until(&mut crew, u64::MAX)?;
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let from = self.from.get();
        let end = if ended == Ended::Time { self.end } else { self.last.get().max(from.saturating_add(1)) };
        Ok(Timed {
            measurement: self.measurement.take(),
            // It never began where the keys that were to be in before were not.
            seconds: end.saturating_sub(from) as f64 / 1e9,
            verbs_per_second: verbs as f64 * 1e9 / real as f64,
        })
    }
}

fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}

fn run_until(crew: &mut Crew<'_>, time: u64) -> Result<Ended> {
    match crew.run_until(time) {
        Ended::Stuck(works) => Err(farwood_sim::Stuck(works).into()),
        ended => Ok(ended),
    }
}
