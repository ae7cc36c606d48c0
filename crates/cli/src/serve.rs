//! `farwood serve`: a memory node over TCP, or over RDMA.

mod spatial;

use super::card::{card_json, card_text};
use super::log::{Log, Style};
use super::metrics::Watch;
use super::{Context, Failure, Format, Outcome, size};
use farwood::{
    CardReport, DeviceSpec, Error, EtcdAddress, Identity, MemoryNode, NodeEvent, NodeEvents, NodeFile,
    NodeSpec, Registrant, Registration, ServerTls, TcpError, Token, Url,
};
use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;
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

Memory nodes know of no pool. Whoever creates the first index in one or several of them makes them one: from then \
on they are named together, in that order. What they hold is gone when they end, unless it is in a file (--file).";

/// How often a memory node that only waits for its signal looks at itself.
const LOOK: Duration = Duration::from_millis(50);

/// Run a memory node: memory that compute nodes reach over TCP or RDMA
///
/// It holds bytes and executes READ, WRITE and atomics on them; it knows no index. SIGTERM and SIGINT end it when it
/// has answered what it had accepted. Beyond this machine it listens only where a token or certificates keep others
/// out, or if told that nothing needs to. Without TLS everything goes over the wire as it is, the token too.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct Args {
    /// The pool of a spatial index that is to be served (--spatial): in shared memory, without a memory node; over TCP,
    /// where it has other memory nodes than this one
    url: Option<Url>,
    /// Deal with the changes and messages of this spatial index, until SIGTERM or SIGINT. Over TCP it must lie on this
    /// memory node, and may be created later
    #[arg(long, value_name = "INDEX")]
    spatial: Option<String>,
    /// Take the requests of a spatial index over a socket as well; over TCP always
    #[arg(long, requires = "spatial")]
    requests: bool,
    /// Look for messages again and again, instead of being woken by them
    #[arg(long, requires = "spatial")]
    polling: bool,
    /// Where to listen: tcp://HOST:PORT; port 0 is any that is free
    #[arg(long, value_name = "URL", default_value = "tcp://127.0.0.1:7470")]
    listen: String,
    /// Have this RDMA device execute the verbs, and listen for nothing else: DEVICE, DEVICE,PORT, DEVICE,PORT,GID, or
    /// "auto" for the first that will do
    #[arg(long, value_name = "DEVICE", conflicts_with = "etcd")]
    rdma: Option<DeviceSpec>,
    /// Host memory, a multiple of 8 MiB
    #[arg(long, value_name = "SIZE", value_parser = size::parse, default_value = "1GiB")]
    memory: u64,
    /// Device memory, where locks lie [default: 256KiB, or what the card has if that is less]; the card's own where it
    /// has as much
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    device_memory: Option<u64>,
    /// Keep the memory in this file, so that a memory node that is started anew with it goes on where this one stopped
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Take the file up although its last memory node was not stopped but ended: what was being written then may be
    /// half-written
    #[arg(long, requires = "file")]
    accept_unclean: bool,
    /// Let in only who shows the first line of this file, 16 to 1024 characters
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Speak TLS 1.3 only, and show this certificate (PEM, with those between it and its authority)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Let in only who shows a certificate of one of the authorities in this file (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    client_ca: Option<PathBuf>,
    /// Listen beyond this machine without token and client certificates: whoever reaches the port can read and change
    /// everything
    #[arg(long)]
    insecure: bool,
    /// Tell who asks http://HOST:PORT/metrics (Prometheus) and /healthz how it does
    #[arg(long, value_name = "HOST:PORT")]
    metrics: Option<String>,
    /// Tell an etcd where this memory node is, so that compute nodes find it as etcd://HOST:PORT/POOL
    #[arg(long, value_name = "URL", requires = "node")]
    etcd: Option<String>,
    /// Its number in that pool, from 0
    #[arg(long, value_name = "N", requires = "etcd")]
    node: Option<u16>,
    /// Memory nodes of that pool
    #[arg(long, value_name = "N", requires = "etcd", default_value_t = 1)]
    nodes: u16,
    /// Where compute nodes reach it, if that is not where it listens
    #[arg(long, value_name = "HOST:PORT", requires = "etcd")]
    advertise: Option<String>,
    /// How what happens is written to stderr
    #[arg(long, value_name = "STYLE", value_enum, default_value_t = Style::Text)]
    log: Style,
    /// Threads [default: one for each processor, at most 4]
    #[arg(long, value_name = "N", value_parser = size::at_least_one)]
    threads: Option<usize>,
    /// Most connections at a time
    #[arg(long, value_name = "N", value_parser = size::at_least_one, default_value_t = 10_000)]
    connections: usize,
    /// How long its threads look for work before they sleep: shorter answers for more processor time
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 50)]
    spin: u64,
}

impl Args {
    fn spec(&self) -> Result<NodeSpec, Failure> {
        let listen = self.address()?;
        let failed = |source| Failure::Farwood(Error::Tcp { operation: "serve", source });
        let token = self.token_file.as_deref().map(Token::from_file).transpose().map_err(failed)?;
        let tls = self.tls().map_err(failed)?;
        let closed = token.is_some() || tls.as_ref().is_some_and(ServerTls::asks_for_certificates);
        if !listen.ip().is_loopback() && !closed && !self.insecure {
            return Err(Failure::Usage(format!(
                "serve {}: other machines reach that address, and nothing keeps them out; give --token-file, or \
                 --tls-cert, --tls-key and --client-ca, or say --insecure if the network is yours alone",
                self.listen
            )));
        }
        Ok(NodeSpec {
            listen,
            host_bytes: self.memory,
            device_bytes: self.device_memory,
            file: self.file.clone().map(|path| NodeFile { path, accept_unclean: self.accept_unclean }),
            token,
            tls,
            events: None,
            threads: self.threads.unwrap_or(0),
            connections_max: self.connections,
            spin: Duration::from_micros(self.spin),
        })
    }

    fn tls(&self) -> Result<Option<ServerTls>, TcpError> {
        let (Some(cert), Some(key)) = (&self.tls_cert, &self.tls_key) else { return Ok(None) };
        ServerTls::from_files(Identity { cert, key }, self.client_ca.as_deref()).map(Some)
    }

    /// What etcd is told of the memory node at `address`.
    fn registrant(&self, address: SocketAddr) -> Result<Option<Registrant>, Failure> {
        let (Some(etcd), Some(node)) = (&self.etcd, self.node) else { return Ok(None) };
        let refuse = |why: String| Failure::Usage(format!("serve: --etcd {etcd}: {why}"));
        let place =
            etcd.strip_prefix("etcd://").ok_or_else(|| refuse("write etcd://HOST:PORT/POOL".to_owned()))?;
        let place: EtcdAddress = place.parse().map_err(|error| refuse(format!("{error}")))?;
        if node >= self.nodes {
            return Err(refuse(format!("there is no node {node} of {}: they count from 0", self.nodes)));
        }
        if self.advertise.is_none() && address.ip().is_unspecified() {
            return Err(refuse(format!("{address} is no address for others; give --advertise HOST:PORT")));
        }
        let address = self.advertise.clone().unwrap_or_else(|| address.to_string());
        Ok(Some(Registrant { etcd: place, node, nodes: self.nodes, address }))
    }

    fn address(&self) -> Result<SocketAddr, Failure> {
        let refuse =
            |why: String| Failure::Usage(format!("serve: '{}': {why}; write tcp://HOST:PORT", self.listen));
        let Some(address) = self.listen.strip_prefix("tcp://") else {
            return Err(refuse("only tcp:// can be served".to_owned()));
        };
        let mut found = address.to_socket_addrs().map_err(|error| refuse(error.to_string()))?;
        found.next().ok_or_else(|| refuse("the name has no address".to_owned()))
    }
}

/// Options that a server in shared memory has no use for.
const OF_A_MEMORY_NODE: [&str; 17] = [
    "listen",
    "rdma",
    "memory",
    "device_memory",
    "file",
    "accept_unclean",
    "tls_cert",
    "tls_key",
    "client_ca",
    "insecure",
    "metrics",
    "etcd",
    "node",
    "nodes",
    "advertise",
    "log",
    "spin",
];
/// Options that only such a server has a use for.
const OF_SHARED_MEMORY: [&str; 1] = ["polling"];

/// Refuses options on the command line that would change nothing.
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
    match &args.url {
        Some(url) if url.to_string().starts_with("shm://") => {
            refuse_given(url, &OF_A_MEMORY_NODE, "is of a memory node, and shared memory has none", context)?;
            return spatial::serve(url, args, context);
        }
        Some(url) if args.spatial.is_none() => return Err(spatial::nothing_to_serve(url)),
        _ => {}
    }
    let why = "is of shared memory: over TCP requests come by a socket";
    refuse_given(&args.listen, &OF_SHARED_MEMORY, why, context)?;
    let (mut log, events) = Log::new(args.log);
    let spec = NodeSpec { events: Some(events.clone()), ..args.spec()? };
    // What is wrong with it is told before memory is taken.
    args.registrant(spec.listen)?;
    raise_descriptors(spec.connections_max);
    let failed = |source| Failure::Farwood(Error::Tcp { operation: "serve", source });
    let system = |source| failed(TcpError::System { operation: "wait for signals", source });
    let mut signals = Signals::new([SIGTERM, SIGINT]).map_err(system)?;
    let watch = args.metrics.as_deref().map(watch).transpose()?;
    let (node, card) = start(args, &spec)?;
    let scheme = if card.is_some() { "rdma" } else { "tcp" };
    let url = format!("{scheme}://{}", node.address());
    log.name(&url);
    let registration = args.registrant(node.address())?.map(|registrant| register(registrant, events));
    let registration = registration.transpose()?;
    introduce((args, &spec, node.device_bytes()), &url, card.as_ref(), watch.as_ref(), context)?;
    let spatial = args.spatial.as_deref().map(|name| spatial::Beside::start(args, name, &url, &node));
    let mut spatial = spatial.transpose()?;
    while node.is_at_work() && signals.pending().next().is_none() {
        if let Some(watch) = &watch {
            watch.answer(|| node.counts());
        }
        // Whoever reads the log may be gone; the memory stays.
        let _ = log.write_events(context.words);
        if let Some(spatial) = &mut spatial {
            let _ = spatial.tell(context);
        }
        std::thread::sleep(LOOK);
    }
    // The memory is put in order however its index was served.
    let served = spatial.map(spatial::Beside::stop);
    let counts = node.counts();
    // Nobody new is sent here from now on.
    drop(registration);
    node.stop().map_err(failed)?;
    log.write_events(context.words)?;
    let words = format!(
        "stopped after {} verbs of {}; {} connections refused, {} closed for what they sent",
        counts.verbs,
        size::count(counts.accepted, "connection", "connections"),
        counts.refused,
        counts.bad_frames
    );
    let fields = json!({ "verbs": counts.verbs, "accepted": counts.accepted });
    log.write(context.words, "stopped", &words, fields)?;
    match served {
        Some(Err(panic)) => std::panic::resume_unwind(panic),
        Some(Ok(served)) => served?,
        None => {}
    }
    Ok(Outcome::Done)
}

/// Starts the memory node, with a card if one is to execute its verbs.
fn start(args: &Args, spec: &NodeSpec) -> Result<(MemoryNode, Option<CardReport>), Failure> {
    match &args.rdma {
        None => {
            let failed = |source| Failure::Farwood(Error::Tcp { operation: "serve", source });
            Ok((MemoryNode::start(spec).map_err(failed)?, None))
        }
        Some(device) => {
            let failed = |source| Failure::Farwood(Error::Rdma { operation: "serve", source });
            let (node, card) = farwood::serve_rdma(spec, device).map_err(failed)?;
            Ok((node, Some(card)))
        }
    }
}

/// Puts the memory node on etcd's list; what becomes of that later goes to the log.
fn register(registrant: Registrant, events: NodeEvents) -> Result<Registration, Failure> {
    let tell = move |what| {
        let _ = events.try_send(NodeEvent::Discovery(what));
    };
    registrant.register(tell).map_err(|source| Failure::Farwood(Error::Etcd { operation: "serve", source }))
}

/// Says that the memory node listens: whoever started it waits for this line.
fn introduce(
    (args, spec, device_bytes): (&Args, &NodeSpec, u64),
    url: &str,
    card: Option<&CardReport>,
    watch: Option<&Watch>,
    context: &mut Context<'_>,
) -> Result<(), Failure> {
    let certified = spec.tls.as_ref().is_some_and(ServerTls::asks_for_certificates);
    let tls = if spec.tls.is_some() { ", over TLS" } else { "" };
    match context.format {
        Format::Json => {
            let metrics = watch.and_then(|watch| watch.address().ok()).map(|at| at.to_string());
            context.json(&json!({
                "listen": url,
                "memory_bytes": args.memory,
                "device_memory_bytes": device_bytes,
                "metrics": metrics,
                "tls": spec.tls.is_some(),
                "rdma": card.map(card_json),
            }))?;
        }
        Format::Text => writeln!(
            context.out,
            "{url}: {} and {} of device memory, for {}{tls}{}",
            size::show(args.memory),
            size::show(device_bytes),
            match (spec.token.is_some(), certified) {
                (true, true) => "who has the token and a certificate",
                (true, false) => "who has the token",
                (false, true) => "who has a certificate",
                (false, false) => "everybody who reaches it",
            },
            card.map_or_else(String::new, |card| format!("; verbs by {}", card_text(card)))
        )?,
    }
    Ok(context.out.flush()?)
}

/// Where the memory node can be watched.
fn watch(at: &str) -> Result<Watch, Failure> {
    let listen = |source| {
        Failure::Farwood(Error::Tcp {
            operation: "serve",
            source: TcpError::Listen { address: at.to_owned(), source },
        })
    };
    let found = at.to_socket_addrs().ok().and_then(|mut found| found.next());
    let address = found.ok_or_else(|| Failure::Usage(format!("serve: --metrics '{at}': write HOST:PORT")))?;
    Watch::listen(address).map_err(listen)
}

/// Has the system allow as many descriptors as connections need, if it does.
fn raise_descriptors(connections: usize) {
    use rustix::process::{Resource, getrlimit, setrlimit};
    /// For everything that is no connection.
    const OTHERS: u64 = 64;
    let mut limit = getrlimit(Resource::Nofile);
    let wanted = connections as u64 + OTHERS;
    if limit.current.is_some_and(|current| current < wanted) {
        limit.current = Some(limit.maximum.map_or(wanted, |maximum| maximum.min(wanted)));
        // Where it does not, connections beyond the limit are not accepted.
        let _ = setrlimit(Resource::Nofile, limit);
    }
}

#[cfg(test)]
mod tests {
    use super::{Args, OF_A_MEMORY_NODE, OF_SHARED_MEMORY};
    use clap::Args as _;

    #[test]
    fn what_is_refused_by_name_is_an_option() {
        let command = Args::augment_args(clap::Command::new("serve"));
        for name in OF_A_MEMORY_NODE.iter().chain(&OF_SHARED_MEMORY) {
            assert!(command.get_arguments().any(|option| option.get_id() == name), "{name}");
        }
    }
}
