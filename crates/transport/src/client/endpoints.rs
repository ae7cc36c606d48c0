//! The endpoints of a pool's memory nodes, shared by all threads of a compute node, and the compute node's
//! presence.

use super::address::PoolAddress;
use super::credentials::Credentials;
use super::dial::{AcceptedConnection, control, dial};
use super::error::ConnectError;
use super::host_port::HostPort;
use super::known_cut::KnownCut;
use crate::fork::OwnDescriptor;
use crate::stream::Stream;
use crate::wire::{ANY_NODE, Code, Control, Hello};
use farwood_fabric::{ClientId, NodeId, PoolShape};
use rustix::event::{PollFd, PollFlags, poll};
use std::io::{self, ErrorKind};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// The number of the connection by which a compute node is present at memory node 0.
pub(crate) const PRESENCE_CONNECTION: u64 = 0;
/// The number of a connection that only checks whether the compute node was revoked.
const CHECK_CONNECTION: u64 = u64::MAX;
/// Pause before the second attempt to restore the presence; each further pause is twice as long, up to
/// [`RETRY_PAUSE_MAX`].
const RETRY_PAUSE: Duration = Duration::from_millis(200);
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(5);

/// A memory node that was added to the pool after this process had opened it.
#[derive(Clone, Debug)]
struct AddedNode {
    address: HostPort,
    /// The incarnation of its memory; `None`: this process has not connected to it yet.
    incarnation: Option<u64>,
}

/// The addresses, credentials and shape of a pool.
#[derive(Debug)]
pub struct Endpoints {
    pub(crate) address: PoolAddress,
    pub(crate) credentials: Credentials,
    /// The shape of the pool at the time of attachment.
    shape: PoolShape,
    /// The incarnation of each memory node's memory at the time of attachment.
    incarnations: Box<[u64]>,
    /// The number of memory nodes, with those that were added since.
    nodes: AtomicU16,
    added: Mutex<Vec<AddedNode>>,
    /// An idle connection that stays open as long as the compute node is attached: while memory node 0 has this
    /// connection, the compute node counts as alive even if no thread posts.
    presence: Mutex<Option<Stream>>,
    pub(crate) cut: KnownCut,
    /// The snapshot that all connections use; `None`: they use the live memory.
    snapshot: Option<u64>,
}

impl Endpoints {
    pub(crate) fn new(
        address: PoolAddress,
        credentials: Credentials,
        shape: PoolShape,
        incarnations: Box<[u64]>,
    ) -> Self {
        Self {
            address,
            credentials,
            nodes: AtomicU16::new(shape.nodes),
            shape,
            incarnations,
            added: Mutex::default(),
            presence: Mutex::new(None),
            cut: KnownCut::default(),
            snapshot: None,
        }
    }

    /// The memory nodes that this process knows, and their sizes.
    #[inline]
    pub(crate) fn shape(&self) -> PoolShape {
        PoolShape { nodes: self.nodes.load(Ordering::Acquire), ..self.shape }
    }

    fn added(&self) -> MutexGuard<'_, Vec<AddedNode>> {
        self.added.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a memory node that was added to the pool, if it is the next one.
    pub(crate) fn add(&self, node: NodeId, address: HostPort) {
        let mut added = self.added();
        if usize::from(node.0) == self.incarnations.len() + added.len() {
            added.push(AddedNode { address, incarnation: None });
            self.nodes.store(node.0 + 1, Ordering::Release);
        }
    }

    /// The number of the memory node at `address`.
    pub(crate) fn known_address(&self, address: &HostPort) -> Option<NodeId> {
        let added = self.added();
        let mut all = self.address.nodes().iter().chain(added.iter().map(|node| &node.address));
        all.position(|known| known == address).map(|at| NodeId(at as u16))
    }

    /// The address of a memory node that was added, and the incarnation of its memory when this process first connected
    /// to it.
    fn added_node(&self, at: usize) -> AddedNode {
        self.added()[at].clone()
    }

    /// Whether all connections use a snapshot.
    pub(crate) fn is_snapshot(&self) -> bool {
        self.snapshot.is_some()
    }

    /// The same endpoints in a snapshot of their memory nodes.
    pub(super) fn in_snapshot(self, number: u64) -> Self {
        Self { snapshot: Some(number), ..self }
    }

    /// Connects to a memory node as `client`, with a connection number.
    pub(crate) fn dial(
        &self,
        node: NodeId,
        client: Option<ClientId>,
        connection_number: u64,
    ) -> Result<AcceptedConnection, ConnectError> {
        // An identity in a snapshot is none in the live memory.
        let client = client.filter(|_| self.snapshot.is_none());
        let hello = Hello { pool: self.shape.pool, node: node.0, client, connection_number, nonce: None };
        let at = usize::from(node.0);
        let AddedNode { address, incarnation } = match at.checked_sub(self.incarnations.len()) {
            None => AddedNode {
                address: self.address.nodes()[at].clone(),
                incarnation: Some(self.incarnations[at]),
            },
            Some(added) => self.added_node(added),
        };
        let mut dialled = dial(&address, &self.credentials, &hello)?;
        let found = dialled.welcome.incarnation;
        if incarnation.is_none() {
            // This process has seen no memory of this node, so any incarnation is right, unless the process was revoked
            // and the fences of this node were removed since. Node 0 refuses the process then.
            if client.is_some() {
                self.dial(NodeId(0), client, CHECK_CONNECTION)?;
            }
            self.added()[at - self.incarnations.len()].incarnation.get_or_insert(found);
        }
        if incarnation.is_none_or(|known| known == found) {
            if let Some(snapshot) = self.snapshot {
                control(&mut dialled.stream, Control::UseSnapshot, [snapshot, 0, 0, 0])?;
            }
            return Ok(dialled);
        }
        let why = "it crashed, so that its last writes may be lost, or its fences were cleared; run `farwood check` \
                   on the pool's indexes, and open the pool again";
        Err(ConnectError::Refused(Code::WrongPool, why.to_owned()))
    }

    fn presence(&self) -> MutexGuard<'_, Option<Stream>> {
        self.presence.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the connection by which this compute node is present.
    pub(crate) fn end_presence(&self) {
        if let Some(stream) = self.presence().take() {
            // Wakes the thread that monitors it. A stream that is closed already is not an error.
            let _ = stream.tcp.shutdown(Shutdown::Both);
        }
    }
}

/// Connects without an identity to whichever memory node is at the address.
pub(crate) fn dial_any(
    address: &HostPort,
    credentials: &Credentials,
) -> Result<AcceptedConnection, ConnectError> {
    let connection_number = PRESENCE_CONNECTION;
    let hello = Hello { pool: 0, node: ANY_NODE, client: None, connection_number, nonce: None };
    dial(address, credentials, &hello)
}

/// Keeps `stream` open as the presence of `client`, and replaces it whenever it breaks, until
/// [`Endpoints::end_presence`]: an idle compute node must not count as crashed because its network failed for a minute.
///
/// # Errors
/// The error of the operating system, if no thread can be started.
pub(crate) fn keep_presence(endpoints: &Arc<Endpoints>, client: ClientId, stream: Stream) -> io::Result<()> {
    let mut monitored = OwnDescriptor::new(stream.tcp.try_clone()?);
    *endpoints.presence() = Some(stream);
    let endpoints = Arc::downgrade(endpoints);
    let monitor = move || {
        let mut pause = Duration::ZERO;
        loop {
            let since = Instant::now();
            wait_for_end(&monitored);
            if since.elapsed() > RETRY_PAUSE_MAX {
                pause = Duration::ZERO;
            }
            match restore_presence(&endpoints, client, &mut pause) {
                Some(other) => monitored = other,
                None => return,
            }
        }
    };
    std::thread::Builder::new().name("farwood-presence".to_owned()).spawn(monitor).map(|_| ())
}

/// Waits until an idle stream ends, or its peer announces the end.
fn wait_for_end(stream: &TcpStream) {
    while let Err(rustix::io::Errno::INTR) = poll(&mut [PollFd::new(stream, PollFlags::IN)], None) {}
}

/// Restores the presence of `client` after its connection ended, after a pause that doubles. `None`: the
/// client has left or was revoked.
fn restore_presence(
    endpoints: &Weak<Endpoints>,
    client: ClientId,
    pause: &mut Duration,
) -> Option<OwnDescriptor<TcpStream>> {
    if let Some(stream) = &*endpoints.upgrade()?.presence() {
        // A memory node that stops waits until this side closes the connection.
        let _ = stream.tcp.shutdown(Shutdown::Both);
    }
    loop {
        std::thread::sleep(*pause);
        *pause = (2 * *pause).clamp(RETRY_PAUSE, RETRY_PAUSE_MAX);
        let endpoints = endpoints.upgrade()?;
        if endpoints.presence().is_none() {
            return None;
        }
        match endpoints.dial(NodeId(0), Some(client), PRESENCE_CONNECTION) {
            Ok(dialled) => {
                let monitored = OwnDescriptor::new(dialled.stream.tcp.try_clone().ok()?);
                // The compute node may have left in the meantime.
                endpoints.presence().as_mut().map(|presence| *presence = dialled.stream)?;
                return Some(monitored);
            }
            Err(ConnectError::Refused(Code::Revoked, _)) => return None,
            // The operator may be repairing the memory node: try again.
            Err(_) => {}
        }
    }
}

/// Returns whether the peer of an idle stream has neither closed it nor announced that it will, as far as
/// this side knows.
pub(crate) fn is_open(stream: &TcpStream) -> bool {
    if stream.set_nonblocking(true).is_err() {
        return false;
    }
    match stream.peek(&mut [0]) {
        Ok(_) => false,
        Err(error) => error.kind() == ErrorKind::WouldBlock,
    }
}
