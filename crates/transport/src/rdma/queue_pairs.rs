//! One thread's queue pairs: one at each memory node, shared by clients of the thread. `queue-pairs=N` gives
//! a thread up to N such sets.
//!
//! Doorbells are posted at once if the send queues have free slots. Waiting clients poll for completions; of `n`
//! waiting clients only each `n`-th poll does. Controls use separate connections that carry frames, which are opened on
//! demand.

use super::arena::Arena;
use super::node_queue_pair::{ConnectParameters, Doorbells, NodeQueuePair, QueuePairEvent, WrRange};
use super::shared::RdmaShared;
use crate::client::endpoints::Endpoints;
use crate::client::error::ConnectError;
use crate::client::framed::FrameConnections;
use crate::client::in_flight::{InFlight, PostDriver, Submission};
use crate::client::post::{PostBody, Waiter};
use crate::client::transport::{ConnectionTable, ThreadConnections, VerbTransport};
use crate::runtime::{PollSource, Progress, add_poll_source};
use crate::wire::Control;
use farwood_fabric::{Capabilities, ClientId, Doorbell, FabricError, NodeId};
use slab::Slab;
use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::sync::Arc;

/// The bit that distinguishes the number of the control connections from that of the set.
const CONTROL_BIT: u64 = 1 << 63;

/// One thread's queue pairs at the memory nodes of a pool.
#[derive(Debug)]
pub struct QueuePairs {
    shared: Arc<RdmaShared>,
    endpoints: Arc<Endpoints>,
    client: Option<ClientId>,
    number: u64,
    controls: Rc<FrameConnections>,
    state: RefCell<State>,
}

#[derive(Debug)]
struct State {
    // Declared before the arena, so that queue pairs end before the memory that they refer to.
    pairs: Vec<NodeQueuePair>,
    arena: Arena,
    parts: Parts,
}

/// Posts, and their parts for one memory node each.
#[derive(Debug)]
struct Parts {
    posts: InFlight,
    /// The post of each part.
    all: Slab<usize>,
}

impl Doorbells for Parts {
    fn of(&mut self, part: usize) -> &mut Doorbell {
        self.posts.doorbell(self.all[part])
    }

    fn done(&mut self, part: usize) {
        self.end(part, None);
    }

    fn failed(&mut self, part: usize, node: NodeId, why: ConnectError) {
        self.end(part, Some((node, why)));
    }
}

impl Parts {
    /// Ends a part, and its post if it was the last part.
    fn end(&mut self, part: usize, why: Option<(NodeId, ConnectError)>) {
        let post = self.all.remove(part);
        self.posts.end_part(post, why);
    }
}

impl QueuePairs {
    fn parameters(&self) -> ConnectParameters<'_> {
        ConnectParameters {
            shared: &self.shared,
            endpoints: &self.endpoints,
            client: self.client,
            number: self.number,
        }
    }

    /// Sends, takes completions, and assigns answers to their doorbells, without waiting.
    fn exchange_all(&self, state: &mut State) {
        state.parts.posts.reset_polls();
        let State { pairs, arena, parts, .. } = state;
        for pair in pairs {
            if pair.is_idle() {
                continue;
            }
            match pair.advance(&self.parameters(), arena, parts) {
                QueuePairEvent::Unchanged => {}
                QueuePairEvent::Reconnected(why) => {
                    let node = pair.node();
                    for part in pair.lost.drain(..) {
                        parts.end(part, Some((node, ConnectError::Lost(why.clone()))));
                    }
                }
                QueuePairEvent::Failed(why) => {
                    let node = pair.node();
                    let waiting = pair.waiting.drain(..).map(|range| range.part);
                    for part in pair.lost.drain(..).chain(waiting) {
                        parts.end(part, Some((node, why.clone())));
                    }
                }
            }
        }
    }
}

thread_local! {
    /// This thread's sets, by attachment.
    static TABLE: ConnectionTable<QueuePairs> = const { RefCell::new(Vec::new()) };
}

impl VerbTransport for QueuePairs {}

impl ThreadConnections for QueuePairs {
    type Shared = RdmaShared;
    /// The device has pinned all memory.
    const MEMORY_IS_PROVISIONED: bool = true;
    const SCHEME: &'static str = "rdma";

    fn new(
        shared: &Arc<RdmaShared>,
        endpoints: Arc<Endpoints>,
        client: Option<ClientId>,
        number: u64,
    ) -> Rc<Self> {
        let state = State {
            pairs: (0..endpoints.shape().nodes).map(|node| NodeQueuePair::new(NodeId(node))).collect(),
            arena: Arena::new(Arc::clone(&shared.device.domain)),
            parts: Parts { posts: InFlight::new(client), all: Slab::new() },
        };
        let set = Rc::new(Self {
            shared: Arc::clone(shared),
            controls: FrameConnections::new(Arc::clone(&endpoints), client, number | CONTROL_BIT),
            endpoints,
            client,
            number,
            state: RefCell::new(state),
        });
        let source: Weak<Self> = Rc::downgrade(&set);
        add_poll_source(source);
        set
    }

    fn capabilities(shared: &RdmaShared) -> &Capabilities {
        &shared.capabilities
    }

    fn with_table<T>(work: impl FnOnce(&ConnectionTable<Self>) -> T) -> Option<T> {
        TABLE.try_with(work).ok()
    }

    /// A device that refuses a request ends its queue pair, and everything in flight on it.
    #[inline]
    fn checks_all(_: &Doorbell) -> bool {
        true
    }

    fn post(&self, doorbell: Doorbell, waits: Waiter) -> usize {
        let State { pairs, arena, parts } = &mut *self.state.borrow_mut();
        let key = parts.posts.begin(PostBody::Verbs(doorbell), waits);
        // No allocation: a doorbell addresses few memory nodes, mostly one.
        let mut from = 0;
        while let Some((at, node)) = parts.posts.next_node(key, from) {
            from = at + 1;
            parts.posts.begin_part(key);
            let part = parts.all.insert(key);
            let pair = &mut pairs[usize::from(node.0)];
            pair.prepare(&self.parameters());
            pair.waiting.push_back(WrRange { part, from: at });
            pair.send(arena, parts);
        }
        parts.posts.seal(key);
        key
    }

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
        self.controls.ask(node, control, words).await
    }
}

impl PollSource for QueuePairs {
    fn advance(&self) -> Progress {
        PostDriver::advance(self)
    }
}

impl PostDriver for QueuePairs {
    #[inline]
    fn with_posts<T>(&self, work: impl FnOnce(&mut InFlight) -> T) -> T {
        work(&mut self.state.borrow_mut().parts.posts)
    }

    fn exchange(&self) {
        self.exchange_all(&mut self.state.borrow_mut());
    }

    /// All requests were posted already, or wait for free slots.
    fn send_all(&self) {}
}

impl Drop for QueuePairs {
    /// Pending posts are executed even if no future waits for them. A forked child leaks its copies of the queue pairs.
    fn drop(&mut self) {
        let state = self.state.get_mut();
        if !state.parts.posts.are_own() {
            std::mem::forget(std::mem::take(&mut state.pairs));
            return;
        }
        self.drain();
    }
}
