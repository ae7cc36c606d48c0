//! One thread's way to a pool: a connection to each memory node, shared by all clients of the thread.
//!
//! Doorbells become frames in a buffer for each memory node. They leave together with those of the thread's other
//! clients, in one system call: whoever waits turns the crank, and with `n` waiting clients only each `n`-th poll does.
//! Answers find their doorbell by the tag of their frame, so no client waits for another's answer.

use super::error::NoWay;
use super::link::{Link, News};
use super::post::{Cargo, Cursor, Post, Verbs, Waits};
use super::reach::Reach;
use super::wire::{Code, Control, Frame, Kind, Malformed, put_words};
use crate::runtime::note_answer;
use crate::shm::monotonic_nanoseconds;
use farwood_fabric::{ClientId, Doorbell, FabricError, NodeId};
use slab::Slab;
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// How long a sender waits for room in a server's queue of immediates, nanoseconds.
const PATIENCE: u64 = 10_000_000_000;
/// How long it waits before it tries again, nanoseconds.
const AGAIN: u64 = 50_000;
/// Turns of the crank without an answer before the thread gives way: longer than a round trip to a memory node that
/// has a processor, for whoever gives way on a busy machine is not back for milliseconds.
const LOOKS: u32 = 64;
/// How long a line that ends waits for the answers to what was posted.
const FAREWELL_MAX: Duration = Duration::from_secs(2);

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
pub(super) struct Line {
    reach: Arc<Reach>,
    client: Option<ClientId>,
    number: u64,
    state: RefCell<State>,
}

#[derive(Debug)]
struct State {
    links: Vec<Link>,
    posts: Slab<Post>,
    parts: Slab<Part>,
    /// Posts that a future waits for.
    awaited: usize,
    /// Polls since the crank was turned.
    polls: usize,
    /// Turns of the crank since a future had its answer.
    fruitless: u32,
    /// Parts to be sent again.
    retries: usize,
    client: Option<ClientId>,
}

impl Line {
    /// A line of `client`, or of a compute node that has no identity yet, or none any more. `number` is unlike that of
    /// the client's other lines.
    pub(super) fn new(reach: Arc<Reach>, client: Option<ClientId>, number: u64) -> Self {
        let state = State {
            links: (0..reach.shape.nodes).map(|node| Link::new(NodeId(node))).collect(),
            posts: Slab::new(),
            parts: Slab::new(),
            awaited: 0,
            polls: 0,
            fruitless: 0,
            retries: 0,
            client,
        };
        Self { reach, client, number, state: RefCell::new(state) }
    }

    /// Hands a doorbell over, every request of which is to a memory node of the pool.
    pub(super) fn post(&self, doorbell: Doorbell, waits: Waits) -> usize {
        let state = &mut *self.state.borrow_mut();
        state.awaited += usize::from(matches!(waits, Waits::Somebody));
        let post = Post { cargo: Cargo::Verbs(doorbell), nodes_left: 0, error: None, waits };
        let key = state.posts.insert(post);
        // Without allocation: a doorbell is for few memory nodes, mostly one.
        let mut from = 0;
        while let Some((at, node)) = state.next_node(key, from) {
            from = at + 1;
            state.posts[key].nodes_left += 1;
            let part = state.part(key, node);
            match state.links[usize::from(node.0)].prepare(&self.reach, self.client, self.number) {
                Ok(()) => state.send(part),
                Err(why) => state.end_part(part, Some(why)),
            }
        }
        state.settle(key);
        key
    }

    /// Sends what waits, at once.
    pub(super) fn flush(&self) {
        for link in &mut self.state.borrow_mut().links {
            // What goes wrong shows at the next turn.
            let _ = link.flush();
        }
    }

    /// Asks memory node `node` for something that is no verb.
    pub(super) async fn control(
        &self,
        node: NodeId,
        control: Control,
        words: [u64; 4],
    ) -> Result<[u64; 4], FabricError> {
        let key = {
            let state = &mut *self.state.borrow_mut();
            state.awaited += 1;
            let (cargo, waits) = (Cargo::Control([0; 4]), Waits::Somebody);
            let key = state.posts.insert(Post { cargo, nodes_left: 1, error: None, waits });
            let part = state.part(key, node);
            let link = &mut state.links[usize::from(node.0)];
            match link.prepare(&self.reach, self.client, self.number) {
                Ok(()) => {
                    put_words(&mut link.out, Kind::Control, control as u8, part as u64, words);
                    link.asks();
                }
                Err(why) => state.end_part(part, Some(why)),
            }
            key
        };
        match (Submission { line: self, key: Some(key) }).await? {
            Cargo::Control(words) => Ok(words),
            Cargo::Verbs(_) => unreachable!("a control is no doorbell"),
        }
    }

    /// Waits for a post.
    pub(super) fn wait(&self, key: usize) -> Submission<'_> {
        Submission { line: self, key: Some(key) }
    }

    /// Sends, receives, and gives answers to their doorbells, without waiting.
    fn crank(&self, state: &mut State) {
        state.polls = 0;
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
    pub(super) fn finish(&self) {
        let end = Instant::now() + FAREWELL_MAX;
        loop {
            let state = &mut *self.state.borrow_mut();
            if state.parts.is_empty() || Instant::now() > end {
                return;
            }
            self.crank(state);
            std::thread::yield_now();
        }
    }
}

impl Drop for Line {
    /// What was posted and not waited for lands all the same.
    fn drop(&mut self) {
        self.finish();
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
    /// The first request of a doorbell, from `from` on, whose memory node no request before it has.
    fn next_node(&self, key: usize, from: usize) -> Option<(usize, NodeId)> {
        let Cargo::Verbs(doorbell) = &self.posts[key].cargo else { return None };
        let requests = doorbell.requests();
        (from..requests.len()).find_map(|at| {
            let node = requests[at].at.node();
            let new = requests[..at].iter().all(|request| request.at.node() != node);
            new.then_some((at, node))
        })
    }

    fn part(&mut self, post: usize, node: NodeId) -> usize {
        let (from, to) = (Cursor::default(), Cursor::default());
        let era = self.links[usize::from(node.0)].era;
        self.parts.insert(Part { post, node, from, to, era, again: None, patience: None })
    }

    /// Puts the next frame of a part into its link's buffer.
    fn send(&mut self, key: usize) {
        let part = &mut self.parts[key];
        let Cargo::Verbs(doorbell) = &self.posts[part.post].cargo else {
            unreachable!("only doorbells have several frames");
        };
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
        let (node, post) = (part.node, &mut self.posts[part.post]);
        match (&mut post.cargo, frame.kind) {
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
                    Some(code) => post.error = Some(refused(node, self.client, code, frame.text())),
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
        let post = &mut self.posts[part.post];
        let Cargo::Verbs(doorbell) = &post.cargo else { unreachable!("only verbs fail") };
        let misaligned = code == Code::Misaligned;
        let error = part.from.failed(part.node, doorbell, misaligned).ok_or(Malformed::Body)?;
        post.error.get_or_insert(error);
        self.end_part(key, None);
        Ok(())
    }

    /// Ends a part, well or not; and its post, if it was the last.
    fn end_part(&mut self, key: usize, why: Option<NoWay>) {
        let part = self.parts.remove(key);
        let post = &mut self.posts[part.post];
        post.nodes_left -= 1;
        if let Some(why) = why {
            let client = self.client;
            post.error.get_or_insert_with(|| why.of_node(part.node, client));
        }
        self.settle(part.post);
    }

    /// Forgets a post that is over and that nobody waits for.
    fn settle(&mut self, key: usize) {
        let post = &mut self.posts[key];
        if post.nodes_left > 0 || matches!(post.waits, Waits::Somebody) {
            return;
        }
        let post = self.posts.remove(key);
        if let (Waits::Detached(complaint), Some(error)) = (post.waits, post.error) {
            complaint.replace(Some(error));
        }
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

/// A post that somebody waits for. Dropped, it lands all the same.
pub(super) struct Submission<'l> {
    line: &'l Line,
    /// `None` when it is over.
    key: Option<usize>,
}

impl Future for Submission<'_> {
    type Output = Result<Cargo, FabricError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let key = self.key.expect("nobody polls a future that is done");
        let state = &mut *self.line.state.borrow_mut();
        if state.posts[key].nodes_left > 0 {
            state.polls += 1;
            if state.polls >= state.awaited {
                self.line.crank(state);
            }
        }
        if state.posts[key].nodes_left > 0 {
            if state.polls == 0 {
                state.fruitless = state.fruitless.saturating_add(1);
                if state.fruitless > LOOKS {
                    // The memory node may want this very processor.
                    std::thread::yield_now();
                }
            }
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let post = state.posts.remove(key);
        state.awaited -= 1;
        state.fruitless = 0;
        self.key = None;
        note_answer();
        Poll::Ready(post.error.map_or(Ok(post.cargo), Err))
    }
}

impl Drop for Submission<'_> {
    fn drop(&mut self) {
        let Some(key) = self.key else { return };
        let mut state = self.line.state.borrow_mut();
        state.awaited -= 1;
        state.posts[key].waits = Waits::Nobody;
        state.settle(key);
        drop(state);
        self.line.flush();
    }
}
