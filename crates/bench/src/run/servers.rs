//! Processes that serve a run: memory nodes over TCP, and `redis-server`. They end with the process that started them.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use farwood_transport::tcp::{MemoryNode, NodeSpec};
use rustix::process::{Signal, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};

use super::crew::{Crew, WorkerCommand};
use super::pins::pin;
use super::protocol::{Job, Order, Report};
use super::worker::Parent;
use crate::{Error, Result, redis};

/// The program.
const REDIS_SERVER: &str = "redis-server";
/// It answers within this time, or something is wrong.
const REDIS_START_MAX: Duration = Duration::from_secs(10);

/// A process of memory nodes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct MemoryJob {
    pub(crate) nodes: u16,
    /// Host memory of each, in bytes.
    pub(crate) host_bytes: u64,
    /// The processors that it may use; none: all.
    pub(crate) cpus: Vec<usize>,
}

/// A process that becomes `redis-server`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RedisServerJob {
    pub(crate) port: u16,
    pub(crate) cpus: Vec<usize>,
}

fn processes(doing: &str) -> impl Fn(std::io::Error) -> Error {
    let doing = doing.to_owned();
    move |source| Error::Processes { doing: doing.clone(), source }
}

/// Starts memory nodes in a process of their own; yields where they listen.
pub(crate) fn start_memory(worker: &WorkerCommand, job: MemoryJob) -> Result<(Crew, Vec<String>)> {
    let (crew, mut reports) = Crew::start_and_hear(worker, &[Job::Memory(job)])?;
    match reports.pop() {
        Some(Report::Serving(addresses)) => Ok((crew, addresses)),
        other => {
            let problem = format!("it should say where it listens, and says {other:?}");
            Err(Error::Worker { compute_node: 0, problem })
        }
    }
}

/// The life of a process of memory nodes.
pub(super) fn serve_memory<W: Write>(job: &MemoryJob, parent: &mut Parent<W>) -> Result<()> {
    pin(&job.cpus).map_err(processes("keep memory nodes on their processors"))?;
    let spec = NodeSpec::new((Ipv4Addr::LOCALHOST, 0).into(), job.host_bytes);
    let nodes: Vec<MemoryNode> =
        (0..job.nodes).map(|_| Ok(MemoryNode::start(&spec)?)).collect::<Result<_>>()?;
    parent.report(&Report::Serving(nodes.iter().map(|node| node.address().to_string()).collect()))?;
    while parent.order()? != Order::End {}
    Ok(())
}

/// Starts `redis-server`; yields where it listens.
pub(super) fn start_redis(worker: &WorkerCommand, cpus: &[usize]) -> Result<(Crew, SocketAddr)> {
    redis_version()?;
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    let address = free.map_err(processes("find a free port for redis-server"))?;
    let job = Job::RedisServer(RedisServerJob { port: address.port(), cpus: cpus.to_vec() });
    let crew = Crew::start(worker, &[job])?;
    let end = Instant::now() + REDIS_START_MAX;
    while !redis::answers(address) {
        if Instant::now() > end {
            let problem = format!("{REDIS_SERVER} does not answer at {address}");
            return Err(Error::Peer { peer: redis::NAME, problem });
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok((crew, address))
}

/// What the program says of itself: `7.0.15`.
pub(super) fn redis_version() -> Result<String> {
    let output =
        Command::new(REDIS_SERVER).arg("--version").stdin(Stdio::null()).output().map_err(|error| {
            let problem =
                format!("{REDIS_SERVER} cannot be run ({error}); install it: apt-get install redis-server");
            Error::Peer { peer: redis::NAME, problem }
        })?;
    let text = String::from_utf8_lossy(&output.stdout);
    let version = text.split_whitespace().find_map(|word| word.strip_prefix("v="));
    Ok(version.unwrap_or("unknown").to_owned())
}

/// Becomes `redis-server`, without persistence. Returns only where that fails.
pub(super) fn become_redis(job: &RedisServerJob, output: &mut impl Write) -> Result<()> {
    pin(&job.cpus).map_err(processes("keep redis-server on its processor"))?;
    let dies_with_parent = set_parent_process_death_signal(Some(Signal::KILL));
    dies_with_parent.map_err(|error| processes("tie redis-server to this run")(error.into()))?;
    let ready = serde_json::to_string(&Report::Ready).expect("a report has a JSON form");
    writeln!(output, "{ready}").and_then(|()| output.flush()).map_err(processes("report to the parent"))?;
    let port = job.port.to_string();
    let error = Command::new(REDIS_SERVER)
        .args(["--port", &port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
        .args(["--daemonize", "no", "--loglevel", "warning"])
        .stdout(Stdio::null())
        .exec();
    Err(processes("start redis-server")(error))
}
