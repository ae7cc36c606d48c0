//! `farwood serve`: a memory node over TCP, or over RDMA.

mod spatial;

use super::card::{card_json, card_text};
use super::create::warn_beyond_machine;
use super::failure::shown;
use super::log::{Log, Style};
use super::metrics::Watch;
use super::{Context, Failure, Format, Outcome, size};
use farwood::error::{RdmaError, TcpError};
use farwood::node::{
    AcceptedTokens, DeviceReport, DeviceSpec, Durability, EtcdAddress, HostPort, Identity, LogReport,
    MemoryNode, NodeCounts, NodeEvent, NodeEvents, NodeFile, NodeSpec, Registrant, Registration, ServerTls,
};
use farwood::spatial::ServerMonitor;
use farwood::{Error, Url};
use serde_json::json;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  farwood serve --memory 8GiB
  farwood serve --listen tcp://127.0.0.1:7471 --memory 1GiB
  farwood serve --listen tcp://10.0.0.5:7470 --memory 64GiB --token-file /etc/farwood/token
  farwood serve --listen tcp://0.0.0.0:7470 --tls-cert node.pem --tls-key node.key --client-ca ca.pem
  farwood serve shm://demo --spatial places
  farwood serve --listen tcp://127.0.0.1:7471 --spatial places
  farwood serve --rdma mlx5_0,1,3 --listen tcp://10.0.0.5:7470 --token-file token --memory 64GiB
  farwood serve --memory 8GiB --file /var/lib/farwood/node-0
  farwood serve --listen tcp://10.0.0.5:7470 --token-file token --etcd etcd://10.0.0.2:2379/words --node 0 --nodes 2
  farwood create tcp://127.0.0.1:7470,127.0.0.1:7471/words --keys text --key-bytes 64

New memory nodes do not belong to a pool. The first `farwood create` that names one or several of them makes them a \
pool; from then on, name the same memory nodes in the same order. Their contents are lost when they stop, unless they \
are stored in a file (--file).";

/// The interval at which the main thread checks for signals.
const LOOK: Duration = Duration::from_millis(50);
/// Maximum threads of a memory node; `farwood_transport` has the same limit.
const THREADS_MAX: u64 = 1024;

/// Run a memory node: memory that compute nodes access over TCP or RDMA
///
/// A memory node stores bytes and executes READ, WRITE and atomic verbs on them; it does not know about indexes. On
/// SIGTERM or SIGINT it answers the requests that it has accepted, and stops. On SIGHUP it reads the files of tokens
/// and certificates again. On an address that other machines can reach, it starts only with a token or client
/// certificates, or with --insecure. Without TLS all data travels unencrypted.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "each is an independent flag")]
pub(crate) struct Args {
    /// With --spatial: the URL of the pool of the spatial index. For a pool in shared memory, the command serves the
    /// index and runs no memory node. For a pool over TCP, the URL is needed only if the pool has more memory nodes
    /// than the one that this command runs
    url: Option<Url>,
    /// Serve this spatial index: apply the changes and answer the searches that clients send, until SIGTERM or SIGINT.
    /// Over TCP the index must be on this memory node, and may be created later
    #[arg(long, value_name = "INDEX")]
    spatial: Option<String>,
    /// Also accept requests for the spatial index over a socket (always on over TCP). In shared memory this requires
    /// --token-file or --insecure
    #[arg(long, requires = "spatial")]
    requests: bool,
    /// Poll for messages instead of waiting for notifications
    #[arg(long, requires = "spatial")]
    polling: bool,
    /// Interval in which the server reports its utilisation to the clients of the spatial index, 1 to 10000
    #[arg(long, value_name = "MILLISECONDS", requires = "spatial", default_value_t = 10,
        value_parser = size::between::<u64>(1, 10_000))]
    heartbeat: u64,
    /// Address to listen on: tcp://HOST:PORT; port 0 selects a free port
    #[arg(long, value_name = "URL", default_value = "tcp://127.0.0.1:7470")]
    listen: String,
    /// Let this RDMA device execute the verbs: DEVICE, DEVICE,PORT, DEVICE,PORT,GID, or "auto" for the first usable
    /// device. TCP then carries control messages only
    #[arg(long, value_name = "DEVICE", conflicts_with = "etcd")]
    rdma: Option<DeviceSpec>,
    /// Host memory, a multiple of 8 MiB [default: 1GiB, or the memory of an existing --file]. A file that has more
    /// keeps it
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    memory: Option<u64>,
    /// Host memory to which `farwood grow` can raise it [default: 16 times --memory; with --rdma: --memory, because the
    /// device registers all of it]. Memory that is not used costs addresses only. A file keeps the number of its first
    /// start
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    memory_max: Option<u64>,
    /// Device memory, which holds the locks [default: 256KiB, or the size of the device memory of the NIC if that is
    /// less]; allocated on the NIC if it has enough
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    device_memory: Option<u64>,
    /// Memory that a snapshot may take beside that of the pool: `farwood dump --consistent` lets the memory node copy
    /// the pages that change during the dump [default: a quarter of --memory]
    #[arg(long, value_name = "SIZE", value_parser = snapshot_size, conflicts_with = "rdma")]
    snapshot_memory: Option<u64>,
    /// Store the memory in this file, so that a memory node that is restarted with the same file continues with its
    /// contents
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// When changes are on the disk. orderly: when the memory node has stopped; after a crash, the file must be
    /// accepted with --accept-unclean. interval=SECONDS: at most this long after their answers. always: before their
    /// answers. The last two keep a log beside the file, FILE.log.*, and restart after a crash by themselves. If
    /// one memory node of a pool has interval, all need it
    #[arg(long, value_name = "LEVEL", requires = "file", default_value_t = Durability::Orderly)]
    durability: Durability,
    /// Open the file even if its last memory node did not shut down cleanly: writes that were in progress may be
    /// incomplete
    #[arg(long, requires = "file")]
    accept_unclean: bool,
    /// Remove the fences of revoked clients from the file. Clients that were attached before have to open the pool
    /// again
    #[arg(long, requires = "file")]
    clear_fences: bool,
    /// Require the token in this file (a line of 16 to 1024 characters) from every client; during a rotation the file
    /// has two lines, and both tokens are accepted
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Accept the token in this file, too, for reading only: a client with it executes READs, and nothing else. The
    /// file may have two lines, as that of --token-file
    #[arg(long, value_name = "FILE", requires = "token_file", conflicts_with = "rdma")]
    read_token_file: Option<PathBuf>,
    /// Accept only TLS 1.3, with this certificate (PEM, including intermediate certificates)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Require a client certificate issued by one of the authorities in this file (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    client_ca: Option<PathBuf>,
    /// Listen without a token and without client certificates on an address that other machines can reach, or with
    /// --requests in shared memory: every client that reaches the port can read and change all data. Also required if
    /// other machines can reach --metrics
    #[arg(long)]
    insecure: bool,
    /// Serve Prometheus metrics at http://HOST:PORT/metrics and a health check at /healthz
    #[arg(long, value_name = "HOST:PORT")]
    metrics: Option<String>,
    /// Register this memory node in etcd (etcd://HOST:PORT/POOL), so that compute nodes find the pool by that URL
    #[arg(long, value_name = "URL", requires = "node")]
    etcd: Option<String>,
    /// With --etcd: the number of this memory node in the pool, from 0
    #[arg(long, value_name = "N", requires = "etcd")]
    node: Option<u16>,
    /// With --etcd: the number of memory nodes of the pool
    #[arg(long, value_name = "N", value_parser = size::memory_nodes, requires = "etcd", default_value = "1")]
    nodes: u16,
    /// With --etcd: the address at which compute nodes reach this memory node, if it differs from --listen
    #[arg(long, value_name = "HOST:PORT", requires = "etcd")]
    advertise: Option<String>,
    /// Format of the log on stderr
    #[arg(long, value_name = "STYLE", value_enum, default_value_t = Style::Text)]
    log: Style,
    /// Number of threads [default: one for each processor, at most 4]
    #[arg(long, value_name = "N", value_parser = size::between::<usize>(1, THREADS_MAX))]
    threads: Option<usize>,
    /// Maximum number of connections
    #[arg(long, value_name = "N", value_parser = size::at_least_one, default_value_t = 10_000)]
    connections: usize,
    /// Time for which idle threads poll before they sleep; a longer time shortens the latency and uses more CPU
    /// [default: 50, or 0 on a machine of fewer than 8 processors, where clients need them]
    #[arg(long, value_name = "MICROSECONDS")]
    spin: Option<u64>,
}

/// Host memory of a new memory node, unless the command line says otherwise.
const MEMORY_DEFAULT: u64 = 1 << 30;

impl Args {
    fn spec(&self) -> Result<NodeSpec, Failure> {
        let listen = self.address()?;
        let failed = |source| Failure::Farwood(Error::Tcp { operation: "serve", source });
        let token = tokens_of(self.token_file.as_deref())?;
        let read_token = tokens_of(self.read_token_file.as_deref())?;
        let tls = self.tls().map_err(failed)?;
        let closed = token.is_some() || tls.as_ref().is_some_and(ServerTls::requires_certificates);
        if !listen.ip().is_loopback() && !closed && !self.insecure {
            return Err(Failure::Usage(format!(
                "serve {}: other machines can reach that address without authentication; give --token-file, or \
                 --tls-cert, --tls-key and --client-ca, or --insecure if you trust every machine of the network",
                self.listen
            )));
        }
        let memory =
            self.memory.unwrap_or_else(|| MEMORY_DEFAULT.min(self.memory_max.unwrap_or(MEMORY_DEFAULT)));
        let default = NodeSpec::new(listen, memory);
        let grows = self.rdma.is_none();
        Ok(NodeSpec {
            host_bytes_max: self
                .memory_max
                .or_else(|| grows.then(|| farwood::node::memory_max_default(memory))),
            device_bytes: self.device_memory,
            file: self.file.as_deref().map(|path| self.node_file(path)).transpose()?,
            token,
            read_token,
            tls,
            threads: self.threads.unwrap_or(0),
            connections_max: self.connections,
            snapshot_bytes_max: self.snapshot_memory,
            spin: self.spin.map_or(default.spin, Duration::from_micros),
            ..default
        })
    }

    /// The file of the memory, with options that have an effect.
    fn node_file(&self, path: &Path) -> Result<NodeFile, Failure> {
        let (durability, has_log) = (self.durability, self.durability != Durability::Orderly);
        let refused =
            |option: &str, why: &str| Err(Failure::Usage(format!("serve {}: {option}: {why}", self.listen)));
        if has_log && self.accept_unclean {
            return refused(
                "--accept-unclean",
                "a memory node with a log restores its memory after a crash by itself; omit it",
            );
        }
        if matches!(durability, Durability::Interval(_)) && self.spatial.is_some() {
            return refused(
                "--spatial",
                "the answers of its server carry no cut, so a pool could not return to a common moment; give \
                 --durability always or orderly, or omit --spatial",
            );
        }
        let (accept_unclean, clear_fences) = (self.accept_unclean, self.clear_fences);
        let keeps_memory = self.memory.is_none();
        Ok(NodeFile { durability, accept_unclean, clear_fences, keeps_memory, ..NodeFile::new(path) })
    }

    fn tls(&self) -> Result<Option<ServerTls>, TcpError> {
        let (Some(cert), Some(key)) = (&self.tls_cert, &self.tls_key) else { return Ok(None) };
        ServerTls::from_files(Identity { cert, key }, self.client_ca.as_deref()).map(Some)
    }

    /// Reads the files of the tokens and of TLS again, for new connections; yields a message and its fields. The
    /// present credentials of a file that cannot be read remain valid.
    fn reload(
        &self,
        [tokens, read_tokens]: [Option<&AcceptedTokens>; 2],
        tls: Option<&ServerTls>,
    ) -> (String, serde_json::Value) {
        let reload = |tokens: Option<&AcceptedTokens>, file: &Option<PathBuf>, other| {
            Some(tokens?.reload_apart_from(file.as_deref()?, other))
        };
        let token = reload(tokens, &self.token_file, read_tokens);
        let read_token = reload(read_tokens, &self.read_token_file, tokens);
        let tls = match (tls, &self.tls_cert, &self.tls_key) {
            (Some(tls), Some(cert), Some(key)) => {
                Some(tls.reload(Identity { cert, key }, self.client_ca.as_deref()))
            }
            _ => None,
        };
        let failures: Vec<_> = [token, read_token, tls]
            .into_iter()
            .flatten()
            .filter_map(|read| Some(read.err()?.to_string()))
            .collect();
        let words = if failures.is_empty() {
            "read the files of the tokens and the certificates again".to_owned()
        } else {
            format!("credentials that cannot be read remain as they were: {}", failures.join("; "))
        };
        (words, json!({ "failures": failures }))
    }

    /// Warns about secrets that all users of the machine can read.
    fn warn_of_secrets(&self, context: &mut Context<'_>) -> Result<(), Failure> {
        for path in [&self.token_file, &self.read_token_file, &self.tls_key].into_iter().flatten() {
            if let Some(words) = farwood::node::secret_warning(path) {
                writeln!(context.messages, "warning: {words}")?;
            }
        }
        Ok(())
    }

    /// The entry in etcd for the memory node at `address`.
    fn registrant(&self, address: SocketAddr) -> Result<Option<Registrant>, Failure> {
        let (Some(etcd), Some(node)) = (&self.etcd, self.node) else { return Ok(None) };
        let refuse = |why: String| Failure::Usage(format!("serve: --etcd {etcd}: {why}"));
        let place =
            etcd.strip_prefix("etcd://").ok_or_else(|| refuse("write etcd://HOST:PORT/POOL".to_owned()))?;
        let place: EtcdAddress = place.parse().map_err(|error| refuse(format!("{error}")))?;
        if node >= self.nodes {
            return Err(refuse(format!(
                "--node {node} is out of range: {} memory nodes are numbered from 0",
                self.nodes
            )));
        }
        if self.advertise.is_none() && address.ip().is_unspecified() {
            return Err(refuse(format!(
                "compute nodes cannot connect to {address}; give --advertise HOST:PORT"
            )));
        }
        let advertised = self.advertise.clone().unwrap_or_else(|| address.to_string());
        let address =
            advertised.parse().map_err(|why| refuse(format!("--advertise: {why}; write HOST:PORT")))?;
        Ok(Some(Registrant { etcd: place, node, nodes: self.nodes, address }))
    }

    /// Opens the port for metrics.
    fn watch(&self) -> Result<Option<Watch>, Failure> {
        let Some(at) = self.metrics.as_deref() else { return Ok(None) };
        let found = at.to_socket_addrs().ok().and_then(|mut found| found.next());
        let address =
            found.ok_or_else(|| Failure::Usage(format!("serve: --metrics '{at}': write HOST:PORT")))?;
        if !address.ip().is_loopback() && !self.insecure {
            return Err(Failure::Usage(format!(
                "serve: --metrics {at}: other machines can reach that address, and the port has neither TLS nor \
                 a token; give an address of this machine (127.0.0.1:PORT), or --insecure if only monitoring can \
                 reach the port"
            )));
        }
        let source = |error| TcpError::Listen { address: at.to_owned(), error };
        let listen = |error| Failure::Farwood(Error::Tcp { operation: "serve", source: source(error) });
        Watch::listen(address).map(Some).map_err(listen)
    }

    fn address(&self) -> Result<SocketAddr, Failure> {
        let refuse = |why: String| {
            Failure::Usage(format!("serve: --listen {}: {why}; write tcp://HOST:PORT", self.listen))
        };
        let Some(address) = self.listen.strip_prefix("tcp://") else {
            return Err(refuse("only tcp:// can be served".to_owned()));
        };
        let host: HostPort = address.parse().map_err(refuse)?;
        let unknown = |error| refuse(format!("the host '{}' cannot be found: {error}", host.host()));
        let mut found = address.to_socket_addrs().map_err(unknown)?;
        found.next().ok_or_else(|| refuse("the name has no address".to_owned()))
    }
}

/// Options that apply to a memory node only.
const MEMORY_NODE_OPTIONS: [&str; 18] = [
    "listen",
    "rdma",
    "memory",
    "device_memory",
    "file",
    "accept_unclean",
    "clear_fences",
    "read_token_file",
    "tls_cert",
    "tls_key",
    "client_ca",
    "metrics",
    "etcd",
    "node",
    "nodes",
    "advertise",
    "log",
    "spin",
];
/// Options that apply to a spatial server in shared memory only.
const SHARED_MEMORY_OPTIONS: [&str; 1] = ["polling"];

/// Refuses options that would have no effect.
fn refuse_given(
    what: impl std::fmt::Display,
    options: &[&str],
    why: &str,
    context: &Context<'_>,
) -> Result<(), Failure> {
    let Some(given) = context.first_given(options) else { return Ok(()) };
    Err(Failure::Usage(format!("serve {what}: {given} {why}")))
}

pub(crate) fn run(args: &Args, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    if let Some((url, parameter)) = args.url.as_ref().and_then(|url| Some((url, url.search_parameter()?))) {
        return Err(Failure::Usage(format!(
            "serve {url}: '{parameter}' is for clients that search the index; omit it"
        )));
    }
    match &args.url {
        Some(url) if url.to_string().starts_with("shm://") => {
            refuse_given(
                url,
                &MEMORY_NODE_OPTIONS,
                "applies to memory nodes over TCP, and a pool in shared memory has none; omit it",
                context,
            )?;
            if !args.requests {
                let why = "applies to sockets, and this server has none; omit it, or give --requests";
                refuse_given(url, &["insecure"], why, context)?;
            }
            return spatial::serve(url, args, context);
        }
        Some(url) if args.spatial.is_none() => return Err(spatial::nothing_to_serve(url)),
        _ => {}
    }
    let why = "applies to shared memory only: over TCP requests arrive on a socket; omit it";
    refuse_given(&args.listen, &SHARED_MEMORY_OPTIONS, why, context)?;
    serve_node(args, context)
}

/// Runs a memory node until a signal stops it.
fn serve_node(args: &Args, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    let (mut log, events) = Log::new(args.log);
    let spec = NodeSpec { events: Some(events.clone()), ..args.spec()? };
    // Report a wrong option before the memory is allocated.
    args.registrant(spec.listen)?;
    args.warn_of_secrets(context)?;
    // Memory in a file of level orderly need not be in the memory of the machine.
    if args.file.is_none() || args.durability != Durability::Orderly {
        warn_beyond_machine(&args.listen, spec.host_bytes, context)?;
    }
    raise_descriptors(spec.connections_max);
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP]).map_err(system("wait for signals"))?;
    let watch = args.watch()?;
    let found = args.file.as_deref().map(FoundFile::at);
    let (node, card) = start(args, &spec)?;
    let scheme = if card.is_some() { "rdma" } else { "tcp" };
    let url = format!("{scheme}://{}", node.address());
    log.name(&url);
    let registration = args.registrant(node.address())?.map(|registrant| register(registrant, events));
    let registration = registration.transpose()?;
    introduce((args, &spec, &node), (&url, found), card.as_ref(), watch.as_ref(), context)?;
    let monitor = ServerMonitor::default();
    let served = args.spatial.clone().map(|index| (index, monitor.clone()));
    let watch = watch.map(|watch| watch.start(node.monitor(), served)).transpose();
    let watch = watch.map_err(system("start the thread of --metrics"))?;
    let spatial = args
        .spatial
        .as_deref()
        .map(|name| spatial::Beside::start(args, name, &url, (&node, spec.token.clone()), monitor));
    let mut spatial = spatial.transpose()?;
    while node.is_running() {
        match next_signal(&mut signals) {
            Some(SIGHUP) => {
                let (words, fields) =
                    args.reload([spec.token.as_ref(), spec.read_token.as_ref()], spec.tls.as_ref());
                let _ = log.write(context.messages, "reloaded", &words, fields);
            }
            Some(_) => break,
            None => {}
        }
        // If stderr is closed, the memory node continues without a log.
        let _ = log.write_events(context.messages);
        if let Some(spatial) = &mut spatial {
            let _ = spatial.tell(context);
        }
        std::thread::sleep(LOOK);
    }
    // The memory node stops cleanly even if the spatial server failed. A server whose memory node was lost would wait
    // for it, to release its lease.
    let served = if node.is_running() { spatial.map(spatial::Beside::stop) } else { None };
    let counts = node.counts();
    // From now on, etcd does not send new clients here.
    drop(registration);
    // The thread of the metrics holds the state of the memory node.
    drop(watch);
    node.stop().map_err(failed)?;
    log.write_events(context.messages)?;
    write_end(&log, &counts, context)?;
    match served {
        Some(Err(panic)) => std::panic::resume_unwind(panic),
        Some(Ok(served)) => served?,
        None => {}
    }
    Ok(Outcome::Done)
}

fn failed(source: TcpError) -> Failure {
    Failure::Farwood(Error::Tcp { operation: "serve", source })
}

fn system(operation: &'static str) -> impl Fn(std::io::Error) -> Failure {
    move |error| failed(TcpError::System { operation, error })
}

/// Returns a signal that has arrived. A signal that ends the process has precedence.
fn next_signal(signals: &mut Signals) -> Option<i32> {
    let arrived: Vec<_> = signals.pending().collect();
    arrived.iter().find(|signal| **signal != SIGHUP).or(arrived.first()).copied()
}

/// Writes the last line of the memory node.
fn write_end(log: &Log, counts: &NodeCounts, context: &mut Context<'_>) -> Result<(), Failure> {
    let words = format!(
        "stopped after {} verbs from {}; {} connections refused, {} closed because of malformed requests",
        counts.verbs,
        size::count(counts.accepted, "connection", "connections"),
        counts.refused,
        counts.bad_frames
    );
    let fields = json!({ "verbs": counts.verbs, "accepted": counts.accepted });
    Ok(log.write(context.messages, "stopped", &words, fields)?)
}

/// Starts the memory node, with an RDMA device if --rdma names one.
fn start(args: &Args, spec: &NodeSpec) -> Result<(MemoryNode, Option<DeviceReport>), Failure> {
    match &args.rdma {
        None => Ok((MemoryNode::start(spec).map_err(start_failure)?, None)),
        Some(device) => {
            let started = farwood::node::serve_rdma(spec, device);
            let (node, card) = started.map_err(|source| match source {
                RdmaError::Pool(source) => start_failure(source),
                source => Failure::Farwood(Error::Rdma { operation: "serve", source }),
            })?;
            Ok((node, Some(card)))
        }
    }
}

/// The failure of a memory node, with the option of the file that it names.
fn start_failure(source: TcpError) -> Failure {
    let is_of_file = matches!(source, TcpError::File { .. } | TcpError::Unclean { .. });
    let text = format!("serve: --file: {source}");
    let error = Error::Tcp { operation: "serve", source };
    let exit_code = error.exit_code();
    if is_of_file { Failure::Other { text, exit_code } } else { error.into() }
}

/// Registers the memory node in etcd. Later failures of the registration go to the log.
fn register(registrant: Registrant, events: NodeEvents) -> Result<Registration, Failure> {
    let tell = move |what| {
        let _ = events.try_send(NodeEvent::Discovery(what));
    };
    registrant.register(tell).map_err(|source| Failure::Farwood(Error::Etcd { operation: "serve", source }))
}

/// Prints the line that reports readiness. Scripts wait for it.
fn introduce(
    (args, spec, node): (&Args, &NodeSpec, &MemoryNode),
    (url, found): (&str, Option<FoundFile>),
    card: Option<&DeviceReport>,
    watch: Option<&Watch>,
    context: &mut Context<'_>,
) -> Result<(), Failure> {
    let certified = spec.tls.as_ref().is_some_and(ServerTls::requires_certificates);
    let tls = if spec.tls.is_some() { ", over TLS" } else { "" };
    let report = node.log_report();
    match context.format {
        Format::Json => {
            let metrics = watch.and_then(|watch| watch.address().ok()).map(|at| at.to_string());
            context.json(&json!({
                "listen": url,
                "memory_bytes": node.memory_bytes(),
                "memory_max_bytes": node.memory_max_bytes(),
                "device_memory_bytes": node.device_bytes(),
                "metrics": metrics,
                "tls": spec.tls.is_some(),
                "rdma": card.map(card_json),
                "durability": args.file.as_ref().map(|_| args.durability.to_string()),
                "restart": report.map(restart_json),
            }))?;
        }
        Format::Text => writeln!(
            context.out,
            "{url}: {} and {} of device memory, open to {}{tls}{}{}",
            size::show(node.memory_bytes()),
            size::show(node.device_bytes()),
            match (spec.token.is_some(), certified) {
                (true, true) => "clients with the token and a certificate",
                (true, false) if spec.read_token.is_some() => "clients with a token",
                (true, false) => "clients with the token",
                (false, true) => "clients with a certificate",
                (false, false) => "every client that can connect",
            },
            card.map_or_else(String::new, |card| format!("; verbs executed by {}", card_text(card))),
            args.file.as_deref().zip(found).map_or_else(String::new, |(path, found)| {
                restart_text((path, found), args.durability, report)
            })
        )?,
    }
    Ok(context.out.flush()?)
}

/// The restart of a memory node with a log.
fn restart_json(report: LogReport) -> serde_json::Value {
    json!({
        "new": report.is_new,
        "records": report.records,
        "log_bytes": report.log_bytes,
        "seconds": report.duration.as_secs_f64(),
        "cut": (report.cut > 0).then_some(report.cut),
        "last_changes_lost": report.may_miss,
        "locks_freed": report.may_miss_locks,
    })
}

/// The file of the memory before the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FoundFile {
    Absent,
    Present,
}

impl FoundFile {
    fn at(path: &Path) -> Self {
        let is_present = path.metadata().is_ok_and(|file| file.len() > 0);
        if is_present { Self::Present } else { Self::Absent }
    }
}

/// The restart as text, with the level.
fn restart_text((path, found): (&Path, FoundFile), level: Durability, report: Option<LogReport>) -> String {
    let path = shown(path);
    if found == FoundFile::Absent {
        return format!("; in the new file {path}, durability {level}");
    }
    let Some(report) = report else { return format!("; continued from {path}, durability {level}") };
    let records = size::count(report.records, "record", "records");
    let cut = if report.cut > 0 { format!(", up to cut {}", report.cut) } else { String::new() };
    let lost = if report.may_miss {
        "; the machine has failed, so the changes of the last interval are lost, and a pool of several memory nodes \
         returns to a cut when a process opens it"
    } else if report.may_miss_locks {
        "; the machine has failed, so all locks are free, and clients that were attached before have to open the pool \
         again"
    } else {
        ""
    };
    format!(
        "; restored from {path} and {records} of its log ({}) in {:.1} s{cut}, durability {level}{lost}",
        size::show(report.log_bytes),
        report.duration.as_secs_f64()
    )
}

/// A size of at least a page. For clap's `value_parser`.
fn snapshot_size(text: &str) -> Result<u64, String> {
    const PAGE_BYTES: u64 = 4096;
    let bytes = size::parse(text)?;
    if bytes < PAGE_BYTES { Err("give at least 4KiB".to_owned()) } else { Ok(bytes) }
}

/// The accepted tokens in a file.
fn tokens_of(file: Option<&Path>) -> Result<Option<AcceptedTokens>, Failure> {
    let read = file.map(AcceptedTokens::from_file).transpose();
    read.map_err(|source| Failure::Farwood(Error::Tcp { operation: "serve", source }))
}

/// Raises the limit on open files to what the connections need, as far as the system permits.
fn raise_descriptors(connections: usize) {
    use rustix::process::{Resource, getrlimit, setrlimit};
    /// Descriptors for everything but connections.
    const OTHERS: u64 = 64;
    let mut limit = getrlimit(Resource::Nofile);
    let wanted = (connections as u64).saturating_add(OTHERS);
    if limit.current.is_some_and(|current| current < wanted) {
        limit.current = Some(limit.maximum.map_or(wanted, |maximum| maximum.min(wanted)));
        // If the system refuses, connections beyond the limit are not accepted.
        let _ = setrlimit(Resource::Nofile, limit);
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Args, Durability, FoundFile, LogReport, MEMORY_NODE_OPTIONS, SHARED_MEMORY_OPTIONS, restart_text,
    };
    use clap::Args as _;
    use std::path::Path;
    use std::time::Duration;

    #[test]
    fn the_first_line_has_the_level_and_the_restart() {
        let text_of = |found, report| restart_text((Path::new("node"), found), Durability::Always, report);
        assert_eq!(text_of(FoundFile::Absent, None), "; in the new file node, durability always");
        let text = |report| text_of(FoundFile::Present, report);
        assert_eq!(text(None), "; continued from node, durability always");
        let duration = Duration::from_millis(1240);
        let old = LogReport { records: 1, log_bytes: 1 << 20, cut: 7, duration, ..LogReport::default() };
        assert_eq!(
            text(Some(old)),
            "; restored from node and 1 record of its log (1 MiB) in 1.2 s, up to cut 7, durability always"
        );
        assert!(text(Some(LogReport { may_miss: true, ..old })).contains("returns to a cut"));
    }

    #[test]
    fn every_refused_option_exists() {
        let command = Args::augment_args(clap::Command::new("serve"));
        for name in MEMORY_NODE_OPTIONS.iter().chain(&SHARED_MEMORY_OPTIONS) {
            assert!(command.get_arguments().any(|option| option.get_id() == name), "{name}");
        }
    }
}
