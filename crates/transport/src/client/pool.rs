//! A pool that memory nodes serve, and this process's attachment to it. A [`VerbTransport`] carries the verbs.

use super::address::PoolAddress;
use super::attachment::Attachment;
use super::credentials::Credentials;
use super::dial::AcceptedConnection;
use super::endpoints::{Endpoints, PRESENCE_CONNECTION, keep_presence};
use super::fabric::ServedFabric;
use super::formation::{CandidateNodes, FreshNodePolicy};
use super::host_port::HostPort;
use super::membership::{enter, is_connected};
use super::post::DetachedError;
use super::transport::VerbTransport;
use crate::error::TcpError;
use crate::fork::ForkCount;
use crate::runtime::block_on;
use crate::wire::Control;
use farwood_fabric::{Client, ClientId, FabricError, NodeId, PoolShape};
use std::num::NonZeroU16;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64};

/// This process's attachment to a pool: a compute node. Clones share it.
pub struct ServedPool<W: VerbTransport>(Arc<Attachment<W>>);

impl<W: VerbTransport> Clone for ServedPool<W> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<W: VerbTransport> ServedPool<W> {
    /// Attaches this process to a pool. `shared` first queries each memory node for the data that the transport needs.
    /// A thread's clients share at most `sets` connection sets.
    pub(crate) fn attach<E: From<TcpError>>(
        address: &PoolAddress,
        credentials: Credentials,
        sets: NonZeroU16,
        fresh: FreshNodePolicy,
        shared: impl FnOnce(&mut [AcceptedConnection]) -> Result<W::Shared, E>,
    ) -> Result<Self, E> {
        let forks = ForkCount::now();
        let (mut nodes, shape) = CandidateNodes::form_in_time(address, &credentials, fresh, W::SCHEME)?;
        let shared = Arc::new(shared(&mut nodes.all)?);
        let incarnations = nodes.all.iter().map(|node| node.welcome.incarnation).collect();
        let endpoints = Arc::new(Endpoints::new(nodes.address().clone(), credentials, shape, incarnations));
        let pool = |error| TcpError::Pool { pool: format!("{}://{address}", W::SCHEME), error };
        let identity = enter::<W>(&shared, &endpoints, &mut nodes.all).map_err(pool)?;
        let presence = nodes.all.swap_remove(0).stream;
        drop(nodes);
        keep_presence(&endpoints, identity, presence)
            .map_err(|error| pool(FabricError::CannotPost { node: NodeId(0), why: error.to_string() }))?;
        Ok(Self::of(endpoints, shared, Some(identity), sets, forks))
    }

    /// Attaches this process to an existing pool for reading only. It takes no slot of the client table, so nothing
    /// shows other processes that it is attached.
    pub(crate) fn attach_reader(
        address: &PoolAddress,
        credentials: Credentials,
        shared: W::Shared,
    ) -> Result<Self, TcpError> {
        let forks = ForkCount::now();
        let (nodes, shape) = CandidateNodes::find_in_time(address, &credentials, W::SCHEME)?;
        let incarnations = nodes.all.iter().map(|node| node.welcome.incarnation).collect();
        let endpoints = Arc::new(Endpoints::new(nodes.address().clone(), credentials, shape, incarnations));
        Ok(Self::of(endpoints, Arc::new(shared), None, NonZeroU16::MIN, forks))
    }

    pub(super) fn of(
        endpoints: Arc<Endpoints>,
        shared: Arc<W::Shared>,
        client: Option<ClientId>,
        sets: NonZeroU16,
        forks: ForkCount,
    ) -> Self {
        Self(Arc::new(Attachment {
            endpoints,
            shared,
            client,
            next_number: AtomicU64::new(PRESENCE_CONNECTION + 1),
            next_lock_tag: AtomicU16::default(),
            per_thread_max: usize::from(sets.get()),
            left: AtomicBool::new(false),
            forks,
        }))
    }

    /// Returns a new client of this compute node for the calling thread. The clients of a thread share its
    /// connections, which are made at first use.
    pub fn client(&self) -> Client<ServedFabric<W>> {
        Client::new(self.fabric())
    }

    /// Returns the fabric of a new client.
    pub fn fabric(&self) -> ServedFabric<W> {
        ServedFabric {
            connections: self.0.connections(),
            pool: Arc::clone(&self.0),
            failed: DetachedError::default(),
        }
    }

    /// Returns the data that all connection sets share.
    pub(crate) fn shared(&self) -> &W::Shared {
        &self.0.shared
    }

    /// Leaves the pool before the last handle is dropped: the identity ends at every memory node, and every
    /// later post of this compute node's clients fails with [`FabricError::Revoked`]. No operation may be
    /// in progress.
    pub fn leave(&self) {
        self.0.leave();
    }

    /// Returns the memory nodes and their sizes.
    pub fn shape(&self) -> PoolShape {
        self.0.endpoints.shape()
    }

    /// Returns the identity of this compute node; [`ClientId::NONE`] if it only reads.
    pub fn identity(&self) -> ClientId {
        self.0.identity()
    }

    /// Returns the addresses of the memory nodes.
    pub fn address(&self) -> &PoolAddress {
        &self.0.endpoints.address
    }

    pub(super) fn connections(&self) -> Rc<W> {
        self.0.connections()
    }

    pub(super) fn credentials(&self) -> &Credentials {
        &self.0.endpoints.credentials
    }

    /// The number of the memory node at `address`, if this process knows it.
    pub(super) fn known_address(&self, address: &HostPort) -> Option<NodeId> {
        self.0.endpoints.known_address(address)
    }

    /// Asks each memory node for its report. [3 RT for each]
    ///
    /// # Errors
    /// [`FabricError::NodeLost`] and the other errors of lost memory nodes.
    pub fn reports(&self) -> Result<Vec<NodeReport>, FabricError> {
        self.0.forks.check()?;
        let connections = self.0.connections();
        let page = |node, number| block_on(connections.control(node, Control::Stat, [number, 0, 0, 0]));
        let report = |node| {
            let [resident_bytes, connections, requests, verbs] = page(node, 0)?;
            let [bytes_in, bytes_out, refused, bad_frames] = page(node, 1)?;
            Ok(NodeReport {
                resident_bytes,
                connections,
                requests,
                verbs,
                bytes_in,
                bytes_out,
                refused,
                bad_frames,
                latency_us: page(node, 2)?,
            })
        };
        (0..self.shape().nodes).map(NodeId).map(report).collect()
    }

    /// Returns whether `client` is connected to some memory node. [1 RT for each]
    ///
    /// # Errors
    /// [`FabricError::NodeLost`] and the other errors of lost memory nodes.
    pub fn is_alive(&self, client: ClientId) -> Result<bool, FabricError> {
        self.0.forks.check()?;
        block_on(is_connected(&*self.0.connections(), &self.0.endpoints, client))
    }
}

/// The state of a memory node, and its counters since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeReport {
    /// Bytes of its memory that are resident.
    pub resident_bytes: u64,
    /// Open connections.
    pub connections: u64,
    /// Frames of verbs.
    pub requests: u64,
    /// Verbs.
    pub verbs: u64,
    /// Bytes of requests.
    pub bytes_in: u64,
    /// Bytes of replies.
    pub bytes_out: u64,
    /// Refused connections.
    pub refused: u64,
    /// Connections that were closed for invalid frames.
    pub bad_frames: u64,
    /// Microseconds, a power of two, below which 50, 90, 99 and 100 % of all requests were served.
    pub latency_us: [u64; 4],
}

impl<W: VerbTransport> std::fmt::Debug for ServedPool<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct(W::SCHEME).field("shape", &self.shape()).field("identity", &self.identity()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::framed::FrameConnections;
    use crate::daemon::{MemoryNode, NodeSpec};
    use std::net::{Ipv4Addr, SocketAddr};
    use std::rc::Rc;

    #[test]
    fn clients_of_a_thread_share_the_allowed_number_of_connection_sets() {
        let spec = NodeSpec::new(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), 16 << 20);
        let node = MemoryNode::start(&spec).unwrap();
        let address: PoolAddress = node.address().to_string().parse().unwrap();
        for sets in [1, 2] {
            let shared = |_: &mut [AcceptedConnection]| Ok::<_, TcpError>(());
            let per_thread_max = NonZeroU16::new(sets).unwrap();
            let pool: ServedPool<FrameConnections> = ServedPool::attach(
                &address,
                Credentials::default(),
                per_thread_max,
                FreshNodePolicy::FormPool,
                shared,
            )
            .unwrap();
            let mut fabrics: Vec<_> = (0..4).map(|_| pool.fabric()).collect();
            let shared = |fabrics: &[ServedFabric<FrameConnections>]| {
                let same = |at: &ServedFabric<FrameConnections>| {
                    fabrics.iter().filter(|to| Rc::ptr_eq(&at.connections, &to.connections)).count()
                };
                fabrics.iter().map(same).collect::<Vec<_>>()
            };
            let each = 4 / usize::from(sets);
            assert_eq!(shared(&fabrics), [each; 4], "{sets} sets");
            // A new client uses the set of the client that was dropped.
            fabrics.remove(1);
            fabrics.push(pool.fabric());
            assert_eq!(shared(&fabrics), [each; 4], "{sets} sets");
        }
    }
}
