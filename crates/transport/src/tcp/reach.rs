//! What is needed to reach a pool's memory nodes, the same for all threads of a compute node.

use super::access::Credentials;
use super::address::PoolAddress;
use super::dial::{Dialled, dial};
use super::error::NoWay;
use super::stream::Stream;
use super::wire::Hello;
use farwood_fabric::{ClientId, NodeId, PoolShape};
use std::io::ErrorKind;
use std::net::TcpStream;
use std::sync::{Mutex, PoisonError};

/// The line of the connection by which a compute node is present at memory node 0.
pub(crate) const PRESENCE_LINE: u64 = 0;

/// How the memory nodes of a pool are reached.
#[derive(Debug)]
pub struct Reach {
    pub(crate) address: PoolAddress,
    pub(crate) credentials: Credentials,
    pub(crate) shape: PoolShape,
    /// Held open for as long as the compute node is attached, and never used: while memory node 0 has it, the compute
    /// node is seen to be alive, even if no thread of it has anything to say.
    presence: Mutex<Option<Stream>>,
}

impl Reach {
    pub(crate) fn new(address: PoolAddress, credentials: Credentials, shape: PoolShape) -> Self {
        Self { address, credentials, shape, presence: Mutex::new(None) }
    }

    /// Connects to a memory node as `client`, on a line.
    pub(crate) fn dial(&self, node: NodeId, client: Option<ClientId>, line: u64) -> Result<Dialled, NoWay> {
        let (pool, token) = (self.shape.pool, self.credentials.token_bytes());
        let hello = Hello { pool, node: node.0, client, line, token };
        dial(&self.address.nodes()[usize::from(node.0)], &self.credentials, &hello)
    }

    /// Keeps the connection by which this compute node is present.
    pub(crate) fn keep(&self, stream: Option<Stream>) {
        *self.presence.lock().unwrap_or_else(PoisonError::into_inner) = stream;
    }

    /// Restores the presence of `client`, where its connection broke. To be called where waiting is allowed.
    pub(crate) fn be_present(&self, client: ClientId) {
        let mut presence = self.presence.lock().unwrap_or_else(PoisonError::into_inner);
        // Without one there is nothing to restore: the compute node is entering or leaving.
        let Some(stream) = &*presence else { return };
        if is_open(&stream.tcp) {
            return;
        }
        if let Ok(dialled) = self.dial(NodeId(0), Some(client), PRESENCE_LINE) {
            *presence = Some(dialled.stream);
        }
    }
}

/// Whether the other side has neither closed the stream nor said that it will, as far as is known here: on a stream
/// that is quiet.
pub(crate) fn is_open(stream: &TcpStream) -> bool {
    if stream.set_nonblocking(true).is_err() {
        return false;
    }
    match stream.peek(&mut [0]) {
        Ok(_) => false,
        Err(error) => error.kind() == ErrorKind::WouldBlock,
    }
}
