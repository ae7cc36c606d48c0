//! Parameters that only a simulated run of an ordered index has: faults, random arrivals, a timeline, and a warm-up
//! that ends when the throughput is steady.

use super::fabric::FabricKind;
use super::fault::{self, FaultMachines};
use super::ordered::RunSpec;
use super::refuse;
use crate::driver::protocol::Amount;
use crate::driver::steady::{WINDOWS_MAX, window_seconds};
use crate::driver::timeline::{BUCKETS_MAX, TimelineShape};
use crate::workload::Workload;
use crate::{Error, Result};

/// Intervals of the timeline of a run with faults by default.
const BUCKETS_DEFAULT: u64 = 50;
/// The first length of the intervals if the duration of the phase is not known, in nanoseconds.
const BUCKET_NS_FIRST: u64 = 100_000;

/// The end of the warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WarmUpEnd {
    /// It takes the given time.
    #[default]
    AfterTime,
    /// In the simulator: it ends when the throughput is steady, or after 20 windows.
    Steady,
}

impl RunSpec {
    /// The machines on which faults happen.
    pub(crate) fn fault_machines(&self) -> FaultMachines {
        FaultMachines { compute_nodes: self.compute_nodes, memory_nodes: self.memory_nodes }
    }

    /// The most seconds that the warm-up can take.
    pub(super) fn warm_up_seconds_max(&self) -> f64 {
        match self.warm_up_end {
            WarmUpEnd::AfterTime => self.warm_up_seconds(),
            WarmUpEnd::Steady => WINDOWS_MAX as f64 * self.warm_up_window_seconds(),
        }
    }

    /// Seconds of a window of a warm-up that ends when the throughput is steady.
    pub(crate) fn warm_up_window_seconds(&self) -> f64 {
        window_seconds(self.measured_seconds())
    }

    /// Seconds of the measured phase, if it does not end with an operation.
    fn measured_seconds(&self) -> Option<f64> {
        match self.amount() {
            Amount::Seconds(seconds) => Some(seconds),
            Amount::Operations(_) => None,
        }
    }

    /// The intervals of the timeline, if the run has one.
    pub(crate) fn timeline_shape(&self) -> Option<TimelineShape> {
        let seconds = self.measured_seconds();
        let bucket_ns = match (self.timeline_ms, seconds) {
            (Some(milliseconds), _) => (milliseconds * 1e6).round() as u64,
            (None, _) if self.faults.is_empty() => return None,
            (None, Some(seconds)) => ((seconds * 1e9) as u64).div_ceil(BUCKETS_DEFAULT),
            (None, None) => BUCKET_NS_FIRST,
        };
        let is_chosen = self.timeline_ms.is_some() || seconds.is_some();
        let buckets_max = if is_chosen { BUCKETS_MAX } else { 2 * BUCKETS_DEFAULT as usize };
        Some(TimelineShape { bucket_ns: bucket_ns.max(1), buckets_max })
    }

    /// Checks the parameters of this file.
    ///
    /// # Errors
    /// The first parameter that is out of range or contradicts another, with its flag and a remedy.
    pub(super) fn check_simulated(&self) -> Result<()> {
        let is_load = self.workload == Workload::Load;
        let given = [
            ("--fault", !self.faults.is_empty()),
            ("--timeline", self.timeline_ms.is_some()),
            ("--rate", self.rate.is_some()),
            ("--warmup", self.warm_up_end == WarmUpEnd::Steady),
        ];
        for (flag, _) in given.into_iter().filter(|(_, is_given)| *is_given) {
            if self.fabric != FabricKind::Sim {
                let problem = match flag {
                    "--warmup" => "auto is a warm-up of simulated runs",
                    _ => "only simulated runs have this option",
                };
                return refuse(flag, problem, "add --fabric sim, or omit it");
            }
            if is_load && matches!(flag, "--fault" | "--warmup") {
                let problem = "a load has neither faults nor a warm-up until the throughput is steady";
                return refuse(flag, problem, "omit it, or give another --workload");
            }
        }
        if self.rate == Some(0) {
            return refuse("--rate", "0 operations per second", "give at least 1, for example 200k");
        }
        let end_ns = self.measured_seconds().map(|seconds| (seconds * 1e9) as u64);
        fault::check(&self.faults, self.fault_machines(), end_ns)?;
        self.check_timeline()
    }

    fn check_timeline(&self) -> Result<()> {
        let Some(milliseconds) = self.timeline_ms else { return Ok(()) };
        if !(1e-3..=1e9).contains(&milliseconds) {
            let problem = format!("{milliseconds} ms is not the length of an interval");
            return refuse("--timeline", &problem, "give 0.001 to 1e9 milliseconds, for example 0.5");
        }
        let Some(seconds) = self.measured_seconds() else { return Ok(()) };
        let buckets = (seconds * 1e3 / milliseconds).ceil();
        if buckets > BUCKETS_MAX as f64 {
            let problem = format!("{seconds} s have {buckets} intervals of {milliseconds} ms");
            let remedy = format!("give longer intervals: at most {BUCKETS_MAX} are possible");
            return Err(Error::parameter("--timeline", problem, remedy));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sim() -> RunSpec {
        RunSpec { fabric: FabricKind::Sim, compute_nodes: 2, clients: Some(4), ..RunSpec::default() }
    }

    fn refused(spec: &RunSpec) -> String {
        spec.check().unwrap_err().to_string()
    }

    #[test]
    fn other_fabrics_and_loads_refuse_the_options() {
        let faults = || vec!["crash@5ms".parse().unwrap()];
        let given = [
            ("--fault", RunSpec { faults: faults(), ..sim() }),
            ("--timeline", RunSpec { timeline_ms: Some(1.0), ..sim() }),
            ("--rate", RunSpec { rate: Some(1000), ..sim() }),
            ("--warmup", RunSpec { warm_up_end: WarmUpEnd::Steady, ..sim() }),
        ];
        for (flag, spec) in given {
            assert!(spec.check().is_ok(), "{flag}");
            let shm = refused(&RunSpec { fabric: FabricKind::Shm, ..spec.clone() });
            assert!(shm.starts_with(flag) && shm.contains("--fabric sim"), "{shm}");
            let load = RunSpec { workload: Workload::Load, ..spec }.check();
            assert_eq!(load.is_err(), matches!(flag, "--fault" | "--warmup"), "{flag}");
        }
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        assert!(refused(&RunSpec { rate: Some(0), ..sim() }).contains("--rate"));
        for milliseconds in [0.0, -1.0, f64::NAN, 0.01] {
            let spec = RunSpec { timeline_ms: Some(milliseconds), ..sim() };
            assert!(refused(&spec).contains("--timeline"), "{milliseconds}");
        }
        let late = RunSpec { faults: vec!["crash@20ms".parse().unwrap()], ..sim() };
        assert!(refused(&late).contains("--seconds"), "the phase takes 20 ms");
        let longer = RunSpec { amount: Some(Amount::Seconds(0.03)), ..late };
        assert!(longer.check().is_ok());
    }

    #[test]
    fn a_run_with_faults_has_fifty_intervals_unless_the_option_gives_another_number() {
        let shape = |spec: RunSpec| spec.timeline_shape();
        assert_eq!(shape(sim()), None);
        let faulty = RunSpec { faults: vec!["crash@5ms".parse().unwrap()], ..sim() };
        let of = |bucket_ns, buckets_max| Some(TimelineShape { bucket_ns, buckets_max });
        assert_eq!(shape(faulty.clone()), of(400_000, 1000));
        assert_eq!(shape(RunSpec { timeline_ms: Some(0.5), ..faulty.clone() }), of(500_000, 1000));
        let amount = Some(Amount::Operations(1000));
        assert_eq!(shape(RunSpec { amount, ..faulty }), of(100_000, 100));
    }

    #[test]
    fn a_simulated_pool_has_memory_for_the_longest_warm_up() {
        let spec = RunSpec { warm_up_end: WarmUpEnd::Steady, ..sim() };
        assert!((spec.warm_up_seconds_max() - 0.08).abs() < 1e-9, "20 windows of a fifth of 20 ms");
    }
}
