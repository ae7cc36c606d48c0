//! Executors that run clients' futures on the threads of real machines.
//!
//! Shared memory completes posts at once; futures wait only for lock queues, pauses before a retry, and empty message
//! queues. So a future is polled in place, and only a pending one costs a waker. A post over TCP or RDMA waits for the
//! connections of its thread, which make progress only while a thread polls them: these executors do so between polls
//! of futures, and poll a future only when its answer has arrived. They poll continuously and yield in between; after
//! some milliseconds without an answer the thread sleeps between its polls, for short times, until a waker wakes it.
//! Pauses have timers. Without poll sources, a thread spins for microseconds and then sleeps until a waker wakes it.
//!
//! If a future forks the process, the executor of the child polls all futures once more: a future that waits for
//! another thread of the parent would never be woken, and can fail instead ([`ForkCount::guard`]).

use super::poll_source::{FIRST_POLL, poll};
use super::round_waits::{Round, RoundWaits};
use super::timers::fire_timers;
use crate::fork::ForkCount;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

/// A waker of one thread that remembers its wake-ups.
struct ThreadWaker {
    thread: Thread,
    is_set: AtomicBool,
}

impl ThreadWaker {
    fn is_woken(&self) -> bool {
        self.is_set.load(Ordering::Relaxed)
    }

    /// Returns whether it was woken, and resets it.
    fn take(&self) -> bool {
        self.is_woken() && self.is_set.swap(false, Ordering::Acquire)
    }
}

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_set.swap(true, Ordering::Release) {
            self.thread.unpark();
        }
    }
}

/// Runs a future to completion on this thread.
#[inline]
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut context = Context::from_waker(FIRST_POLL);
    match future.as_mut().poll(&mut context) {
        Poll::Ready(output) => output,
        Poll::Pending => block_on_pending(future),
    }
}

/// Polls a future once on this thread, and drops it.
#[inline]
pub fn poll_once<T>(future: impl Future<Output = T>) -> Poll<T> {
    pin!(future).poll(&mut Context::from_waker(FIRST_POLL))
}

#[cold]
fn block_on_pending<T>(mut future: Pin<&mut impl Future<Output = T>>) -> T {
    let waker_state = Arc::new(ThreadWaker { thread: thread::current(), is_set: AtomicBool::new(true) });
    let waker = Waker::from(Arc::clone(&waker_state));
    let mut waits = RoundWaits::default();
    let mut forks = ForkCount::now();
    loop {
        if forks.has_changed() {
            waker.wake_by_ref();
        }
        let mut round = Round { fired: fire_timers(), ..Round::default() };
        if waker_state.take() {
            round.polled = true;
            if let Poll::Ready(output) = poll(future.as_mut(), &waker) {
                return output;
            }
        }
        waits.end_single(round, || waker_state.is_woken());
    }
}

/// The woken futures of a thread.
struct ReadySet {
    thread: Thread,
    /// One bit for each future.
    words: Box<[AtomicU64]>,
}

impl ReadySet {
    /// All of `count` futures.
    fn all(count: usize) -> Arc<Self> {
        let word = |first: usize| AtomicU64::new(u64::MAX >> 64usize.saturating_sub(count - first));
        let words = (0..count).step_by(64).map(word).collect();
        Arc::new(Self { thread: thread::current(), words })
    }

    /// Takes the woken futures of word `word`, except those in `except`.
    fn take(&self, word: usize, except: u64) -> u64 {
        let word = &self.words[word];
        let taken = word.load(Ordering::Relaxed) & !except;
        if taken != 0 {
            word.fetch_and(!taken, Ordering::Acquire);
        }
        taken
    }

    /// Takes the woken futures of the first word that has any, except those in `except`, which has a mask for each
    /// word. Returns the word and the futures; `None`: no future was woken.
    fn take_any(&self, except: &[u64]) -> Option<(usize, u64)> {
        let mut words = except.iter().enumerate().map(|(word, except)| (word, self.take(word, *except)));
        words.find(|(_, taken)| *taken != 0)
    }

    /// Wakes all futures; those that are complete ignore it.
    fn wake_all(&self) {
        self.words.iter().for_each(|word| word.store(u64::MAX, Ordering::Release));
    }
}

/// The waker of one future.
struct FutureWaker {
    ready: Arc<ReadySet>,
    at: usize,
}

impl Wake for FutureWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let bit = 1 << (self.at % 64);
        if self.ready.words[self.at / 64].fetch_or(bit, Ordering::Release) & bit == 0 {
            self.ready.thread.unpark();
        }
    }
}

/// Runs several futures on this thread to completion, in turn; returns their outputs in order. The thread does not
/// sleep while a future asks to be polled again: the executor does not know whether that future waits or works.
pub fn run_all<T>(futures: Vec<Pin<Box<dyn Future<Output = T> + '_>>>) -> Vec<T> {
    let ready = ReadySet::all(futures.len());
    let mut left = futures.len();
    let mut outputs: Vec<Option<T>> = futures.iter().map(|_| None).collect();
    let waker_of = |at| Waker::from(Arc::new(FutureWaker { ready: Arc::clone(&ready), at }));
    let mut running: Vec<_> =
        futures.into_iter().enumerate().map(|(at, future)| Some((future, waker_of(at)))).collect();
    let mut polled: Box<[u64]> = ready.words.iter().map(|_| 0).collect();
    let mut waits = RoundWaits::default();
    let mut forks = ForkCount::now();
    while left > 0 {
        let before = left;
        if forks.has_changed() {
            ready.wake_all();
        }
        polled.fill(0);
        let fired = fire_timers();
        // Futures that another future woke run before the sources are polled, so that the posts of both are sent
        // together: a client that receives a lock by handover need not wait for one more exchange. Each future runs
        // once.
        while let Some((word, indices)) = ready.take_any(&polled) {
            polled[word] |= indices;
            let mut indices = indices;
            while indices != 0 {
                let at = 64 * word + indices.trailing_zeros() as usize;
                indices &= indices - 1;
                // A completed future may be woken again, and after a fork the bits after the last one are set.
                let Some(Some((future, waker))) = running.get_mut(at) else { continue };
                if let Poll::Ready(output) = poll(future.as_mut(), waker) {
                    (outputs[at], running[at]) = (Some(output), None);
                    left -= 1;
                }
            }
        }
        let has_polled = polled.iter().any(|word| *word != 0);
        waits.end(Round { fired, polled: has_polled, advanced: left < before });
    }
    outputs.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::super::poll_source::{PollSource, Progress, add_poll_source};
    use super::super::sleep::yield_now;
    use super::*;
    use std::cell::{Cell, RefCell};
    use std::future::poll_fn;
    use std::rc::Weak;
    use std::sync::Mutex;
    use std::time::Duration;

    #[test]
    fn a_future_woken_by_another_thread_continues() {
        let shared: Arc<Mutex<(bool, Option<Waker>)>> = Arc::default();
        let other = Arc::clone(&shared);
        let thread = thread::spawn(move || {
            thread::sleep(Duration::from_millis(20));
            let mut state = other.lock().unwrap();
            state.0 = true;
            state.1.take().map(Waker::wake)
        });
        block_on(poll_fn(|context| {
            let mut state = shared.lock().unwrap();
            state.1 = Some(context.waker().clone());
            if state.0 { Poll::Ready(()) } else { Poll::Pending }
        }));
        assert!(thread.join().unwrap().is_some(), "the future was waiting");
    }

    #[test]
    fn many_futures_of_one_thread_complete() {
        for count in [0, 1, 63, 64, 65, 200] {
            let future = |me: usize| {
                Box::pin(async move {
                    for _ in 0..me % 3 {
                        yield_now().await;
                    }
                    me
                }) as Pin<Box<dyn Future<Output = usize>>>
            };
            assert_eq!(run_all((0..count).map(future).collect()), (0..count).collect::<Vec<_>>());
        }
    }

    /// Counts its polls.
    struct Counter(Cell<u32>);

    impl PollSource for Counter {
        fn advance(&self) -> Progress {
            self.0.set(self.0.get() + 1);
            Progress { answered: true, awaited: true }
        }
    }

    #[test]
    fn a_woken_future_runs_before_the_sources_are_polled() {
        let counter = std::rc::Rc::new(Counter(Cell::new(0)));
        add_poll_source(std::rc::Rc::downgrade(&counter) as Weak<dyn PollSource>);
        let (handed, waiting) = (Cell::new(None), RefCell::new(None::<Waker>));
        let (handed, waiting, turns) = (&handed, &waiting, &counter.0);
        let receiver = Box::pin(poll_fn(move |context| {
            if let Some(at) = handed.get() {
                return Poll::Ready(turns.get() - at);
            }
            *waiting.borrow_mut() = Some(context.waker().clone());
            Poll::Pending
        })) as Pin<Box<dyn Future<Output = u32>>>;
        let giver = Box::pin(async move {
            for _ in 0..3 {
                yield_now().await;
            }
            handed.set(Some(turns.get()));
            if let Some(waker) = waiting.borrow_mut().take() {
                waker.wake();
            }
            0_u32
        }) as Pin<Box<dyn Future<Output = u32>>>;
        assert_eq!(run_all(vec![receiver, giver]), [0, 0], "polls between the hand-over and the next step");
        assert!(turns.get() >= 3);
    }

    #[test]
    fn futures_of_one_thread_alternate() {
        let turn = Cell::new(0);
        let future = |me: usize| {
            let turn = &turn;
            Box::pin(poll_fn(move |context| {
                if turn.get() == me {
                    turn.set(me + 1);
                    return Poll::Ready(me);
                }
                context.waker().wake_by_ref();
                Poll::Pending
            })) as Pin<Box<dyn Future<Output = usize>>>
        };
        let outputs = run_all((0..5).rev().map(future).collect());
        assert_eq!(outputs, [4, 3, 2, 1, 0]);
    }
}
