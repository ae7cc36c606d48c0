//! Operations whose futures nobody polls do not stop others for longer than a bound.

use crate::spatial_pool::SpatialPool;
use farwood::runtime::block_on;
use farwood::spatial::{Item, RTree, Rectangle, ServeOptions};
use farwood::{BTree, Index, Pool, Radix};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

/// The longest time that a call may wait for operations that nobody polls.
const WAIT_MAX: Duration = Duration::from_secs(2);

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Calls `work` while other threads change the same key.
fn while_others_write(index: &Index<u64, u64>, work: impl FnOnce()) {
    let ends = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !ends.load(Relaxed) {
                    index.put(1, 7).unwrap();
                }
            });
        }
        let worked = catch_unwind(AssertUnwindSafe(work));
        ends.store(true, Relaxed);
        worked.unwrap_or_else(|panic| resume_unwind(panic));
    });
}

/// Suspends puts until one waits for the lock of its leaf, then runs `call`, and at last the suspended put. Repeats
/// that, and yields the longest duration of a call.
fn beside_a_suspended_put(index: &Index<u64, u64>, call: impl Fn()) -> Duration {
    let session = index.session();
    let mut longest = Duration::ZERO;
    while_others_write(index, || {
        for _ in 0..20 {
            let suspended = loop {
                let mut put = Box::pin(session.put(1, 1));
                if poll(put.as_mut()).is_pending() {
                    break put;
                }
            };
            // The lock is granted to the suspended put.
            thread::sleep(Duration::from_millis(1));
            let began = Instant::now();
            call();
            longest = longest.max(began.elapsed());
            block_on(suspended).unwrap();
        }
    });
    longest
}

fn of_both(index: &Index<u64, u64>) {
    let session = index.session();
    let async_call = beside_a_suspended_put(index, || assert!(block_on(session.put(1, 2)).unwrap()));
    assert!(async_call < WAIT_MAX, "a call of the session took {async_call:?}");
    let blocking = beside_a_suspended_put(index, || assert!(index.put(1, 2).unwrap()));
    assert!(blocking < WAIT_MAX, "a blocking call took {blocking:?}");
}

#[test]
fn a_put_that_nobody_polls_loses_the_lock_of_its_leaf() {
    let pool = Pool::anonymous(64 << 20).unwrap();
    of_both(&pool.create_index("i", &BTree::new()).unwrap());
}

#[test]
fn a_put_that_nobody_polls_does_not_stop_the_batch_of_its_key() {
    let pool = Pool::anonymous(64 << 20).unwrap();
    of_both(&pool.create_index("i", &Radix::new()).unwrap());
}

/// A function that panics inside a change, or while the index is served, leaves the index changeable for all.
#[test]
fn a_panic_inside_a_change_does_not_stop_the_others() {
    let pool = SpatialPool::new();
    let spatial = pool.create("boxes", &RTree::new());
    let item = |id| Item { bounds: Rectangle::point([id as f64, 0.0]).unwrap(), id };
    let panicking = catch_unwind(AssertUnwindSafe(|| {
        spatial.change(|editor| -> farwood::Result<()> {
            editor.insert(&item(1))?;
            panic!("a fault of the program")
        })
    }));
    assert!(panicking.is_err());
    let ready = || panic!("a fault of the program");
    let serving = catch_unwind(AssertUnwindSafe(|| {
        spatial.serve(&ServeOptions::default(), &AtomicBool::new(false), ready)
    }));
    assert!(serving.is_err());
    // The handle of another attachment is like another process.
    let other = pool.open().open_spatial("boxes").unwrap();
    let began = Instant::now();
    other.insert(&item(2)).unwrap();
    spatial.insert(&item(3)).unwrap();
    assert!(began.elapsed() < WAIT_MAX, "{:?}", began.elapsed());
    let mut found: Vec<u64> = other.nearest([0.0, 0.0], 9).unwrap().iter().map(|near| near.item.id).collect();
    found.sort_unstable();
    assert_eq!(found, [1, 2, 3], "the changes before the panic stay");
}
