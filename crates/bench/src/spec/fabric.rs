//! The fabrics of a run, and the pools that URLs name.

use std::fmt;
use std::str::FromStr;

use farwood_transport::any::PoolLocation;
use farwood_transport::tcp::TcpError;
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// The fabrics that a run can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FabricKind {
    /// Shared memory between processes of this machine.
    Shm,
    /// TCP to memory nodes in a process that the run starts, or to those of a pool's URL.
    Tcp,
    /// RDMA to the memory nodes of a pool's URL.
    Rdma,
    /// The simulator: a network in virtual time.
    Sim,
}

impl FabricKind {
    /// The name on the command line and in records.
    pub fn name(self) -> &'static str {
        match self {
            FabricKind::Shm => "shm",
            FabricKind::Tcp => "tcp",
            FabricKind::Rdma => "rdma",
            FabricKind::Sim => "sim",
        }
    }
}

impl fmt::Display for FabricKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for FabricKind {
    type Err = Error;

    fn from_str(name: &str) -> Result<FabricKind> {
        let problem = match name {
            "shm" => return Ok(FabricKind::Shm),
            "tcp" => return Ok(FabricKind::Tcp),
            "sim" => return Ok(FabricKind::Sim),
            "rdma" => return Ok(FabricKind::Rdma),
            _ => format!("no such fabric: {name}"),
        };
        Err(Error::parameter("--fabric", problem, "give shm, tcp, rdma or sim"))
    }
}

/// The pool that a URL names.
///
/// # Errors
/// A URL of another form.
pub fn pool_place(url: &str) -> Result<PoolLocation> {
    let url = url.trim_end_matches('/');
    if let Some(address) = url.strip_prefix("tcp://") {
        let refuse = |error: TcpError| {
            Error::parameter("--pool", error.to_string(), "give shm://NAME or tcp://HOST:PORT")
        };
        return Ok(PoolLocation::Tcp(address.parse().map_err(refuse)?));
    }
    if let Some(address) = url.strip_prefix("rdma://") {
        let refuse = |error: TcpError| Error::parameter("--pool", error.to_string(), "give rdma://HOST:PORT");
        return Ok(PoolLocation::Rdma(address.parse().map_err(refuse)?));
    }
    if let Some(address) = url.strip_prefix("etcd://") {
        return Ok(PoolLocation::Etcd(address.parse()?));
    }
    let Some(name) = url.strip_prefix("shm://") else {
        let problem = format!("{url} is not the URL of a pool");
        return Err(Error::parameter(
            "--pool",
            problem,
            "give shm://NAME, tcp://HOST:PORT or rdma://HOST:PORT, or omit --pool to use a new pool",
        ));
    };
    Ok(PoolLocation::Shm(name.parse()?))
}

/// The pool that a URL names, which must be of `fabric`, because the record names the fabric.
pub(crate) fn pool_place_of(url: &str, fabric: FabricKind) -> Result<PoolLocation> {
    let place = pool_place(url)?;
    let (is, flag) = match place {
        PoolLocation::Shm(_) => (FabricKind::Shm, "--fabric shm"),
        PoolLocation::Tcp(_) | PoolLocation::Etcd(_) => (FabricKind::Tcp, "--fabric tcp"),
        PoolLocation::Rdma(_) => (FabricKind::Rdma, "--fabric rdma"),
    };
    if is == fabric {
        return Ok(place);
    }
    let problem = format!("{url} does not use --fabric {}", fabric.name());
    Err(Error::parameter("--pool", problem, format!("give {flag}")))
}
