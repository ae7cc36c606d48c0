//! Several runs with different seeds, and warnings about windows that are too short.

use super::{Context, Failure};
use farwood_bench::record::Record;
use farwood_bench::record::repeats::repeated;

/// Share of the measured time that the longest operation may take.
const LONGEST_SHARE: f64 = 0.25;

/// Runs `run` with `count` seeds from `first` on; yields the records of the first run with the throughputs of all.
pub(super) fn repeat(
    count: u64,
    first: u64,
    mut run: impl FnMut(u64) -> Result<Vec<Record>, Failure>,
) -> Result<Vec<Record>, Failure> {
    let runs: Result<Vec<_>, _> = (0..count).map(|number| run(first.wrapping_add(number))).collect();
    Ok(repeated(&runs?))
}

/// Adds the command to the records of simulated runs. The commands of others can have URLs, which may be secret.
pub(super) fn with_command(mut records: Vec<Record>) -> Vec<Record> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    for record in records.iter_mut().filter(|record| record.nic.is_some()) {
        record.command = format!("farwood {}", arguments.join(" "));
    }
    records
}

/// Warns if faults did not happen, or if the longest operation is not much shorter than the measured time.
pub(super) fn warn_of_short_windows(records: &[Record], context: &mut Context<'_>) -> Result<(), Failure> {
    for record in records {
        let (asked, happened) = (record.faults.len(), record.faults_injected.len());
        if happened < asked {
            writeln!(
                context.messages,
                "warning: {}: {happened} of {asked} faults happened, because the measured phase ended before; give \
                 earlier faults, or more --operations",
                record.label(),
            )?;
        }
        let unfinished = record.unfinished_us_max.unwrap_or(0.0);
        let (longest, measured) = (record.latency_us.max.max(unfinished) / 1e6, record.seconds);
        if measured > 0.0 && longest > LONGEST_SHARE * measured {
            writeln!(
                context.messages,
                "warning: {}: the longest operation took {:.3} ms, and {:.3} ms were measured; give more --seconds",
                record.label(),
                longest * 1e3,
                measured * 1e3
            )?;
        }
    }
    Ok(())
}
