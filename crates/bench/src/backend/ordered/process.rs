//! A compute node of an ordered index: a process that opens pool and index, and runs clients on threads.

use farwood_index::ordered::Ordered;
use farwood_transport::any::{AnyFabric, AnyPool};
use farwood_transport::runtime::{block_on, run_all};
use serde::{Deserialize, Serialize};

use super::super::checked::CheckedBuffers;
use super::super::clients::{ClientStreams, ClientsJob};
use super::super::pool::open_pool;
use super::cache_warmup::{WarmUpRanks, warm_cache};
use super::client::OrderedClient;
use super::describe::loaded_keys;
use crate::driver::clock::Clock;
use crate::driver::protocol::Amount;
use crate::driver::round_robin::{ClientFuture, run_clients};
use crate::driver::threads::{self, ThreadDriver};
use crate::driver::worker::{Job, ParentConnection};
use crate::record::measurement::Measurement;
use crate::spec::fabric::{FabricKind, pool_place};
use crate::workload::keys::Keys;
use crate::{Error, Result};

/// Longest time to fill the caches, in seconds. Over a network, filling a cache may take one round trip per key. If the
/// time is too short, the hit ratio in the record is low.
const FILL_SECONDS_MAX: f64 = 60.0;

/// The job of a worker process that is one compute node of a run on an ordered index.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct OrderedJob {
    pub(crate) fabric: FabricKind,
    /// The URL of the pool.
    pub(crate) pool: String,
    /// The name of the index.
    pub(crate) name: String,
    pub(crate) cache_bytes: usize,
    pub(crate) clients: ClientsJob,
}

impl Job for OrderedJob {
    const KIND: &'static str = "ordered";

    fn run(self, parent: &mut ParentConnection<'_>) -> Result<()> {
        self.clients.pin()?;
        if self.fabric == FabricKind::Sim {
            let problem = "the simulator has no processes";
            return Err(Error::parameter("worker", problem, "run `farwood bench --fabric sim`"));
        }
        parent.follow();
        serve(&open_pool(&pool_place(&self.pool)?)?, &self, parent)
    }
}

/// Executes the commands of the parent process.
fn serve(pool: &AnyPool, job: &OrderedJob, parent: &mut ParentConnection<'_>) -> Result<()> {
    let client = pool.client();
    let index = block_on(Ordered::open(&client, &job.name, job.cache_bytes))?;
    let clients = &job.clients;
    let ranks = WarmUpRanks::new(index.system(), loaded_keys(&clients.workload), job.cache_bytes);
    let keys = clients.keys.keys()?;
    let streams = clients.streams_by_thread()?;
    let make = |thread: usize| {
        let client = |streams: &ClientStreams| {
            let buffers = CheckedBuffers::new(&keys, clients.value_bytes, clients.workload.workload);
            OrderedClient::new(pool.client(), &index, streams.clone(), buffers)
        };
        let warm_up = ranks.share(thread, streams.len());
        Ok(OrderedDriver { clients: streams[thread].iter().map(client).collect(), keys: &keys, warm_up })
    };
    let cache_bytes = || Some(index.cache_bytes().0 as u64);
    threads::serve(parent, streams.len(), clients.workload.clients, make, cache_bytes)?;
    Ok(block_on(index.leave(&client))?)
}

/// The clients of one thread.
struct OrderedDriver<'a> {
    clients: Vec<OrderedClient<'a, AnyFabric>>,
    keys: &'a Keys,
    /// The ranks that the thread reads to fill the cache.
    warm_up: WarmUpRanks,
}

impl ThreadDriver for OrderedDriver<'_> {
    fn scan_all(&mut self) -> Result<()> {
        let client = &self.clients[0];
        block_on(client.index.count(&client.client))?;
        let _ = client.client.take_costs();
        Ok(())
    }

    fn fill_caches(&mut self) -> Result<()> {
        let clock = Clock::new();
        let deadline = clock.deadline(Amount::Seconds(FILL_SECONDS_MAX));
        let works = self.clients.iter().enumerate().map(|(number, client)| {
            let ranks = self.warm_up.share(number, self.clients.len());
            let is_over = || deadline.is_over(clock.now(), 0);
            Box::pin(warm_cache(&client.client, client.index, self.keys, ranks, is_over))
                as ClientFuture<'_, Result<()>>
        });
        run_all(works.collect()).into_iter().collect::<Result<()>>()?;
        self.drop_costs();
        Ok(())
    }

    fn warm_up(&mut self, seconds: f64) -> Result<()> {
        let clock = Clock::new();
        let deadline = clock.deadline(Amount::Seconds(seconds));
        let mut next = 0;
        while !deadline.is_over(clock.now(), 0) {
            next = (next + 1) % self.clients.len();
            block_on(self.clients[next].warm_up())?;
        }
        self.drop_costs();
        Ok(())
    }

    fn measure(&mut self, amount: Amount) -> Result<Measurement> {
        run_clients(&mut self.clients, amount)
    }
}

impl OrderedDriver<'_> {
    /// Discards the costs of the warm-up.
    fn drop_costs(&self) {
        for client in &self.clients {
            let _ = client.client.take_costs();
        }
    }
}
