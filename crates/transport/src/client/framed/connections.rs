//! One thread's connections to the memory nodes of a pool, shared by all clients of the thread.
//!
//! Doorbells become frames in one buffer per memory node. One system call sends the frames of all clients of the thread
//! when the set is polled. If the thread's executor is one of [this crate](crate::runtime), it polls the set, and then
//! only the futures that have an answer. Otherwise the waiting clients poll the set: with `n` clients, at each `n`-th
//! poll. The tag of a frame matches an answer to its doorbell, so no client waits for another's answer.

use super::connection::{ConnectionEvent, FrameConnection};
use super::encode::{AnsweredVerbs, Cursor, is_large};
use crate::client::endpoints::Endpoints;
use crate::client::error::ConnectError;
use crate::client::in_flight::{InFlight, PostDriver, Submission};
use crate::client::post::{PostBody, Waiter};
use crate::client::transport::{ConnectionTable, ThreadConnections, VerbTransport};
use crate::runtime::{PollSource, Progress, add_poll_source};
use crate::shm::monotonic_nanoseconds;
use crate::wire::VERB_DATA_MAX;
use crate::wire::{Code, Control, Frame, FrameKind, Malformed, put_cut, put_words};
use farwood_fabric::{Capabilities, ClientId, Doorbell, FabricError, NodeId};
use slab::Slab;
use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::sync::Arc;

/// The time for which a sender waits for space in a server's queue of immediates, nanoseconds.
const QUEUE_FULL_MAX: u64 = 10_000_000_000;
/// Pause before a refused WRITE_WITH_IMM is sent again, nanoseconds.
const QUEUE_FULL_PAUSE: u64 = 50_000;

/// The capabilities of a memory node whose threads execute verbs of different connections concurrently.
///
/// The threads copy as processors do that share memory ([`copying`](crate::shm::copying)): READs downward, WRITEs
/// upward, so that a pair of versions proves that a copy is not torn, up to the largest READ of one verb; nothing above
/// a word is atomic by itself. A WRITE is executed when all of it has arrived, even if its sender crashes; a WRITE that
/// exceeds one verb becomes several.
pub const CAPABILITIES: Capabilities = Capabilities {
    version_pair_bytes_max: VERB_DATA_MAX,
    brief_reads: false,
    whole_bytes: 8,
    write_upward: true,
    atomic_then_read: true,
    arrival_sees_write: true,
    write_beside_cas: true,
    masked_cas: true,
    write_survives_writer_bytes_max: VERB_DATA_MAX,
    cpu_sees_write: true,
};

/// The verbs of a post for one memory node.
#[derive(Debug)]
struct Part {
    post: usize,
    node: NodeId,
    /// The cursors at the start and the end of the frame in progress.
    from: Cursor,
    to: Cursor,
    generation: u64,
    /// The time at which to send the part again, after a full queue refused it.
    retry_at: Option<u64>,
    /// The time at which the part fails, counted from the first refusal.
    deadline: Option<u64>,
}

/// One thread's connections to the memory nodes of a pool.
#[derive(Debug)]
pub struct FrameConnections {
    endpoints: Arc<Endpoints>,
    client: Option<ClientId>,
    number: u64,
    state: RefCell<State>,
}

#[derive(Debug)]
struct State {
    endpoints: Arc<Endpoints>,
    connections: Vec<FrameConnection>,
    posts: InFlight,
    parts: Slab<Part>,
    /// Parts that wait for their retry.
    retries: usize,
    client: Option<ClientId>,
}

impl FrameConnections {
    /// Connections of `client`, or of a compute node without an identity. `number` is unique among the
    /// client's sets.
    pub(crate) fn new(endpoints: Arc<Endpoints>, client: Option<ClientId>, number: u64) -> Rc<Self> {
        let state = State {
            endpoints: Arc::clone(&endpoints),
            connections: (0..endpoints.shape().nodes)
                .map(|node| FrameConnection::new(NodeId(node)))
                .collect(),
            posts: InFlight::new(client),
            parts: Slab::new(),
            retries: 0,
            client,
        };
        let set = Rc::new(Self { endpoints, client, number, state: RefCell::new(state) });
        let source: Weak<Self> = Rc::downgrade(&set);
        add_poll_source(source);
        set
    }

    /// Starts a doorbell whose requests all address memory nodes of the pool.
    fn start_post(&self, doorbell: Doorbell, waits: Waiter) -> usize {
        let state = &mut *self.state.borrow_mut();
        let key = state.posts.begin(PostBody::Verbs(doorbell), waits);
        // No allocation: a doorbell addresses few memory nodes, mostly one.
        let mut from = 0;
        while let Some((at, node)) = state.posts.next_node(key, from) {
            from = at + 1;
            state.know(node);
            let part = state.part(key, node);
            match state.connections[usize::from(node.0)].prepare(&self.endpoints, self.client, self.number) {
                Ok(()) => state.send(part),
                Err(why) => state.end_part(part, Some(why)),
            }
        }
        state.posts.seal(key);
        key
    }

    /// Sends a control to memory node `node` and waits for its answer.
    pub(crate) async fn ask(
        &self,
        node: NodeId,
        control: Control,
        words: [u64; 4],
    ) -> Result<[u64; 4], FabricError> {
        let key = {
            let state = &mut *self.state.borrow_mut();
            state.know(node);
            let key = state.posts.begin(PostBody::Control([0; 4]), Waiter::Future);
            let part = state.part(key, node);
            let connection = &mut state.connections[usize::from(node.0)];
            match connection.prepare(&self.endpoints, self.client, self.number) {
                Ok(()) => {
                    let start = connection.out.len();
                    put_words(&mut connection.out, FrameKind::Control, control as u8, part as u64, words);
                    put_cut(&mut connection.out[start..], self.endpoints.cut.get());
                    connection.frame_queued();
                }
                Err(why) => state.end_part(part, Some(why)),
            }
            state.posts.seal(key);
            key
        };
        match Submission::new(self, key).await? {
            PostBody::Control(words) => Ok(words),
            PostBody::Verbs(_) => unreachable!("a control is not a doorbell"),
        }
    }

    /// Sends, receives, and assigns answers to their posts, without waiting.
    fn exchange_all(&self, state: &mut State) {
        state.posts.reset_polls();
        if state.retries > 0 {
            state.retry();
        }
        for at in 0..state.connections.len() {
            let connection = &mut state.connections[at];
            if connection.is_idle() {
                continue;
            }
            match connection.advance(&self.endpoints, self.client, self.number) {
                ConnectionEvent::Unchanged => {
                    if let Err(why) = state.receive(at) {
                        state.connections[at].break_off(why, &self.endpoints, self.client, self.number);
                    }
                }
                ConnectionEvent::Broken | ConnectionEvent::Connected(None) => {}
                ConnectionEvent::Connected(Some(why)) => {
                    state.fail_parts(at, &ConnectError::Lost(why), LostFrames::Earlier);
                }
                ConnectionEvent::Failed(why) => state.fail_parts(at, &why, LostFrames::All),
            }
        }
    }
}

thread_local! {
    /// This thread's connection sets, by attachment.
    static TABLE: ConnectionTable<FrameConnections> = const { RefCell::new(Vec::new()) };
}

impl VerbTransport for FrameConnections {}

impl ThreadConnections for FrameConnections {
    type Shared = ();
    const MEMORY_IS_PROVISIONED: bool = false;
    const SCHEME: &'static str = "tcp";

    fn new(_: &Arc<()>, endpoints: Arc<Endpoints>, client: Option<ClientId>, number: u64) -> Rc<Self> {
        Self::new(endpoints, client, number)
    }

    fn capabilities((): &()) -> &Capabilities {
        &CAPABILITIES
    }

    fn with_table<T>(work: impl FnOnce(&ConnectionTable<Self>) -> T) -> Option<T> {
        TABLE.try_with(work).ok()
    }

    /// The memory nodes check requests, and name the verb of a frame that failed.
    #[inline]
    fn checks_all(doorbell: &Doorbell) -> bool {
        is_large(doorbell)
    }

    #[inline]
    fn post(&self, doorbell: Doorbell, waits: Waiter) -> usize {
        self.start_post(doorbell, waits)
    }

    #[inline]
    async fn wait(&self, post: usize) -> Result<Doorbell, FabricError> {
        match Submission::new(self, post).await? {
            PostBody::Verbs(doorbell) => Ok(doorbell),
            PostBody::Control(_) => unreachable!("a doorbell is not a control"),
        }
    }

    fn flush(&self) {
        self.send_all();
    }

    fn finish(&self) {
        self.drain();
    }

    async fn control(
        &self,
        node: NodeId,
        control: Control,
        words: [u64; 4],
    ) -> Result<[u64; 4], FabricError> {
        self.ask(node, control, words).await
    }
}

impl PollSource for FrameConnections {
    fn advance(&self) -> Progress {
        PostDriver::advance(self)
    }
}

impl PostDriver for FrameConnections {
    #[inline]
    fn with_posts<T>(&self, work: impl FnOnce(&mut InFlight) -> T) -> T {
        work(&mut self.state.borrow_mut().posts)
    }

    fn exchange(&self) {
        self.exchange_all(&mut self.state.borrow_mut());
    }

    fn send_all(&self) {
        for connection in &mut self.state.borrow_mut().connections {
            // An error shows at the next poll.
            let _ = connection.flush();
        }
    }
}

impl Drop for FrameConnections {
    /// Completes the posts that no future waits for, within [`DRAIN_MAX`]. A forked child only closes its copies of the
    /// sockets.
    fn drop(&mut self) {
        let state = self.state.get_mut();
        if !state.posts.are_own() {
            state.connections.iter_mut().for_each(FrameConnection::leak_dial);
            return;
        }
        self.drain();
    }
}

/// The frames that are lost with a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LostFrames {
    /// Frames that were queued before the break.
    Earlier,
    /// All frames.
    All,
}

impl State {
    /// Prepares for requests to a memory node that may have been added to the pool since the last one.
    #[inline]
    fn know(&mut self, node: NodeId) {
        for added in self.connections.len() as u16..=node.0 {
            self.connections.push(FrameConnection::new(NodeId(added)));
        }
    }

    fn part(&mut self, post: usize, node: NodeId) -> usize {
        self.posts.begin_part(post);
        let (from, to) = (Cursor::default(), Cursor::default());
        let generation = self.connections[usize::from(node.0)].generation;
        self.parts.insert(Part { post, node, from, to, generation, retry_at: None, deadline: None })
    }

    /// Puts the next frame of a part into its connection's buffer.
    fn send(&mut self, key: usize) {
        let part = &mut self.parts[key];
        let doorbell = self.posts.doorbell(part.post);
        let connection = &mut self.connections[usize::from(part.node.0)];
        part.generation = connection.generation;
        let head = [key as u64, self.endpoints.cut.get()];
        part.to = part.from.encode(part.node, doorbell, head, &mut connection.out);
        connection.frame_queued();
        connection.send_early();
    }

    /// Sends the parts that a full queue refused again, after their pauses.
    fn retry(&mut self) {
        let now = monotonic_nanoseconds();
        let due = |part: &Part| part.retry_at.is_some_and(|at| now >= at);
        let due: Vec<usize> = self.parts.iter().filter(|(_, part)| due(part)).map(|(key, _)| key).collect();
        for key in due {
            self.retries -= 1;
            let part = &mut self.parts[key];
            part.retry_at = None;
            if part.deadline.is_some_and(|end| now > end) {
                self.end_part(
                    key,
                    Some(ConnectError::Lost("its server does not receive messages".to_owned())),
                );
            } else {
                self.send(key);
            }
        }
    }

    /// Decodes the frames that a connection has received.
    fn receive(&mut self, at: usize) -> Result<(), String> {
        let mut input = std::mem::take(&mut self.connections[at].input);
        let result = loop {
            match input.next() {
                Ok(None) => break Ok(()),
                Ok(Some(frame)) => {
                    if let Err(malformed) = self.answer(at, &frame) {
                        break Err(malformed.to_string());
                    }
                }
                Err(why) => break Err(why),
            }
        };
        self.connections[at].input = input;
        result
    }

    /// Assigns an answer to its part.
    fn answer(&mut self, at: usize, frame: &Frame<'_>) -> Result<(), Malformed> {
        let unexpected = Malformed::UnexpectedFrame(frame.kind);
        let key = usize::try_from(frame.tag).map_err(|_| unexpected)?;
        let known = |part: &&mut Part| usize::from(part.node.0) == at;
        let part = self.parts.get_mut(key).filter(known).ok_or(unexpected)?;
        if !self.connections[at].answered() {
            return Err(unexpected);
        }
        self.endpoints.cut.raise(frame.cut);
        let (node, post) = (part.node, part.post);
        match (self.posts.body(post), frame.kind) {
            (PostBody::Verbs(doorbell), FrameKind::Reply) => {
                part.from = part.from.answer(node, doorbell, AnsweredVerbs::UpTo(part.to), frame.body)?;
                if part.from.is_done(node, doorbell) {
                    self.end_part(key, None);
                } else {
                    self.send(key);
                }
            }
            (PostBody::Verbs(doorbell), FrameKind::Failed) => {
                part.from =
                    part.from.answer(node, doorbell, AnsweredVerbs::Count(frame.count), frame.body)?;
                self.failed(key, frame)?;
            }
            (PostBody::Control(words), FrameKind::Answer) => {
                match Code::from_byte(frame.code) {
                    None => *words = frame.words()?,
                    Some(code) => self.posts.fail(post, refused(node, self.client, code, frame.text())),
                }
                self.end_part(key, None);
            }
            _ => return Err(unexpected),
        }
        Ok(())
    }

    /// Handles the failure of the verb at the part's cursor.
    fn failed(&mut self, key: usize, frame: &Frame<'_>) -> Result<(), Malformed> {
        let part = &mut self.parts[key];
        let code = Code::from_byte(frame.code).ok_or(Malformed::Body)?;
        if code == Code::QueueFull {
            let now = monotonic_nanoseconds();
            part.retry_at = Some(now + QUEUE_FULL_PAUSE);
            part.deadline.get_or_insert(now + QUEUE_FULL_MAX);
            self.retries += 1;
            return Ok(());
        }
        let doorbell = self.posts.doorbell(part.post);
        let error = part.from.failed(part.node, doorbell, code).ok_or(Malformed::Body)?;
        self.posts.fail(part.post, error);
        self.end_part(key, None);
        Ok(())
    }

    /// Ends a part, and its post if it was the last part.
    fn end_part(&mut self, key: usize, why: Option<ConnectError>) {
        let part = self.parts.remove(key);
        self.posts.end_part(part.post, why.map(|why| (part.node, why)));
    }

    /// Ends the parts that were lost with a connection.
    fn fail_parts(&mut self, at: usize, why: &ConnectError, lost: LostFrames) {
        let generation = self.connections[at].generation;
        let lost_parts = |part: &Part| {
            usize::from(part.node.0) == at && (lost == LostFrames::All || part.generation < generation)
        };
        let lost_parts: Vec<usize> =
            self.parts.iter().filter(|(_, part)| lost_parts(part)).map(|(key, _)| key).collect();
        for key in lost_parts {
            self.retries -= usize::from(self.parts[key].retry_at.is_some());
            self.end_part(key, Some(why.clone()));
        }
    }
}

/// Converts the refusal of a control to the error of the fabric.
fn refused(node: NodeId, client: Option<ClientId>, code: Code, why: String) -> FabricError {
    match code {
        Code::NoMemory => FabricError::NoMemory { node, why },
        code => ConnectError::Refused(code, why).into_fabric_error(node, client),
    }
}
