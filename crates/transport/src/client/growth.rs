//! The growth of a pool that memory nodes serve: more memory on each, or one more memory node.
//!
//! # The addition of a memory node
//!
//! The process that adds it holds the lock of the directory, so only one adds a memory node at a time. Memory node 0
//! decides whether the pool has it: everything else is prepared before its number of memory nodes increases, and can be
//! repeated after an interruption.
//!
//! 1. The new memory node is formed as the next one of the pool.
//! 2. Its address is written into the table of added memory nodes.
//! 3. The others, node 0 last, record the new number of memory nodes.
//!
//! A pool at `--durability interval` may return to a cut before the addition. No memory node has a pointer to the new
//! one then: node 0 begins a cut before it answers anybody with the new number.

use super::added_nodes;
use super::dial::{AcceptedConnection, control};
use super::endpoints::dial_any;
use super::error::{ConnectError, node_error};
use super::host_port::HostPort;
use super::pool::ServedPool;
use super::transport::VerbTransport;
use crate::error::TcpError;
use crate::runtime::block_on;
use crate::wire::{Code, Control, Formation, Welcome};
use farwood_fabric::{ByteCount, Client, Fabric as _, FabricError, NodeId, Packed, directory, write};

impl<W: VerbTransport> ServedPool<W> {
    fn grown(&self, error: FabricError) -> TcpError {
        TcpError::Pool { pool: format!("{}://{}", W::SCHEME, self.address()), error }
    }

    fn not_grown(&self, why: String) -> TcpError {
        TcpError::NotThisPool { pool: format!("{}://{}", W::SCHEME, self.address()), why }
    }

    /// Gives each memory node `bytes` of memory, unless it has more. [1 RT for each, and 1]
    ///
    /// # Errors
    /// [`TcpError::NotThisPool`]: it cannot grow to that size; [`TcpError::Pool`]. Repeating the call completes a
    /// growth that failed on some memory nodes.
    pub fn grow(&self, bytes: u64) -> Result<(), TcpError> {
        let client = self.client();
        block_on(client.fabric().find_added_nodes()).map_err(|error| self.grown(error))?;
        let shape = self.shape();
        if bytes > shape.host_bytes {
            let most = ByteCount(shape.host_bytes);
            return Err(self.not_grown(format!(
                "its memory nodes can grow to {most} each (`farwood serve --memory-max`); add a memory node (`farwood \
                 grow --add-node`), or restore a dump into another pool"
            )));
        }
        for node in (0..shape.nodes).map(NodeId) {
            let answer = block_on(self.connections().control(node, Control::Grow, [bytes, 0, 0, 0]));
            answer.map_err(|error| self.grown(error))?;
        }
        Ok(())
    }

    /// Adds the memory node at `address`, which has fresh memory, to the pool; returns its number. Clients that are
    /// attached find it by themselves, and use its memory for new objects. The address must be one that all clients can
    /// reach. [about 20 RT]
    ///
    /// # Errors
    /// The memory node does not answer, belongs to another pool, or has another size; [`TcpError::Pool`]. Repeating the
    /// call completes an addition that was interrupted.
    pub fn add_node(&self, address: &HostPort) -> Result<NodeId, TcpError> {
        let client = self.client();
        let failed = |error| self.grown(error);
        // A memory node that does not answer delays nobody: the lock is free until this process has a connection.
        block_on(client.fabric().find_added_nodes()).map_err(failed)?;
        if let Some(node) = self.known_address(address) {
            return self.complete_addition(node, address);
        }
        let mut new = self.connect_anew(address)?;
        block_on(async {
            let lock = directory::lock(&client).await.map_err(failed)?;
            let added = self.add_node_locked(&client, address, &mut new).await;
            let unlocked = lock.unlock().await;
            added.and_then(|node| unlocked.map(|()| node).map_err(failed))
        })
    }

    async fn add_node_locked(
        &self,
        client: &Client<super::fabric::ServedFabric<W>>,
        address: &HostPort,
        new: &mut AcceptedConnection,
    ) -> Result<NodeId, TcpError> {
        let failed = |error| self.grown(error);
        client.fabric().find_added_nodes().await.map_err(failed)?;
        let shape = self.shape();
        let node = NodeId(shape.nodes);
        let nodes = u64::from(shape.nodes) + 1;
        let nodes_max = Packed::<u64>::NODES_MAX;
        if nodes > nodes_max.into() {
            return Err(self.not_grown(format!("a pool has at most {nodes_max} memory nodes")));
        }
        let first = self.connect_anew(&self.address().nodes()[0])?.welcome;
        self.check_candidate(address, &new.welcome, &first)?;
        if control(&mut new.stream, Control::Region, [0; 4]).is_ok() {
            let why = "an RDMA device executes its verbs; start it without --rdma".to_owned();
            return Err(node_error(address, ConnectError::Refused(Code::WrongPool, why)));
        }
        let refused = |why| node_error(address, why);
        control(&mut new.stream, Control::Form, [shape.pool, node.0.into(), nodes, 0]).map_err(refused)?;
        control(&mut new.stream, Control::FinishForming, [0; 4]).map_err(refused)?;
        let entry = added_nodes::encode(node, address);
        client.post(write(added_nodes::entry(node), &entry)).await.map_err(failed)?;
        // Node 0 last, and once more: the others are durable up to the cut of the addition then.
        self.extend((1..shape.nodes).chain(0..shape.nodes), nodes).await?;
        client.fabric().find_added_nodes().await.map_err(failed)?;
        Ok(node)
    }

    /// Repeats the end of an addition that was interrupted after node 0 had recorded it.
    fn complete_addition(&self, node: NodeId, address: &HostPort) -> Result<NodeId, TcpError> {
        let shape = self.shape();
        let first = &self.address().nodes()[0];
        let entry = added_nodes::address_of(&mut self.connect_anew(first)?, node);
        let was_added = entry.map_err(|why| node_error(first, why))?.as_ref() == Some(address);
        if !was_added || node.0 + 1 != shape.nodes {
            return Err(self.not_grown(format!("{address} is memory node {node} of the pool already")));
        }
        block_on(self.extend(0..shape.nodes, shape.nodes.into()))?;
        Ok(node)
    }

    /// Lets memory nodes record that the pool has `nodes` memory nodes. [1 RT for each]
    async fn extend(&self, of: impl Iterator<Item = u16>, nodes: u64) -> Result<(), TcpError> {
        for node in of.map(NodeId) {
            let extended = self.connections().control(node, Control::Extend, [nodes, 0, 0, 0]).await;
            extended.map_err(|error| self.grown(error))?;
        }
        Ok(())
    }

    fn connect_anew(&self, address: &HostPort) -> Result<AcceptedConnection, TcpError> {
        dial_any(address, self.credentials()).map_err(|why| node_error(address, why))
    }

    /// Refuses a memory node that cannot be the next one of the pool, whose node 0 is `first`.
    fn check_candidate(&self, address: &HostPort, new: &Welcome, first: &Welcome) -> Result<(), TcpError> {
        let refuse = |why: String| Err(node_error(address, ConnectError::Refused(Code::WrongPool, why)));
        let shape = self.shape();
        if new.formed != Formation::Blank && (new.pool, new.node) != (shape.pool, shape.nodes) {
            return refuse("it belongs to a pool already; start it with fresh memory".to_owned());
        }
        if (new.host_bytes, new.device_bytes) != (shape.host_bytes, shape.device_bytes) {
            return refuse(format!(
                "its memory can grow to {} and it has {} of device memory, and those of the pool {} and {}; start it \
                 with the same --memory-max and --device-memory",
                ByteCount(new.host_bytes),
                ByteCount(new.device_bytes),
                ByteCount(shape.host_bytes),
                ByteCount(shape.device_bytes)
            ));
        }
        if new.log != first.log {
            return refuse(format!(
                "it has {}, and the pool has {}; start it with the same level of durability",
                new.log.description(),
                first.log.description()
            ));
        }
        Ok(())
    }
}
