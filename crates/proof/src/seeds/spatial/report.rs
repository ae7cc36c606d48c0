//! What runs met.

use super::super::many::Sum;
use farwood_sim::fault::Met;
use std::collections::BTreeMap;

/// What runs met.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Runs, and those that count.
    pub runs: u64,
    /// Runs that were counted seeds.
    pub counted: u64,
    /// Answered searches.
    pub searches: u64,
    /// Of those, how many ran while the tree changed.
    pub raced: u64,
    /// What was found, all in all.
    pub found: u64,
    /// Commits.
    pub commits: u64,
    /// Servers that took the place of one that crashed.
    pub successors: u64,
    /// Searches that failed because their memory node was lost.
    pub excused: u64,
    /// Faults.
    pub met: Met,
    /// Marks passed.
    pub marks: BTreeMap<&'static str, u64>,
    /// Runs by the levels of the tree at the end.
    pub levels: [u64; 8],
}

impl Sum for Report {
    fn add(&mut self, other: &Self) {
        self.runs += other.runs;
        self.counted += other.counted;
        self.searches += other.searches;
        self.raced += other.raced;
        self.found += other.found;
        self.commits += other.commits;
        self.successors += other.successors;
        self.excused += other.excused;
        self.met += other.met;
        for (mark, times) in &other.marks {
            *self.marks.entry(mark).or_default() += times;
        }
        for (mine, other) in self.levels.iter_mut().zip(other.levels) {
            *mine += other;
        }
    }
}
