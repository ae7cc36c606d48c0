//! Backends of spatial runs: Farwood's spatial index with its variants, and the crate `rstar`, an R*-tree in local
//! memory that a run measures for comparison (a peer).
//!
//! | file | contents |
//! |---|---|
//! | `store.rs`, `server.rs`, `windows.rs` | the pool with the loaded index; its server; the windows of searches |
//! | `process.rs`, `client.rs` | a compute node; one client, which checks every answer |
//! | `access.rs` | a client's access to the index |
//! | `rstar.rs` | the peer `rstar` |

pub(crate) mod access;
mod backend;
pub(crate) mod client;
mod describe;
pub(crate) mod process;
#[cfg(feature = "peers")]
pub(crate) mod rstar;
mod server;
pub mod store;
pub(crate) mod windows;

pub(crate) use backend::SpatialBackend;
pub(crate) use describe::{describe, spatial};

use super::interface::Backend;
use crate::spec::RSTAR;
use crate::spec::spatial::SpatialSpec;
use crate::{Error, Result};

/// Refuses peers other than `rstar`, because they have no spatial index.
pub(crate) fn check_peers(spec: &SpatialSpec) -> Result<()> {
    spec.peers.iter().try_for_each(|name| check_peer(name))
}

fn check_peer(name: &str) -> Result<()> {
    if name == RSTAR {
        return Ok(());
    }
    let problem = format!("no such peer of a spatial index: {name}");
    Err(Error::parameter("--peer", problem, "give rstar"))
}

/// Creates the backends of the peers of a run.
#[cfg(feature = "peers")]
pub(crate) fn peers_of<'s>(
    spec: &'s SpatialSpec,
    ours: &SpatialBackend<'_>,
) -> Result<Vec<Box<dyn Backend + 's>>> {
    let peer = |name: &String| {
        check_peer(name)?;
        Ok(Box::new(rstar::RstarBackend::new(spec, ours)) as Box<dyn Backend>)
    };
    spec.peers.iter().map(peer).collect()
}

/// Refuses all peers, because this program was built without the feature `peers`.
#[cfg(not(feature = "peers"))]
pub(crate) fn peers_of<'s>(
    spec: &'s SpatialSpec,
    _: &SpatialBackend<'_>,
) -> Result<Vec<Box<dyn Backend + 's>>> {
    spec.peers.first().map_or(Ok(Vec::new()), |name| Err(super::interface::not_built(name)))
}
