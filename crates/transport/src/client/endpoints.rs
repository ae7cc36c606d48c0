//! What is needed to reach a pool's memory nodes, the same for all threads of a compute node; and its presence.

use super::address::PoolAddress;
use super::credentials::Credentials;
use super::dial::{Dialled, dial};
use super::error::NoWay;
use crate::stream::Stream;
use crate::wire::{Code, Hello};
use farwood_fabric::{ClientId, NodeId, PoolShape};
use rustix::event::{PollFd, PollFlags, poll};
use std::io::{self, ErrorKind};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// The line of the connection by which a compute node is present at memory node 0.
pub(crate) const PRESENCE_LINE: u64 = 0;
/// Pause before the second attempt to be present again; each further one is twice as long, up to [`REST_MAX`].
const REST: Duration = Duration::from_millis(200);
const REST_MAX: Duration = Duration::from_secs(5);

/// How the memory nodes of a pool are reached.
#[derive(Debug)]
pub struct Reach {
    pub(crate) address: PoolAddress,
    pub(crate) credentials: Credentials,
    pub(crate) shape: PoolShape,
    /// Of each memory node, which life of its memory was attached to.
    incarnations: Box<[u64]>,
    /// Held open for as long as the compute node is attached, and never used: while memory node 0 has it, the compute
    /// node is seen to be alive, even if no thread of it has anything to say.
    presence: Mutex<Option<Stream>>,
}

impl Reach {
    pub(crate) fn new(
        address: PoolAddress,
        credentials: Credentials,
        shape: PoolShape,
        incarnations: Box<[u64]>,
    ) -> Self {
        Self { address, credentials, shape, incarnations, presence: Mutex::new(None) }
    }

    /// Connects to a memory node as `client`, on a line.
    pub(crate) fn dial(&self, node: NodeId, client: Option<ClientId>, line: u64) -> Result<Dialled, NoWay> {
        let (pool, token) = (self.shape.pool, self.credentials.token_bytes());
        let hello = Hello { pool, node: node.0, client, line, token };
        let at = usize::from(node.0);
        let dialled = dial(&self.address.nodes()[at], &self.credentials, &hello)?;
        if dialled.welcome.incarnation == self.incarnations[at] {
            return Ok(dialled);
        }
        let why = "it ended without being stopped, and what was written last may be lost; `farwood check` the pool's \
                   indexes, and open it again";
        Err(NoWay::Refused(Code::OtherPool, why.to_owned()))
    }

    fn presence(&self) -> MutexGuard<'_, Option<Stream>> {
        self.presence.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the connection by which this compute node is present.
    pub(crate) fn go(&self) {
        if let Some(stream) = self.presence().take() {
            // Wakes whoever watches it; that it is gone already is as good.
            let _ = stream.tcp.shutdown(Shutdown::Both);
        }
    }
}

/// Keeps `client` present by `stream`, and by another whenever that breaks, until it [goes](Reach::go): a compute node
/// that has nothing to say for hours is not to be taken for a dead one because its network was gone for a minute.
///
/// # Errors
/// The system's, where there is no thread to be had.
pub(crate) fn stay(reach: &Arc<Reach>, client: ClientId, stream: Stream) -> io::Result<()> {
    let mut watched = stream.tcp.try_clone()?;
    *reach.presence() = Some(stream);
    let reach = Arc::downgrade(reach);
    let watch = move || {
        let mut rest = Duration::ZERO;
        loop {
            let since = Instant::now();
            wait_for_end(&watched);
            if since.elapsed() > REST_MAX {
                rest = Duration::ZERO;
            }
            match be_present_again(&reach, client, &mut rest) {
                Some(other) => watched = other,
                None => return,
            }
        }
    };
    std::thread::Builder::new().name("farwood-presence".to_owned()).spawn(watch).map(|_| ())
}

/// Waits until the other side says something on a stream that is quiet, which is that it ends, or is gone.
fn wait_for_end(stream: &TcpStream) {
    while let Err(rustix::io::Errno::INTR) = poll(&mut [PollFd::new(stream, PollFlags::IN)], None) {}
}

/// Makes the presence of `client` anew, whose connection broke or is to end, after a pause of `rest`, which grows.
/// `None`: it has gone, or was revoked.
fn be_present_again(reach: &Weak<Reach>, client: ClientId, rest: &mut Duration) -> Option<TcpStream> {
    if let Some(stream) = &*reach.upgrade()?.presence() {
        // A memory node that stops waits for that.
        let _ = stream.tcp.shutdown(Shutdown::Both);
    }
    loop {
        std::thread::sleep(*rest);
        *rest = (2 * *rest).clamp(REST, REST_MAX);
        let reach = reach.upgrade()?;
        if reach.presence().is_none() {
            return None;
        }
        match reach.dial(NodeId(0), Some(client), PRESENCE_LINE) {
            Ok(dialled) => {
                let watched = dialled.stream.tcp.try_clone().ok()?;
                // It may have gone meanwhile.
                reach.presence().as_mut().map(|presence| *presence = dialled.stream)?;
                return Some(watched);
            }
            Err(NoWay::Refused(Code::Revoked, _)) => return None,
            // Its operator may have something to mend.
            Err(_) => {}
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
