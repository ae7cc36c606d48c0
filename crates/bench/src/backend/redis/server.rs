//! The process of `redis-server`. It exits with the process that started it.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::client;
use crate::driver::processes::{WorkerCommand, WorkerProcesses};
use crate::driver::program::{ProgramJob, ProgramOutput, failed};
use crate::spec::REDIS;
use crate::{Error, Result};

const PROGRAM: &str = "redis-server";
/// Longest time until the server answers.
const START_MAX: Duration = Duration::from_secs(10);

/// Starts `redis-server`; yields its process and its address. It has no persistence, unless `files` names the value of
/// `appendfsync` and the folder of its files.
pub(super) fn start(
    worker: &WorkerCommand,
    cpus: &[usize],
    files: Option<(&str, &Path)>,
) -> Result<(WorkerProcesses, SocketAddr)> {
    version()?;
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    let address = free.map_err(failed("find a free port for redis-server"))?;
    let port = address.port().to_string();
    let mut arguments = vec!["--port", &port, "--bind", "127.0.0.1", "--save", ""];
    arguments.extend(["--daemonize", "no", "--loglevel", "warning"]);
    let folder = files.map_or_else(String::new, |(_, folder)| folder.display().to_string());
    match files {
        None => arguments.extend(["--appendonly", "no"]),
        Some((level, _)) => {
            arguments.extend(["--appendonly", "yes", "--appendfsync", level, "--dir", &folder]);
        }
    }
    let job = ProgramJob {
        program: Some(PROGRAM.to_owned()),
        arguments: arguments.into_iter().map(str::to_owned).collect(),
        cpus: cpus.to_vec(),
        output: ProgramOutput::Discarded,
    };
    let server = WorkerProcesses::start(worker, &[job])?;
    let end = Instant::now() + START_MAX;
    while !client::answers(address) {
        if Instant::now() > end {
            let problem = format!("{PROGRAM} does not answer at {address}");
            return Err(Error::Peer { peer: REDIS, problem });
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok((server, address))
}

/// The version of the installed program, for example `7.0.15`.
pub(super) fn version() -> Result<String> {
    let output = Command::new(PROGRAM).arg("--version").stdin(Stdio::null()).output().map_err(|error| {
        let problem = format!("{PROGRAM} cannot be run ({error}); install it: apt-get install redis-server");
        Error::Peer { peer: REDIS, problem }
    })?;
    let text = String::from_utf8_lossy(&output.stdout);
    let version = text.split_whitespace().find_map(|word| word.strip_prefix("v="));
    Ok(version.unwrap_or("unknown").to_owned())
}
