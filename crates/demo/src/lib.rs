//! The demo: several processes work on one index at the same time, and every answer is checked.
//!
//! - [`run_ordered_demo`]: English words in an ordered index;
//! - [`run_spatial_demo`]: coastlines and ships in a spatial index.
//!
//! This crate prints nothing. A demo returns its benchmark record, the number of answers, and the wrong answers.

#![forbid(unsafe_code)]

mod ordered;
mod spatial;

pub use ordered::{OrderedDemoOutcome, OrderedDemoSpec, run_ordered_demo};
pub use spatial::{
    Coastlines, SampleSearch, SpatialDemoOutcome, SpatialDemoSpec, map_png, map_svg, run_spatial_demo,
};

use farwood_bench::driver::worker::JobKind;
use farwood_bench::run::FabricKind;
use farwood_bench::{Error, Result};
use serde::{Deserialize, Serialize};

/// The jobs of the demo's worker processes. They also need those of [`farwood_bench::run::JOBS`].
pub const JOBS: &[JobKind] =
    &[JobKind::of::<ordered::OrderedDemoJob>(), JobKind::of::<spatial::SpatialDemoJob>()];

/// Maximum number of wrong answers that are described.
const EXAMPLES_MAX: usize = 10;

/// The current phase of a demo, for a progress bar.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DemoPhase {
    /// The pool is created and the index loaded.
    Loading {
        /// Entries loaded.
        done: u64,
        /// Entries to load.
        all: u64,
    },
    /// The demo starts its processes.
    Starting,
    /// All processes run their operations.
    Working,
    /// The whole index is compared with the clients' models, and its invariants are checked.
    Comparing,
}

/// The number of checked answers, and the wrong ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct CheckedAnswers {
    answers: u64,
    wrong: u64,
    examples: Vec<String>,
}

impl CheckedAnswers {
    /// Counts an answer, and keeps the descriptions of the first wrong answers.
    fn count(&mut self, result: std::result::Result<(), String>) {
        self.answers += 1;
        if let Err(problem) = result {
            self.wrong += 1;
            if self.examples.len() < EXAMPLES_MAX {
                self.examples.push(problem);
            }
        }
    }

    fn add(&mut self, other: CheckedAnswers) {
        self.answers += other.answers;
        self.wrong += other.wrong;
        self.examples.extend(other.examples);
        self.examples.truncate(EXAMPLES_MAX);
    }
}

/// Checks the parameters that both demos have.
fn check(processes: usize, fabric: FabricKind, seconds: f64) -> Result<()> {
    let refuse = |flag, problem: String, remedy: &str| Err(Error::parameter(flag, problem, remedy));
    if !(2..=64).contains(&processes) {
        return refuse("--processes", format!("{processes} processes"), "give 2 to 64");
    }
    if !matches!(fabric, FabricKind::Shm | FabricKind::Tcp) {
        let problem = format!("the demo runs real processes on this machine, not {fabric}");
        return refuse("--fabric", problem, "give shm or tcp");
    }
    if !(0.1..=3600.0).contains(&seconds) {
        return refuse("--seconds", format!("{seconds} is out of range"), "give 0.1 to 3600");
    }
    Ok(())
}
