//! A compute node of a spatial run: a process with clients on threads.

use std::cell::RefCell;
use std::io::Write;
use std::ops::Range;
use std::sync::Arc;

use farwood_fabric::{Client, Fabric, NodeId, Server};
use farwood_index::IndexError;
use farwood_index::catfish::adaptive::BackOff;
use farwood_index::catfish::{
    Catfish, Correspondent, Count, Inbox, Messenger, Query, Reader, Rectangle, ServerSettings, Switch,
    TreeServer,
};
use farwood_transport::any::AnyPool;
use farwood_transport::runtime::{block_on, run_all};
use farwood_transport::shm::{ShmPool, ShmServer};
use farwood_transport::tcp::exchange::Exchange;
use farwood_transport::tcp::{Credentials, TcpPool};
use serde::{Deserialize, Serialize};

use super::super::attachment::ComputeNode;
use super::super::ground::{open, pool_of};
use super::super::node::until;
use super::super::spec::Amount;
use super::super::team::{self, Hand};
use super::super::turns::{Work, in_turn};
use super::super::worker::Parent;
use super::access::Access;
use super::seat::next_request;
use super::{SpatialSpec, Variant};
use crate::clock::Clock;
use crate::measure::{CostTotals, Measurement};
use crate::rectangles::{Mix, RequestStream, Scale};
use crate::{Error, Result};
use farwood::spatial::{Connection, Socket};

/// Mixed into the seed for the searches of the warm-up.
const REHEARSAL: u64 = 0x7761_726D_5F75_7021;

/// A compute node of a spatial run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SpatialJob {
    /// The pool by its URL, and the index by name.
    pub(crate) pool: String,
    pub(crate) name: String,
    pub(crate) variant: Variant,
    pub(crate) mix: Mix,
    pub(crate) scale: Scale,
    /// Windows to choose from.
    pub(crate) windows: Vec<[f64; 4]>,
    /// Rectangles that are loaded.
    pub(crate) loaded: u64,
    pub(crate) threads: usize,
    /// Their numbers among all clients, and how many these are.
    pub(crate) clients: Range<u64>,
    pub(crate) all_clients: u64,
    pub(crate) think_ns: u64,
    pub(crate) seed: u64,
}

impl SpatialJob {
    /// Whether clients need a connection.
    fn connects(&self) -> bool {
        self.variant != Variant::Local && (self.variant.messages() || self.mix == Mix::Mixed)
    }

    /// The windows to choose from.
    pub(super) fn windows(&self) -> Arc<[Rectangle]> {
        let window =
            |&[min_x, min_y, max_x, max_y]: &[f64; 4]| Rectangle::new([min_x, min_y], [max_x, max_y]);
        self.windows.iter().map(|edges| window(edges).expect("it was one")).collect()
    }

    /// The streams of the clients of each thread.
    pub(super) fn streams(&self, mix: Mix, seed: u64) -> Vec<Vec<RequestStream>> {
        let threads = self.threads.clamp(1, self.clients.clone().count().max(1));
        let windows = self.windows();
        let mut hands = vec![Vec::new(); threads];
        for (turn, client) in self.clients.clone().enumerate() {
            let of = (client, self.all_clients);
            let stream = RequestStream::new((mix, self.scale), Arc::clone(&windows), of, self.loaded, seed);
            hands[turn % threads].push(stream);
        }
        hands
    }
}

/// A fabric's node on which spatial clients can run.
trait SpatialNode: ComputeNode {
    /// The server's role, where this process can play it.
    type Server: Server;

    /// It, on memory node `node`.
    fn server(&self, node: NodeId) -> Option<Self::Server>;

    /// A socket to the server of the index.
    fn socket(&self, port: u16) -> std::io::Result<Exchange>;
}

impl SpatialNode for ShmPool {
    type Server = ShmServer;

    fn server(&self, node: NodeId) -> Option<ShmServer> {
        ShmPool::server(self, node)
    }

    fn socket(&self, port: u16) -> std::io::Result<Exchange> {
        Exchange::open(("127.0.0.1", port), None)
    }
}

impl SpatialNode for TcpPool {
    type Server = farwood_transport::tcp::TcpServer;

    fn server(&self, _: NodeId) -> Option<Self::Server> {
        None
    }

    fn socket(&self, port: u16) -> std::io::Result<Exchange> {
        let node = self.address().nodes().first().map_or("", String::as_str);
        let host = node.rsplit_once(':').map_or(node, |(host, _)| host).trim_matches(['[', ']']);
        let credentials = Credentials::find(self.address()).map_err(std::io::Error::other)?;
        Exchange::open((host, port), credentials.token.as_ref())
    }
}

/// A compute node's life.
pub(crate) fn serve<W: Write>(job: &SpatialJob, parent: &mut Parent<W>) -> Result<()> {
    match open(&pool_of(&job.pool)?)? {
        AnyPool::Shm(node) => serve_on(&node, job, parent),
        AnyPool::Tcp(node) => serve_on(&node, job, parent),
        AnyPool::Rdma(_) => unreachable!("a spatial run over RDMA was refused"),
    }
}

fn serve_on<N: SpatialNode, W: Write>(node: &N, job: &SpatialJob, parent: &mut Parent<W>) -> Result<()> {
    let client = node.client();
    let index = block_on(Catfish::open(&client, &job.name))?;
    let tree = match (job.variant, node.server(index.layout().node)) {
        (Variant::Local, Some(server)) => {
            Some(block_on(index.serve(&client, &server, ServerSettings::default()))?)
        }
        _ => None,
    };
    let streams = job.streams(job.mix, job.seed);
    let rehearsals = job.streams(Mix::Search, job.seed ^ REHEARSAL);
    let make = |thread: usize| {
        let clients = streams[thread].iter().map(|_| node.client()).collect();
        let server = node.server(index.layout().node);
        let (streams, rehearsals) = (streams[thread].clone(), rehearsals[thread].clone());
        Ok(Bench { node, job, index: &index, tree: tree.as_ref(), clients, server, streams, rehearsals })
    };
    team::serve(parent, streams.len(), job.all_clients, make, || None)?;
    if let Some(tree) = &tree {
        block_on(tree.resign(&client))?;
    }
    Ok(block_on(index.close(&client))?)
}

/// The clients of one thread.
struct Bench<'a, N: SpatialNode> {
    node: &'a N,
    job: &'a SpatialJob,
    index: &'a Catfish,
    tree: Option<&'a TreeServer>,
    clients: Vec<Client<N::Fabric>>,
    server: Option<N::Server>,
    streams: Vec<RequestStream>,
    rehearsals: Vec<RequestStream>,
}

/// How a client of such a node gets to the index.
type Way<'t, N> = Access<
    't,
    <N as ComputeNode>::Fabric,
    Connection<'t, <N as ComputeNode>::Fabric, <<N as SpatialNode>::Server as Server>::Local>,
    <N as SpatialNode>::Server,
>;

impl<N: SpatialNode> Hand for Bench<'_, N> {
    fn pass(&mut self) -> Result<()> {
        let client = &self.clients[0];
        let everything = Rectangle::new([f64::MIN; 2], [f64::MAX; 2]).expect("both are finite");
        let mut count = Count::default();
        let mut reader = Reader::new(self.index, client, farwood_index::catfish::Issue::Many);
        block_on(reader.search(&Query::intersecting(everything), &mut count))?;
        let _ = client.take_costs();
        if count.0 < self.job.loaded {
            let problem = format!("{} of {} rectangles are there", count.0, self.job.loaded);
            return Err(Error::WrongAnswer(problem));
        }
        Ok(())
    }

    fn warm_up(&mut self, seconds: f64) -> Result<()> {
        let mut streams = std::mem::take(&mut self.rehearsals);
        let done = self.work_on(&mut streams, Amount::Seconds(seconds));
        self.rehearsals = streams;
        done.map(drop)
    }

    fn work(&mut self, amount: Amount) -> Result<Measurement> {
        let mut streams = std::mem::take(&mut self.streams);
        let done = self.work_on(&mut streams, amount);
        self.streams = streams;
        done
    }
}

impl<N: SpatialNode> Bench<'_, N> {
    /// Lets the clients ask what `streams` say, in turn.
    fn work_on(&self, streams: &mut [RequestStream], amount: Amount) -> Result<Measurement> {
        let socket = if self.job.connects() { self.socket()? } else { None };
        let clock = Clock::new();
        let end = until(&clock, amount);
        let measurement = RefCell::new(Measurement::new());
        let works = self.clients.iter().zip(streams).enumerate().map(|(number, (client, stream))| {
            let (measurement, socket) = (&measurement, socket.clone());
            Box::pin(async move {
                let mut access = self.access(client, number, socket).await?;
                let _ = client.take_costs();
                let mut done = 0;
                loop {
                    if self.job.think_ns > 0 {
                        client.fabric().sleep(self.job.think_ns).await;
                    }
                    let one = std::pin::pin!(async {
                        let start = clock.now();
                        let (kind, counted) = next_request(&mut access, stream).await?;
                        let now = clock.now();
                        let costs = CostTotals::from(client.take_costs());
                        let costs =
                            CostTotals { offloaded: counted.offloaded, found: counted.found, ..costs };
                        measurement.borrow_mut().record(kind, now - start, &costs);
                        Ok::<_, Error>(now)
                    });
                    // Who is alone on its thread has nobody to give way to.
                    let now = if self.clients.len() > 1 { in_turn(one).await? } else { one.await? };
                    done += 1;
                    if end.is_over(now, done) {
                        break;
                    }
                }
                match access.into_connection() {
                    Some(connection) => Ok(connection.close().await?),
                    None => Ok(()),
                }
            }) as Work<'_, Result<()>>
        });
        run_all(works.collect()).into_iter().collect::<Result<()>>()?;
        Ok(measurement.into_inner())
    }

    /// The thread's socket, where clients talk over one.
    fn socket(&self) -> Result<Option<Socket>> {
        if self.server.is_some() && self.job.variant != Variant::Tcp {
            return Ok(None);
        }
        let port = block_on(self.index.port(&self.clients[0]))?;
        let Some(port) = port else {
            return Err(IndexError::NotServed { name: self.job.name.clone() }.into());
        };
        let open = self.node.socket(port);
        let exchange = open.map_err(|source| Error::Processes {
            doing: format!("connect to the server at port {port}"),
            source,
        })?;
        Ok(Some(Socket::new(exchange, &self.job.name)))
    }

    async fn access<'s>(
        &'s self,
        client: &'s Client<N::Fabric>,
        number: usize,
        socket: Option<Socket>,
    ) -> Result<Way<'s, N>> {
        let variant = self.job.variant;
        let reader = || Reader::new(self.index, client, variant.issue());
        if let (Some(tree), Some(server)) = (self.tree, &self.server) {
            return Ok(Access::InPlace(tree.worker(client, server)));
        }
        let connection = match (self.job.connects(), socket) {
            (false, _) => None,
            (true, Some(socket)) => Some(Connection::Socket(Correspondent::new(socket))),
            (true, None) => Some(self.rings(client).await?),
        };
        Ok(match (variant.rule(), connection) {
            (Some(rule), Some(connection)) => {
                let seed = self.job.seed ^ (self.job.clients.start + number as u64 + 1);
                let back_off = BackOff::new(SpatialSpec::back_off(rule), seed);
                Access::Switch(Switch { connection, reader: reader(), back_off })
            }
            (None, Some(connection)) if variant.messages() => Access::Messages(connection),
            (_, connection) => Access::Reads(reader(), connection),
        })
    }

    async fn rings<'s>(
        &'s self,
        client: &'s Client<N::Fabric>,
    ) -> Result<Connection<'s, N::Fabric, <N::Server as Server>::Local>> {
        let Some(server) = &self.server else {
            unreachable!("without the server's memory there is a socket")
        };
        let inbox = Inbox { local: server.local(), at: None };
        let messenger = Messenger::connect(self.index, client, inbox, self.job.variant.notice()).await?;
        Ok(Connection::Rings(Box::new(messenger)))
    }
}
