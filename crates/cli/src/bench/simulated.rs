//! Options of simulated runs of ordered indexes: faults, random arrivals, a timeline, and the warm-up.

use super::count;
use crate::{Context, Failure};
use farwood_bench::record::Record;
use farwood_bench::run::{TimedFault, WarmUpEnd};
use std::str::FromStr;

/// Options of simulated runs of ordered indexes.
#[derive(Debug, clap::Args)]
pub(super) struct SimulatedArgs {
    /// With --fabric sim: inject a fault at a time since the start of the measurement, for example crash@5ms (a compute
    /// node), freeze:2ms@10ms (a compute node), down:3ms@8ms (a memory node), partition:3ms@8ms (a compute node and a
    /// memory node) or slow:10x@8ms (the NIC of a memory node, for good). Without :compute=N or :memory=N before the @,
    /// it is the last compute node or memory node 0. May be given several times
    #[arg(long, value_name = "KIND@TIME", value_delimiter = ',')]
    fault: Vec<String>,
    /// With --fabric sim: record throughput and latency of every interval of this length, for example --timeline 0.5
    /// [default: with --fault, a fiftieth of the measurement]
    #[arg(long, value_name = "MILLISECONDS", allow_negative_numbers = true)]
    pub(super) timeline: Option<f64>,
    /// With --fabric sim: operations of all clients arrive at random, this many in a second, for example --rate 200k.
    /// Latencies count from the arrival, and a client that is behind begins the next operation at once
    #[arg(long, value_name = "OPERATIONS", value_parser = count)]
    pub(super) rate: Option<u64>,
}

impl SimulatedArgs {
    /// The faults.
    pub(super) fn faults(&self) -> Result<Vec<TimedFault>, Failure> {
        let faults: farwood_bench::Result<_> = self.fault.iter().map(|text| text.parse()).collect();
        Ok(faults?)
    }
}

/// The value of --warmup.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum WarmUp {
    /// Until the throughput is steady.
    Auto,
    Seconds(f64),
}

impl WarmUp {
    pub(super) fn seconds(self) -> Option<f64> {
        match self {
            WarmUp::Auto => None,
            WarmUp::Seconds(seconds) => Some(seconds),
        }
    }

    pub(super) fn end(self) -> WarmUpEnd {
        match self {
            WarmUp::Auto => WarmUpEnd::Steady,
            WarmUp::Seconds(_) => WarmUpEnd::AfterTime,
        }
    }
}

impl FromStr for WarmUp {
    type Err = String;

    fn from_str(text: &str) -> Result<WarmUp, String> {
        if text == "auto" {
            return Ok(WarmUp::Auto);
        }
        let seconds = text.parse::<f64>();
        seconds.map(WarmUp::Seconds).map_err(|_| "give seconds, such as 0.01, or auto".to_owned())
    }
}

/// Share of the offered operations below which a run is overloaded.
const ACHIEVED_SHARE_MIN: f64 = 0.95;
/// Standard deviations of the number of random arrivals by which operations can be missing by chance.
const CHANCE_DEVIATIONS: f64 = 3.0;

/// Warns of runs that execute fewer operations than arrive, and of warm-ups that end before the throughput is steady.
pub(crate) fn warn_of_overload(records: &[Record], context: &mut Context<'_>) -> Result<(), Failure> {
    for record in records {
        if let Some(text) = overload(record) {
            writeln!(context.messages, "warning: {}: {text}", record.label())?;
        }
        if record.warm_up_steady == Some(false) {
            writeln!(
                context.messages,
                "warning: {}: the throughput was not steady after the longest warm-up, {} ms; give more --seconds",
                record.label(),
                record.warm_up_seconds.unwrap_or(0.0) * 1e3
            )?;
        }
    }
    Ok(())
}

/// The warning for a record with fewer operations than arrived.
fn overload(record: &Record) -> Option<String> {
    let offered = record.offered_ops_per_second? as f64 * record.seconds;
    let missing = offered - record.operations as f64;
    let is_short = missing > (1.0 - ACHIEVED_SHARE_MIN) * offered;
    if !is_short || missing <= CHANCE_DEVIATIONS * offered.sqrt() {
        return None;
    }
    let remedy = if record.faults.is_empty() {
        "the index is overloaded, and latencies grow with --seconds; give a lower --rate or more --clients"
    } else {
        "faults or an overload prevented the others"
    };
    let (achieved, offered) = (record.mops * 1e6, record.offered_ops_per_second?);
    Some(format!("{achieved:.0} of {offered} offered operations per second were executed; {remedy}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_with_too_few_operations_is_overloaded() {
        let record = |operations| Record {
            offered_ops_per_second: Some(1_000_000),
            seconds: 0.02,
            operations,
            mops: operations as f64 / 0.02 / 1e6,
            ..Record::default()
        };
        let text = overload(&record(18_000)).unwrap();
        assert!(text.starts_with("900000 of 1000000 ") && text.contains("--rate"), "{text}");
        assert_eq!(overload(&record(19_500)), None);
        let few = Record { offered_ops_per_second: Some(5_000), ..record(90) };
        assert_eq!(overload(&few), None, "10 of 100 operations can be missing by chance");
        assert_eq!(overload(&Record { offered_ops_per_second: None, ..record(1) }), None);
    }

    #[test]
    fn a_warm_up_is_a_time_or_ends_when_the_throughput_is_steady() {
        assert_eq!("auto".parse::<WarmUp>().map(WarmUp::end), Ok(WarmUpEnd::Steady));
        assert_eq!("0.25".parse::<WarmUp>().map(WarmUp::seconds), Ok(Some(0.25)));
        assert!("later".parse::<WarmUp>().unwrap_err().contains("auto"));
    }
}
