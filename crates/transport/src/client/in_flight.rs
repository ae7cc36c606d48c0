//! The posts in flight on one thread's connections: the future that waits for each, and the memory nodes that have not
//! answered.

use super::error::ConnectError;
use super::post::{PostBody, Waiter};
use super::timeouts::DRAIN_MAX;
use crate::fork::ForkCount;
use crate::runtime::{IdlePolls, Progress, TaskTimer, is_polled_by_executor};
use farwood_fabric::{ClientId, Doorbell, FabricError, NodeId};
use slab::Slab;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

/// Exchanges without an answer before the thread yields. Together they take longer than a round trip to an idle memory
/// node, because a thread that yields on a busy machine is not scheduled again for milliseconds.
const IDLE_POLLS_MAX: u32 = 64;

/// A post in flight.
struct Post {
    body: PostBody,
    /// Memory nodes that have not answered everything.
    nodes_left: usize,
    /// The first error.
    error: Option<FabricError>,
    waits: Waiter,
    /// The waker of the future.
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
    idle: IdlePolls,
    /// The wakers of posts that have ended. The driver wakes them when its state is not borrowed, because a waker can
    /// run code of its executor.
    woken: Vec<Waker>,
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
        Self {
            all: Slab::new(),
            client,
            awaited: 0,
            polls: 0,
            idle: IdlePolls::default(),
            woken: Vec::new(),
            ended: 0,
            parts: 0,
            forks: ForkCount::now(),
        }
    }

    /// Starts a post without parts. It stays incomplete until [`seal`](Self::seal).
    #[inline]
    pub(crate) fn begin(&mut self, body: PostBody, waits: Waiter) -> usize {
        if matches!(waits, Waiter::Future) {
            if self.awaited == 0 {
                self.idle.reset();
            }
            self.awaited += 1;
        }
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
        if post.nodes_left == 0 {
            self.woken.extend(post.waker.take());
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

    /// Sends, receives, and assigns answers to their posts, without waiting. The wakers of ended posts remain with the
    /// posts.
    fn exchange(&self);

    /// Sends what is queued.
    fn send_all(&self);

    /// Runs [`exchange`](Self::exchange), and wakes the futures whose posts have ended.
    fn exchange_and_wake(&self) {
        self.exchange();
        let Some(mut woken) = self.with_posts(InFlight::take_woken) else { return };
        woken.drain(..).for_each(Waker::wake);
        self.with_posts(|posts| posts.keep_capacity(woken));
    }

    /// Waits for pending posts, up to [`DRAIN_MAX`].
    fn drain(&self) {
        let end = Instant::now() + DRAIN_MAX;
        while !self.with_posts(|posts| posts.are_done()) && Instant::now() <= end {
            self.exchange_and_wake();
            std::thread::yield_now();
        }
    }

    /// Runs [`exchange_and_wake`](Self::exchange_and_wake) for an executor.
    fn advance(&self) -> Progress {
        let Some(ended) = self.with_posts(|posts| (!posts.are_done()).then_some(posts.ended)) else {
            return Progress::default();
        };
        self.exchange_and_wake();
        // Posts that no future waits for must still be sent.
        self.with_posts(|posts| Progress { answered: posts.ended > ended, awaited: !posts.are_done() })
    }
}

/// A future that waits for a post. If it is dropped, the post is still executed.
pub(crate) struct Submission<'l, L: PostDriver> {
    driver: &'l L,
    /// `None` after completion.
    key: Option<usize>,
    /// The end of a pause, if the executor does not poll the connections.
    timer: TaskTimer,
}

impl<'l, L: PostDriver> Submission<'l, L> {
    /// Waits for a post of `driver`.
    pub(crate) fn new(driver: &'l L, key: usize) -> Self {
        Self { driver, key: Some(key), timer: TaskTimer::default() }
    }
}

impl<L: PostDriver> Submission<'_, L> {
    /// Exchanges data in a poll of the post `key`. Returns the post, if it is complete.
    fn exchange(&self, key: usize) -> Option<Result<PostBody, FabricError>> {
        let driver = self.driver;
        // The task runs, and need not be woken if its own exchange receives the answer.
        let waker = driver.with_posts(|posts| posts.all[key].waker.take());
        drop(waker);
        driver.exchange_and_wake();
        let done = driver.with_posts(|posts| posts.take_done(key));
        if done.is_none() && driver.with_posts(|posts| posts.idle.count() > IDLE_POLLS_MAX) {
            // The memory node, or Soft-RoCE, may need this processor.
            std::thread::yield_now();
        }
        done
    }

    /// Waits for the exchange of another future, or for the next poll, which may be after a pause.
    fn wait_for_poll(&mut self, key: usize, context: &Context<'_>) {
        let replaced = self.driver.with_posts(|posts| posts.wake_at_end(key, context.waker()));
        drop(replaced);
        match self.driver.with_posts(|posts| posts.idle.end_of_pause()) {
            None => context.waker().wake_by_ref(),
            Some(end) => self.timer.wake_at(end, context),
        }
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
            let replaced = driver.with_posts(|posts| posts.wake_at_end(key, context.waker()));
            drop(replaced);
            return Poll::Pending;
        }
        if done.is_none() && driver.with_posts(InFlight::should_exchange) {
            done = self.exchange(key);
        }
        let Some(done) = done else {
            self.wait_for_poll(key, context);
            return Poll::Pending;
        };
        self.key = None;
        Poll::Ready(done)
    }
}

impl<L: PostDriver> Drop for Submission<'_, L> {
    fn drop(&mut self) {
        let Some(key) = self.key.filter(|_| self.driver.with_posts(|posts| posts.are_own())) else { return };
        let waker = self.driver.with_posts(|posts| {
            posts.awaited -= 1;
            posts.all[key].waits = Waiter::Gone;
            let waker = posts.all[key].waker.take();
            posts.release_if_done(key);
            waker
        });
        drop(waker);
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
        self.idle.reset();
        Some(post.error.map_or(Ok(post.body), Err))
    }

    /// Wakes `waker` when a post ends. Returns the waker that it replaces: a waker is dropped outside of the borrow.
    #[inline]
    fn wake_at_end(&mut self, key: usize, waker: &Waker) -> Option<Waker> {
        let kept = &mut self.all[key].waker;
        if kept.as_ref().is_some_and(|kept| kept.will_wake(waker)) {
            return None;
        }
        kept.replace(waker.clone())
    }

    /// Takes the wakers of posts that have ended, if there are any.
    #[inline]
    fn take_woken(&mut self) -> Option<Vec<Waker>> {
        (!self.woken.is_empty()).then(|| std::mem::take(&mut self.woken))
    }

    /// Uses the memory of an empty list again.
    fn keep_capacity(&mut self, empty: Vec<Waker>) {
        if self.woken.capacity() == 0 {
            self.woken = empty;
        }
    }

    /// Returns whether this poll exchanges data: with `n` waiting clients, each `n`-th poll does.
    #[inline]
    fn should_exchange(&mut self) -> bool {
        self.polls += 1;
        let exchanges = self.polls >= self.awaited;
        if exchanges {
            self.idle.add();
        }
        exchanges
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::timers_of;
    use std::cell::{Cell, RefCell};
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::Wake;

    /// Connections to a memory node that does not answer, until the test names a post that it answers.
    struct Connections {
        posts: RefCell<InFlight>,
        answer: Cell<Option<usize>>,
    }

    impl PostDriver for Connections {
        fn with_posts<T>(&self, work: impl FnOnce(&mut InFlight) -> T) -> T {
            work(&mut self.posts.borrow_mut())
        }

        fn exchange(&self) {
            let mut posts = self.posts.borrow_mut();
            posts.reset_polls();
            if let Some(key) = self.answer.take() {
                posts.end_part(key, None);
            }
        }

        fn send_all(&self) {}
    }

    impl Connections {
        fn new() -> Self {
            Self { posts: RefCell::new(InFlight::new(None)), answer: Cell::new(None) }
        }

        /// Starts a post with one part; returns its key.
        fn post(&self) -> usize {
            self.with_posts(|posts| {
                let key = posts.begin(PostBody::Control([0; 4]), Waiter::Future);
                posts.begin_part(key);
                posts.seal(key);
                key
            })
        }
    }

    /// Returns whether a post completes within `polls` polls.
    fn completes(submission: &mut Submission<'_, Connections>, polls: u32, waker: &Waker) -> bool {
        let mut context = Context::from_waker(waker);
        (0..polls).any(|_| pin!(&mut *submission).poll(&mut context).is_ready())
    }

    /// Counts the wake-ups of a task of another executor.
    #[derive(Default)]
    struct Task(AtomicU32);

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn task() -> (Arc<Task>, Waker) {
        let task = Arc::<Task>::default();
        (Arc::clone(&task), Waker::from(task))
    }

    /// More polls than are made without a pause.
    const IDLE: u32 = 3_000;

    #[test]
    fn a_waiting_future_has_at_most_one_timer() {
        let (connections, (_, waker)) = (Connections::new(), task());
        let mut submission = Submission::new(&connections, connections.post());
        for _ in 0..IDLE {
            assert!(!completes(&mut submission, 1, &waker));
            assert!(timers_of(&waker) <= 1);
        }
        drop(submission);
        assert_eq!(timers_of(&waker), 0);
    }

    #[test]
    fn the_exchange_of_another_future_wakes_the_waiting_one() {
        let connections = Connections::new();
        let [(one, one_waker), (other, other_waker)] = [task(), task()];
        let keys = [connections.post(), connections.post()];
        let [mut first, mut second] = keys.map(|key| Submission::new(&connections, key));
        assert!(!completes(&mut first, 1, &one_waker));
        assert!(!completes(&mut second, 1, &other_waker));
        let before = [&one, &other].map(|task| task.0.load(Ordering::SeqCst));
        connections.answer.set(Some(keys[0]));
        assert!(!completes(&mut second, 2, &other_waker));
        // Each poll of the second future wakes its own task.
        assert_eq!([&one, &other].map(|task| task.0.load(Ordering::SeqCst)), [before[0] + 1, before[1] + 2]);
        assert!(completes(&mut first, 1, &one_waker));
    }

    #[test]
    fn a_post_after_a_dropped_one_is_polled_without_pauses() {
        let (connections, (_, waker)) = (Connections::new(), task());
        let mut submission = Submission::new(&connections, connections.post());
        assert!(!completes(&mut submission, IDLE, &waker));
        assert!(connections.with_posts(|posts| posts.idle.end_of_pause()).is_some());
        drop(submission);
        let mut submission = Submission::new(&connections, connections.post());
        assert!(!completes(&mut submission, 1, &waker));
        assert_eq!(connections.with_posts(|posts| posts.idle.end_of_pause()), None);
    }
}
