//! Posts under way on one thread's way to a pool: who waits for each, and which memory nodes have not answered.

use super::error::NoWay;
use super::post::{Cargo, Waits};
use crate::runtime::{Turned, is_turning};
use farwood_fabric::{ClientId, Doorbell, FabricError, NodeId};
use slab::Slab;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// Turns by those who wait, without an answer, before the thread gives way: longer than a round trip to a memory node
/// that has a processor, for whoever gives way on a busy machine is not back for milliseconds.
const LOOKS: u32 = 64;

/// A post under way.
struct Post {
    cargo: Cargo,
    /// Memory nodes that have not answered all of it.
    nodes_left: usize,
    /// The first thing that went wrong.
    error: Option<FabricError>,
    waits: Waits,
    /// Of a future whose executor turns the line.
    waker: Option<Waker>,
}

impl std::fmt::Debug for Post {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Post").field("nodes_left", &self.nodes_left).finish_non_exhaustive()
    }
}

/// All posts under way.
#[derive(Debug)]
pub(crate) struct Posts {
    all: Slab<Post>,
    client: Option<ClientId>,
    /// Posts that a future waits for.
    awaited: usize,
    /// Polls since the line was turned.
    polls: usize,
    /// Turns by those who wait since one of them had its answer.
    fruitless: u32,
    /// Parts that ended.
    ended: u64,
    /// Parts that did not.
    parts: usize,
}

impl Posts {
    /// None yet.
    pub(crate) fn new(client: Option<ClientId>) -> Self {
        Self { all: Slab::new(), client, awaited: 0, polls: 0, fruitless: 0, ended: 0, parts: 0 }
    }

    /// A post that has no parts yet. It is not over before [`begun`](Self::begun) says that it has all of them.
    #[inline]
    pub(crate) fn begin(&mut self, cargo: Cargo, waits: Waits) -> usize {
        self.awaited += usize::from(matches!(waits, Waits::Somebody));
        self.all.insert(Post { cargo, nodes_left: 1, error: None, waits, waker: None })
    }

    /// One more memory node has to answer.
    #[inline]
    pub(crate) fn begin_part(&mut self, key: usize) {
        self.all[key].nodes_left += 1;
        self.parts += 1;
    }

    /// A post has all of its parts.
    #[inline]
    pub(crate) fn begun(&mut self, key: usize) {
        self.all[key].nodes_left -= 1;
        self.settle(key);
    }

    /// The first request of a doorbell, from `from` on, whose memory node no request before it has.
    #[inline]
    pub(crate) fn next_node(&self, key: usize, from: usize) -> Option<(usize, NodeId)> {
        let Cargo::Verbs(doorbell) = &self.all[key].cargo else { return None };
        let requests = doorbell.requests();
        (from..requests.len()).find_map(|at| {
            let node = requests[at].at.node();
            let new = requests[..at].iter().all(|request| request.at.node() != node);
            new.then_some((at, node))
        })
    }

    /// What was posted.
    #[inline]
    pub(crate) fn cargo(&mut self, key: usize) -> &mut Cargo {
        &mut self.all[key].cargo
    }

    /// The doorbell that was posted.
    #[inline]
    pub(crate) fn doorbell(&mut self, key: usize) -> &mut Doorbell {
        match &mut self.all[key].cargo {
            Cargo::Verbs(doorbell) => doorbell,
            Cargo::Control(_) => unreachable!("a control is no doorbell"),
        }
    }

    /// Notes what went wrong, unless something did before.
    pub(crate) fn fail(&mut self, key: usize, error: FabricError) {
        self.all[key].error.get_or_insert(error);
    }

    /// A memory node has answered all of it, or will not.
    pub(crate) fn end_part(&mut self, key: usize, why: Option<(NodeId, NoWay)>) {
        self.ended += 1;
        self.parts -= 1;
        let post = &mut self.all[key];
        post.nodes_left -= 1;
        if let Some((node, why)) = why {
            let client = self.client;
            post.error.get_or_insert_with(|| why.of_node(node, client));
        }
        if post.nodes_left == 0
            && let Some(waker) = post.waker.take()
        {
            waker.wake();
        }
        self.settle(key);
    }

    /// Forgets a post that is over and that nobody waits for.
    fn settle(&mut self, key: usize) {
        let post = &mut self.all[key];
        if post.nodes_left > 0 || matches!(post.waits, Waits::Somebody) {
            return;
        }
        let post = self.all.remove(key);
        if let (Waits::Detached(complaint), Some(error)) = (post.waits, post.error) {
            complaint.replace(Some(error));
        }
    }

    /// Whether every memory node has answered all that it was asked.
    pub(crate) fn are_done(&self) -> bool {
        self.parts == 0
    }

    /// The line is turned.
    pub(crate) fn turns(&mut self) {
        self.polls = 0;
    }
}

/// A thread's way to a pool, as those who wait for their posts see it.
pub(crate) trait Turning {
    /// Does something with the posts under way.
    fn with_posts<T>(&self, work: impl FnOnce(&mut Posts) -> T) -> T;

    /// Sends, receives, and gives answers to their posts, without waiting.
    fn exchange(&self);

    /// Sends what waits, at once.
    fn send_all(&self);

    /// [`exchange`](Self::exchange) by an executor.
    fn turn(&self) -> Turned {
        let Some(ended) = self.with_posts(|posts| (!posts.are_done()).then_some(posts.ended)) else {
            return Turned::default();
        };
        self.exchange();
        // Posts that nobody waits for have to leave all the same.
        self.with_posts(|posts| Turned { answered: posts.ended > ended, waited_for: !posts.are_done() })
    }
}

/// A post that somebody waits for. Dropped, it lands all the same.
pub(crate) struct Submission<'l, L: Turning> {
    line: &'l L,
    /// `None` when it is over.
    key: Option<usize>,
}

impl<'l, L: Turning> Submission<'l, L> {
    /// Waits for a post on `line`.
    pub(crate) fn new(line: &'l L, key: usize) -> Self {
        Self { line, key: Some(key) }
    }
}

impl<L: Turning> Future for Submission<'_, L> {
    type Output = Result<Cargo, FabricError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let key = self.key.expect("nobody polls a future that is done");
        let line = self.line;
        let mut done = line.with_posts(|posts| posts.take_done(key));
        if done.is_none() && is_turning(context) {
            line.with_posts(|posts| posts.all[key].waker = Some(context.waker().clone()));
            return Poll::Pending;
        }
        if done.is_none() && line.with_posts(Posts::is_turned_now) {
            line.exchange();
            done = line.with_posts(|posts| posts.take_done(key));
            if done.is_none() && line.with_posts(|posts| posts.fruitless > LOOKS) {
                // The memory node, or Soft-RoCE, may want this very processor.
                std::thread::yield_now();
            }
        }
        let Some(done) = done else {
            context.waker().wake_by_ref();
            return Poll::Pending;
        };
        self.key = None;
        Poll::Ready(done)
    }
}

impl<L: Turning> Drop for Submission<'_, L> {
    fn drop(&mut self) {
        let Some(key) = self.key else { return };
        self.line.with_posts(|posts| {
            posts.awaited -= 1;
            posts.all[key].waits = Waits::Nobody;
            posts.settle(key);
        });
        self.line.send_all();
    }
}

impl Posts {
    /// Takes a post that somebody waits for, if it is over.
    #[inline]
    fn take_done(&mut self, key: usize) -> Option<Result<Cargo, FabricError>> {
        if self.all[key].nodes_left > 0 {
            return None;
        }
        let post = self.all.remove(key);
        self.awaited -= 1;
        self.fruitless = 0;
        Some(post.error.map_or(Ok(post.cargo), Err))
    }

    /// Whether whoever polls now turns the line: of `n` waiting clients each `n`-th poll does.
    #[inline]
    fn is_turned_now(&mut self) -> bool {
        self.polls += 1;
        let turned = self.polls >= self.awaited;
        self.fruitless = self.fruitless.saturating_add(u32::from(turned));
        turned
    }
}
