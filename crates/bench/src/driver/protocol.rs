//! Messages between the parent process of a run and its worker processes: one line of JSON each.
//!
//! ```text
//! parent                         worker
//!   job            ------->        opens the store
//!                  <-------      ready
//!   warm up        ------->
//!                  <-------      warm
//!   measure        ------->        runs its clients
//!                  <-------      measured            (repeated for each round)
//!   end            ------->        exits
//! ```
//!
//! A worker exits as soon as its pipe closes, because the parent has then ended.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::record::measurement::Measurement;

/// The amount of work of each client in the measured phase.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Amount {
    /// All operations within this number of seconds.
    Seconds(f64),
    /// This number of operations of all clients together.
    Operations(u64),
}

impl Amount {
    /// One client's share of the operations of a run, at least one.
    #[must_use]
    pub fn share(self, clients: u64) -> Amount {
        match self {
            Amount::Operations(operations) => Amount::Operations(operations.div_ceil(clients)),
            seconds @ Amount::Seconds(_) => seconds,
        }
    }
}

/// The first message to a worker: the kind of its job and the job's parameters.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct JobMessage {
    /// The name under which the worker has registered the job.
    pub(crate) kind: String,
    /// The job's parameters.
    pub(crate) body: Value,
}

/// A request to a worker that has started its job.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Order {
    /// Fill the caches: scan everything once, fill the index caches, then read for this number of seconds. Entries do
    /// not change.
    WarmUp(f64),
    /// Run the clients and measure them.
    Measure(Amount),
    /// Exit.
    End,
}

/// A worker's answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Report {
    /// The job has started.
    Ready,
    /// The caches are warm.
    Warm,
    /// The result of a round.
    Measured(Round),
    /// A result whose format only the job and its parent define.
    Output(Value),
    /// The job has failed, with the text of its error.
    Failed(String),
}

/// The measurements of one process, or of all processes of a backend, in one round.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Round {
    /// Latencies and costs of the operations.
    pub measurement: Measurement,
    /// Duration of the round in seconds.
    pub seconds: f64,
    /// Bytes of the index cache in use; of a peer, bytes of its store, if it reports them.
    pub bytes: Option<u64>,
}

impl Round {
    /// Adds the round of another process that ran at the same time.
    pub fn merge(&mut self, other: &Round) {
        self.measurement.merge(&other.measurement);
        self.seconds = self.seconds.max(other.seconds);
        self.bytes = self.bytes.max(other.bytes);
    }

    /// Throughput in million operations per second.
    pub(crate) fn mops(&self) -> f64 {
        self.measurement.operations() as f64 / self.seconds / 1e6
    }
}
