//! Counters of runs: operations, faults and coverage marks.

use super::super::runner::Sum;
use farwood_sim::fault::FaultCounts;
use std::collections::BTreeMap;

/// Counters of several runs.
#[derive(Clone, Debug, Default)]
pub struct SpatialReport {
    /// Runs.
    pub runs: u64,
    /// Runs that qualified as counted seeds: they had enough searches, commits and faults.
    pub counted: u64,
    /// Answered searches.
    pub searches: u64,
    /// Answered searches that ran while the tree changed.
    pub raced: u64,
    /// Items that were found.
    pub found: u64,
    /// Commits.
    pub commits: u64,
    /// Servers that replaced a crashed one.
    pub successors: u64,
    /// Searches whose errors faults explain.
    pub explained_errors: u64,
    /// Faults.
    pub met: FaultCounts,
    /// Coverage marks, and the number of times that each was passed.
    pub marks: BTreeMap<&'static str, u64>,
    /// Number of runs, by the number of levels of the tree at the end.
    pub levels: [u64; 8],
}

impl Sum for SpatialReport {
    fn add(&mut self, other: &Self) {
        self.runs += other.runs;
        self.counted += other.counted;
        self.searches += other.searches;
        self.raced += other.raced;
        self.found += other.found;
        self.commits += other.commits;
        self.successors += other.successors;
        self.explained_errors += other.explained_errors;
        self.met += other.met;
        for (mark, times) in &other.marks {
            *self.marks.entry(mark).or_default() += times;
        }
        for (own, other) in self.levels.iter_mut().zip(other.levels) {
            *own += other;
        }
    }
}
