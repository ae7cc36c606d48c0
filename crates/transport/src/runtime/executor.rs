//! Running clients' futures on the threads of real machines.
//!
//! Shared memory completes posts at once; what waits is a lock's queue, a pause before a retry, an empty message
//! queue. So a future is polled on the spot, and only what stays pending costs a waker. A post over TCP waits for its
//! thread's line to a pool, which goes on only while somebody turns it: these executors do, between polls, and
//! poll a future only when its answer is there. They look again and again, giving way in between, and a single future's
//! thread naps after milliseconds. Pauses have timers. Where nothing is left to turn, a thread spins for microseconds,
//! and then sleeps until it is woken.

use super::poll_source::{poll, turn};
use super::timers::{fire_timers, park};
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

/// Polls that follow each other before the thread gives up its processor.
const SPINS: u32 = 64;
/// Times that the thread gives up its processor before it sleeps.
const YIELDS: u32 = 2_000;
/// How long it sleeps then.
const NAP: Duration = Duration::from_micros(50);

/// Wakes a thread, and remembers it.
struct Bell {
    thread: Thread,
    rung: AtomicBool,
}

impl Bell {
    fn is_rung(&self) -> bool {
        self.rung.load(Ordering::Relaxed)
    }

    /// Whether it has rung; it has not any more then.
    fn take(&self) -> bool {
        self.is_rung() && self.rung.swap(false, Ordering::Acquire)
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.rung.swap(true, Ordering::Release) {
            self.thread.unpark();
        }
    }
}

/// How long a thread has been waiting.
#[derive(Default)]
struct Idle(u32);

impl Idle {
    /// Waits a little: longer, the longer it has lasted.
    fn wait(&mut self) {
        self.0 = self.0.saturating_add(1);
        if self.0 < SPINS {
            std::hint::spin_loop();
        } else if self.0 < SPINS + YIELDS {
            thread::yield_now();
        } else {
            thread::sleep(NAP);
        }
    }
}

/// How long nothing has been left to do before somebody wakes this thread.
#[derive(Default)]
struct Quiet(u32);

impl Quiet {
    /// Waits a little, then until it is woken: what another does for this one may take less than falling asleep.
    fn wait(&mut self) {
        if self.0 < SPINS {
            self.0 += 1;
            std::hint::spin_loop();
        } else {
            park();
        }
    }
}

/// Runs a future to its end on this thread.
#[inline]
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    match future.as_mut().poll(&mut context) {
        Poll::Ready(output) => output,
        Poll::Pending => wait_for(future),
    }
}

#[cold]
fn wait_for<T>(mut future: Pin<&mut impl Future<Output = T>>) -> T {
    let bell = Arc::new(Bell { thread: thread::current(), rung: AtomicBool::new(true) });
    let waker = Waker::from(Arc::clone(&bell));
    let mut idle = Idle::default();
    let mut quiet = Quiet::default();
    loop {
        fire_timers();
        if bell.take() {
            quiet = Quiet::default();
            if let Poll::Ready(output) = poll(future.as_mut(), &waker) {
                return output;
            }
        }
        let turned = turn();
        if turned.answered {
            idle = Idle::default();
        } else if turned.waited_for || bell.is_rung() {
            idle.wait();
        } else {
            quiet.wait();
        }
    }
}

/// Which futures of a thread have been woken.
struct Woken {
    thread: Thread,
    /// One bit for each.
    words: Box<[AtomicU64]>,
}

impl Woken {
    /// All of `count` futures.
    fn all(count: usize) -> Arc<Self> {
        let word = |first: usize| AtomicU64::new(u64::MAX >> 64usize.saturating_sub(count - first));
        let words = (0..count).step_by(64).map(word).collect();
        Arc::new(Self { thread: thread::current(), words })
    }

    /// Takes those of word `word` that have been woken since they were taken, but for those in `except`.
    fn take(&self, word: usize, except: u64) -> u64 {
        let word = &self.words[word];
        let taken = word.load(Ordering::Relaxed) & !except;
        if taken != 0 {
            word.fetch_and(!taken, Ordering::Acquire);
        }
        taken
    }

    /// As [`take`](Self::take), those of some word, and which; `None`: there are none. `except` has all words.
    fn take_any(&self, except: &[u64]) -> Option<(usize, u64)> {
        let mut words = except.iter().enumerate().map(|(word, except)| (word, self.take(word, *except)));
        words.find(|(_, taken)| *taken != 0)
    }
}

/// Wakes one of them.
struct Call {
    woken: Arc<Woken>,
    at: usize,
}

impl Wake for Call {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let bit = 1 << (self.at % 64);
        if self.woken.words[self.at / 64].fetch_or(bit, Ordering::Release) & bit == 0 {
            self.woken.thread.unpark();
        }
    }
}

/// Runs several futures of one thread to their ends, each in its turn; yields their outputs in order. The thread
/// never sleeps while one of them asks to be polled again: it cannot tell whether that one waits or works.
pub fn run_all<T>(futures: Vec<Pin<Box<dyn Future<Output = T> + '_>>>) -> Vec<T> {
    let woken = Woken::all(futures.len());
    let mut left = futures.len();
    let mut outputs: Vec<Option<T>> = futures.iter().map(|_| None).collect();
    let call = |at| Waker::from(Arc::new(Call { woken: Arc::clone(&woken), at }));
    let mut running: Vec<_> =
        futures.into_iter().enumerate().map(|(at, future)| Some((future, call(at)))).collect();
    let mut polled: Box<[u64]> = woken.words.iter().map(|_| 0).collect();
    let mut fruitless = 0;
    let mut quiet = Quiet::default();
    while left > 0 {
        let before = left;
        polled.fill(0);
        fire_timers();
        // Whoever is woken by another goes on before the cranks are turned, so that what both post goes out together:
        // who is handed a lock need not wait for one more exchange. Each has one turn.
        while let Some((word, calls)) = woken.take_any(&polled) {
            polled[word] |= calls;
            let mut calls = calls;
            while calls != 0 {
                let at = 64 * word + calls.trailing_zeros() as usize;
                calls &= calls - 1;
                // Whoever has come to its end may be called all the same.
                let Some((future, waker)) = &mut running[at] else { continue };
                if let Poll::Ready(output) = poll(future.as_mut(), waker) {
                    (outputs[at], running[at]) = (Some(output), None);
                    left -= 1;
                }
            }
        }
        let polled = polled.iter().any(|word| *word != 0);
        if polled {
            quiet = Quiet::default();
        }
        let turned = turn();
        if left < before || turned.answered {
            fruitless = 0;
        } else if !polled && !turned.waited_for {
            quiet.wait();
        } else if fruitless < SPINS {
            fruitless += 1;
        } else {
            thread::yield_now();
        }
    }
    outputs.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::super::poll_source::{Crank, Turned, add_crank};
    use super::super::timers::give_way;
    use super::*;
    use std::cell::{Cell, RefCell};
    use std::future::poll_fn;
    use std::rc::Weak;
    use std::sync::Mutex;

    #[test]
    fn a_future_woken_by_another_thread_goes_on() {
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
    fn many_futures_of_one_thread_come_to_their_ends() {
        for count in [0, 1, 63, 64, 65, 200] {
            let future = |me: usize| {
                Box::pin(async move {
                    for _ in 0..me % 3 {
                        give_way().await;
                    }
                    me
                }) as Pin<Box<dyn Future<Output = usize>>>
            };
            assert_eq!(run_all((0..count).map(future).collect()), (0..count).collect::<Vec<_>>());
        }
    }

    /// Counts how often it is turned.
    struct Counter(Cell<u32>);

    impl Crank for Counter {
        fn crank(&self) -> Turned {
            self.0.set(self.0.get() + 1);
            Turned { answered: true, waited_for: true }
        }
    }

    #[test]
    fn who_is_woken_by_another_goes_on_before_the_cranks_are_turned() {
        let counter = std::rc::Rc::new(Counter(Cell::new(0)));
        add_crank(std::rc::Rc::downgrade(&counter) as Weak<dyn Crank>);
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
                give_way().await;
            }
            handed.set(Some(turns.get()));
            if let Some(waker) = waiting.borrow_mut().take() {
                waker.wake();
            }
            0_u32
        }) as Pin<Box<dyn Future<Output = u32>>>;
        assert_eq!(run_all(vec![receiver, giver]), [0, 0], "turns between the hand-over and going on");
        assert!(turns.get() >= 3);
    }

    #[test]
    fn futures_of_one_thread_take_turns() {
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
