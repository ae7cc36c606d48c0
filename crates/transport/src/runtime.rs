//! Running clients' futures on the threads of real machines.
//!
//! Shared memory completes posts at once; what waits is a lock's queue, a pause before a retry, an empty message
//! queue. So a future is polled on the spot, and only what stays pending costs a waker. A post over TCP is waited for
//! by looking again and again, giving way in between, and after milliseconds with naps.

use crate::shm::monotonic_nanoseconds;
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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

thread_local! {
    /// Answers that futures of this thread have got from memory nodes.
    static ANSWERS: Cell<u32> = const { Cell::new(0) };
}

/// Notes that a future of this thread got what it waited for: the thread's next wait is a new one.
pub(crate) fn note_answer() {
    // At the thread's end nobody waits.
    let _ = ANSWERS.try_with(|answers| answers.set(answers.get().wrapping_add(1)));
}

fn answers() -> u32 {
    ANSWERS.try_with(Cell::get).unwrap_or_default()
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

/// Lets at least `nanoseconds` pass; 0 only lets others run.
pub(crate) async fn sleep(nanoseconds: u64) {
    let mut deadline = None;
    poll_fn(|context| {
        let now = if nanoseconds == 0 && deadline.is_some() { u64::MAX } else { monotonic_nanoseconds() };
        if now >= *deadline.get_or_insert_with(|| now.saturating_add(nanoseconds.max(1))) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
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
    let mut context = Context::from_waker(&waker);
    let (mut idle, mut answered) = (Idle::default(), answers());
    loop {
        while !bell.rung.swap(false, Ordering::Acquire) {
            thread::park();
        }
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        if answers() != answered {
            (idle, answered) = (Idle::default(), answers());
        }
        idle.wait();
    }
}

/// Runs several futures of one thread to their ends, each in its turn; yields their outputs in order. The thread
/// never sleeps while one of them asks to be polled again: it cannot tell whether that one waits or works.
pub fn run_all<T>(futures: Vec<Pin<Box<dyn Future<Output = T> + '_>>>) -> Vec<T> {
    let bells: Vec<_> = futures
        .iter()
        .map(|_| Arc::new(Bell { thread: thread::current(), rung: AtomicBool::new(true) }))
        .collect();
    let mut outputs: Vec<Option<T>> = futures.iter().map(|_| None).collect();
    let mut running: Vec<_> = futures.into_iter().enumerate().collect();
    let (mut answered, mut fruitless) = (answers(), 0);
    while !running.is_empty() {
        let before = running.len();
        let mut polled = false;
        running.retain_mut(|(at, future)| {
            if !bells[*at].rung.swap(false, Ordering::Acquire) {
                return true;
            }
            polled = true;
            let waker = Waker::from(Arc::clone(&bells[*at]));
            match future.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(output) => {
                    outputs[*at] = Some(output);
                    false
                }
                Poll::Pending => true,
            }
        });
        if !polled {
            thread::park();
        } else if running.len() < before || answers() != answered {
            (answered, fruitless) = (answers(), 0);
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
    use super::*;
    use std::future::poll_fn;
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
