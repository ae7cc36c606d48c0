//! A run of a spatial index on a real fabric: its pool, its server, processes of clients, and a peer.

use farwood_fabric::NodeId;
use farwood_index::catfish::{Catfish, Correspondent, Item, Rectangle, ServerSettings};
use farwood_transport::any::AnyPool;
use farwood_transport::runtime::block_on;
use farwood_transport::shm::ShmPool;
use farwood_transport::tcp::TcpPool;
use farwood_transport::tcp::exchange::Exchange;

use super::super::contest::Contestant;
use super::super::crew::{Crew, WorkerCommand};
use super::super::ground::{Ground, Site, unique};
use super::super::protocol::{Job, Round};
use super::super::spec::FabricKind;
use super::super::{Stage, finish, finish_peer};
use super::node::SpatialJob;
use super::peer;
use super::server::SpatialServer;
use super::{FILL, SpatialSpec, Variant, describe, simulate_spatial, spatial, windows};
use crate::machine::Machine;
use crate::record::Record;
use crate::{Error, Result};
use farwood::spatial::Socket;

/// Runs `spec`; yields Farwood's record, then those of its peers. `worker` starts processes that end up in
/// [`serve`](super::super::serve); they run `farwood serve` where the variant needs a server.
///
/// # Errors
/// What the spec cannot be, what the index or the pool refuses, a wrong answer, a process that died.
pub fn run_spatial(
    spec: &SpatialSpec,
    worker: &WorkerCommand,
    progress: &mut dyn FnMut(Stage<'_>),
) -> Result<Vec<Record>> {
    spec.check()?;
    if spec.fabric == FabricKind::Sim {
        return Ok(vec![simulate_spatial(spec, progress)?]);
    }
    let items = spec.source.items(spec.seed)?;
    progress(Stage::Loading { done: 0, all: items.len() as u64 });
    let place = Place::prepare(spec, worker, &items)?;
    let record = place.record(spec, items.len() as u64);
    let job = SpatialJob {
        pool: place.ground.place.to_string(),
        name: place.ground.index.clone(),
        variant: spec.variant,
        mix: spec.mix,
        scale: spec.scale,
        windows: place.windows.clone(),
        loaded: items.len() as u64,
        threads: spec.threads(),
        clients: 0..spec.clients(),
        all_clients: spec.clients(),
        think_ns: spec.think_ns,
        seed: spec.seed,
    };
    drop(items);
    let contestants = compete(spec, &job, &record, worker, progress)?;
    let (bytes, pages) = place.ground.memory()?;
    let machine =
        Machine { pages: pages.map_or_else(String::new, |pages| pages.to_string()), ..Machine::here() };
    let mut records = Vec::new();
    for contestant in contestants {
        let (record, round) = contestant.end()?;
        let record = Record { machine: machine.clone(), ..record };
        records.push(of_round(spec, record, &round, bytes));
    }
    if let [ours, first, ..] = &mut records[..] {
        ours.ratio = Some(ours.mops / first.mops);
    }
    Ok(records)
}

/// The record of the round that counts.
fn of_round(spec: &SpatialSpec, record: Record, round: &Round, bytes: u64) -> Record {
    let costs = round.measurement.costs();
    let record = if record.peer.is_none() {
        finish(Record { memory_node_bytes: Some(bytes), ..record }, round)
    } else {
        finish_peer(record, round)
    };
    let searches = record.by_operation.search.as_ref().map_or(0, |search| search.operations);
    Record { spatial: Some(spatial(spec, &costs, searches)), ..record }
}

/// Lets the contestants work in alternation.
fn compete(
    spec: &SpatialSpec,
    job: &SpatialJob,
    record: &Record,
    worker: &WorkerCommand,
    progress: &mut dyn FnMut(Stage<'_>),
) -> Result<Vec<Contestant>> {
    let (clients, nodes) = (spec.clients(), spec.compute_nodes as u64);
    let share = |node: u64| clients * node / nodes..clients * (node + 1) / nodes;
    let jobs: Vec<Job> =
        (0..nodes).map(|node| Job::Spatial(SpatialJob { clients: share(node), ..job.clone() })).collect();
    let mut contestants = vec![Contestant::of(record.clone(), Crew::start(worker, &jobs)?)];
    for name in &spec.peers {
        progress(Stage::Warming { contestant: name });
        contestants.push(peer::contestant(name, spec, job, record, worker)?);
    }
    if spec.warm_up_seconds() > 0.0 {
        for contestant in &mut contestants {
            progress(Stage::Warming { contestant: &contestant.record.label() });
            contestant.warm_up(spec.warm_up_seconds())?;
        }
    }
    let rounds = spec.rounds();
    for round in 1..=rounds {
        for contestant in &mut contestants {
            let name = contestant.record.label();
            progress(Stage::Measuring { contestant: &name, round, rounds });
            contestant.round(spec.amount())?;
        }
    }
    Ok(contestants)
}

/// The pool with the loaded index, and its server.
pub(crate) struct Place {
    pub(crate) ground: Ground,
    /// Goes after the pool, which over TCP is in its memory.
    _server: Option<SpatialServer>,
    windows: Vec<[f64; 4]>,
    scheme: &'static str,
}

impl Place {
    /// Makes the pool and the index, loads it, and starts its server where the spec needs one.
    pub(crate) fn prepare(spec: &SpatialSpec, worker: &WorkerCommand, items: &[Item]) -> Result<Place> {
        if spec.fabric == FabricKind::Tcp {
            over_tcp(spec, worker, items)
        } else {
            in_memory(spec, worker, items)
        }
    }

    /// The record of a run there, but for what is measured.
    pub(crate) fn record(&self, spec: &SpatialSpec, loaded: u64) -> Record {
        let record = describe(spec, loaded, self.scheme);
        let connections = (spec.threads() * spec.compute_nodes) as u64;
        let connections = (spec.fabric == FabricKind::Tcp).then_some(connections);
        Record { memory_nodes: Some(1), connections, ..record }
    }
}

/// In shared memory this process loads the index, and then leaves it to its server.
fn in_memory(spec: &SpatialSpec, worker: &WorkerCommand, items: &[Item]) -> Result<Place> {
    let site = Site::Own {
        memory_nodes: 1,
        host_bytes: SpatialSpec::host_bytes(items.len() as u64),
        fabric: FabricKind::Shm,
        cpus: Vec::new(),
    };
    let ground = Ground::prepare(&site, worker)?;
    let AnyPool::Shm(pool) = &ground.pool else { unreachable!("the pool was made in shared memory") };
    let (scheme, windows) = block_on(load_in_place(spec, pool, &ground.index, items))?;
    let server = if spec.connects() {
        let url = ground.place.to_string();
        let connections = (spec.clients() as usize + 8).to_string();
        let mut arguments =
            vec![&*url, "--spatial", &ground.index, "--connections", &connections, "--requests"];
        if spec.variant.is_polling() {
            arguments.push("--polling");
        }
        let mut server = SpatialServer::start(worker, &arguments)?;
        server.heard("serving")?;
        Some(server)
    } else {
        None
    };
    Ok(Place { _server: server, ground, windows, scheme })
}

async fn load_in_place(
    spec: &SpatialSpec,
    pool: &ShmPool,
    name: &str,
    items: &[Item],
) -> Result<(&'static str, Vec<[f64; 4]>)> {
    let client = pool.client();
    let server = pool.server(NodeId(0)).expect("the pool has a memory node");
    let index = Catfish::create(&client, name, spec.config()).await?;
    let tree = index.serve(&client, &server, ServerSettings::default()).await?;
    let worker = tree.worker(&client, &server);
    worker.bulk_load(items, FILL).await?;
    let windows = edges(&windows(spec, &worker, items).await?);
    tree.resign(&client).await?;
    index.close(&client).await?;
    Ok((index.layout().scheme.name(), windows))
}

fn edges(windows: &[Rectangle]) -> Vec<[f64; 4]> {
    let edges = |window: &Rectangle| [window.min()[0], window.min()[1], window.max()[0], window.max()[1]];
    windows.iter().map(edges).collect()
}

/// Over TCP the memory node is the server, and loads what it is sent.
fn over_tcp(spec: &SpatialSpec, worker: &WorkerCommand, items: &[Item]) -> Result<Place> {
    if matches!(spec.variant, Variant::FastMessaging | Variant::Event | Variant::Local) {
        let problem =
            format!("over TCP there are no rings that a client could read: {} needs them", spec.variant);
        return Err(Error::parameter("--variant", problem, "give tcp, offloading, +multi-issue or catfish"));
    }
    if spec.scale == crate::rectangles::Scale::Hundred {
        let problem = "windows with a hundred results are looked for in place";
        return Err(Error::parameter("--scale", problem, "give another scale, or --fabric shm or sim"));
    }
    let name = unique("bench");
    let memory = SpatialSpec::host_bytes(items.len() as u64).to_string();
    let arguments = ["--listen", "tcp://127.0.0.1:0", "--memory", &*memory, "--spatial", &*name];
    let mut server = SpatialServer::start(worker, &arguments)?;
    // It asks for nothing, whatever the environment has for others.
    let place = super::super::ground::pool_of(&format!("{}?environment=no", server.heard("listen")?))?;
    let mut ground = Ground::prepare(&Site::Existing(place), worker)?;
    ground.index = name;
    let AnyPool::Tcp(pool) = &ground.pool else { unreachable!("the memory node listens at a TCP address") };
    let client = pool.client();
    let index = block_on(Catfish::create(&client, &ground.index, spec.config()))?;
    let scheme = index.layout().scheme.name();
    server.heard("serving")?;
    load_over_socket(pool, &index, items)?;
    block_on(index.close(&client))?;
    Ok(Place { _server: Some(server), ground, windows: Vec::new(), scheme })
}

/// Sends the server what it is to load.
fn load_over_socket(pool: &TcpPool, index: &Catfish, items: &[Item]) -> Result<()> {
    let name = &index.entry().name;
    let port = block_on(index.port(&pool.client()))?;
    let port = port.ok_or_else(|| farwood_index::IndexError::NotServed { name: name.clone() })?;
    let failed = |source| Error::Processes { doing: format!("connect to the server at port {port}"), source };
    let exchange = Exchange::open(("127.0.0.1", port), None).map_err(failed)?;
    let mut connection = Correspondent::new(Socket::new(exchange, name));
    block_on(connection.load(items, FILL))?;
    Ok(())
}
