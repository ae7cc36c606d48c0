//! Determines which operations of a simulated run are measured, and the speed of the simulator.
//!
//! Clients work from the beginning of the warm-up. In a phase of a fixed time, an operation counts if it ends in the
//! phase, even if it began before: as many operations are in progress at the end of the phase as at its beginning. In a
//! phase of a fixed number of operations, an operation counts if it begins in the phase. The phase of a load can begin
//! once a given number of keys is inserted, and ends when the first client finds no key left to insert: in all of the
//! phase, all clients work.
//!
//! A phase can also begin when the throughput is steady: the stopwatch then counts the operations of windows of the
//! warm-up, and the begin and the end of the phase are unknown until the warm-up ends. Faults happen at times since the
//! begin of the phase.

use std::cell::{Cell, RefCell};
use std::ops::Range;

use farwood_sim::fault::{FaultRule, FaultTrigger};
use farwood_sim::{RunOutcome, TaskGroup, World};

use super::clock::Clock;
use super::protocol::Amount;
use super::steady::{Arrivals, WINDOWS_MAX, is_steady};
use super::timeline::{Timeline, TimelineShape};
use crate::record::measurement::{CostTotals, Measurement, OperationKind};
use crate::record::timeline::TimelineBucket;
use crate::{Error, Result};

/// The measurement that all clients of a simulated run share.
pub struct Stopwatch {
    /// The start of the measured phase, in virtual nanoseconds; `u64::MAX` while unknown.
    begin: Cell<u64>,
    /// Operations that must still end before the phase begins.
    warm_up_left: Cell<u64>,
    /// The end of the phase; `u64::MAX` if it ends with an operation, or while unknown.
    end: Cell<u64>,
    /// The windows of a warm-up that ends when the throughput is steady.
    windows: Option<SteadyWindows>,
    /// Operations that ended in the present window.
    window_operations: Cell<u64>,
    /// The end of the present window.
    window_end: Cell<u64>,
    /// Operations of threads that are ahead of the end of the present window: they count if the phase begins there.
    ahead: RefCell<Vec<(OperationKind, Range<u64>, CostTotals)>>,
    /// The longest operation that began before the end of the phase and ended after it, in nanoseconds.
    unfinished_max: Cell<u64>,
    /// The faults of the phase; their times count from its begin.
    faults: Vec<FaultRule>,
    timeline: Option<RefCell<Timeline>>,
    failed_operations: Cell<u64>,
    /// The amount of work of each client in the phase.
    amount: Amount,
    counted: CountedOperations,
    /// The time at which the first client found no key left to insert; `u64::MAX` before.
    exhausted: Cell<u64>,
    /// The end of the last operation that counts.
    last: Cell<u64>,
    measurement: RefCell<Measurement>,
    failed: RefCell<Option<Error>>,
}

/// The windows of a warm-up that ends when the throughput is steady.
#[derive(Clone, Copy, Debug)]
pub struct SteadyWindows {
    /// Virtual seconds of a window.
    pub seconds: f64,
    /// The origin of differences between windows.
    pub arrivals: Arrivals,
}

/// The operations that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CountedOperations {
    /// Those that begin in the phase.
    Begun,
    /// Those that end in the phase.
    Ended,
}

/// The result of a simulated run.
pub struct Timed {
    /// The operations that count.
    pub measurement: Measurement,
    /// Virtual seconds of the measured phase.
    pub seconds: f64,
    /// Virtual seconds before the measured phase.
    pub warm_up_seconds: f64,
    /// Whether the throughput became steady, if the warm-up waited for it.
    pub warm_up_steady: Option<bool>,
    /// The operations of intervals of the phase, if they were counted.
    pub timeline: Vec<TimelineBucket>,
    /// Operations of the phase that faults made fail.
    pub failed_operations: u64,
    /// The longest operation that began before the end of the phase and ended after it, in nanoseconds; 0 if there is
    /// none, or if the phase ends with an operation.
    pub unfinished_max_ns: u64,
    /// Verbs simulated per second of real time: in the measured phase, or in the whole run if operations precede it.
    pub verbs_per_second: f64,
}

impl Stopwatch {
    /// A phase in which every client does `amount`, and which begins after `warm_up_seconds` of virtual time.
    pub fn new(world: &World, warm_up_seconds: f64, amount: Amount) -> Stopwatch {
        let begin = world.now() + nanoseconds(warm_up_seconds);
        let (end, counted) = match amount {
            Amount::Seconds(seconds) => (begin + nanoseconds(seconds), CountedOperations::Ended),
            Amount::Operations(_) => (u64::MAX, CountedOperations::Begun),
        };
        Stopwatch {
            begin: Cell::new(begin),
            warm_up_left: Cell::new(0),
            end: Cell::new(end),
            windows: None,
            window_operations: Cell::new(0),
            window_end: Cell::new(u64::MAX),
            ahead: RefCell::default(),
            unfinished_max: Cell::new(0),
            faults: Vec::new(),
            timeline: None,
            failed_operations: Cell::new(0),
            amount,
            counted,
            exhausted: Cell::new(u64::MAX),
            last: Cell::new(0),
            measurement: RefCell::default(),
            failed: RefCell::default(),
        }
    }

    /// A phase of a load, which begins after `warm_up_operations` of all clients, and ends at the latest when the first
    /// client finds no key left to insert.
    pub fn of_load(world: &World, warm_up_operations: u64, amount: Amount) -> Stopwatch {
        let stopwatch = Stopwatch::new(world, 0.0, amount);
        if warm_up_operations > 0 {
            stopwatch.begin.set(u64::MAX);
        }
        let warm_up_left = Cell::new(warm_up_operations);
        Stopwatch { warm_up_left, counted: CountedOperations::Ended, ..stopwatch }
    }

    /// The same phase after a warm-up that ends when the throughput is steady.
    #[must_use]
    pub fn after_steady(self, windows: SteadyWindows) -> Stopwatch {
        self.begin.set(u64::MAX);
        self.end.set(u64::MAX);
        Stopwatch { windows: Some(windows), ..self }
    }

    /// The same phase, whose operations are also counted in intervals.
    #[must_use]
    pub fn with_timeline(self, shape: Option<TimelineShape>) -> Stopwatch {
        Stopwatch { timeline: shape.map(|shape| RefCell::new(Timeline::new(shape))), ..self }
    }

    /// The same phase, with faults whose times count from its begin. The begin must not be an operation.
    #[must_use]
    pub fn with_faults(self, faults: Vec<FaultRule>) -> Stopwatch {
        Stopwatch { faults, ..self }
    }

    /// The start of the measured phase.
    pub fn begin(&self) -> u64 {
        self.begin.get()
    }

    /// Whether a client stops that has done `done` operations which count.
    pub fn is_over(&self, now: u64, done: u64) -> bool {
        now >= self.end.get()
            || matches!(self.amount, Amount::Operations(share) if done >= share)
            || self.failed.borrow().is_some()
    }

    /// Records an operation if it counts; returns 1 if it does, and 0 if not.
    pub fn record(&self, kind: OperationKind, time: Range<u64>, costs: &CostTotals) -> u64 {
        let begin = self.begin.get();
        let is_in_phase = match self.counted {
            CountedOperations::Ended => (begin..self.end.get()).contains(&time.end),
            CountedOperations::Begun => time.start >= begin,
        };
        let counts = is_in_phase && time.end <= self.exhausted.get();
        self.note_unfinished(&time);
        if time.end >= self.window_end.get() && self.counted == CountedOperations::Ended {
            self.ahead.borrow_mut().push((kind, time.clone(), *costs));
        }
        if self.warm_up_left.get() > 0 {
            self.warm_up_left.update(|left| left - 1);
            if self.warm_up_left.get() == 0 {
                self.begin.set(time.end);
            }
        }
        self.window_operations.update(|operations| operations + 1);
        if counts {
            self.measurement.borrow_mut().record(kind, time.end - time.start, costs);
            self.last.set(self.last.get().max(time.end));
            if let Some(timeline) = &self.timeline {
                timeline.borrow_mut().record(time.end - begin, time.end - time.start);
            }
        }
        u64::from(counts)
    }

    /// Notes the duration of an operation that ended after the phase.
    fn note_unfinished(&self, time: &Range<u64>) {
        if (time.start..=time.end).contains(&self.end.get()) {
            self.unfinished_max.set(self.unfinished_max.get().max(time.end - time.start));
        }
    }

    /// Counts an operation that a fault made fail.
    pub fn record_failed(&self, time: Range<u64>) {
        self.note_unfinished(&time);
        let (begin, now) = (self.begin.get(), time.end);
        if !(begin..self.end.get()).contains(&now) {
            return;
        }
        self.failed_operations.update(|failed| failed + 1);
        if let Some(timeline) = &self.timeline {
            timeline.borrow_mut().record_failed(now - begin);
        }
    }

    /// Ends the phase, because a client has no key left to insert; clients that still insert one do not count.
    pub fn exhaust(&self, now: u64) {
        self.exhausted.set(self.exhausted.get().min(now));
    }

    /// Ends the run with an error; the first one is kept.
    pub fn fail(&self, error: impl Into<Error>) {
        self.failed.borrow_mut().get_or_insert(error.into());
    }

    /// Runs all clients to their end.
    pub fn run(&self, world: &World, mut group: TaskGroup<'_>) -> Result<Timed> {
        let since = world.now();
        let warm_up_steady = self.warm_up(world, &mut group)?;
        self.inject(world);
        let (clock, verbs) = (Clock::new(), world.counts().verbs());
        let ended = run_until(&mut group, self.end.get())?;
        let (real, verbs) = (clock.now().max(1), world.counts().verbs() - verbs);
        // Operations that have begun are finished, so that the index is consistent and every answer is checked.
        run_until(&mut group, u64::MAX)?;
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let begin = self.begin.get();
        // The phase has not begun if too few keys were inserted; its duration is then 0.
        let length_ns = self.end_of(ended).saturating_sub(begin);
        Ok(Timed {
            measurement: self.measurement.take(),
            seconds: length_ns as f64 / 1e9,
            warm_up_seconds: begin.saturating_sub(since) as f64 / 1e9,
            warm_up_steady,
            timeline: self.timeline.as_ref().map_or_else(Vec::new, |all| all.borrow_mut().finish(length_ns)),
            failed_operations: self.failed_operations.get(),
            unfinished_max_ns: self.unfinished_max.get(),
            verbs_per_second: verbs as f64 * 1e9 / real as f64,
        })
    }

    /// The end of the phase, after a run that reached it, or whose clients ended before.
    fn end_of(&self, ended: RunOutcome) -> u64 {
        match (ended, self.exhausted.get()) {
            (RunOutcome::Time, u64::MAX) => self.end.get(),
            (_, u64::MAX) => self.last.get().max(self.begin.get().saturating_add(1)),
            (_, exhausted) => exhausted.min(self.end.get()),
        }
    }

    /// Runs the clients until the phase begins; yields whether the throughput is steady, if the warm-up waits for it.
    fn warm_up(&self, world: &World, group: &mut TaskGroup<'_>) -> Result<Option<bool>> {
        let Some(windows) = self.windows else {
            if self.warm_up_left.get() == 0 {
                run_until(group, self.begin.get())?;
            }
            return Ok(None);
        };
        let mut window_end = world.now();
        let mut operations = Vec::new();
        let mut steady = false;
        while !steady && operations.len() < WINDOWS_MAX {
            window_end += nanoseconds(windows.seconds);
            self.window_end.set(window_end);
            self.ahead.borrow_mut().clear();
            run_until(group, window_end)?;
            operations.push(self.window_operations.take());
            steady = is_steady(&operations, windows.arrivals);
        }
        self.begin.set(window_end);
        if let Amount::Seconds(seconds) = self.amount {
            self.end.set(window_end + nanoseconds(seconds));
        }
        self.window_end.set(u64::MAX);
        for (kind, time, costs) in self.ahead.take() {
            self.record(kind, time, &costs);
        }
        Ok(Some(steady))
    }

    /// Adds the faults of the phase, which begins now.
    fn inject(&self, world: &World) {
        for FaultRule { when, fault } in &self.faults {
            let when = match when {
                FaultTrigger::Time(time) => FaultTrigger::Time(self.begin.get() + time),
                when => *when,
            };
            world.add_rule(FaultRule { when, fault: *fault });
        }
    }
}

fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}

fn run_until(group: &mut TaskGroup<'_>, time: u64) -> Result<RunOutcome> {
    match group.run_until(time) {
        RunOutcome::Stuck(works) => Err(farwood_sim::Stuck(works).into()),
        ended => Ok(ended),
    }
}
