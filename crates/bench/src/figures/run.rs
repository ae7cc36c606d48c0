//! One run of a figure: its execution, the hash of its parameters, and an estimate of its duration.

use std::path::Path;
use std::time::Instant;

use crate::Result;
use crate::driver::protocol::Amount;
use crate::record::Record;
use crate::run::{RunSpec, SpatialSpec, simulate, simulate_spatial};
use crate::sim_run::micro::{LocksSpec, VerbsSpec, simulate_locks, simulate_verbs};
use crate::workload::Workload;
use crate::workload::rectangles::RectangleSource;

/// One run of a figure.
#[derive(Clone, Debug)]
pub(super) enum Run {
    Index(Box<RunSpec>),
    Spatial(Box<SpatialSpec>),
    Verbs(VerbsSpec),
    Locks(LocksSpec),
}

/// Seconds of real time per virtual second and client, the median over all figures.
const CLIENT_SECONDS: f64 = 0.5;
/// The same for clients that scan ranges of many leaves, from Sherman's Figure 12.
const SCANNING_CLIENT_SECONDS: f64 = 4.0;
/// Seconds of real time to load a key, with the key's share of the reads that fill the caches.
const KEY_SECONDS: f64 = 1e-6;
/// Seconds of real time of a run without keys and operations.
const START_SECONDS: f64 = 0.05;

impl Run {
    /// Executes the run; the record has its hash and the seconds that it took.
    ///
    /// # Errors
    /// An invalid spec, errors of the index, a wrong answer.
    pub(super) fn execute(&self) -> Result<Record> {
        let start = Instant::now();
        let record = match self {
            Run::Index(spec) => simulate(spec, &mut |_| {})?,
            Run::Spatial(spec) => simulate_spatial(spec, &mut |_| {})?,
            Run::Verbs(spec) => simulate_verbs(spec)?,
            Run::Locks(spec) => simulate_locks(spec)?,
        };
        let host_seconds = Some((start.elapsed().as_secs_f64() * 100.0).round() / 100.0);
        // Figures have NIC models of the commit, and thousands of records.
        let (nic_values, latency_histogram) = (None, Vec::new());
        Ok(Record { spec_hash: self.hash(), host_seconds, nic_values, latency_histogram, ..record })
    }

    /// A hash of all parameters (FNV-1a): runs with the same hash and code have the same results.
    pub(super) fn hash(&self) -> String {
        let text = format!("{self:?}");
        let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        format!("{hash:016x}")
    }

    /// The file that the run reads and that does not exist.
    pub(super) fn missing_file(&self) -> Option<&Path> {
        let Run::Spatial(spec) = self else { return None };
        let RectangleSource::File(path, _) = &spec.source else { return None };
        (!path.exists()).then_some(path)
    }

    /// An estimate of the seconds of real time that the run takes.
    pub(super) fn seconds_estimate(&self) -> f64 {
        START_SECONDS
            + match self {
                Run::Index(spec) => of_index(spec),
                Run::Spatial(spec) => {
                    let seconds = seconds_of(spec.amount()) + spec.warm_up_seconds();
                    CLIENT_SECONDS * seconds * spec.clients() as f64
                }
                Run::Verbs(VerbsSpec { cluster, seconds, .. }) => {
                    CLIENT_SECONDS * seconds * (cluster.compute_nodes * cluster.threads) as f64
                }
                Run::Locks(LocksSpec { cluster, seconds, warm_up_seconds, .. }) => {
                    let clients = (cluster.compute_nodes * cluster.threads) as f64;
                    CLIENT_SECONDS * (seconds + warm_up_seconds) * clients
                }
            }
    }
}

fn of_index(spec: &RunSpec) -> f64 {
    let keys = spec.keys.unwrap_or(0) as f64;
    let per_client = match spec.workload {
        Workload::RangeOnly | Workload::RangeWrite => SCANNING_CLIENT_SECONDS,
        _ => CLIENT_SECONDS,
    };
    let seconds = seconds_of(spec.amount()) + spec.warm_up_seconds();
    KEY_SECONDS * keys + per_client * seconds * spec.clients() as f64
}

/// The virtual seconds of a measured phase; a phase that a number of operations ends is short.
fn seconds_of(amount: Amount) -> f64 {
    match amount {
        Amount::Seconds(seconds) => seconds,
        Amount::Operations(_) => 0.0,
    }
}
