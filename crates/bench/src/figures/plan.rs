//! The runs of several figures: figures share the records of equal runs, a run whose record exists is not repeated, and
//! several threads execute the others.
//!
//! Each run has its own simulated world and one thread, so the records do not depend on the number of threads.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread;

use super::changes::SetupChanges;
use super::figure::{Effort, Figure};
use super::run::Run;
use crate::record::Record;
use crate::record::machine::{self, is_exact};
use crate::{Error, Result};

/// A run with the figure that it belongs to first.
struct PlannedRun {
    run: Run,
    figure: &'static Figure,
    /// The number of the run in that figure, from 1.
    number: usize,
    /// An estimate of the seconds of real time that the run takes.
    seconds: f64,
    record: Option<Record>,
}

/// A figure with the positions of its runs in the plan.
struct PlannedFigure {
    figure: &'static Figure,
    runs: Vec<usize>,
    is_reported: bool,
}

/// The runs of some figures.
pub struct FigurePlan {
    effort: Effort,
    figures: Vec<PlannedFigure>,
    runs: Vec<PlannedRun>,
}

/// An event of [`FigurePlan::execute`].
pub enum FigureEvent<'p> {
    /// A run begins.
    Started(RunProgress),
    /// A run has ended.
    Finished {
        /// The figure that the run belongs to.
        figure: &'static Figure,
        /// The record of the run.
        record: &'p Record,
    },
    /// All runs of a figure have ended.
    Complete {
        /// The figure.
        figure: &'static Figure,
        /// The records of its runs, in their order.
        records: Vec<Record>,
    },
}

/// The run that begins, and the state of the plan.
#[derive(Clone, Copy, Debug)]
pub struct RunProgress {
    /// The name of the figure.
    pub figure: &'static str,
    /// The number of the run in the figure, from 1.
    pub number: usize,
    /// The number of runs of the figure.
    pub of: usize,
    /// The estimated seconds until all runs have ended.
    pub seconds_left: f64,
    /// The share of the estimated time that the finished runs take, from 0 to 1.
    pub share_done: f64,
}

/// A message of a thread: the position of a run that begins, or that has ended.
enum Message {
    Started(usize),
    Finished(usize, Box<Result<Record>>),
}

impl FigurePlan {
    /// Plans the runs of `figures`.
    pub fn new(figures: &[&'static Figure], effort: Effort) -> FigurePlan {
        Self::with_changes(figures, effort, &SetupChanges::default())
    }

    /// Plans the runs of `figures` with some parameters changed.
    pub fn with_changes(figures: &[&'static Figure], effort: Effort, changes: &SetupChanges) -> FigurePlan {
        let mut plan = FigurePlan { effort, figures: Vec::new(), runs: Vec::new() };
        let mut known: HashMap<String, usize> = HashMap::new();
        for figure in figures {
            let mut positions = Vec::new();
            for (at, run) in (figure.runs)(effort).into_iter().map(|run| changes.apply(run)).enumerate() {
                let position = *known.entry(run.hash()).or_insert_with(|| {
                    let (number, seconds) = (at + 1, run.seconds_estimate());
                    plan.runs.push(PlannedRun { run, figure, number, seconds, record: None });
                    plan.runs.len() - 1
                });
                positions.push(position);
            }
            plan.figures.push(PlannedFigure { figure, runs: positions, is_reported: false });
        }
        plan
    }

    /// Takes the records of earlier executions instead of repeating their runs, if the same commit and profile made
    /// them. The duration of a run in a record of another commit replaces the estimate. Yields the number of runs that
    /// are not repeated.
    pub fn reuse(&mut self, records: impl IntoIterator<Item = Record>) -> usize {
        self.reuse_of(records, &machine::commit(), &machine::profile())
    }

    pub(super) fn reuse_of(
        &mut self,
        records: impl IntoIterator<Item = Record>,
        commit: &str,
        profile: &str,
    ) -> usize {
        let mut known: HashMap<String, &mut PlannedRun> =
            self.runs.iter_mut().map(|planned| (planned.run.hash(), planned)).collect();
        for record in records {
            let Some(planned) = known.get_mut(&record.spec_hash) else { continue };
            planned.seconds = record.host_seconds.unwrap_or(planned.seconds);
            if is_exact(commit) && record.commit == commit && record.profile == profile {
                planned.record = Some(record);
            }
        }
        self.runs.iter().filter(|planned| planned.record.is_some()).count()
    }

    /// Checks that the files exist that the runs without records read, before hours of other runs.
    ///
    /// # Errors
    /// [`Error::Parameter`] with the figure and the file.
    pub fn check_files(&self) -> Result<()> {
        let mut todo = self.runs.iter().filter(|planned| planned.record.is_none());
        let missing = todo.find_map(|planned| Some((planned.figure.name, planned.run.missing_file()?)));
        missing.map_or(Ok(()), |(figure, file)| {
            Err(Error::parameter(
                "FIGURE",
                format!("{figure} reads {}, which does not exist", file.display()),
                "execute the command in the root of the repository, after the script in its folder data that fetches \
                 the file; or name other figures",
            ))
        })
    }

    /// The number of different runs.
    pub fn len(&self) -> usize {
        self.runs.len()
    }

    /// Whether there are no runs.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Executes the runs without records on `jobs` threads, and reports to `observe`. After an error of a run or of
    /// `observe`, runs that have begun end and are reported, and no other run begins.
    ///
    /// # Errors
    /// The first error of a run or of `observe`.
    pub fn execute<E: From<Error>>(
        &mut self,
        jobs: NonZeroUsize,
        observe: &mut dyn FnMut(FigureEvent<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.report(observe)?;
        let todo: Vec<(usize, Run)> = self
            .runs
            .iter()
            .enumerate()
            .filter(|(_, planned)| planned.record.is_none())
            .map(|(position, planned)| (position, planned.run.clone()))
            .collect();
        let next = AtomicUsize::new(0);
        let mut result = Ok(());
        thread::scope(|scope| {
            let (sender, messages) = mpsc::channel();
            for _ in 0..jobs.get().min(todo.len()) {
                let sender = sender.clone();
                let (todo, next) = (&todo, &next);
                scope.spawn(move || execute_runs(todo, next, &sender));
            }
            drop(sender);
            for message in messages {
                if let Err(error) = self.handle(message, jobs, observe) {
                    next.store(todo.len(), Ordering::Relaxed);
                    result = std::mem::replace(&mut result, Ok(())).and(Err(error));
                }
            }
        });
        result
    }

    fn handle<E: From<Error>>(
        &mut self,
        message: Message,
        jobs: NonZeroUsize,
        observe: &mut dyn FnMut(FigureEvent<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        match message {
            Message::Started(position) => observe(FigureEvent::Started(self.progress(position, jobs))),
            Message::Finished(position, record) => {
                let planned = &mut self.runs[position];
                let record = Record { command: planned.figure.command(self.effort), ..(*record)? };
                let record = planned.record.insert(record);
                observe(FigureEvent::Finished { figure: planned.figure, record })?;
                self.report(observe)
            }
        }
    }

    /// Reports the figures whose runs have all ended.
    fn report<E>(&mut self, observe: &mut dyn FnMut(FigureEvent<'_>) -> Result<(), E>) -> Result<(), E> {
        for PlannedFigure { figure, runs, is_reported } in &mut self.figures {
            let records: Option<Vec<Record>> =
                runs.iter().map(|position| self.runs[*position].record.clone()).collect();
            if let (Some(records), false) = (records, *is_reported) {
                *is_reported = true;
                let command = figure.command(self.effort);
                let records = records.into_iter().map(|record| Record { command: command.clone(), ..record });
                observe(FigureEvent::Complete { figure, records: records.collect() })?;
            }
        }
        Ok(())
    }

    /// The state of the plan when the run at `position` begins. The estimates of the runs to come are corrected by the
    /// ratio of the durations of the finished runs to their estimates.
    fn progress(&self, position: usize, jobs: NonZeroUsize) -> RunProgress {
        let (mut taken, mut done, mut left) = (0.0, 0.0, 0.0);
        for PlannedRun { record, seconds, .. } in &self.runs {
            match record {
                Some(record) => {
                    taken += record.host_seconds.unwrap_or(*seconds);
                    done += seconds;
                }
                None => left += seconds,
            }
        }
        let correction = if done > 0.0 { taken / done } else { 1.0 };
        let PlannedRun { figure, number, .. } = &self.runs[position];
        RunProgress {
            figure: figure.name,
            number: *number,
            of: (figure.runs)(self.effort).len(),
            seconds_left: correction * left / jobs.get() as f64,
            share_done: done / (done + left),
        }
    }
}

/// Executes runs until none is left or the receiver of the messages is gone.
fn execute_runs(todo: &[(usize, Run)], next: &AtomicUsize, messages: &Sender<Message>) {
    while let Some((position, run)) = todo.get(next.fetch_add(1, Ordering::Relaxed)) {
        let is_heard = messages.send(Message::Started(*position)).is_ok()
            && messages.send(Message::Finished(*position, Box::new(run.execute()))).is_ok();
        if !is_heard {
            return;
        }
    }
}
