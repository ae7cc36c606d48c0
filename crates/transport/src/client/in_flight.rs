//! The posts in flight on one thread's connections: the future that waits for each, and the memory nodes that have not
//! answered.

use super::error::ConnectError;
use super::post::{PostBody, Waiter};
use crate::fork::ForkCount;
use crate::runtime::{Progress, is_polled_by_executor, wake_at};
use crate::shm::monotonic_nanoseconds;
use farwood_fabric::{ClientId, Doorbell, FabricError, NodeId};
use slab::Slab;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// Exchanges without an answer before the thread yields. Together they take longer than a round trip to an idle memory
/// node, because a thread that yields on a busy machine is not scheduled again for milliseconds.
const IDLE_POLLS_MAX: u32 = 64;
/// Exchanges without an answer before a future of another executor pauses between its polls. They take some
/// milliseconds.
const BUSY_POLLS_MAX: u32 = 2_000;
/// The first of these pauses; each further one is longer by a sixteenth of it. Nanoseconds.
const PAUSE_FIRST: u64 = 60_000;
/// The longest of these pauses, nanoseconds.
const PAUSE_MAX: u64 = 2_000_000;

/// A post in flight.
struct Post {
    body: PostBody,
    /// Memory nodes that have not answered everything.
    nodes_left: usize,
    /// The first error.
    error: Option<FabricError>,
    waits: Waiter,
    /// The waker of a future whose executor polls the connections.
    waker: Option<Waker>,
}

impl std::fmt::Debug for Post {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Post").field("nodes_left", &self.nodes_left).finish_non_exhaustive()
    }
}

/// All posts in flight.
#[derive(Debug)]
pub(crate) struct InFlight {
    all: Slab<Post>,
    client: Option<ClientId>,
    /// Posts that a future waits for.
    awaited: usize,
    /// Polls since the last exchange.
    polls: usize,
    /// Exchanges by waiting clients since the last answer.
    idle_polls: u32,
    /// Parts that have ended.
    ended: u64,
    /// Parts that are in flight.
    parts: usize,
    /// The process that posts: a forked child has copies of its sockets and queue pairs, and must not use them.
    forks: ForkCount,
}

impl InFlight {
    /// No posts yet.
    pub(crate) fn new(client: Option<ClientId>) -> Self {
        let forks = ForkCount::now();
        Self { all: Slab::new(), client, awaited: 0, polls: 0, idle_polls: 0, ended: 0, parts: 0, forks }
    }

    /// Starts a post without parts. It stays incomplete until [`seal`](Self::seal).
    #[inline]
    pub(crate) fn begin(&mut self, body: PostBody, waits: Waiter) -> usize {
        self.awaited += usize::from(matches!(waits, Waiter::Future));
        self.all.insert(Post { body, nodes_left: 1, error: None, waits, waker: None })
    }

    /// Adds a memory node that has to answer.
    #[inline]
    pub(crate) fn begin_part(&mut self, key: usize) {
        self.all[key].nodes_left += 1;
        self.parts += 1;
    }

    /// Marks a post as having all of its parts.
    #[inline]
    pub(crate) fn seal(&mut self, key: usize) {
        self.all[key].nodes_left -= 1;
        self.release_if_done(key);
    }

    /// Returns the first request of a doorbell, from `from` on, for a memory node that no earlier request
    /// addresses.
    #[inline]
    pub(crate) fn next_node(&self, key: usize, from: usize) -> Option<(usize, NodeId)> {
        let PostBody::Verbs(doorbell) = &self.all[key].body else { return None };
        let requests = doorbell.requests();
        (from..requests.len()).find_map(|at| {
            let node = requests[at].at.node();
            let new = requests[..at].iter().all(|request| request.at.node() != node);
            new.then_some((at, node))
        })
    }

    /// Returns the content of a post.
    #[inline]
    pub(crate) fn body(&mut self, key: usize) -> &mut PostBody {
        &mut self.all[key].body
    }

    /// Returns the doorbell of a post.
    #[inline]
    pub(crate) fn doorbell(&mut self, key: usize) -> &mut Doorbell {
        match &mut self.all[key].body {
            PostBody::Verbs(doorbell) => doorbell,
            PostBody::Control(_) => unreachable!("a control is not a doorbell"),
        }
    }

    /// Records the first error of a post.
    pub(crate) fn fail(&mut self, key: usize, error: FabricError) {
        self.all[key].error.get_or_insert(error);
    }

    /// Ends the part of one memory node.
    pub(crate) fn end_part(&mut self, key: usize, why: Option<(NodeId, ConnectError)>) {
        self.ended += 1;
        self.parts -= 1;
        let post = &mut self.all[key];
        post.nodes_left -= 1;
        if let Some((node, why)) = why {
            let client = self.client;
            post.error.get_or_insert_with(|| why.into_fabric_error(node, client));
        }
        if post.nodes_left == 0
            && let Some(waker) = post.waker.take()
        {
            waker.wake();
        }
        self.release_if_done(key);
    }

    /// Removes a completed post that no future waits for.
    fn release_if_done(&mut self, key: usize) {
        let post = &mut self.all[key];
        if post.nodes_left > 0 || matches!(post.waits, Waiter::Future) {
            return;
        }
        let post = self.all.remove(key);
        if let (Waiter::Detached(error_slot), Some(error)) = (post.waits, post.error) {
            error_slot.replace(Some(error));
        }
    }

    /// Returns whether every memory node has answered everything, or whether this is a forked child, which gets no
    /// answers.
    pub(crate) fn are_done(&self) -> bool {
        self.parts == 0 || !self.are_own()
    }

    /// Returns whether this process has posted them; in a forked child, the parent has.
    pub(crate) fn are_own(&self) -> bool {
        self.forks.is_current()
    }

    /// Restarts the count of polls at an exchange.
    pub(crate) fn reset_polls(&mut self) {
        self.polls = 0;
    }
}

/// One thread's connections to a pool, as the futures that wait for posts use them.
pub(crate) trait PostDriver {
    /// Calls `work` with the posts in flight.
    fn with_posts<T>(&self, work: impl FnOnce(&mut InFlight) -> T) -> T;

    /// Sends, receives, and assigns answers to their posts, without waiting.
    fn exchange(&self);

    /// Sends what is queued.
    fn send_all(&self);

    /// Runs [`exchange`](Self::exchange) for an executor.
    fn advance(&self) -> Progress {
        let Some(ended) = self.with_posts(|posts| (!posts.are_done()).then_some(posts.ended)) else {
            return Progress::default();
        };
        self.exchange();
        // Posts that no future waits for must still be sent.
        self.with_posts(|posts| Progress { answered: posts.ended > ended, awaited: !posts.are_done() })
    }
}

/// A future that waits for a post. If it is dropped, the post is still executed.
pub(crate) struct Submission<'l, L: PostDriver> {
    driver: &'l L,
    /// `None` after completion.
    key: Option<usize>,
}

impl<'l, L: PostDriver> Submission<'l, L> {
    /// Waits for a post of `driver`.
    pub(crate) fn new(driver: &'l L, key: usize) -> Self {
        Self { driver, key: Some(key) }
    }
}

impl<L: PostDriver> Future for Submission<'_, L> {
    type Output = Result<PostBody, FabricError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let key = self.key.expect("a completed future must not be polled");
        let driver = self.driver;
        if !driver.with_posts(|posts| posts.are_own()) {
            self.key = None;
            return Poll::Ready(Err(FabricError::Forked));
        }
        let mut done = driver.with_posts(|posts| posts.take_done(key));
        if done.is_none() && is_polled_by_executor(context) {
            driver.with_posts(|posts| posts.all[key].waker = Some(context.waker().clone()));
            return Poll::Pending;
        }
        if done.is_none() && driver.with_posts(InFlight::should_exchange) {
            driver.exchange();
            done = driver.with_posts(|posts| posts.take_done(key));
            if done.is_none() && driver.with_posts(|posts| posts.idle_polls > IDLE_POLLS_MAX) {
                // The memory node, or Soft-RoCE, may need this processor.
                std::thread::yield_now();
            }
        }
        let Some(done) = done else {
            match driver.with_posts(|posts| posts.pause_ns()) {
                0 => context.waker().wake_by_ref(),
                pause => wake_at(monotonic_nanoseconds() + pause, context),
            }
            return Poll::Pending;
        };
        self.key = None;
        Poll::Ready(done)
    }
}

impl<L: PostDriver> Drop for Submission<'_, L> {
    fn drop(&mut self) {
        let Some(key) = self.key.filter(|_| self.driver.with_posts(|posts| posts.are_own())) else { return };
        self.driver.with_posts(|posts| {
            posts.awaited -= 1;
            posts.all[key].waits = Waiter::Gone;
            posts.release_if_done(key);
        });
        self.driver.send_all();
    }
}

impl InFlight {
    /// Takes a post that a future waits for, if it is complete.
    #[inline]
    fn take_done(&mut self, key: usize) -> Option<Result<PostBody, FabricError>> {
        if self.all[key].nodes_left > 0 {
            return None;
        }
        let post = self.all.remove(key);
        self.awaited -= 1;
        self.idle_polls = 0;
        Some(post.error.map_or(Ok(post.body), Err))
    }

    /// The pause before the next poll of a future whose executor does not poll the connections, nanoseconds.
    #[inline]
    fn pause_ns(&self) -> u64 {
        match self.idle_polls.saturating_sub(BUSY_POLLS_MAX) {
            0 => 0,
            polls => (PAUSE_FIRST + PAUSE_FIRST / 16 * u64::from(polls.min(1 << 10))).min(PAUSE_MAX),
        }
    }

    /// Returns whether this poll exchanges data: with `n` waiting clients, each `n`-th poll does.
    #[inline]
    fn should_exchange(&mut self) -> bool {
        self.polls += 1;
        let exchanges = self.polls >= self.awaited;
        self.idle_polls = self.idle_polls.saturating_add(u32::from(exchanges));
        exchanges
    }
}
