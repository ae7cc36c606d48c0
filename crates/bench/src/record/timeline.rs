//! Throughput and latency over the time of a run.
//!
//! ```text
//! ms    per s  p99 us  failed
//! 0    1.02 M    12.1       0  ##############################
//! 0.8  1.01 M    12.3       0  #############################
//! 1.6  0.53 M   2,010       3  ###############  crash:compute=3
//! ```

use serde::{Deserialize, Serialize};

use super::Record;
use super::table::{aligned, grouped, microseconds, rate};

/// Rows of the text of a timeline. Each row stands for several intervals if there are more.
const ROWS_MAX: usize = 25;
/// Length of the longest bar.
const BAR_MAX: f64 = 30.0;

/// The operations that ended in one interval of the measured phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimelineBucket {
    /// The start of the interval, in seconds since the start of the measured phase.
    pub from_seconds: f64,
    /// The length of the interval. The last one of a phase can be shorter.
    pub seconds: f64,
    /// Operations that ended in the interval.
    pub operations: u64,
    /// Operations that a fault made fail in the interval; absent if there were none.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub failed: u64,
    /// The latency that 99 % of these operations did not exceed, in microseconds; absent if no operation ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_us: Option<f64>,
}

impl TimelineBucket {
    /// Throughput in million operations per second.
    pub fn mops(&self) -> f64 {
        if self.seconds > 0.0 { self.operations as f64 / self.seconds / 1e6 } else { 0.0 }
    }
}

/// A fault that the simulator injected.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultInjected {
    /// The kind of fault, its extent and its machines.
    pub fault: String,
    /// Seconds since the start of the measured phase.
    pub seconds: f64,
}

/// The timeline of a record as a table with a bar for the throughput of each row; empty without a timeline.
pub(super) fn text(record: &Record) -> String {
    let per_row = record.timeline.len().div_ceil(ROWS_MAX).max(1);
    let merged: Vec<TimelineBucket> = record.timeline.chunks(per_row).map(merge).collect();
    let largest = merged.iter().map(TimelineBucket::mops).fold(f64::MIN_POSITIVE, f64::max);
    let mut rows = vec![["ms", "per s", "p99 us", "failed"].map(str::to_owned).to_vec()];
    rows.extend(merged.iter().map(row));
    let mut bars = vec![String::new()];
    bars.extend(merged.iter().map(|bucket| {
        let bar = "#".repeat((BAR_MAX * bucket.mops() / largest).round() as usize);
        format!("  {bar}{}", faults_of(record, bucket))
    }));
    let lines = aligned(&rows);
    if merged.is_empty() {
        return String::new();
    }
    lines.lines().zip(&bars).map(|(line, bar)| format!("{line}{bar}").trim_end().to_owned() + "\n").collect()
}

/// Several intervals as one, with the largest of their p99.
fn merge(buckets: &[TimelineBucket]) -> TimelineBucket {
    TimelineBucket {
        from_seconds: buckets.first().map_or(0.0, |first| first.from_seconds),
        seconds: buckets.iter().map(|bucket| bucket.seconds).sum(),
        operations: buckets.iter().map(|bucket| bucket.operations).sum(),
        failed: buckets.iter().map(|bucket| bucket.failed).sum(),
        p99_us: buckets.iter().filter_map(|bucket| bucket.p99_us).reduce(f64::max),
    }
}

fn row(bucket: &TimelineBucket) -> Vec<String> {
    let from_ms = (bucket.from_seconds * 1e6).round() / 1e3;
    let p99 = bucket.p99_us.map_or_else(|| "-".to_owned(), microseconds);
    vec![from_ms.to_string(), rate(bucket.mops()), p99, grouped(bucket.failed)]
}

/// The faults that happened in an interval.
fn faults_of(record: &Record, bucket: &TimelineBucket) -> String {
    let interval = bucket.from_seconds..bucket.from_seconds + bucket.seconds;
    let within = record.faults_injected.iter().filter(|fault| interval.contains(&fault.seconds));
    within.map(|fault| ["  ", &fault.fault].concat()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeline_is_a_table_with_bars_and_faults() {
        let bucket = |number: u64| TimelineBucket {
            from_seconds: number as f64 * 1e-3,
            seconds: 1e-3,
            operations: if number < 20 { 1000 } else { 500 },
            failed: u64::from(number == 20),
            p99_us: (number < 40).then_some(10.0 + number as f64),
        };
        let fault = FaultInjected { fault: "crash:compute=1".to_owned(), seconds: 0.0205 };
        let timeline = (0..50).map(bucket).collect();
        let record = Record { timeline, faults_injected: vec![fault], ..Record::default() };
        let text = text(&record);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines.len(), lines[0]), (26, "ms   per s  p99 us  failed"), "{text}");
        assert_eq!(lines[1], format!("0   1.00 M    11.0       0  {}", "#".repeat(30)));
        assert_eq!(lines[11], format!("20   500 k    31.0       1  {}  crash:compute=1", "#".repeat(15)));
        assert!(lines[25].starts_with("48   500 k       -       0  ###"), "{text}");
        assert_eq!(super::text(&Record::default()), "");
    }
}
