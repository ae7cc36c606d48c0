//! A pool that memory nodes serve, and this process's attachment to it. How verbs reach them is a [`Way`]'s affair.

use super::address::PoolAddress;
use super::attachment::Attachment;
use super::credentials::Credentials;
use super::dial::Dialled;
use super::endpoints::{PRESENCE_LINE, Reach, stay};
use super::fabric::ServedFabric;
use super::formation::{Fresh, Nodes};
use super::membership::{enter, is_connected};
use super::post::Complaint;
use super::transport::Way;
use crate::error::TcpError;
use crate::runtime::block_on;
use crate::wire::Control;
use farwood_fabric::{Client, ClientId, FabricError, NodeId, PoolShape};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// This process's attachment to a pool: a compute node. Clones share it.
pub struct ServedPool<W: Way>(Arc<Attachment<W>>);

impl<W: Way> Clone for ServedPool<W> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<W: Way> ServedPool<W> {
    /// Attaches this process to a pool, once `ground` has learned from each memory node what it needs. A thread's
    /// clients share at most `lines` lines.
    pub(crate) fn attach<E: From<TcpError>>(
        address: &PoolAddress,
        credentials: Credentials,
        lines: NonZeroU16,
        fresh: Fresh,
        ground: impl FnOnce(&mut [Dialled]) -> Result<W::Ground, E>,
    ) -> Result<Self, E> {
        let (mut nodes, shape) = Nodes::form_in_time(address, &credentials, fresh, W::SCHEME)?;
        let ground = Arc::new(ground(&mut nodes.all)?);
        let incarnations = nodes.all.iter().map(|node| node.welcome.incarnation).collect();
        let reach = Arc::new(Reach::new(address.clone(), credentials, shape, incarnations));
        let mut presence = nodes.all.swap_remove(0).stream;
        drop(nodes);
        let pool = |error| TcpError::Pool { pool: format!("{}://{address}", W::SCHEME), error };
        let identity = enter::<W>(&ground, &reach, &mut presence).map_err(pool)?;
        stay(&reach, identity, presence)
            .map_err(|error| pool(FabricError::CannotPost { node: NodeId(0), why: error.to_string() }))?;
        let (next_line, left) = (AtomicU64::new(PRESENCE_LINE + 1), AtomicBool::new(false));
        let lines_max = usize::from(lines.get());
        Ok(Self(Arc::new(Attachment { reach, ground, identity, next_line, lines_max, left })))
    }

    /// A new client of this compute node, for the calling thread. The clients of a thread share its connections, which
    /// are made when they are first used.
    pub fn client(&self) -> Client<ServedFabric<W>> {
        Client::new(self.fabric())
    }

    /// What a client of this compute node posts on.
    pub fn fabric(&self) -> ServedFabric<W> {
        ServedFabric { line: self.0.line(), pool: Arc::clone(&self.0), failed: Complaint::default() }
    }

    /// What all its ways share.
    pub(crate) fn ground(&self) -> &W::Ground {
        &self.0.ground
    }

    /// Leaves the pool before the last handle is dropped: the identity ends at every memory node, and every later post
    /// of this compute node's clients is refused with [`FabricError::Revoked`]. No operation may be under way.
    pub fn leave(&self) {
        self.0.leave();
    }

    /// The memory nodes and their sizes.
    pub fn shape(&self) -> &PoolShape {
        &self.0.reach.shape
    }

    /// Who this compute node is.
    pub fn identity(&self) -> ClientId {
        self.0.identity
    }

    /// Where the memory nodes are.
    pub fn address(&self) -> &PoolAddress {
        &self.0.reach.address
    }

    /// What each memory node says of itself. [3 RT for each]
    ///
    /// # Errors
    /// [`FabricError::NodeLost`] and its kin.
    pub fn reports(&self) -> Result<Vec<NodeReport>, FabricError> {
        let line = self.0.line();
        let page = |node, number| block_on(line.control(node, Control::Stat, [number, 0, 0, 0]));
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

    /// Whether `client` is connected to some memory node. [1 RT for each]
    ///
    /// # Errors
    /// [`FabricError::NodeLost`] and its kin.
    pub fn is_alive(&self, client: ClientId) -> Result<bool, FabricError> {
        block_on(is_connected(&*self.0.line(), self.shape(), client))
    }
}

/// What a memory node says of itself: how it is, and what it has done since it was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeReport {
    /// Bytes of its memory that have pages.
    pub resident_bytes: u64,
    /// Connections now.
    pub connections: u64,
    /// Frames of verbs.
    pub requests: u64,
    /// Verbs.
    pub verbs: u64,
    /// Bytes of requests.
    pub bytes_in: u64,
    /// Bytes of replies.
    pub bytes_out: u64,
    /// Connections that were not let in.
    pub refused: u64,
    /// Connections that were closed for what they sent.
    pub bad_frames: u64,
    /// The microseconds, a power of two, below which 50, 90, 99 and 100 % of all requests were served.
    pub latency_us: [u64; 4],
}

impl<W: Way> std::fmt::Debug for ServedPool<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct(W::SCHEME).field("shape", self.shape()).field("identity", &self.identity()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::framed::Line;
    use crate::daemon::{MemoryNode, NodeSpec};
    use std::net::{Ipv4Addr, SocketAddr};
    use std::rc::Rc;

    #[test]
    fn clients_of_a_thread_share_as_many_lines_as_there_may_be() {
        let spec = NodeSpec::new(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), 16 << 20);
        let node = MemoryNode::start(&spec).unwrap();
        let address: PoolAddress = node.address().to_string().parse().unwrap();
        for lines in [1, 2] {
            let ground = |_: &mut [Dialled]| Ok::<_, TcpError>(());
            let lines_max = NonZeroU16::new(lines).unwrap();
            let pool: ServedPool<Line> =
                ServedPool::attach(&address, Credentials::default(), lines_max, Fresh::Forms, ground)
                    .unwrap();
            let mut fabrics: Vec<_> = (0..4).map(|_| pool.fabric()).collect();
            let shared = |fabrics: &[ServedFabric<Line>]| {
                let same = |at: &ServedFabric<Line>| {
                    fabrics.iter().filter(|to| Rc::ptr_eq(&at.line, &to.line)).count()
                };
                fabrics.iter().map(same).collect::<Vec<_>>()
            };
            let each = 4 / usize::from(lines);
            assert_eq!(shared(&fabrics), [each; 4], "{lines} lines");
            // Whoever comes takes the place of who went.
            fabrics.remove(1);
            fabrics.push(pool.fabric());
            assert_eq!(shared(&fabrics), [each; 4], "{lines} lines");
        }
    }
}
