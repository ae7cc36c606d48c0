//! One thread's way to a pool: a connection to each memory node, shared by all clients of the thread.
//!
//! Doorbells become frames in a buffer for each memory node. They leave together with those of the thread's other
//! clients, in one system call, when the line is turned: by the thread's executor, if it is one of
//! [ours](crate::runtime), which then polls only those who have an answer; or else by whoever waits, of `n` waiting
//! clients by each `n`-th poll. Answers find their doorbell by the tag of their frame, so no client waits for another's
//! answer.

use super::connection::{Link, News};
use super::encode::{Cursor, Verbs, is_large};
use crate::client::endpoints::Reach;
use crate::client::error::NoWay;
use crate::client::in_flight::{Posts, Submission, Turning};
use crate::client::post::{Cargo, Waits};
use crate::client::timeouts::FAREWELL_MAX;
use crate::client::transport::{Carrier, Way, Ways};
use crate::runtime::{Crank, Turned, add_crank};
use crate::shm::monotonic_nanoseconds;
use crate::wire::VERB_DATA_MAX;
use crate::wire::{Code, Control, Frame, Kind, Malformed, put_words};
use farwood_fabric::{Capabilities, ClientId, Doorbell, FabricError, NodeId};
use slab::Slab;
use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Instant;

/// How long a sender waits for room in a server's queue of immediates, nanoseconds.
const PATIENCE: u64 = 10_000_000_000;
/// How long it waits before it tries again, nanoseconds.
const AGAIN: u64 = 50_000;

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

/// The verbs of a post for one memory node.
#[derive(Debug)]
struct Part {
    post: usize,
    node: NodeId,
    /// What the frame under way holds.
    from: Cursor,
    to: Cursor,
    era: u64,
    /// When to send it again: its server's queue was full.
    again: Option<u64>,
    /// When to give up, since the queue was full for the first time.
    patience: Option<u64>,
}

/// A thread's way to a pool.
#[derive(Debug)]
pub struct Line {
    reach: Arc<Reach>,
    client: Option<ClientId>,
    number: u64,
    state: RefCell<State>,
}

#[derive(Debug)]
struct State {
    links: Vec<Link>,
    posts: Posts,
    parts: Slab<Part>,
    /// Parts to be sent again.
    retries: usize,
    client: Option<ClientId>,
}

impl Line {
    /// A line of `client`, or of a compute node that has no identity yet, or none any more. `number` is unlike that of
    /// the client's other lines.
    pub(crate) fn new(reach: Arc<Reach>, client: Option<ClientId>, number: u64) -> Rc<Self> {
        let state = State {
            links: (0..reach.shape.nodes).map(|node| Link::new(NodeId(node))).collect(),
            posts: Posts::new(client),
            parts: Slab::new(),
            retries: 0,
            client,
        };
        let line = Rc::new(Self { reach, client, number, state: RefCell::new(state) });
        let crank: Weak<Self> = Rc::downgrade(&line);
        add_crank(crank);
        line
    }

    /// Hands a doorbell over, every request of which is to a memory node of the pool.
    fn put(&self, doorbell: Doorbell, waits: Waits) -> usize {
        let state = &mut *self.state.borrow_mut();
        let key = state.posts.begin(Cargo::Verbs(doorbell), waits);
        // Without allocation: a doorbell is for few memory nodes, mostly one.
        let mut from = 0;
        while let Some((at, node)) = state.posts.next_node(key, from) {
            from = at + 1;
            let part = state.part(key, node);
            match state.links[usize::from(node.0)].prepare(&self.reach, self.client, self.number) {
                Ok(()) => state.send(part),
                Err(why) => state.end_part(part, Some(why)),
            }
        }
        state.posts.begun(key);
        key
    }

    /// Asks memory node `node` for something that is no verb.
    pub(crate) async fn ask(
        &self,
        node: NodeId,
        control: Control,
        words: [u64; 4],
    ) -> Result<[u64; 4], FabricError> {
        let key = {
            let state = &mut *self.state.borrow_mut();
            let key = state.posts.begin(Cargo::Control([0; 4]), Waits::Somebody);
            let part = state.part(key, node);
            let link = &mut state.links[usize::from(node.0)];
            match link.prepare(&self.reach, self.client, self.number) {
                Ok(()) => {
                    put_words(&mut link.out, Kind::Control, control as u8, part as u64, words);
                    link.asks();
                }
                Err(why) => state.end_part(part, Some(why)),
            }
            state.posts.begun(key);
            key
        };
        match Submission::new(self, key).await? {
            Cargo::Control(words) => Ok(words),
            Cargo::Verbs(_) => unreachable!("a control is no doorbell"),
        }
    }

    /// Sends, receives, and gives answers to their doorbells, without waiting.
    fn exchange_all(&self, state: &mut State) {
        state.posts.turns();
        if state.retries > 0 {
            state.retry();
        }
        for at in 0..state.links.len() {
            let link = &mut state.links[at];
            if link.is_idle() {
                continue;
            }
            match link.turn(&self.reach, self.client, self.number) {
                News::Fine => {
                    if let Err(why) = state.hear(at) {
                        state.links[at].break_off(why, &self.reach, self.client, self.number);
                    }
                }
                News::Broke | News::Up(None) => {}
                News::Up(Some(why)) => state.lose(at, &NoWay::Lost(why), Lost::Earlier),
                News::NoWay(why) => state.lose(at, &why, Lost::All),
            }
        }
    }

    /// Waits for what is under way, within a bounded time.
    fn end(&self) {
        let end = Instant::now() + FAREWELL_MAX;
        loop {
            let state = &mut *self.state.borrow_mut();
            if state.parts.is_empty() || Instant::now() > end {
                return;
            }
            self.exchange_all(state);
            std::thread::yield_now();
        }
    }
}

thread_local! {
    /// This thread's lines, by attachment.
    static LINES: Ways<Line> = const { RefCell::new(Vec::new()) };
}

impl Way for Line {}

impl Carrier for Line {
    type Ground = ();
    const MEMORY_IS_REAL: bool = false;
    const SCHEME: &'static str = "tcp";

    fn new(_: &Arc<()>, reach: Arc<Reach>, client: Option<ClientId>, number: u64) -> Rc<Self> {
        Self::new(reach, client, number)
    }

    fn capabilities((): &()) -> &Capabilities {
        &CAPABILITIES
    }

    fn with_ways<T>(work: impl FnOnce(&Ways<Self>) -> T) -> Option<T> {
        LINES.try_with(work).ok()
    }

    /// The memory nodes check what they are asked for, and say which verb of a frame was wrong.
    #[inline]
    fn checks_all(doorbell: &Doorbell) -> bool {
        is_large(doorbell)
    }

    #[inline]
    fn post(&self, doorbell: Doorbell, waits: Waits) -> usize {
        self.put(doorbell, waits)
    }

    #[inline]
    async fn wait(&self, post: usize) -> Result<Doorbell, FabricError> {
        match Submission::new(self, post).await? {
            Cargo::Verbs(doorbell) => Ok(doorbell),
            Cargo::Control(_) => unreachable!("a doorbell is no control"),
        }
    }

    fn flush(&self) {
        self.send_all();
    }

    fn finish(&self) {
        self.end();
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

impl Crank for Line {
    fn crank(&self) -> Turned {
        self.turn()
    }
}

impl Turning for Line {
    #[inline]
    fn with_posts<T>(&self, work: impl FnOnce(&mut Posts) -> T) -> T {
        work(&mut self.state.borrow_mut().posts)
    }

    fn exchange(&self) {
        self.exchange_all(&mut self.state.borrow_mut());
    }

    fn send_all(&self) {
        for link in &mut self.state.borrow_mut().links {
            // What goes wrong shows at the next turn.
            let _ = link.flush();
        }
    }
}

impl Drop for Line {
    /// What was posted and not waited for lands all the same.
    fn drop(&mut self) {
        self.end();
    }
}

/// Which frames are lost with a link.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lost {
    /// Those from before it broke.
    Earlier,
    /// All.
    All,
}

impl State {
    fn part(&mut self, post: usize, node: NodeId) -> usize {
        self.posts.begin_part(post);
        let (from, to) = (Cursor::default(), Cursor::default());
        let era = self.links[usize::from(node.0)].era;
        self.parts.insert(Part { post, node, from, to, era, again: None, patience: None })
    }

    /// Puts the next frame of a part into its link's buffer.
    fn send(&mut self, key: usize) {
        let part = &mut self.parts[key];
        let doorbell = self.posts.doorbell(part.post);
        let link = &mut self.links[usize::from(part.node.0)];
        part.era = link.era;
        part.to = part.from.encode(part.node, doorbell, key as u64, &mut link.out);
        link.asks();
        link.send_early();
    }

    /// Sends again what a full queue refused, if it is time.
    fn retry(&mut self) {
        let now = monotonic_nanoseconds();
        let due = |part: &Part| part.again.is_some_and(|at| now >= at);
        let due: Vec<usize> = self.parts.iter().filter(|(_, part)| due(part)).map(|(key, _)| key).collect();
        for key in due {
            self.retries -= 1;
            let part = &mut self.parts[key];
            part.again = None;
            if part.patience.is_some_and(|end| now > end) {
                self.end_part(key, Some(NoWay::Lost("its server takes no messages".to_owned())));
            } else {
                self.send(key);
            }
        }
    }

    /// Takes in the frames that a link has received.
    fn hear(&mut self, at: usize) -> Result<(), String> {
        let mut input = std::mem::take(&mut self.links[at].input);
        let heard = loop {
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
        self.links[at].input = input;
        heard
    }

    /// Gives an answer to the part that it is for.
    fn answer(&mut self, at: usize, frame: &Frame<'_>) -> Result<(), Malformed> {
        let out_of_turn = Malformed::Turn(frame.kind);
        let key = usize::try_from(frame.tag).map_err(|_| out_of_turn)?;
        let known = |part: &&mut Part| usize::from(part.node.0) == at;
        let part = self.parts.get_mut(key).filter(known).ok_or(out_of_turn)?;
        if !self.links[at].answered() {
            return Err(out_of_turn);
        }
        let (node, post) = (part.node, part.post);
        match (self.posts.cargo(post), frame.kind) {
            (Cargo::Verbs(doorbell), Kind::Reply) => {
                part.from = part.from.answer(node, doorbell, Verbs::UpTo(part.to), frame.body)?;
                if part.from.is_done(node, doorbell) {
                    self.end_part(key, None);
                } else {
                    self.send(key);
                }
            }
            (Cargo::Verbs(doorbell), Kind::Failed) => {
                part.from = part.from.answer(node, doorbell, Verbs::Count(frame.count), frame.body)?;
                self.failed(key, frame)?;
            }
            (Cargo::Control(words), Kind::Answer) => {
                match Code::from_byte(frame.code) {
                    None => *words = frame.words()?,
                    Some(code) => self.posts.fail(post, refused(node, self.client, code, frame.text())),
                }
                self.end_part(key, None);
            }
            _ => return Err(out_of_turn),
        }
        Ok(())
    }

    /// The verb where a part stands now was not executed.
    fn failed(&mut self, key: usize, frame: &Frame<'_>) -> Result<(), Malformed> {
        let part = &mut self.parts[key];
        let code = Code::from_byte(frame.code).ok_or(Malformed::Body)?;
        if code == Code::QueueFull {
            let now = monotonic_nanoseconds();
            part.again = Some(now + AGAIN);
            part.patience.get_or_insert(now + PATIENCE);
            self.retries += 1;
            return Ok(());
        }
        let misaligned = code == Code::Misaligned;
        let doorbell = self.posts.doorbell(part.post);
        let error = part.from.failed(part.node, doorbell, misaligned).ok_or(Malformed::Body)?;
        self.posts.fail(part.post, error);
        self.end_part(key, None);
        Ok(())
    }

    /// Ends a part, well or not; and its post, if it was the last.
    fn end_part(&mut self, key: usize, why: Option<NoWay>) {
        let part = self.parts.remove(key);
        self.posts.end_part(part.post, why.map(|why| (part.node, why)));
    }

    /// What was asked over a link has no answer.
    fn lose(&mut self, at: usize, why: &NoWay, lost: Lost) {
        let era = self.links[at].era;
        let gone = |part: &Part| usize::from(part.node.0) == at && (lost == Lost::All || part.era < era);
        let gone: Vec<usize> = self.parts.iter().filter(|(_, part)| gone(part)).map(|(key, _)| key).collect();
        for key in gone {
            self.retries -= usize::from(self.parts[key].again.is_some());
            self.end_part(key, Some(why.clone()));
        }
    }
}

/// What a control's refusal is to whoever asked.
fn refused(node: NodeId, client: Option<ClientId>, code: Code, why: String) -> FabricError {
    match code {
        Code::NoMemory => FabricError::NoMemory { node, why },
        code => NoWay::Refused(code, why).of_node(node, client),
    }
}
