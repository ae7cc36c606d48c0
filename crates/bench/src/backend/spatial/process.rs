//! A compute node of a spatial index: a process that runs clients on threads.

use std::ops::Range;
use std::sync::Arc;

use farwood::spatial::{Connection, Socket};
use farwood_fabric::{Client, Fabric as _, NodeId, Server};
use farwood_index::catfish::{
    Catfish, Count, Inbox, Issue, Query, Reader, Rectangle, RingRpc, ServerSettings, SocketRpc, TreeServer,
};
use farwood_transport::any::{AnyFabric, AnyMemory, AnyPool, AnyServer};
use farwood_transport::runtime::block_on;
use farwood_transport::tcp::Credentials;
use farwood_transport::tcp::Token;
use farwood_transport::tcp::exchange::Exchange;
use serde::{Deserialize, Serialize};

use super::super::clients::WARM_UP_SEED;
use super::super::pool::open_pool;
use super::access::SpatialAccess;
use super::client::next_request;
use super::store::SpatialStore;
use crate::driver::protocol::Amount;
use crate::driver::round_robin::{StepClient, run_clients};
use crate::driver::threads::{self, ThreadDriver};
use crate::driver::worker::{Job, ParentConnection};
use crate::record::measurement::{CostTotals, Measurement, OperationKind};
use crate::spec::fabric::pool_place;
use crate::spec::spatial::SpatialSpec;
use crate::spec::spatial_variant::Variant;
use crate::workload::rectangles::{RequestStream, Scale, SpatialMix};
use crate::{Error, Result};

/// The job of a worker process that is one compute node of a run on a spatial index.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SpatialJob {
    /// The URL of the pool.
    pool: String,
    /// The name of the index.
    name: String,
    /// The token of the server's socket in shared memory.
    token: Option<String>,
    variant: Variant,
    pub(super) mix: SpatialMix,
    scale: Scale,
    /// The search windows from which the requests are drawn.
    windows: Vec<[f64; 4]>,
    /// The number of rectangles in the loaded index.
    loaded: u64,
    pub(super) threads: usize,
    /// The numbers of this process's clients among all clients of the run.
    pub(super) clients: Range<u64>,
    pub(super) all_clients: u64,
    think_ns: u64,
    pub(super) seed: u64,
}

impl SpatialJob {
    /// Creates a job with all clients of a run. [`with_clients`](Self::with_clients) gives each process a part of them.
    pub(super) fn new(spec: &SpatialSpec, store: &SpatialStore, loaded: u64) -> SpatialJob {
        SpatialJob {
            pool: store.pool.place.to_string(),
            name: store.pool.index.clone(),
            token: store.token.clone(),
            variant: spec.variant,
            mix: spec.mix,
            scale: spec.scale,
            windows: store.windows.clone(),
            loaded,
            threads: spec.threads(),
            clients: 0..spec.clients(),
            all_clients: spec.clients(),
            think_ns: spec.think_ns,
            seed: spec.seed,
        }
    }

    /// The job of a process with these clients.
    pub(super) fn with_clients(self, clients: Range<u64>) -> SpatialJob {
        SpatialJob { clients, ..self }
    }

    /// The job of a process with all clients, on `threads` threads.
    #[cfg(feature = "peers")]
    pub(super) fn in_one_process(self, threads: usize) -> SpatialJob {
        SpatialJob { threads, clients: 0..self.all_clients, ..self }
    }

    fn windows(&self) -> Arc<[Rectangle]> {
        let window =
            |&[min_x, min_y, max_x, max_y]: &[f64; 4]| Rectangle::new([min_x, min_y], [max_x, max_y]);
        self.windows.iter().map(|edges| window(edges).expect("the edges are those of a window")).collect()
    }

    /// Creates the request streams of this process's clients, one list of streams per thread.
    pub(super) fn streams(&self, mix: SpatialMix, seed: u64) -> Vec<Vec<RequestStream>> {
        let threads = self.threads.clamp(1, self.clients.clone().count().max(1));
        let windows = self.windows();
        let mut by_thread = vec![Vec::new(); threads];
        for (number, client) in self.clients.clone().enumerate() {
            let of = (client, self.all_clients);
            let stream = RequestStream::new((mix, self.scale), Arc::clone(&windows), of, self.loaded, seed);
            by_thread[number % threads].push(stream);
        }
        by_thread
    }
}

impl Job for SpatialJob {
    const KIND: &'static str = "spatial";

    fn run(self, parent: &mut ParentConnection<'_>) -> Result<()> {
        parent.follow();
        serve(&open_pool(&pool_place(&self.pool)?)?, &self, parent)
    }
}

/// The server's access to the memory of `node`, if this process has it.
fn server_of(pool: &AnyPool, node: NodeId) -> Option<AnyServer> {
    match pool {
        AnyPool::Shm(pool) => pool.server(node).map(AnyServer::from),
        AnyPool::Tcp(_) | AnyPool::Rdma(_) => None,
    }
}

/// Opens a socket to the server of the index; `token` is that of a server in shared memory.
fn open_exchange(pool: &AnyPool, port: u16, token: Option<&Token>) -> std::io::Result<Exchange> {
    let address = match pool {
        AnyPool::Shm(_) => return Exchange::open(("127.0.0.1", port), token),
        AnyPool::Tcp(pool) => pool.address(),
        AnyPool::Rdma(_) => unreachable!("the parent refuses spatial runs over RDMA"),
    };
    let credentials = Credentials::find(address).map_err(std::io::Error::other)?;
    Exchange::open((address.nodes()[0].host(), port), credentials.token.as_ref())
}

/// Executes the commands of the parent process.
fn serve(pool: &AnyPool, job: &SpatialJob, parent: &mut ParentConnection<'_>) -> Result<()> {
    let client = pool.client();
    let index = block_on(Catfish::open(&client, &job.name))?;
    // The library skips the hash checks in shared memory, too.
    let index = if matches!(pool, AnyPool::Shm(_)) { index.without_hash_checks() } else { index };
    let tree = match (job.variant, server_of(pool, index.layout().node)) {
        (Variant::Local, Some(server)) => {
            Some(block_on(index.serve(&client, &server, ServerSettings::default()))?)
        }
        _ => None,
    };
    let streams = job.streams(job.mix, job.seed);
    let warm_ups = job.streams(SpatialMix::Search, job.seed ^ WARM_UP_SEED);
    let make = |thread: usize| {
        let clients = streams[thread].iter().map(|_| pool.client()).collect();
        let server = server_of(pool, index.layout().node);
        let (streams, warm_ups) = (streams[thread].clone(), warm_ups[thread].clone());
        Ok(SpatialDriver {
            pool,
            job,
            index: &index,
            tree: tree.as_ref(),
            clients,
            server,
            streams,
            warm_ups,
        })
    };
    threads::serve(parent, streams.len(), job.all_clients, make, || None)?;
    if let Some(tree) = &tree {
        block_on(tree.release_lease(&client))?;
    }
    Ok(block_on(index.close(&client))?)
}

/// The clients of one thread.
struct SpatialDriver<'a> {
    pool: &'a AnyPool,
    job: &'a SpatialJob,
    index: &'a Catfish,
    tree: Option<&'a TreeServer>,
    clients: Vec<Client<AnyFabric>>,
    server: Option<AnyServer>,
    streams: Vec<RequestStream>,
    warm_ups: Vec<RequestStream>,
}

/// The connection of a client to the server.
type ClientConnection<'t> = Connection<'t, AnyFabric, AnyMemory>;

/// The access of a client to the index.
type ClientAccess<'t> = SpatialAccess<'t, AnyFabric, ClientConnection<'t>, AnyServer>;

impl ThreadDriver for SpatialDriver<'_> {
    fn scan_all(&mut self) -> Result<()> {
        let client = &self.clients[0];
        let everything = Rectangle::new([f64::MIN; 2], [f64::MAX; 2]).expect("both are finite");
        let mut count = Count::default();
        let mut reader = Reader::new(self.index, client, Issue::Many);
        block_on(reader.search(&Query::intersecting(everything), &mut count))?;
        let _ = client.take_costs();
        if count.0 < self.job.loaded {
            let problem = format!("the index has {} of {} rectangles", count.0, self.job.loaded);
            return Err(Error::WrongAnswer(problem));
        }
        Ok(())
    }

    fn warm_up(&mut self, seconds: f64) -> Result<()> {
        let mut streams = std::mem::take(&mut self.warm_ups);
        let done = self.run(&mut streams, Amount::Seconds(seconds));
        self.warm_ups = streams;
        done.map(drop)
    }

    fn measure(&mut self, amount: Amount) -> Result<Measurement> {
        let mut streams = std::mem::take(&mut self.streams);
        let done = self.run(&mut streams, amount);
        self.streams = streams;
        done
    }
}

/// A client with its access to the index and the stream of its requests.
struct SpatialClient<'a> {
    client: &'a Client<AnyFabric>,
    access: ClientAccess<'a>,
    stream: &'a mut RequestStream,
    think_ns: u64,
}

impl StepClient for SpatialClient<'_> {
    fn think_ns(&self) -> u64 {
        self.think_ns
    }

    async fn think(&mut self) {
        self.client.fabric().sleep(self.think_ns).await;
    }

    async fn step(&mut self) -> Result<Option<(OperationKind, CostTotals)>> {
        let (kind, counted) = next_request(&mut self.access, self.stream).await?;
        let costs = CostTotals::from(self.client.take_costs());
        Ok(Some((kind, CostTotals { offloaded: counted.offloaded, found: counted.found, ..costs })))
    }
}

impl SpatialDriver<'_> {
    /// Connects the clients, executes the requests of `streams`, and closes the connections.
    fn run(&self, streams: &mut [RequestStream], amount: Amount) -> Result<Measurement> {
        let connects = self.job.variant.connects(self.job.mix);
        let socket = if connects { self.socket()? } else { None };
        let mut clients = Vec::with_capacity(self.clients.len());
        for (number, (client, stream)) in self.clients.iter().zip(streams).enumerate() {
            let access = block_on(self.access(client, number, socket.clone()))?;
            let _ = client.take_costs();
            clients.push(SpatialClient { client, access, stream, think_ns: self.job.think_ns });
        }
        let measurement = run_clients(&mut clients, amount)?;
        for client in clients {
            if let Some(connection) = client.access.into_connection() {
                block_on(connection.close())?;
            }
        }
        Ok(measurement)
    }

    /// The socket that the thread's clients share, if the variant uses one.
    fn socket(&self) -> Result<Option<Socket>> {
        if self.server.is_some() && self.job.variant != Variant::Tcp {
            return Ok(None);
        }
        let port = block_on(self.index.port(&self.clients[0]))?;
        let token = self.job.token.as_deref().and_then(|token| Token::new(token).ok());
        let open = open_exchange(self.pool, port, token.as_ref());
        let exchange = open.map_err(|source| Error::Processes {
            doing: format!("connect to the server at port {port}"),
            source,
        })?;
        Ok(Some(Socket::new(exchange, &self.job.name)))
    }

    async fn access<'s>(
        &'s self,
        client: &'s Client<AnyFabric>,
        number: usize,
        socket: Option<Socket>,
    ) -> Result<ClientAccess<'s>> {
        if let (Some(tree), Some(server)) = (self.tree, &self.server) {
            return Ok(SpatialAccess::InPlace(tree.worker(client, server)));
        }
        let connection = match (self.job.variant.connects(self.job.mix), socket) {
            (false, _) => None,
            (true, Some(socket)) => Some(Connection::Socket(SocketRpc::new(socket))),
            (true, None) => Some(self.rings(client).await?),
        };
        let reader = Reader::new(self.index, client, self.job.variant.issue());
        let seed = self.job.seed ^ (self.job.clients.start + number as u64 + 1);
        Ok(SpatialAccess::new(self.job.variant, reader, connection, seed))
    }

    async fn rings<'s>(&'s self, client: &'s Client<AnyFabric>) -> Result<ClientConnection<'s>> {
        let Some(server) = &self.server else {
            unreachable!("a process without the server's memory uses a socket")
        };
        let inbox = Inbox { local: server.local(), at: None };
        let messenger = RingRpc::connect(self.index, client, inbox, self.job.variant.notice()).await?;
        Ok(Connection::Rings(messenger))
    }
}
