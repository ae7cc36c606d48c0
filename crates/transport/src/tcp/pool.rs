//! A pool that memory nodes serve, and this process's attachment to it. How verbs reach them is a [`Way`]'s affair.

use super::access::Credentials;
use super::address::PoolAddress;
use super::dial::{Dialled, control, dial};
use super::error::{NoWay, TcpError};
use super::line::Line;
use super::post::{Complaint, Waits, refuse};
use super::reach::{PRESENCE_LINE, Reach, stay};
use super::stream::Stream;
use super::way::Way;
use super::wire::{ANY_NODE, Code, Control, Formed, Hello, VERB_DATA_MAX, Welcome};
use crate::runtime::{block_on, thread_number};
use crate::shm::monotonic_nanoseconds;
use crate::timers::sleep;
use farwood_fabric::{
    Address, Capabilities, Client, ClientId, Doorbell, Fabric, FabricError, NodeId, PoolShape, Remote,
    Revocation, client_table,
};
use std::future::Future;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::num::NonZeroU16;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// What a memory node promises whose threads execute verbs of different connections at the same time.
///
/// They copy as processors do that share memory ([`copying`](crate::shm::copying)): READs downward, WRITEs upward, so
/// that a pair of versions proves a copy whole, up to the largest READ of one verb; nothing above a word is whole by
/// itself. A WRITE is executed when all of it has arrived, whatever becomes of who sent it; a
/// longer one than fits a verb is several.
pub const CAPABILITIES: Capabilities = Capabilities {
    version_pair_bytes_max: VERB_DATA_MAX,
    whole_bytes: 8,
    write_upward: true,
    atomic_then_read: true,
    arrival_sees_write: true,
    write_beside_cas: true,
    masked_cas: true,
    write_survives_writer_bytes_max: VERB_DATA_MAX,
    cpu_sees_write: true,
};

/// This process's attachment to a pool: a compute node. Clones share it.
pub struct ServedPool<W: Way>(Arc<Attachment<W>>);

/// A pool over TCP.
pub type TcpPool = ServedPool<Line>;
/// One client's connection to a pool over TCP.
pub type TcpFabric = ServedFabric<Line>;

impl<W: Way> Clone for ServedPool<W> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

struct Attachment<W: Way> {
    reach: Arc<Reach>,
    ground: Arc<W::Ground>,
    identity: ClientId,
    next_line: AtomicU64,
    /// Lines that a thread has, at most.
    lines_max: usize,
    /// Set once, when this compute node has left the pool: none of its clients may post any more.
    left: AtomicBool,
}

impl TcpPool {
    /// Attaches this process to a pool, as a new compute node. Where all its memory nodes are fresh, they become a
    /// pool.
    ///
    /// # Errors
    /// [`TcpError::NotThere`], [`TcpError::BadToken`], [`TcpError::Unusable`], [`TcpError::NotThisPool`];
    /// [`TcpError::Pool`] where all client slots are taken.
    pub fn open(address: &PoolAddress, credentials: Credentials) -> Result<Self, TcpError> {
        Self::open_with(address, credentials, Fresh::Forms)
    }

    /// As [`open`](Self::open), where `fresh` says what memory nodes are that are all fresh.
    ///
    /// # Errors
    /// As [`open`](Self::open); [`TcpError::NoPool`].
    pub fn open_with(
        address: &PoolAddress,
        credentials: Credentials,
        fresh: Fresh,
    ) -> Result<Self, TcpError> {
        Self::attach(address, credentials, NonZeroU16::MIN, fresh, |_| Ok(()))
    }
}

/// What memory nodes are to whoever attaches to them when all of them are fresh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fresh {
    /// They become a pool.
    Forms,
    /// No pool: who only looks binds nothing together.
    IsNone,
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

/// What is to be done where a memory node has lost what a pool had there.
const ANEW: &str = "start all its memory nodes anew, those that have files with new ones, and load it again";

/// The memory nodes of an address, each with a connection that has no name.
struct Nodes<'a> {
    address: &'a PoolAddress,
    scheme: &'static str,
    all: Vec<Dialled>,
}

impl<'a> Nodes<'a> {
    fn dial(
        address: &'a PoolAddress,
        credentials: &Credentials,
        scheme: &'static str,
    ) -> Result<Self, TcpError> {
        let token = credentials.token_bytes();
        let hello = Hello { pool: 0, node: ANY_NODE, client: None, line: PRESENCE_LINE, token };
        let dialled = |at: &String| dial(at, credentials, &hello).map_err(|why| no_node(at, why));
        let all = address.nodes().iter().map(dialled).collect::<Result<_, _>>()?;
        Ok(Self { address, scheme, all })
    }

    /// The memory nodes, and the pool that they are or become. While others form it, they can seem not to go together:
    /// what still seems so after a little while does so for good.
    fn form_in_time(
        address: &'a PoolAddress,
        credentials: &Credentials,
        fresh: Fresh,
        scheme: &'static str,
    ) -> Result<(Self, PoolShape), TcpError> {
        const ATTEMPTS_MAX: u32 = 5;
        let mut attempt = 0;
        loop {
            let mut nodes = Self::dial(address, credentials, scheme)?;
            match nodes.form(fresh) {
                Ok(shape) => return Ok((nodes, shape)),
                Err(TcpError::NotThisPool { .. }) if attempt < ATTEMPTS_MAX => {
                    attempt += 1;
                    std::thread::sleep(Duration::from_millis(4 << attempt));
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn refuse(&self, why: String) -> TcpError {
        TcpError::NotThisPool { pool: format!("{}://{}", self.scheme, self.address), why }
    }

    fn welcome(&self, at: usize) -> &Welcome {
        &self.all[at].welcome
    }

    /// The pool that these memory nodes are, or become.
    ///
    /// Node 0 decides which. A node with fresh memory is taken into the pool only until node 0 knows that the pool is
    /// whole; from then on clients have used it, and a node with fresh memory has lost what they put there.
    fn form(&mut self, fresh: Fresh) -> Result<PoolShape, TcpError> {
        let nodes = self.all.len() as u16;
        let first = *self.welcome(0);
        for at in 1..self.all.len() {
            let (other, address) = (self.welcome(at), &self.address.nodes()[at]);
            if (other.host_bytes, other.device_bytes) != (first.host_bytes, first.device_bytes) {
                let why = format!("{address} has another size than {}", self.address.nodes()[0]);
                return Err(self.refuse(format!("{why}; the memory nodes of a pool are of one size")));
            }
            if other.formed != Formed::Blank && other.pool != first.pool {
                return Err(self.refuse(self.stranger(at)));
            }
            if other.formed == Formed::Blank && first.formed == Formed::Whole {
                let why = format!("{address} has fresh memory: what the pool had there is lost");
                return Err(self.refuse(format!("{why}; {ANEW}")));
            }
        }
        if first.formed != Formed::Blank && (first.node, first.nodes) != (0, nodes) {
            let why = format!("{} is node {} of {}", self.address.nodes()[0], first.node, first.nodes);
            return Err(
                self.refuse(format!("{why}; name the memory nodes of the pool in their order, all of them"))
            );
        }
        let pool = match (first.formed, fresh) {
            (Formed::Blank, Fresh::Forms) => self.draw()?,
            (Formed::Blank, Fresh::IsNone) => {
                return Err(TcpError::NoPool { pool: format!("{}://{}", self.scheme, self.address) });
            }
            _ => first.pool,
        };
        for at in 0..self.all.len() {
            self.ask(at, Control::Form, [pool, at as u64, nodes.into(), 0])?;
        }
        for at in 0..self.all.len() {
            self.ask(at, Control::Whole, [0; 4])?;
        }
        Ok(PoolShape { pool, nodes, host_bytes: first.host_bytes, device_bytes: first.device_bytes })
    }

    /// Why memory node `at` does not go with node 0.
    fn stranger(&self, at: usize) -> String {
        let (first, address) = (&self.address.nodes()[0], &self.address.nodes()[at]);
        match self.welcome(0).formed {
            Formed::Blank => format!(
                "{first} has fresh memory, and {address} belongs to a pool; what the pool had on {first} is lost: \
                 {ANEW}"
            ),
            _ => format!("{address} belongs to another pool than {first}"),
        }
    }

    /// Makes node 0 the first of a new pool; of several who do so at once, one draws the pool's identity.
    fn draw(&mut self) -> Result<u64, TcpError> {
        let drawn = RandomState::new().build_hasher().finish().max(1);
        let nodes = self.all.len() as u64;
        match control(&mut self.all[0].stream, Control::Form, [drawn, 0, nodes, 0]) {
            Ok(_) => Ok(drawn),
            Err(NoWay::Refused(Code::OtherPool, why)) => {
                Err(self
                    .refuse(format!("{} is no fresh memory node any more: {why}", self.address.nodes()[0])))
            }
            Err(why) => Err(no_node(&self.address.nodes()[0], why)),
        }
    }

    fn ask(&mut self, at: usize, what: Control, words: [u64; 4]) -> Result<(), TcpError> {
        control(&mut self.all[at].stream, what, words)
            .map(|_| ())
            .map_err(|why| no_node(&self.address.nodes()[at], why))
    }
}

pub(crate) fn no_node(address: &str, why: NoWay) -> TcpError {
    let address = address.to_owned();
    match why {
        NoWay::Lost(why) => TcpError::NotThere { address, why },
        NoWay::Refused(Code::BadToken, why) => TcpError::BadToken { address, why },
        NoWay::Untrusted(why) => TcpError::Untrusted { address, why },
        NoWay::Refused(_, why) | NoWay::Here(why) => TcpError::Unusable { address, why },
    }
}

/// Takes a slot of the client table: one that nobody has claimed at memory node 0, and whose last owner is gone from
/// every memory node.
fn enter<W: Way>(
    ground: &Arc<W::Ground>,
    reach: &Arc<Reach>,
    presence: &mut Stream,
) -> Result<ClientId, FabricError> {
    let node = NodeId(0);
    let nameless = Nameless(W::new(ground, Arc::clone(reach), None, PRESENCE_LINE));
    let client = Client::new(&nameless);
    let process = u64::from(std::process::id());
    for slot in 0..client_table::CLIENTS_MAX as u16 {
        match control(presence, Control::Claim, [slot.into(), 0, 0, 0]) {
            Ok(_) => {}
            Err(NoWay::Refused(Code::Taken, _)) => continue,
            Err(why) => return Err(why.of_node(node, None)),
        }
        let before = block_on(client_table::look(&client, slot))?;
        if before.live && !block_on(is_gone(&*nameless.0, &reach.shape, before.client))? {
            continue;
        }
        let Some(identity) = block_on(client_table::enter(&client, slot, process))? else { continue };
        let name = [identity.slot.into(), identity.epoch.into(), 0, 0];
        control(presence, Control::Name, name).map_err(|why| why.of_node(node, Some(identity)))?;
        return Ok(identity);
    }
    Err(FabricError::NoClientSlot { slots: client_table::CLIENTS_MAX })
}

fn words_of(client: ClientId) -> [u64; 4] {
    [client.slot.into(), client.epoch.into(), 0, 0]
}

/// Whether `client` has a connection to some memory node. Where its slot was claimed anew, node 0 counts that as one.
async fn is_connected<W: Way>(line: &W, shape: &PoolShape, client: ClientId) -> Result<bool, FabricError> {
    for node in (0..shape.nodes).map(NodeId) {
        if line.control(node, Control::Census, words_of(client)).await?[0] > 0 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Makes sure that nothing of `client` lands at any memory node any more.
async fn fence<W: Way>(line: &W, shape: &PoolShape, client: ClientId) -> Result<(), FabricError> {
    for node in (0..shape.nodes).map(NodeId) {
        line.control(node, Control::Fence, words_of(client)).await?;
    }
    Ok(())
}

/// For whoever has claimed the slot: whether its last owner is gone from the memory nodes but 0, and if so for good.
async fn is_gone<W: Way>(line: &W, shape: &PoolShape, client: ClientId) -> Result<bool, FabricError> {
    for node in (1..shape.nodes).map(NodeId) {
        if line.control(node, Control::Census, words_of(client)).await?[0] > 0 {
            return Ok(false);
        }
    }
    fence(line, shape, client).await?;
    Ok(true)
}

impl<W: Way> Attachment<W> {
    /// A line of this thread for one more client: a new one while there may be more, and then the one that the fewest
    /// hold. A client keeps its line, and so its order.
    fn line(self: &Arc<Self>) -> Rc<W> {
        let me: *const () = Arc::as_ptr(self).cast();
        let fresh = || {
            let number = self.next_line.fetch_add(1, Ordering::Relaxed);
            W::new(&self.ground, Arc::clone(&self.reach), Some(self.identity), number)
        };
        let kept = W::with_ways(|lines| {
            let mut lines = lines.borrow_mut();
            lines.retain(|(_, line)| line.strong_count() > 0);
            // A line that lives has a client, and so has its attachment: the address is nobody else's.
            let mine = || lines.iter().filter(|(attachment, _)| *attachment == me).map(|(_, line)| line);
            let least =
                mine().min_by_key(|line| line.strong_count()).filter(|_| mine().count() >= self.lines_max);
            least.and_then(Weak::upgrade).unwrap_or_else(|| {
                let line = fresh();
                lines.push((me, Rc::downgrade(&line)));
                line
            })
        });
        // Without a place to keep it, it serves this once.
        kept.unwrap_or_else(fresh)
    }

    /// Ends the identity at every memory node and then in the client table, once. Should that fail, the end of the
    /// connections will do, and others find out.
    fn leave(&self) {
        if self.left.swap(true, Ordering::SeqCst) {
            return;
        }
        let me: *const () = std::ptr::from_ref(self).cast();
        let lines = W::with_ways(|lines| {
            let lines = lines.borrow();
            let mine = lines.iter().filter(|(attachment, _)| *attachment == me);
            mine.filter_map(|(_, line)| line.upgrade()).collect::<Vec<_>>()
        });
        for line in lines.unwrap_or_default() {
            line.finish();
        }
        self.reach.go();
        let nameless = Nameless(W::new(&self.ground, Arc::clone(&self.reach), None, PRESENCE_LINE));
        if block_on(fence(&*nameless.0, &self.reach.shape, self.identity)).is_ok() {
            let _ = block_on(client_table::expire(&Client::new(&nameless), self.identity));
        }
    }
}

impl<W: Way> Drop for Attachment<W> {
    fn drop(&mut self) {
        self.leave();
    }
}

/// One client's connection to a pool that memory nodes serve.
pub struct ServedFabric<W: Way> {
    // Before the attachment: what was posted lands before the identity ends.
    line: Rc<W>,
    pool: Arc<Attachment<W>>,
    /// What went wrong with a detached post.
    failed: Complaint,
}

impl<W: Way> ServedFabric<W> {
    /// Why a doorbell cannot leave, if it cannot.
    #[inline]
    fn refuse(&self, doorbell: &Doorbell, checks: Checks) -> Option<FabricError> {
        if self.pool.left.load(Ordering::Relaxed) {
            return Some(FabricError::Revoked(self.pool.identity));
        }
        let shape = &self.pool.reach.shape;
        let all = checks == Checks::All || W::checks_all(doorbell);
        let checked = |at: Address| all || at.node().0 >= shape.nodes;
        let mut requests = doorbell.requests().iter().filter(|request| checked(request.at));
        requests.find_map(|request| refuse(shape, W::capabilities(&self.pool.ground), request))
    }
}

/// What is checked before a doorbell leaves; the memory nodes check everything.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Checks {
    /// Whether there is such a memory node.
    Nodes,
    /// Everything that can be.
    All,
}

impl<W: Way> Fabric for ServedFabric<W> {
    #[inline]
    fn capabilities(&self) -> &Capabilities {
        W::capabilities(&self.pool.ground)
    }

    #[inline]
    fn shape(&self) -> &PoolShape {
        &self.pool.reach.shape
    }

    #[inline]
    fn identity(&self) -> ClientId {
        self.pool.identity
    }

    #[inline]
    async fn submit(&self, doorbell: Doorbell) -> Result<Doorbell, FabricError> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        if let Some(error) = self.refuse(&doorbell, Checks::Nodes) {
            return Err(error);
        }
        let post = self.line.post(doorbell, Waits::Somebody);
        self.line.wait(post).await
    }

    fn submit_detached(&self, doorbell: Doorbell) -> Option<Doorbell> {
        // So that a corrupt pointer shows at the very next post, and not at some later one.
        if let Some(error) = self.refuse(&doorbell, Checks::All) {
            self.failed.replace(Some(error));
            return Some(doorbell);
        }
        self.line.post(doorbell, Waits::Detached(Rc::clone(&self.failed)));
        self.line.flush();
        None
    }

    fn now(&self) -> u64 {
        monotonic_nanoseconds()
    }

    #[inline]
    fn thread(&self) -> usize {
        thread_number()
    }

    fn sleep(&self, nanoseconds: u64) -> impl Future<Output = ()> {
        sleep(nanoseconds)
    }

    /// A client is gone when no memory node has a connection of it, and none will take one again.
    async fn revoke(&self, client: ClientId) -> Result<Revocation, FabricError> {
        let table = Client::new(self);
        if !client_table::look(&table, client.slot).await?.is(client) {
            return Ok(Revocation::Gone);
        }
        if client == self.pool.identity {
            return Ok(Revocation::Alive);
        }
        let shape = self.shape();
        let told = match is_connected(&*self.line, shape, client).await {
            Ok(true) => return Ok(Revocation::Alive),
            Ok(false) => fence(&*self.line, shape, client).await,
            Err(error) => Err(error),
        };
        match told {
            Ok(()) => {}
            Err(error @ FabricError::Revoked(_)) => return Err(error),
            // It may still be connected to a memory node that cannot be asked.
            Err(_) => return Ok(Revocation::Alive),
        }
        client_table::expire(&table, client).await?;
        Ok(Revocation::Gone)
    }

    async fn provision(&self, at: Address, bytes: u64) -> Result<(), FabricError> {
        let shape = &self.pool.reach.shape;
        if at.node().0 >= shape.nodes || at.offset().saturating_add(bytes) > shape.host_bytes {
            return Err(FabricError::OutOfRange { at, bytes: bytes as usize });
        }
        if W::MEMORY_IS_REAL {
            return Ok(());
        }
        let words = [Remote::<u8>::at(at).word(), bytes, 0, 0];
        self.line.control(at.node(), Control::Provision, words).await.map(|_| ())
    }
}

/// The connection of a compute node that is not in the client table: while it enters, and when it leaves.
struct Nameless<W: Way>(Rc<W>);

impl<W: Way> Fabric for Nameless<W> {
    fn capabilities(&self) -> &Capabilities {
        unreachable!("who enters or leaves the client table asks for no promises")
    }

    fn shape(&self) -> &PoolShape {
        unreachable!("who enters or leaves the client table asks for no shape")
    }

    fn identity(&self) -> ClientId {
        unreachable!("who enters or leaves the client table asks for no identity")
    }

    async fn submit(&self, doorbell: Doorbell) -> Result<Doorbell, FabricError> {
        let post = self.0.post(doorbell, Waits::Somebody);
        self.0.wait(post).await
    }

    fn submit_detached(&self, doorbell: Doorbell) -> Option<Doorbell> {
        // Nobody here posts detached verbs; their failure would have nobody to be told.
        self.0.post(doorbell, Waits::Nobody);
        None
    }

    fn now(&self) -> u64 {
        monotonic_nanoseconds()
    }

    fn sleep(&self, nanoseconds: u64) -> impl Future<Output = ()> {
        sleep(nanoseconds)
    }

    fn revoke(&self, _: ClientId) -> impl Future<Output = Result<Revocation, FabricError>> {
        std::future::ready(Ok(Revocation::Alive))
    }

    fn provision(&self, _: Address, _: u64) -> impl Future<Output = Result<(), FabricError>> {
        std::future::ready(Ok(()))
    }
}

impl<W: Way> std::fmt::Debug for ServedPool<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct(W::SCHEME).field("shape", self.shape()).field("identity", &self.identity()).finish()
    }
}

impl<W: Way> std::fmt::Debug for ServedFabric<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct(W::SCHEME).field("identity", &self.pool.identity).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::{MemoryNode, NodeSpec};
    use std::net::{Ipv4Addr, SocketAddr};

    #[test]
    fn clients_of_a_thread_share_as_many_lines_as_there_may_be() {
        let spec = NodeSpec::new(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), 16 << 20);
        let node = MemoryNode::start(&spec).unwrap();
        let address: PoolAddress = node.address().to_string().parse().unwrap();
        for lines in [1, 2] {
            let ground = |_: &mut [Dialled]| Ok::<_, TcpError>(());
            let lines_max = NonZeroU16::new(lines).unwrap();
            let pool: TcpPool =
                ServedPool::attach(&address, Credentials::default(), lines_max, Fresh::Forms, ground)
                    .unwrap();
            let mut fabrics: Vec<_> = (0..4).map(|_| pool.fabric()).collect();
            let shared = |fabrics: &[TcpFabric]| {
                let same =
                    |at: &TcpFabric| fabrics.iter().filter(|to| Rc::ptr_eq(&at.line, &to.line)).count();
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
