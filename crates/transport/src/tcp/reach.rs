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
pub(super) const PRESENCE_LINE: u64 = 0;

/// How the memory nodes of a pool are reached.
#[derive(Debug)]
pub(super) struct Reach {
    pub(super) address: PoolAddress,
    pub(super) credentials: Credentials,
    pub(super) shape: PoolShape,
    /// Held open for as long as the compute node is attached, and never used: while memory node 0 has it, the compute
    /// node is seen to be alive, even if no thread of it has anything to say.
    presence: Mutex<Option<Stream>>,
}

impl Reach {
    pub(super) fn new(address: PoolAddress, credentials: Credentials, shape: PoolShape) -> Self {
        Self { address, credentials, shape, presence: Mutex::new(None) }
    }

    /// Connects to a memory node as `client`, on a line.
    pub(super) fn dial(&self, node: NodeId, client: Option<ClientId>, line: u64) -> Result<Dialled, NoWay> {
        let (pool, token) = (self.shape.pool, self.credentials.token_bytes());
        let hello = Hello { pool, node: node.0, client, line, token };
        dial(&self.address.nodes()[usize::from(node.0)], &self.credentials, &hello)
    }

    /// Keeps the connection by which this compute node is present.
    pub(super) fn keep(&self, stream: Option<Stream>) {
        *self.presence.lock().unwrap_or_else(PoisonError::into_inner) = stream;
    }

    /// Restores the presence of `client`, where its connection broke. To be called where waiting is allowed.
    pub(super) fn be_present(&self, client: ClientId) {
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

/// Whether the other side has not closed the stream, as far as is known here.
fn is_open(stream: &TcpStream) -> bool {
    if stream.set_nonblocking(true).is_err() {
        return false;
    }
    match stream.peek(&mut [0]) {
        Ok(_) => false,
        Err(error) => error.kind() == ErrorKind::WouldBlock,
    }
}
