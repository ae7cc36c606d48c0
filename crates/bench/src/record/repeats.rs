//! Several runs that differ only in their seed.

use serde::{Deserialize, Serialize};

use super::Record;

/// The throughput of several runs that differ only in their seed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Repeats {
    /// Throughput of each run in million operations per second, in the order of the seeds.
    pub mops: Vec<f64>,
    /// The mean throughput.
    pub mean: f64,
    /// Half the width of the interval that contains the mean of all seeds with 95 % confidence (Student's t).
    pub half_width95: f64,
}

/// Quantiles of Student's t distribution for a two-sided interval of 95 %, from one degree of freedom on.
const T95: [f64; 20] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086,
];
/// The quantile for more degrees of freedom: a little too large for them.
const T95_MORE: f64 = 2.08;

impl Repeats {
    /// The throughputs of runs; `None` for a single one.
    pub fn of(mops: Vec<f64>) -> Option<Self> {
        let count = mops.len();
        if count < 2 {
            return None;
        }
        let mean = mops.iter().sum::<f64>() / count as f64;
        let squares: f64 = mops.iter().map(|one| (one - mean).powi(2)).sum();
        let deviation = (squares / (count - 1) as f64).sqrt();
        let quantile = T95.get(count - 2).copied().unwrap_or(T95_MORE);
        Some(Self { mops, mean, half_width95: quantile * deviation / (count as f64).sqrt() })
    }
}

/// The records of the first of several runs, with the throughputs of all. `runs`: the records of each run, in one
/// order.
pub fn repeated(runs: &[Vec<Record>]) -> Vec<Record> {
    let Some(first) = runs.first() else { return Vec::new() };
    let of = |(number, record): (usize, &Record)| {
        let mops = runs.iter().filter_map(|run| Some(run.get(number)?.mops)).collect();
        Record { repeats: Repeats::of(mops), ..record.clone() }
    };
    first.iter().enumerate().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_that_of_students_t() {
        let repeats = Repeats::of(vec![10.0, 12.0, 14.0]).unwrap();
        assert!((repeats.mean - 12.0).abs() < 1e-9, "{repeats:?}");
        // The deviation is 2.
        assert!((repeats.half_width95 - 4.303 * 2.0 / 3_f64.sqrt()).abs() < 1e-9, "{repeats:?}");
        assert_eq!(Repeats::of(vec![1.0]), None);
        let many = Repeats::of((0..100).map(f64::from).collect()).unwrap();
        assert!((many.half_width95 - 2.08 * 29.01 / 10.0).abs() < 0.01, "{many:?}");
    }

    #[test]
    fn records_keep_the_first_run_and_the_throughputs_of_all() {
        let record = |mops| Record { mops, ..Record::default() };
        let merged = repeated(&[vec![record(1.0), record(5.0)], vec![record(3.0), record(7.0)]]);
        let means: Vec<_> = merged.iter().map(|record| record.repeats.as_ref().unwrap().mean).collect();
        let shown = format!("{} {} {means:?}", merged[0].mops, merged[1].mops);
        assert_eq!(shown, "1 5 [2.0, 6.0]");
        assert_eq!(repeated(&[vec![record(1.0)]])[0].repeats, None);
    }
}
