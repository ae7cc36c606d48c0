//! Which of the two paths is faster, learnt by executing some requests by both.
//!
//! Algorithm 1 only offloads from a busy server. Whether messages are the better path to an idle server depends on the
//! network: in shared memory READs are several times as fast, and over TCP messages are. A client learns it by
//! *trials*: it executes one request by both paths, and compares the times. The request is the same, so requests of
//! different sizes do not distort the comparison, and the median of the last trials ignores interruptions.
//!
//! A trial costs as much as a request by the slower path, so the number of requests between two trials grows with the
//! slower path's disadvantage: all trials together take about [`COST_SHARE`] of the time.

use super::adaptive::SearchPath;

/// The trials that decide.
const TRIALS: usize = 9;
/// Requests between the first trials.
const FIRST_INTERVAL: u64 = 4;
/// The share of the time that later trials take.
const COST_SHARE: f64 = 0.01;
/// Limits of the requests between two later trials.
const INTERVAL_MIN: u64 = 64;
const INTERVAL_MAX: u64 = 1 << 16;

/// The times of both paths for the same requests.
#[derive(Clone, Debug, Default)]
pub struct PathComparison {
    /// The last trials: the times by message and by READs.
    times: Vec<[u64; 2]>,
    /// The number of all trials.
    trials: usize,
}

impl PathComparison {
    /// Records a trial: the times that one request took by message and by READs, in the same unit.
    pub fn record(&mut self, message: u64, reads: u64) {
        let times = [message.max(1), reads.max(1)];
        if self.times.len() < TRIALS {
            self.times.push(times);
        } else {
            self.times[self.trials % TRIALS] = times;
        }
        self.trials += 1;
    }

    /// The median time by message divided by that by READs; `None` before the first trial.
    pub fn message_to_reads(&self) -> Option<f64> {
        let mut ratios: Vec<_> =
            self.times.iter().map(|[message, reads]| *message as f64 / *reads as f64).collect();
        ratios.sort_unstable_by(f64::total_cmp);
        ratios.get(ratios.len() / 2).copied()
    }

    /// The faster path; `None` before the first trial.
    pub fn faster(&self) -> Option<SearchPath> {
        let by_reads = self.message_to_reads()? > 1.0;
        Some(if by_reads { SearchPath::Offload } else { SearchPath::Message })
    }

    /// The number of requests until the next trial.
    pub fn interval(&self) -> u64 {
        let Some(faster) = self.faster().filter(|_| self.trials >= TRIALS) else { return FIRST_INTERVAL };
        let total = |path: usize| self.times.iter().map(|times| times[path] as f64).sum::<f64>();
        // All trials cost their time, interrupted ones too.
        let (slower, faster) = match faster {
            SearchPath::Message => (total(1), total(0)),
            SearchPath::Offload => (total(0), total(1)),
        };
        ((slower / faster / COST_SHARE) as u64).clamp(INTERVAL_MIN, INTERVAL_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_the_last_trials_decides() {
        let mut comparison = PathComparison::default();
        assert_eq!((comparison.faster(), comparison.interval()), (None, FIRST_INTERVAL));
        for trial in 0..TRIALS as u64 {
            // A third of the requests by READs are interrupted.
            comparison.record(3_000, if trial % 3 == 0 { 4_000_000 } else { 1_000 });
        }
        assert_eq!(comparison.faster(), Some(SearchPath::Offload));
        for _ in 0..=TRIALS / 2 {
            comparison.record(1_000, 4_000);
        }
        assert_eq!(comparison.faster(), Some(SearchPath::Message));
    }

    #[test]
    fn trials_take_a_hundredth_of_the_time() {
        for (message, reads) in [(1_000, 1_000), (1_000, 4_000), (50_000, 1_000)] {
            let mut comparison = PathComparison::default();
            for _ in 0..TRIALS {
                comparison.record(message, reads);
            }
            let (slower, faster) = (message.max(reads), message.min(reads));
            let share = slower as f64 / (comparison.interval() * faster) as f64;
            assert!(share <= COST_SHARE * 1.02, "{message} and {reads}: {share}");
        }
    }
}
