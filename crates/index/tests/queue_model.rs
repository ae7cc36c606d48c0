//! Model checks of the fair queue and of its three users, with `loom`.
//!
//! **Goal.** No schedule and no permitted reordering of memory accesses loses a wake-up, admits two clients at once,
//! or loses the lock when a future is dropped at any moment.
//!
//! **Method.** The sources are compiled against the mutexes and atomics of `loom`, which runs small programs under all
//! schedules with a bounded number of preemptions. The lock protects a cell in which `loom` detects data races; a lost
//! wake-up is a deadlock, which `loom` reports. The last tests run the same programs on broken variants: they must
//! fail.

#![expect(unreachable_pub, reason = "the sources that are compiled here are modules of a library")]
#![expect(clippy::duplicate_mod, reason = "broken variants compile the same sources again")]

use farwood_fabric::{ClientId, LockWord, NodeId};
use loom::cell::UnsafeCell;
use loom::future::block_on;
use loom::sync::Arc;
use loom::thread;
use std::cell::RefCell;
use std::pin::{Pin, pin};
use std::process::Command;
use std::task::{Context, Poll, Waker};
use sync::{AtomicU64, Ordering};

mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};
    pub(crate) use loom::sync::{Mutex, MutexGuard};
}

#[path = "../src/queue.rs"]
mod queue;

#[path = "../src/combine.rs"]
#[expect(dead_code, reason = "the models use a part of it")]
mod combine;

#[path = "../src/catfish/server/writer.rs"]
mod writer;

#[path = "."]
mod lock {
    #[path = "../src/lock/local.rs"]
    #[expect(dead_code, reason = "the models use a part of it")]
    pub(crate) mod local;

    use farwood_index::lock::{GlobalLock, LocalLocks, LockPauses, WAIT_NS_MAX};
    use local::{GrantedLock, LocalGuard, LocalTables};
    use std::convert::Infallible;
    use std::future::pending;

    pub(crate) fn tables() -> LocalTables {
        LocalTables::new(LocalLocks::Queued { hand_over_max: 2 }, 1, 1)
    }

    pub(crate) async fn acquire<'t>(
        tables: &'t LocalTables,
        release_global: &impl Fn(GrantedLock),
    ) -> LocalGuard<'t> {
        let Ok(guard) = tables
            .acquire_queued(0, release_global, async || pending::<Result<(), Infallible>>().await)
            .await;
        guard
    }

    /// A client whose pauses end at once: it passes on every grant that is not taken between two of its polls.
    pub(crate) async fn acquire_impatiently<'t>(
        tables: &'t LocalTables,
        release_global: &impl Fn(GrantedLock),
    ) -> LocalGuard<'t> {
        let pause = async || {
            super::pause().await;
            Ok::<_, Infallible>(())
        };
        let Ok(guard) = tables.acquire_queued(0, release_global, pause).await;
        guard
    }
}

/// Yields to the other threads once.
async fn pause() {
    let mut has_yielded = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        thread::yield_now();
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// The queue and the combiner, compiled against primitives that are too weak for them.
#[path = "."]
mod broken {
    pub(crate) mod sync {
        pub(crate) use loom::sync::{Mutex, MutexGuard};

        /// All orderings are relaxed.
        #[expect(
            non_snake_case,
            non_upper_case_globals,
            reason = "they stand for those of the standard library"
        )]
        pub(crate) mod Ordering {
            use loom::sync::atomic::Ordering;
            pub(crate) const AcqRel: Ordering = Ordering::Relaxed;
            pub(crate) const Acquire: Ordering = Ordering::Relaxed;
            pub(crate) const Relaxed: Ordering = Ordering::Relaxed;
            pub(crate) const Release: Ordering = Ordering::Relaxed;
        }

        pub(crate) use loom::sync::atomic::AtomicU64;
    }

    #[path = "../src/queue.rs"]
    #[expect(dead_code, reason = "the models use a part of it")]
    pub(crate) mod queue;

    #[path = "../src/combine.rs"]
    #[expect(dead_code, reason = "the models use a part of it")]
    pub(crate) mod combine;
}

/// Runs `program` under all schedules with at most `preemptions` preemptions.
fn check(preemptions: usize, program: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(program);
}

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Polls a future once, and drops it if it is pending.
fn poll_and_drop<F: Future>(future: F) -> Option<F::Output> {
    match poll(pin!(future)) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

/// The data that a lock protects: `loom` fails when two threads access it without an order between them.
struct Exclusive(UnsafeCell<()>);

impl Exclusive {
    fn new() -> Self {
        Self(UnsafeCell::new(()))
    }

    fn access(&self) {
        self.0.with_mut(|_| ());
    }
}

/// The global lock, held.
fn mine() -> lock::local::GrantedLock {
    use farwood_index::lock::{
        GlobalLock, LocalLocks, LockMemory, LockOptions, LockPauses, LockWidth, Release,
    };
    let options = LockOptions {
        memory: LockMemory::Device,
        width: LockWidth::Word,
        release: Release::Write,
        local: LocalLocks::Queued { hand_over_max: 2 },
        pauses: LockPauses::None,
    };
    let word = LockWord::held_by(ClientId { slot: 0, epoch: 0 });
    lock::local::GrantedLock { lock: GlobalLock::at(options, NodeId(0), 0), word }
}

/// A local lock, and the global lock that it is handed over with.
struct Locks {
    tables: lock::local::LocalTables,
    /// 1 while the global lock is held.
    global: AtomicU64,
    exclusive: Exclusive,
}

impl Locks {
    fn release_global(&self) {
        assert_eq!(self.global.swap(0, Ordering::Release), 1, "the global lock was held");
    }

    async fn acquire(&self) -> lock::local::LocalGuard<'_> {
        self.with_global(lock::acquire(&self.tables, &|_| self.release_global()).await)
    }

    async fn acquire_impatiently(&self) -> lock::local::LocalGuard<'_> {
        self.with_global(lock::acquire_impatiently(&self.tables, &|_| self.release_global()).await)
    }

    fn with_global<'l>(&'l self, guard: lock::local::LocalGuard<'l>) -> lock::local::LocalGuard<'l> {
        if guard.handed_over().is_none() {
            // Another client may have released the local lock, and be about to release the global one.
            while self.global.swap(1, Ordering::Acquire) == 1 {
                thread::yield_now();
            }
        }
        assert_eq!(self.global.load(Ordering::Relaxed), 1, "the global lock is held");
        self.exclusive.access();
        guard
    }

    fn release(&self, mut guard: lock::local::LocalGuard<'_>) {
        self.exclusive.access();
        if guard.should_hand_over() {
            if !guard.hand_over(mine(), Some((8, &[1]))) {
                self.release_global();
            }
        } else {
            self.release_global();
        }
    }

    fn use_once(&self) {
        let guard = block_on(self.acquire());
        self.release(guard);
    }
}

#[test]
fn a_local_lock_is_exclusive_and_survives_dropped_waiters_and_hand_overs() {
    check(3, || {
        let tables = lock::tables();
        let locks = Arc::new(Locks { tables, global: AtomicU64::new(0), exclusive: Exclusive::new() });
        let threads = [(); 2].map(|()| {
            let locks = Arc::clone(&locks);
            thread::spawn(move || locks.use_once())
        });
        if let Some(guard) = poll_and_drop(locks.acquire()) {
            locks.release(guard);
        }
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(locks.global.load(Ordering::SeqCst), 0, "the global lock is free");
        assert!(poll_and_drop(locks.acquire()).is_some(), "the local lock is free");
    });
}

/// A client joins the queue and is not polled again before the others have used the lock.
#[test]
fn a_client_that_is_not_polled_loses_a_local_lock() {
    check(2, || {
        let tables = lock::tables();
        let locks = Arc::new(Locks { tables, global: AtomicU64::new(0), exclusive: Exclusive::new() });
        let first = block_on(locks.acquire());
        let mut unpolled = Box::pin(locks.acquire());
        assert!(poll(unpolled.as_mut()).is_pending());
        let thread = {
            let locks = Arc::clone(&locks);
            thread::spawn(move || {
                let guard = block_on(locks.acquire_impatiently());
                locks.release(guard);
            })
        };
        locks.release(first);
        thread.join().unwrap();
        let guard = block_on(unpolled);
        locks.release(guard);
        assert_eq!(locks.global.load(Ordering::SeqCst), 0, "the global lock is free");
        assert!(poll_and_drop(locks.acquire()).is_some(), "the local lock is free");
    });
}

#[test]
fn the_writer_queue_is_exclusive_and_survives_dropped_waiters() {
    check(3, || {
        let lock = Arc::new((writer::WriterQueue::<u64, u64>::new(1), Exclusive::new()));
        let threads = [(); 2].map(|()| {
            let lock = Arc::clone(&lock);
            thread::spawn(move || {
                let guard = block_on(lock.0.lock());
                lock.1.access();
                drop(guard);
            })
        });
        if let Some(guard) = poll_and_drop(lock.0.lock()) {
            lock.1.access();
            drop(guard);
        }
        for thread in threads {
            thread.join().unwrap();
        }
        assert!(poll_and_drop(lock.0.lock()).is_some(), "the lock is free");
    });
}

/// Two clients request one operation, and a third drops its request after the first poll. A leading client checks that
/// no other client executes a request; a shared result must come from an execution that began after the request.
macro_rules! combine_requests {
    ($combine:path, $leader:ident) => {{
        use $combine::{Combiner, Leader, Role};
        let combiner = Combiner::<u64>::with_slots(Leader::$leader, 1);
        let shared = Arc::new((combiner, Exclusive::new(), AtomicU64::new(0)));
        let threads = [(); 2].map(|()| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let (combiner, exclusive, clock) = &*shared;
                let requested = clock.fetch_add(1, Ordering::Relaxed);
                match block_on(combiner.enter(b"key", 0, async || std::future::pending().await)) {
                    Role::Lead(lead) => {
                        exclusive.access();
                        let executed = clock.fetch_add(1, Ordering::Relaxed);
                        lead.share(|| executed);
                    }
                    Role::Done { result, .. } => assert!(result > requested, "it began after the request"),
                    Role::Alone => {}
                }
            })
        });
        let (combiner, exclusive, _) = &*shared;
        if let Some(Role::Lead(lead)) =
            poll_and_drop(combiner.enter(b"key", 0, async || std::future::pending().await))
        {
            exclusive.access();
            drop(lead);
        }
        for thread in threads {
            thread.join().unwrap();
        }
        let free = poll_and_drop(combiner.enter(b"key", 0, async || std::future::pending().await));
        assert!(matches!(free, Some(Role::Lead(_))), "the slot is free");
    }};
}

#[test]
fn requests_are_combined_with_the_first_as_leader() {
    check(3, || combine_requests!(crate::combine, First));
}

#[test]
fn requests_are_combined_with_the_last_as_leader() {
    check(3, || combine_requests!(crate::combine, Last));
}

/// The clients that a leader counts, minus the clients that get its result.
fn counted(role: combine::Role<'_, ()>) -> isize {
    match role {
        combine::Role::Lead(lead) => lead.share(|| ()).cast_signed(),
        combine::Role::Done { .. } => -1,
        combine::Role::Alone => 0,
    }
}

/// A client stops waiting at any moment while a batch is executed: the leader counts it if and only if it gets the
/// result.
fn count_served_clients(leader: combine::Leader) {
    let combiner = Arc::new(combine::Combiner::<()>::with_slots(leader, 1));
    let first = block_on(combiner.enter(b"key", 0, async || std::future::pending().await));
    let mut second = Box::pin(combiner.enter(b"key", 0, async || std::future::pending().await));
    assert!(poll(second.as_mut()).is_pending());
    let thread = {
        let combiner = Arc::clone(&combiner);
        let fail = async || {
            pause().await;
            None
        };
        thread::spawn(move || counted(block_on(combiner.enter(b"key", 0, fail))))
    };
    let shared = counted(first) + counted(block_on(second));
    assert_eq!(shared + thread.join().unwrap(), 0, "every counted client gets the result");
}

#[test]
fn a_client_that_stops_waiting_takes_a_result_that_was_granted() {
    check(3, || count_served_clients(combine::Leader::First));
    check(3, || count_served_clients(combine::Leader::Last));
}

/// A lock on the queue, and broken variants of it.
struct SimpleLock {
    held: AtomicU64,
    queue: queue::FairQueue<()>,
    mutant: Mutant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutant {
    None,
    /// A waiter checks the lock before it locks the queue, and not again.
    StaleCheck,
    /// A dropped waiter does not pass on the lock that it was granted.
    LostGrant,
}

impl SimpleLock {
    async fn acquire(&self) {
        let try_lock = || self.held.swap(1, Ordering::AcqRel) == 0;
        if self.mutant == Mutant::StaleCheck && try_lock() {
            return;
        }
        let waiting = {
            let mut list = self.queue.lock();
            if self.mutant != Mutant::StaleCheck && try_lock() {
                return;
            }
            self.queue.join(&mut list, 0, |()| {
                if self.mutant != Mutant::LostGrant {
                    self.release();
                }
            })
        };
        assert_eq!(waiting.await, Some(()));
    }

    fn release(&self) {
        let mut list = self.queue.lock();
        if !list.grant_first(0, ()) {
            self.held.store(0, Ordering::Release);
        }
    }

    /// Two threads use the lock; a third client drops its future after the first poll.
    fn check(mutant: Mutant) {
        check(3, move || {
            let lock = Self { held: AtomicU64::new(0), queue: queue::FairQueue::new(()), mutant };
            let lock = Arc::new(lock);
            let threads = [(); 2].map(|()| {
                let lock = Arc::clone(&lock);
                thread::spawn(move || {
                    block_on(lock.acquire());
                    lock.release();
                })
            });
            if poll_and_drop(lock.acquire()).is_some() {
                lock.release();
            }
            for thread in threads {
                thread.join().unwrap();
            }
        });
    }
}

/// Names the mutant that [`a_lock_on_the_queue_passes_the_model`] checks in a separate process, because a failed model
/// aborts its process.
const MUTANT: &str = "FARWOOD_QUEUE_MUTANT";

#[test]
fn a_lock_on_the_queue_passes_the_model() {
    match std::env::var(MUTANT).as_deref() {
        Err(_) => SimpleLock::check(Mutant::None),
        Ok("StaleCheck") => SimpleLock::check(Mutant::StaleCheck),
        Ok("LostGrant") => SimpleLock::check(Mutant::LostGrant),
        Ok("RelaxedOrderings") => check(3, || combine_requests!(crate::broken::combine, First)),
        Ok(other) => unreachable!("{other} is not the name of a mutant"),
    }
}

#[test]
fn the_model_detects_every_mutant() {
    let mutants =
        [("StaleCheck", "deadlock"), ("LostGrant", "deadlock"), ("RelaxedOrderings", "Causality violation")];
    for (mutant, message) in mutants {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "a_lock_on_the_queue_passes_the_model", "--nocapture"]);
        let output = command.env(MUTANT, mutant).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && errors.contains(message), "{mutant} passes the model: {errors}");
    }
}

#[test]
fn values_go_to_the_waiters_of_their_key_in_order() {
    check(0, || {
        let queue = queue::FairQueue::<u32>::new(());
        let ignore = |_| {};
        let mut list = queue.lock();
        let mut waiting = [1, 2, 1, 1].map(|key| Box::pin(queue.join(&mut list, key, ignore)));
        drop(list);
        assert!(waiting.iter_mut().all(|waiting| poll(waiting.as_mut()).is_pending()));
        let mut list = queue.lock();
        assert!(list.grant_first(1, 10) && list.grant_last(1, 11) && !list.grant_first(3, 12));
        list.grant_all(1, || 13);
        assert!(!list.has_waiter(1) && list.has_waiter(2));
        drop(list);
        let found = waiting.each_mut().map(|waiting| poll(waiting.as_mut()));
        assert_eq!(
            found,
            [Poll::Ready(Some(10)), Poll::Pending, Poll::Ready(Some(13)), Poll::Ready(Some(11))]
        );
    });
}

#[test]
fn a_dropped_waiter_is_skipped_and_its_grant_passes_to_the_next() {
    check(0, || {
        let queue = queue::FairQueue::<u32>::new(());
        let given_up = RefCell::new(Vec::new());
        let give_up = |value| given_up.borrow_mut().push(value);
        let mut list = queue.lock();
        let [first, second, third] = [(); 3].map(|()| queue.join(&mut list, 0, give_up));
        drop(list);
        drop(first);
        assert!(queue.lock().grant_first(0, 1));
        drop(second);
        assert_eq!(*given_up.borrow(), [1]);
        assert!(queue.lock().grant_first(0, 2));
        assert_eq!(poll(pin!(third)), Poll::Ready(Some(2)));
        assert!(!queue.lock().grant_first(0, 3), "no waiter is left");
    });
}

/// Commits the work of a group: the result of each work is the work itself. `committed` has a bit for each.
fn commit(mut group: writer::WriterGuard<'_, u64, u64>, exclusive: &Exclusive, committed: &AtomicU64) -> u64 {
    exclusive.access();
    let mut own = None;
    let mut grant_all = |group: &mut writer::WriterGuard<'_, u64, u64>| {
        while let Some(&work) = group.first() {
            let before = committed.fetch_or(work, Ordering::Relaxed);
            assert_eq!(before & work, 0, "no work is committed twice");
            own = group.grant_first(work).or(own);
        }
    };
    grant_all(&mut group);
    if group.take_more() {
        grant_all(&mut group);
    }
    own.expect("a group contains the work of its writer")
}

/// Two threads submit work, and a third client drops its future, or its group, after the first poll.
#[test]
fn writers_commit_the_work_of_each_waiting_worker_once() {
    check(3, || {
        let shared = (writer::WriterQueue::<u64, u64>::new(2), Exclusive::new(), AtomicU64::new(0));
        let shared = Arc::new(shared);
        let threads = [1, 2].map(|work| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let (queue, exclusive, committed) = &*shared;
                let result = match block_on(queue.submit(work, 1)) {
                    writer::Role::Write(group) => commit(group, exclusive, committed),
                    writer::Role::Done(result) => result,
                };
                assert_eq!(result, work);
                assert_ne!(committed.load(Ordering::Relaxed) & work, 0, "the work was committed");
            })
        });
        let (queue, exclusive, committed) = &*shared;
        drop(poll_and_drop(queue.submit(4, 1)));
        for thread in threads {
            thread.join().unwrap();
        }
        let Some(writer::Role::Write(group)) = poll_and_drop(queue.submit(8, 1)) else {
            panic!("the tree has no writer")
        };
        commit(group, exclusive, committed);
        assert_eq!(committed.load(Ordering::Relaxed) & !4, 11);
    });
}

/// The group of a worker, which must be the writer now.
fn group<'q>(
    submitted: Pin<&mut impl Future<Output = writer::Role<'q, u64, u64>>>,
) -> writer::WriterGuard<'q, u64, u64> {
    match poll(submitted) {
        Poll::Ready(writer::Role::Write(group)) => group,
        other => panic!("the worker is not the writer: {other:?}"),
    }
}

#[test]
fn a_writer_takes_waiting_work_in_order_up_to_a_weight_and_a_dropped_writer_returns_it() {
    check(0, || {
        let queue = writer::WriterQueue::<u64, u64>::new(3);
        let first = group(pin!(queue.submit(1, 1)));
        let mut waiting = [2, 3, 4, 5, 6].map(|work| Box::pin(queue.submit(work, 1)));
        assert!(waiting.iter_mut().all(|waiting| poll(waiting.as_mut()).is_pending()));
        let [second, third, fourth, fifth, sixth] = &mut waiting;
        assert_eq!(first.work().collect::<Vec<_>>(), [&1], "work that arrives later is not taken");
        drop(first);
        let mut taken = group(second.as_mut());
        assert_eq!(taken.work().collect::<Vec<_>>(), [&2, &3, &4]);
        assert_eq!(taken.grant_first(20), Some(20), "the writer's own result");
        fourth.set(queue.submit(7, 1));
        assert!(poll(fourth.as_mut()).is_pending(), "the work 4 was withdrawn after it was taken");
        drop(taken);
        let mut taken = group(third.as_mut());
        assert_eq!(
            taken.work().collect::<Vec<_>>(),
            [&3, &5, &6],
            "the dropped writer returned 3, and not 4"
        );
        assert_eq!(taken.grant_first(30), Some(30));
        assert_eq!(taken.grant_first(50), None);
        assert!(matches!(poll(fifth.as_mut()), Poll::Ready(writer::Role::Done(50))));
        drop(taken);
        assert_eq!(group(sixth.as_mut()).grant_first(60), Some(60), "the first without a result");
    });
}

#[test]
fn a_worker_that_needs_the_tree_for_itself_is_in_no_group() {
    check(0, || {
        let queue = writer::WriterQueue::<u64, u64>::new(9);
        let first = group(pin!(queue.submit(1, 1)));
        let (mut alone, mut dropped) = (Box::pin(queue.lock()), Box::pin(queue.submit(2, 1)));
        let mut second = Box::pin(queue.submit(3, 20));
        assert!(poll(alone.as_mut()).is_pending() && poll(dropped.as_mut()).is_pending());
        assert!(poll(second.as_mut()).is_pending());
        drop(first);
        let Poll::Ready(mut locked) = poll(alone.as_mut()) else { panic!("it is the next writer") };
        assert_eq!(locked.work().len(), 0);
        drop(dropped);
        assert!(!locked.take_more(), "the work is heavier than a group");
        assert!(poll(second.as_mut()).is_pending());
        drop(locked);
        assert_eq!(
            group(second.as_mut()).work().collect::<Vec<_>>(),
            [&3],
            "work above the weight is done alone"
        );
    });
}
