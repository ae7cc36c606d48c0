//! The run record: one run is one self-describing JSON line.
//!
//! Tools that read records rely on the names of the fields. A field that does not apply (a peer has no round trips) is
//! omitted. Reading a record with unknown fields is an error that names them.

mod histogram;
pub mod lines;
pub mod machine;
pub mod measurement;
pub mod page;
pub mod repeats;
pub mod table;
pub mod timeline;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Error, Result};
use machine::Machine;
use repeats::Repeats;
use timeline::{FaultInjected, TimelineBucket};

/// The record of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// The index, for example `sherman`; of a peer, its name.
    pub index: String,
    /// The variant (a named preset of options).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// Every option of the index by name.
    #[serde(default)]
    pub options: Map<String, Value>,
    /// The consistency scheme of the index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consistency: Option<String>,
    /// The fabric, for example `shm`; of a peer, how its clients share it (`processes`, `threads`).
    pub fabric: String,
    /// The simulated NIC model, or the RDMA device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nic: Option<String>,
    /// In the simulator: a hash of all parameters of the NIC model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nic_hash: Option<String>,
    /// In the simulator: the parameters of the NIC model as in its file, with the CPU time that is charged for an
    /// operation; null stands for `inf`. Absent in the records of figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nic_values: Option<Value>,
    /// In the simulator: whether memory node i and compute node i are one machine with one NIC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub colocate: Option<bool>,
    /// The workload by name.
    pub workload: String,
    /// The distribution by name.
    pub distribution: String,
    /// The skew of the distribution; 0 for uniform.
    pub theta: f64,
    /// Number of ranks over which popularity was drawn.
    pub zipf_ranks: u64,
    /// Keys loaded before measuring.
    pub keys: u64,
    /// In the simulator, for a load: keys that were bulk-loaded before the clients began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preloaded_keys: Option<u64>,
    /// In the simulator, for a load: keys inserted before the measured phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm_up_keys: Option<u64>,
    /// In the simulator: puts executed after the load, before any virtual time passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm_up_puts: Option<u64>,
    /// Length of a key in bytes.
    pub key_bytes: u64,
    /// Length of a value in bytes.
    pub value_bytes: u64,
    /// Memory nodes of the pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_nodes: Option<u64>,
    /// Compute nodes (processes).
    pub compute_nodes: u64,
    /// Threads of each compute node.
    pub threads: u64,
    /// Clients over all compute nodes.
    pub clients: u64,
    /// Over TCP: connections of all compute nodes to each memory node, or to the peer's server. `clients` is the number
    /// of requests outstanding on all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<u64>,
    /// The CPUs to which servers and clients were pinned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinned: Option<String>,
    /// The latency of the machine's loopback interface before the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loopback: Option<Loopback>,
    /// The level of durability of the memory nodes that the run started, if they have files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub durability: Option<String>,
    /// The median time of a write of 4 KiB and its `fdatasync` in the folder of these files, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync_us: Option<f64>,
    /// Seconds of warm-up before the measured phase: virtual in the simulator, real elsewhere; absent in old records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm_up_seconds: Option<f64>,
    /// In the simulator, for a warm-up until the throughput is steady: whether it became steady. If not, the longest
    /// warm-up ended first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm_up_steady: Option<bool>,
    /// In the simulator: the faults of the measured phase, as on the command line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<String>,
    /// In the simulator, if operations arrive at random times: the number that arrive in a second, on average.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered_ops_per_second: Option<u64>,
    /// Operations measured.
    pub operations: u64,
    /// Seconds measured.
    pub seconds: f64,
    /// Throughput in million operations per second.
    pub mops: f64,
    /// The throughputs of several runs that differ only in their seed, of which this record is the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeats: Option<Repeats>,
    /// Latency of an operation in microseconds.
    pub latency_us: Latency,
    /// Latencies in nanoseconds, each with a number of operations: the lower ends of intervals of 1.6 % or less. Absent
    /// in the records of figures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub latency_histogram: Vec<(u64, u64)>,
    /// In the simulator: throughput and latency over the time of the measured phase.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timeline: Vec<TimelineBucket>,
    /// In the simulator: the faults that happened, with their times.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults_injected: Vec<FaultInjected>,
    /// In a run with faults: the operations that they made fail. `operations` does not contain them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_operations: Option<u64>,
    /// In a run with faults: the duration in microseconds of the longest operation that began before the end of the
    /// measured phase and ended after it. `latency_us` does not contain it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unfinished_us_max: Option<f64>,
    /// Round trips of an operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trips: Option<RoundTrips>,
    /// Verbs of an operation, on average.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verbs_per_op: Option<Verbs>,
    /// Bytes of an operation, on average.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_op: Option<Bytes>,
    /// Retries in the whole run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<Retries>,
    /// In the simulator: the distributions of costs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted: Option<Counted>,
    /// Size and use of the index cache, if the index has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<Cache>,
    /// Bytes in use at all memory nodes at the end; of a peer, bytes of its store, if it reports them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_node_bytes: Option<u64>,
    /// In the simulator, for a radix tree loaded by its clients: bytes of its nodes, leaves, long values and hash
    /// tables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index_bytes: Option<u64>,
    /// Verbs simulated per second of real time in the measured phase; for a load with `warm_up_keys`, in the whole run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulated_verbs_per_second: Option<f64>,
    /// The measured fields by kind of operation.
    #[serde(default)]
    pub by_operation: ByOperation,
    /// For a spatial index: its searches, and the load of its server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spatial: Option<Spatial>,
    /// Seed of the run.
    pub seed: u64,
    /// Commit of the code that ran; a `+` follows it if the sources differed from the commit.
    pub commit: String,
    /// The command that makes the record; empty in records older than the field.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub command: String,
    /// In the records of figures, a hash of all parameters of the run; empty in records older than the field.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub spec_hash: String,
    /// In the records of figures, the seconds of real time that the run took, with its loading.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_seconds: Option<f64>,
    /// Build profile of the program that ran, for example `release`; empty in records older than the field.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub profile: String,
    /// The machine it ran on.
    pub machine: Machine,
    /// The peer's name, in a peer's record only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    /// The throughput of this record divided by that of the first peer, from alternating rounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
}

/// The measured fields of a whole run or of one kind of operation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// Operations measured.
    pub operations: u64,
    /// Seconds of the run (the same for every kind of operation).
    pub seconds: f64,
    /// Throughput in million operations per second.
    pub mops: f64,
    /// Latency in microseconds.
    pub latency_us: Latency,
    /// Round trips of an operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trips: Option<RoundTrips>,
    /// Verbs of an operation, on average.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verbs_per_op: Option<Verbs>,
    /// Bytes of an operation, on average.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_op: Option<Bytes>,
    /// Retries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<Retries>,
    /// In the simulator: the distributions of costs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted: Option<Counted>,
    /// The index cache during these operations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<Cache>,
}

/// The latency of an exchange of 32 bytes out and 1 KiB back over loopback TCP.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Loopback {
    /// The median in microseconds if both sides sleep in the kernel while they wait.
    pub sleeping_us: f64,
    /// The median in microseconds if both sides poll.
    pub looking_us: f64,
    /// The state of the loopback interface: `fast` if `sleeping_us` is below 30, otherwise `slow`.
    pub state: String,
}

/// Latency in microseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Latency {
    /// The mean latency.
    pub mean: f64,
    /// Half of the operations took at most this.
    pub p50: f64,
    /// 90 % took at most this.
    pub p90: f64,
    /// 99 % took at most this.
    pub p99: f64,
    /// 99.9 % took at most this.
    pub p999: f64,
    /// The largest latency.
    pub max: f64,
}

/// Round trips of an operation: its longest chain of dependent posts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoundTrips {
    /// The mean number of round trips.
    pub mean: f64,
    /// Half of the operations took at most this many.
    pub p50: u64,
    /// 99 % took at most this many.
    pub p99: u64,
    /// Number of round trips to number of operations; 65 stands for more than 64.
    pub histogram: BTreeMap<u64, u64>,
}

/// Verbs of an operation, on average.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verbs {
    /// READ.
    pub read: f64,
    /// WRITE.
    pub write: f64,
    /// CAS on 64 bits.
    pub cas: f64,
    /// CAS under a mask.
    pub masked_cas: f64,
    /// Fetch-and-add.
    pub faa: f64,
    /// WRITE_WITH_IMM.
    pub write_imm: f64,
}

/// Bytes of an operation, on average.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bytes {
    /// Read from memory nodes.
    pub read: f64,
    /// Written to memory nodes.
    pub written: f64,
}

/// Retries over all operations.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retries {
    /// Reads repeated because a copy was torn.
    pub torn: u64,
    /// Failed attempts to take a lock that another client held.
    pub lock: u64,
    /// Steps taken because a node had split or a cached one was stale.
    pub moved: u64,
    /// Searches of Sphinx's tables for prefixes without a node, to which a filter led; absent if there were none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub misled: u64,
}

/// Whether a counter is absent from records.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The searches of a spatial index.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spatial {
    /// The longest edge of a window, or `power-law`, or `hundred`.
    pub scale: String,
    /// The time between two requests of a client, in microseconds.
    pub think_us: f64,
    /// Share of the searches that clients executed by READs, from 0 to 1.
    pub share_offloaded: f64,
    /// Mean number of results of a search.
    pub found_mean: f64,
    /// In the simulator: share of the server's cores that were busy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_busy: Option<f64>,
    /// In the simulator: data sent by the server's NIC, headers included, in Gb/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_gbps: Option<f64>,
}

/// Distributions of costs in the simulator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counted {
    /// Largest number of round trips of an operation.
    pub round_trips_max: u64,
    /// Bytes written to number of operations.
    pub bytes_written: BTreeMap<u64, u64>,
    /// Reads repeated because a copy was torn to number of operations.
    pub torn: BTreeMap<u64, u64>,
    /// Locks that one client handed over to another of its compute node, over all operations.
    pub handed_over: u64,
}

/// The size and the hit rate of an index cache.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cache {
    /// Bytes in use in the largest cache of a compute node at the end.
    pub bytes: u64,
    /// Share of lookups that the cache answered, from 0 to 1; 0 if there were none.
    pub hit_ratio: f64,
}

/// The measured fields by kind of operation; a read-modify-write is a put.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ByOperation {
    /// Reads of one key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub get: Option<Measured>,
    /// Inserts or updates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub put: Option<Measured>,
    /// Inserts of new keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub insert: Option<Measured>,
    /// Removes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remove: Option<Measured>,
    /// Range scans.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scan: Option<Measured>,
    /// Searches for rectangles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<Measured>,
}

impl ByOperation {
    /// The kinds that were measured, with their names, in a fixed order.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Measured)> {
        [
            ("get", &self.get),
            ("put", &self.put),
            ("insert", &self.insert),
            ("remove", &self.remove),
            ("scan", &self.scan),
            ("search", &self.search),
        ]
        .into_iter()
        .filter_map(|(name, measured)| Some((name, measured.as_ref()?)))
    }
}

impl Record {
    /// A record with only the measured fields; the caller adds the description of the run:
    /// `Record { index, fabric, …, ..Record::of(measured, by_operation) }`.
    pub fn of(measured: Measured, by_operation: ByOperation) -> Record {
        Record::default().measured_as(measured, by_operation)
    }

    /// The record with these measured fields.
    #[must_use]
    pub fn measured_as(self, measured: Measured, by_operation: ByOperation) -> Record {
        Record {
            operations: measured.operations,
            seconds: measured.seconds,
            mops: measured.mops,
            latency_us: measured.latency_us,
            round_trips: measured.round_trips,
            verbs_per_op: measured.verbs_per_op,
            bytes_per_op: measured.bytes_per_op,
            retries: measured.retries,
            counted: measured.counted,
            cache: measured.cache,
            by_operation,
            ..self
        }
    }

    /// The measured fields of the whole run.
    pub fn measured(&self) -> Measured {
        Measured {
            operations: self.operations,
            seconds: self.seconds,
            mops: self.mops,
            latency_us: self.latency_us.clone(),
            round_trips: self.round_trips.clone(),
            verbs_per_op: self.verbs_per_op.clone(),
            bytes_per_op: self.bytes_per_op.clone(),
            retries: self.retries.clone(),
            counted: self.counted.clone(),
            cache: self.cache.clone(),
        }
    }

    /// The name of the run in tables and charts: the peer, or the index and its variant.
    pub fn label(&self) -> String {
        match (&self.peer, &self.variant) {
            (Some(peer), _) => peer.clone(),
            (None, Some(variant)) if *variant != self.index => format!("{} {variant}", self.index),
            (None, _) => self.index.clone(),
        }
    }

    /// The record as one line of JSON, without the line's end.
    pub fn to_json_line(&self) -> String {
        serde_json::to_string(self).expect("a record has only string keys and finite numbers or nulls")
    }

    /// Reads one line of JSON; unknown fields are an error that names them.
    pub fn from_json_line(line: &str) -> Result<Record> {
        serde_json::from_str(line).map_err(|error| Error::Record(error.to_string()))
    }

    /// Reads a file of records, one per line; empty lines are skipped. Errors name the line.
    pub fn from_json_lines(text: &str) -> Result<Vec<Record>> {
        let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
        lines
            .map(|(number, line)| {
                serde_json::from_str(line).map_err(|error| Error::Record(format!("line {number}: {error}")))
            })
            .collect()
    }
}

#[cfg(test)]
pub(crate) mod tests;
