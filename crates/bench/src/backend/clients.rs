//! The parameters of a process of clients, and the clients' streams of operations.

use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Result;
use crate::driver::cpu::pin;
use crate::driver::program::failed;
use crate::spec::ordered::RunSpec;
use crate::workload::keys::{KeySource, Keys};
use crate::workload::{InsertBoard, OperationStream, WorkloadSpec};

/// A constant that is combined with the seed for the reads during the warm-up.
pub(crate) const WARM_UP_SEED: u64 = 0x7761_726D_5F75_7021;

/// The clients of one process, as a job that a worker executes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ClientsJob {
    pub(crate) keys: KeySource,
    pub(crate) value_bytes: usize,
    pub(crate) workload: WorkloadSpec,
    pub(crate) threads: usize,
    /// The CPUs that the process may use; empty: all.
    pub(crate) cpus: Vec<usize>,
    /// The numbers of these clients among all clients of the run.
    pub(crate) clients: Range<u64>,
}

impl ClientsJob {
    /// All clients of a run, which its processes share.
    pub(crate) fn new(spec: &RunSpec, keys: &Keys, workload: &WorkloadSpec) -> ClientsJob {
        ClientsJob {
            keys: spec.key_source.clone().with_length(keys.key_bytes()),
            value_bytes: spec.value_bytes,
            workload: workload.clone(),
            threads: spec.threads(),
            cpus: Vec::new(),
            clients: 0..workload.clients,
        }
    }

    /// The jobs of `processes` processes, which share the clients evenly. Clients with consecutive numbers stay in one
    /// process, so that each process has its share of every kind of client.
    pub(crate) fn split(&self, processes: usize) -> impl Iterator<Item = ClientsJob> + use<'_> {
        shares(self.workload.clients, processes).map(|clients| ClientsJob { clients, ..self.clone() })
    }

    /// Pins the process to its CPUs. Must precede the start of its threads.
    pub(crate) fn pin(&self) -> Result<()> {
        pin(&self.cpus).map_err(failed("pin clients to their CPUs"))
    }

    /// The streams of the clients.
    pub(crate) fn streams(&self) -> Result<Vec<ClientStreams>> {
        let board = Arc::new(InsertBoard::new(self.workload.clients));
        let mut warm_up = self.workload.clone();
        warm_up.seed ^= WARM_UP_SEED;
        let streams = |client| {
            let measured = self.workload.stream(client)?.with_board(Arc::clone(&board));
            Ok(ClientStreams { measured, warm_up: warm_up.stream(client)? })
        };
        self.clients.clone().map(streams).collect()
    }

    /// The streams of the clients of each thread.
    pub(crate) fn streams_by_thread(&self) -> Result<Vec<Vec<ClientStreams>>> {
        let threads = self.threads.clamp(1, self.clients.clone().count().max(1));
        let mut by_thread = vec![Vec::new(); threads];
        for (number, streams) in self.streams()?.into_iter().enumerate() {
            by_thread[number % threads].push(streams);
        }
        Ok(by_thread)
    }
}

/// The operations of one client.
#[derive(Clone, Debug)]
pub(crate) struct ClientStreams {
    pub(crate) measured: OperationStream,
    /// Reads of the warm-up: drawn like those of the measured stream, which they do not advance.
    pub(crate) warm_up: OperationStream,
}

/// The numbers of the clients of each of `processes` processes.
pub(crate) fn shares(clients: u64, processes: usize) -> impl Iterator<Item = Range<u64>> {
    let processes = processes as u64;
    (0..processes).map(move |number| clients * number / processes..clients * (number + 1) / processes)
}
