//! The pool of a run on a spatial index, with the loaded index and its server.

use farwood::spatial::Socket;
use farwood_fabric::NodeId;
use farwood_index::catfish::{Catfish, Item, Rectangle, ServerSettings, SocketRpc};
use farwood_transport::any::AnyPool;
use farwood_transport::runtime::block_on;
use farwood_transport::shm::ShmPool;
use farwood_transport::tcp::TcpPool;
use farwood_transport::tcp::exchange::Exchange;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use super::super::pool::{BenchPool, PoolSource, unique_name};
use super::describe::describe;
use super::server::SpatialServer;
use super::windows::windows;
use crate::driver::processes::WorkerCommand;
use crate::record::Record;
use crate::spec::fabric::{FabricKind, pool_place};
use crate::spec::spatial::{FILL, SpatialSpec};
use crate::spec::spatial_variant::Variant;
use crate::workload::rectangles::Scale;
use crate::{Error, Result};

/// A pool with a loaded spatial index, and its server.
pub struct SpatialStore {
    /// The pool.
    pub pool: BenchPool,
    /// The server process. It must end after `pool` is dropped, because over TCP it is also the memory node.
    _server: Option<SpatialServer>,
    /// The search windows from which requests are drawn: least x, least y, greatest x, greatest y.
    pub(super) windows: Vec<[f64; 4]>,
    /// The name of the scheme by which copies of nodes are checked.
    scheme: &'static str,
    /// The token of the server's socket, if clients use one in shared memory.
    pub(super) token: Option<String>,
}

impl SpatialStore {
    /// Creates the pool and the index, loads it, and starts its server if the spec needs one.
    ///
    /// # Errors
    /// The fabric does not support the variant; the errors of the pool and of the index; the server does not start.
    pub fn open(spec: &SpatialSpec, worker: &WorkerCommand, items: &[Item]) -> Result<SpatialStore> {
        if spec.fabric == FabricKind::Tcp {
            open_over_tcp(spec, worker, items)
        } else {
            open_in_memory(spec, worker, items)
        }
    }

    /// The record of a run on this store without its results.
    pub fn record(&self, spec: &SpatialSpec, loaded: u64) -> Record {
        let record = describe(spec, loaded, self.scheme);
        let connections = (spec.threads() * spec.compute_nodes) as u64;
        let connections = (spec.fabric == FabricKind::Tcp).then_some(connections);
        Record { memory_nodes: Some(1), connections, ..record }
    }
}

/// Creates a pool in shared memory and loads the index in this process, and then starts its server.
fn open_in_memory(spec: &SpatialSpec, worker: &WorkerCommand, items: &[Item]) -> Result<SpatialStore> {
    let source = PoolSource::New {
        memory_nodes: 1,
        host_bytes: SpatialSpec::host_bytes(items.len() as u64),
        fabric: FabricKind::Shm,
        cpus: Vec::new(),
        files: None,
    };
    let pool = BenchPool::open(&source, worker)?;
    let AnyPool::Shm(shm) = &pool.pool else { unreachable!("the pool was created in shared memory") };
    let (scheme, windows) = block_on(load_in_place(spec, shm, &pool.index, items))?;
    let token = (spec.variant == Variant::Tcp).then(|| unique_name("token"));
    let server = spec.connects().then(|| serve_in_memory(spec, worker, &pool, token.as_deref()));
    Ok(SpatialStore { _server: server.transpose()?, pool, windows, scheme, token })
}

/// Starts the server of an index in shared memory. With `token` it also listens at a socket, whose port every user of
/// this machine can reach.
fn serve_in_memory(
    spec: &SpatialSpec,
    worker: &WorkerCommand,
    pool: &BenchPool,
    token: Option<&str>,
) -> Result<SpatialServer> {
    let url = pool.place.to_string();
    let connections = (spec.clients() as usize + 8).to_string();
    let mut arguments = vec![&*url, "--spatial", &pool.index, "--connections", &connections];
    if spec.variant.is_polling() {
        arguments.push("--polling");
    }
    let file = token.map(SecretFile::write).transpose()?;
    let path = file.as_ref().map(|SecretFile(path)| path.display().to_string());
    if let Some(path) = &path {
        arguments.extend(["--requests", "--token-file", path]);
    }
    let mut server = SpatialServer::start(worker, &arguments)?;
    server.wait_for("serving")?;
    Ok(server)
}

/// A file with a secret that only this user can read. Removed when dropped.
struct SecretFile(PathBuf);

impl SecretFile {
    fn write(secret: &str) -> Result<SecretFile> {
        let failed = |source| Error::Processes { doing: "write a token".to_owned(), source };
        let path = std::env::temp_dir().join(unique_name("farwood"));
        let mut file =
            File::options().write(true).create_new(true).mode(0o600).open(&path).map_err(failed)?;
        let written = SecretFile(path);
        writeln!(file, "{secret}").map_err(failed)?;
        Ok(written)
    }
}

impl Drop for SecretFile {
    fn drop(&mut self) {
        // A file that remains holds the token of a server that ends with this run.
        let _ = std::fs::remove_file(&self.0);
    }
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
    tree.release_lease(&client).await?;
    index.close(&client).await?;
    Ok((index.layout().scheme.name(), windows))
}

fn edges(windows: &[Rectangle]) -> Vec<[f64; 4]> {
    let edges = |window: &Rectangle| [window.min()[0], window.min()[1], window.max()[0], window.max()[1]];
    windows.iter().map(edges).collect()
}

/// Starts a memory node over TCP that is also the server of the index, and sends it the items to load.
fn open_over_tcp(spec: &SpatialSpec, worker: &WorkerCommand, items: &[Item]) -> Result<SpatialStore> {
    if matches!(spec.variant, Variant::FastMessaging | Variant::Event | Variant::Local) {
        let problem = format!("{} needs rings in shared memory, and --fabric tcp has none", spec.variant);
        return Err(Error::parameter("--variant", problem, "give tcp, offloading, +multi-issue or catfish"));
    }
    if spec.scale == Scale::Hundred {
        let problem = "windows with a hundred results are computed in the server's process";
        return Err(Error::parameter("--scale", problem, "give another scale, or --fabric shm or sim"));
    }
    let name = unique_name("bench");
    let memory = SpatialSpec::host_bytes(items.len() as u64).to_string();
    let arguments = ["--listen", "tcp://127.0.0.1:0", "--memory", &*memory, "--spatial", &*name];
    let mut server = SpatialServer::start(worker, &arguments)?;
    // The server needs no credentials: the URL option keeps the client from sending those that the environment names.
    let place = pool_place(&format!("{}?environment=no", server.wait_for("listen")?))?;
    let mut pool = BenchPool::open(&PoolSource::Existing(place), worker)?;
    pool.index = name;
    let AnyPool::Tcp(tcp) = &pool.pool else { unreachable!("the memory node listens at a TCP address") };
    let client = tcp.client();
    let index = block_on(Catfish::create(&client, &pool.index, spec.config()))?;
    let scheme = index.layout().scheme.name();
    server.wait_for("serving")?;
    load_over_socket(tcp, &index, items)?;
    block_on(index.close(&client))?;
    Ok(SpatialStore { _server: Some(server), pool, windows: Vec::new(), scheme, token: None })
}

/// Sends the server the items to load.
fn load_over_socket(pool: &TcpPool, index: &Catfish, items: &[Item]) -> Result<()> {
    let name = &index.entry().name;
    let port = block_on(index.port(&pool.client()))?;
    let failed = |source| Error::Processes { doing: format!("connect to the server at port {port}"), source };
    let exchange = Exchange::open(("127.0.0.1", port), None).map_err(failed)?;
    let mut connection = SocketRpc::new(Socket::new(exchange, name));
    block_on(connection.load(items, FILL))?;
    Ok(())
}
