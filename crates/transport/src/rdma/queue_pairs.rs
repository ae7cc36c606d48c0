//! One thread's way to a pool: a queue pair at each memory node, shared by clients of the thread; all of them, unless
//! there are to be more queue pairs, and so more ways.
//!
//! Doorbells are posted at once, as far as the send queues have room. Whoever waits looks for completions; with `n`
//! waiting clients only each `n`-th poll does. What is no verb goes over TCP, on a connection of its own that is made
//! when it is needed.

use super::arena::Arena;
use super::node_queue_pair::{Dial, Doorbells, Link, News, Stretch};
use super::shared::Ground;
use crate::client::endpoints::Reach;
use crate::client::error::NoWay;
use crate::client::framed::Line;
use crate::client::in_flight::{Posts, Submission, Turning};
use crate::client::post::{Cargo, Waits};
use crate::client::timeouts::FAREWELL_MAX;
use crate::client::transport::{Carrier, Way, Ways};
use crate::runtime::{Crank, Turned, add_crank};
use crate::wire::Control;
use farwood_fabric::{Capabilities, ClientId, Doorbell, FabricError, NodeId};
use slab::Slab;
use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Instant;

/// What the number of a line's connection for controls has besides the line's own.
const CONTROLS: u64 = 1 << 63;

/// A thread's way to a pool.
#[derive(Debug)]
pub struct QueueLine {
    ground: Arc<Ground>,
    reach: Arc<Reach>,
    client: Option<ClientId>,
    number: u64,
    controls: Rc<Line>,
    state: RefCell<State>,
}

#[derive(Debug)]
struct State {
    // Before the arena: queue pairs end before the memory that they name.
    links: Vec<Link>,
    arena: Arena,
    parts: Parts,
}

/// Posts, and their parts for one memory node each.
#[derive(Debug)]
struct Parts {
    posts: Posts,
    /// The post of each.
    all: Slab<usize>,
}

impl Doorbells for Parts {
    fn of(&mut self, part: usize) -> &mut Doorbell {
        self.posts.doorbell(self.all[part])
    }

    fn done(&mut self, part: usize) {
        self.end(part, None);
    }

    fn failed(&mut self, part: usize, node: NodeId, why: NoWay) {
        self.end(part, Some((node, why)));
    }
}

impl Parts {
    /// Ends a part, well or not; and its post, if it was the last.
    fn end(&mut self, part: usize, why: Option<(NodeId, NoWay)>) {
        let post = self.all.remove(part);
        self.posts.end_part(post, why);
    }
}

impl QueueLine {
    fn dial(&self) -> Dial<'_> {
        Dial { ground: &self.ground, reach: &self.reach, client: self.client, number: self.number }
    }

    /// Sends, takes completions, and gives answers to their doorbells, without waiting.
    fn exchange_all(&self, state: &mut State) {
        state.parts.posts.turns();
        let State { links, arena, parts, .. } = state;
        for link in links {
            if link.is_idle() {
                continue;
            }
            match link.turn(&self.dial(), arena, parts) {
                News::Fine => {}
                News::Up(why) => {
                    let node = link.node();
                    for part in link.lost.drain(..) {
                        parts.end(part, Some((node, NoWay::Lost(why.clone()))));
                    }
                }
                News::NoWay(why) => {
                    let node = link.node();
                    let waiting = link.waiting.drain(..).map(|stretch| stretch.part);
                    for part in link.lost.drain(..).chain(waiting) {
                        parts.end(part, Some((node, why.clone())));
                    }
                }
            }
        }
    }

    /// Waits for what is under way, within a bounded time.
    fn end(&self) {
        let end = Instant::now() + FAREWELL_MAX;
        loop {
            let state = &mut *self.state.borrow_mut();
            if state.parts.posts.are_done() || Instant::now() > end {
                return;
            }
            self.exchange_all(state);
            std::thread::yield_now();
        }
    }
}

thread_local! {
    /// This thread's lines, by attachment.
    static LINES: Ways<QueueLine> = const { RefCell::new(Vec::new()) };
}

impl Way for QueueLine {}

impl Carrier for QueueLine {
    type Ground = Ground;
    /// The card has pinned it.
    const MEMORY_IS_REAL: bool = true;
    const SCHEME: &'static str = "rdma";

    fn new(ground: &Arc<Ground>, reach: Arc<Reach>, client: Option<ClientId>, number: u64) -> Rc<Self> {
        let state = State {
            links: (0..reach.shape.nodes).map(|node| Link::new(NodeId(node))).collect(),
            arena: Arena::new(Arc::clone(&ground.device.domain)),
            parts: Parts { posts: Posts::new(client), all: Slab::new() },
        };
        let line = Rc::new(Self {
            ground: Arc::clone(ground),
            controls: Line::new(Arc::clone(&reach), client, number | CONTROLS),
            reach,
            client,
            number,
            state: RefCell::new(state),
        });
        let crank: Weak<Self> = Rc::downgrade(&line);
        add_crank(crank);
        line
    }

    fn capabilities(ground: &Ground) -> &Capabilities {
        &ground.capabilities
    }

    fn with_ways<T>(work: impl FnOnce(&Ways<Self>) -> T) -> Option<T> {
        LINES.try_with(work).ok()
    }

    /// A card that refuses a request ends its queue pair, and all that is under way on it.
    #[inline]
    fn checks_all(_: &Doorbell) -> bool {
        true
    }

    fn post(&self, doorbell: Doorbell, waits: Waits) -> usize {
        let State { links, arena, parts } = &mut *self.state.borrow_mut();
        let key = parts.posts.begin(Cargo::Verbs(doorbell), waits);
        // Without allocation: a doorbell is for few memory nodes, mostly one.
        let mut from = 0;
        while let Some((at, node)) = parts.posts.next_node(key, from) {
            from = at + 1;
            parts.posts.begin_part(key);
            let part = parts.all.insert(key);
            let link = &mut links[usize::from(node.0)];
            link.prepare(&self.dial());
            link.waiting.push_back(Stretch { part, from: at });
            link.send(arena, parts);
        }
        parts.posts.begun(key);
        key
    }

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
        self.controls.ask(node, control, words).await
    }
}

impl Crank for QueueLine {
    fn crank(&self) -> Turned {
        self.turn()
    }
}

impl Turning for QueueLine {
    #[inline]
    fn with_posts<T>(&self, work: impl FnOnce(&mut Posts) -> T) -> T {
        work(&mut self.state.borrow_mut().parts.posts)
    }

    fn exchange(&self) {
        self.exchange_all(&mut self.state.borrow_mut());
    }

    /// Everything left when it was posted, or waits for room.
    fn send_all(&self) {}
}

impl Drop for QueueLine {
    /// What was posted and not waited for lands all the same.
    fn drop(&mut self) {
        self.end();
    }
}
