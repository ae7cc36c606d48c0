//! The calls of a service on an index: counters, conditional changes, batches, pages, time limits, async calls.

use farwood::error::{Effect, ErrorKind};
use farwood::index::{Range, Structure};
use farwood::node::{MemoryNode, NodeSpec};
use farwood::runtime::block_on;
use farwood::testing::ScratchPool;
use farwood::{BTree, Hashed, Index, Pool, Radix, Value};
use std::collections::HashSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Barrier, Mutex};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

/// The pool of one test.
fn scratch() -> ScratchPool {
    ScratchPool::new(64 << 20).unwrap()
}

/// A memory node of this process, and its URL.
fn memory_node() -> (MemoryNode, String) {
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let node = MemoryNode::start(&NodeSpec::new(listen, 64 << 20)).unwrap();
    let url = format!("tcp://{}", node.address());
    (node, url)
}

/// Calls `test` with an index of each system.
fn with_each<V: Value>(pool: &Pool, test: impl Fn(&Index<u64, V>)) {
    test(&pool.create_index("sherman", &BTree::new()).unwrap());
    test(&pool.create_index("smart", &Radix::new()).unwrap());
    test(&pool.create_index("sphinx", &Hashed::new()).unwrap());
    for name in ["sherman", "smart", "sphinx"] {
        pool.drop_index(name).unwrap();
    }
}

#[test]
fn conditional_changes_have_the_results_of_a_map() {
    let scratch = scratch();
    with_each::<i64>(&scratch.open().unwrap(), |index| {
        assert_eq!((index.fetch_add(1, 5).unwrap(), index.fetch_add(1, -7).unwrap()), (0, 5));
        assert_eq!(index.get(1).unwrap(), Some(-2));
        assert_eq!(index.swap(1, 9).unwrap(), Some(-2));
        assert_eq!(index.swap(2, 8).unwrap(), None);
        assert_eq!(index.compare_exchange(1, Some(&9), Some(&10)).unwrap(), Ok(()));
        assert_eq!(index.compare_exchange(1, Some(&9), Some(&11)).unwrap(), Err(Some(10)));
        assert_eq!(index.compare_exchange(1, None, Some(&11)).unwrap(), Err(Some(10)));
        assert_eq!(index.compare_exchange(3, None, Some(&30)).unwrap(), Ok(()));
        assert_eq!(index.compare_exchange(4, Some(&1), None).unwrap(), Err(None));
        assert_eq!(index.compare_exchange(3, Some(&31), None).unwrap(), Err(Some(30)));
        assert_eq!(index.compare_exchange(3, Some(&30), None).unwrap(), Ok(()));
        assert_eq!(index.compare_exchange(3, None, None).unwrap(), Ok(()));
        assert_eq!(index.fetch_update(1, |value| value.map(|value| value * 2)).unwrap(), Some(10));
        assert_eq!(index.fetch_update(5, |value| value.map(|value| value * 2)).unwrap(), None);
        assert_eq!(index.fetch_update(1, |_| None).unwrap(), Some(20));
        assert_eq!((index.get(1).unwrap(), index.get(5).unwrap()), (None, None));
        assert_eq!(index.remove_if(2, |&value| value > 8).unwrap(), None);
        assert_eq!(index.remove_if(2, |&value| value == 8).unwrap(), Some(8));
        assert_eq!((index.take(2).unwrap(), index.take(2).unwrap()), (None, None));
        assert_eq!(index.count().unwrap(), 0);
        assert_eq!(index.swap(7, 7).unwrap(), None);
        assert_eq!(index.take(7).unwrap(), Some(7));
    });
}

#[test]
fn long_values_are_changed_conditionally() {
    let scratch = scratch();
    let pool = scratch.open().unwrap();
    let index = pool.create_index::<String, Vec<u8>>("long", &Radix::new()).unwrap();
    let value = |byte: u8, length: usize| vec![byte; length];
    assert_eq!(index.swap("k", value(1, 5_000_000)).unwrap(), None);
    assert_eq!(index.swap("k", value(2, 3)).unwrap(), Some(value(1, 5_000_000)));
    let longer = |old: Option<&Vec<u8>>| old.map(|old| old.repeat(4_000));
    assert_eq!(index.fetch_update("k", longer).unwrap(), Some(value(2, 3)));
    let (old, new) = (value(2, 12_000), value(3, 12_001));
    assert_eq!(index.compare_exchange("k", Some(&old), Some(&new)).unwrap(), Ok(()));
    assert_eq!(index.take("k").unwrap(), Some(new));
    assert!(index.iter().next().is_none());
}

/// Threads increment one counter of each system, blocking and async; none of the increments is lost.
#[test]
fn no_increment_is_lost() {
    let scratch = scratch();
    with_each::<u64>(&scratch.open().unwrap(), |index| {
        let seen = AtomicU64::new(0);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..1_000 {
                        seen.fetch_max(index.fetch_add(1, 1).unwrap(), Relaxed);
                    }
                });
            }
            scope.spawn(|| {
                let index = index.to_async().unwrap();
                let answers: Vec<_> = (0..1_000).map(|_| index.fetch_add(1, 1)).collect();
                assert!(
                    answers.into_iter().all(|answer| farwood::runtime::block_on(answer).unwrap() < 4_000)
                );
            });
        });
        assert_eq!(index.get(1).unwrap(), Some(4_000));
        assert!(seen.load(Relaxed) < 4_000);
    });
}

/// A session is removed when it has expired, while another thread renews it: the renewed one stays.
#[test]
fn a_renewed_session_is_not_swept() {
    let scratch = scratch();
    let pool = scratch.open().unwrap();
    let sessions = pool.create_index::<u64, u64>("sessions", &BTree::new()).unwrap();
    let sessions = &sessions;
    thread::scope(|scope| {
        // Odd values have expired. A session is renewed by an even value, and stays until it expires again.
        let renewing = scope.spawn(move || {
            for round in 0..2_000_u64 {
                let key = round % 10;
                sessions.put(key, 2 * round + 1).unwrap();
                sessions.put(key, 2 * round).unwrap();
                assert_eq!(
                    sessions.get(key).unwrap(),
                    Some(2 * round),
                    "the sweep removed a renewed session"
                );
            }
        });
        while !renewing.is_finished() {
            sessions.range(..).remove_if(|_, value| value % 2 == 1).unwrap();
        }
        renewing.join().unwrap();
    });
    assert_eq!(sessions.count().unwrap(), 10);
}

#[test]
fn a_panic_in_a_function_frees_the_lock() {
    let scratch = scratch();
    with_each::<u64>(&scratch.open().unwrap(), |index| {
        index.put(1, 1).unwrap();
        let panicking = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            index.fetch_update(1, |_| panic!("a fault of the program"))
        }));
        assert!(panicking.is_err());
        let began = Instant::now();
        assert_eq!(index.fetch_add(1, 1).unwrap(), 1);
        let index = index.to_async().unwrap();
        let panicking = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            farwood::runtime::block_on(index.fetch_update(1, |_| panic!("a fault of the program")))
        }));
        assert!(panicking.is_err());
        assert_eq!(farwood::runtime::block_on(index.fetch_add(1, 1)).unwrap(), 2);
        assert!(began.elapsed() < Duration::from_secs(5));
    });
}

#[test]
fn batches_have_the_results_of_single_calls() {
    let scratch = scratch();
    with_each::<u64>(&scratch.open().unwrap(), |index| {
        let entries: Vec<(u64, u64)> = (0..500).map(|number| (number % 400, number)).collect();
        let existed = index.put_many(entries).unwrap();
        assert!(existed.iter().enumerate().all(|(at, existed)| *existed == (at >= 400)));
        let found = index.get_many(0..401).unwrap();
        let expected = |key: u64| (key < 400).then_some(if key < 100 { key + 400 } else { key });
        assert!(found.into_iter().eq((0..401).map(expected)), "the last entry of a key is stored");
        assert_eq!(index.remove_many([7, 7, 900]).unwrap(), [true, false, false]);
        assert_eq!(index.get_many(Vec::<u64>::new()).unwrap(), []);
        assert_eq!(index.count().unwrap(), 399);
    });
}

fn keys(range: Range<u64, u64>) -> Vec<u64> {
    range.into_iter().map(|entry| entry.unwrap().0).collect()
}

#[test]
fn ranges_have_limits_directions_and_pages() {
    let scratch = scratch();
    with_each::<u64>(&scratch.open().unwrap(), |index| {
        index.put_many((0..1_000).map(|number| (number, number))).unwrap();
        assert_eq!(keys(index.range(10..20).limit(3)), [10, 11, 12]);
        assert_eq!(keys(index.range(10..20).rev().limit(3)), [19, 18, 17]);
        assert_eq!(keys(index.range(10..20).limit(3).rev().rev()), [10, 11, 12]);
        assert_eq!(keys(index.range(10..=20).after(18)), [19, 20]);
        assert_eq!(keys(index.range(10..20).rev().after(12)), [11, 10]);
        assert_eq!(keys(index.range(10..20).after(12).rev()), [11, 10], "in the direction of the range");
        assert_eq!(keys(index.range(10..20).after(3)).len(), 10);
        assert_eq!(keys(index.range(10..20).after(19)), [0; 0]);
        assert_eq!(keys(index.range(10..20).after(u64::MAX)), [0; 0]);
        let (mut pages, mut last) = (Vec::new(), None::<u64>);
        loop {
            let range = index.range(..).limit(99);
            let page = keys(match last {
                Some(last) => range.after(last),
                None => range,
            });
            let Some(&end) = page.last() else { break };
            last = Some(end);
            pages.extend(page);
        }
        assert!(pages.into_iter().eq(0..1_000));
        assert_eq!(index.range(..).remove_if(|key, _| key % 2 == 0).unwrap(), 500);
        assert_eq!(keys(index.range(..6)), [1, 3, 5]);
    });
}

/// Every way to take entries from both ends yields each entry once.
#[test]
fn a_scan_from_both_ends_meets_in_the_middle() {
    let scratch = scratch();
    with_each::<u64>(&scratch.open().unwrap(), |index| {
        index.put_many((0..700).map(|number| (number, number))).unwrap();
        for pattern in 0..6_u32 {
            let (mut front, mut back) = (Vec::new(), Vec::new());
            let mut scan = index.scan(50..650);
            let mut step = 0_u32;
            loop {
                step += 1;
                let from_back = step.wrapping_mul(pattern) % 7 > 2;
                let entry = if from_back { scan.next_back() } else { scan.next() };
                let Some(entry) = entry else { break };
                let side = if from_back { &mut back } else { &mut front };
                side.push(entry.unwrap().0);
            }
            assert!(scan.next().is_none() && scan.next_back().is_none());
            back.reverse();
            front.extend(back);
            assert!(front.into_iter().eq(50..650), "pattern {pattern}");
        }
        let mut limited = index.range(..).limit(5).into_iter();
        let ends = [limited.next(), limited.next_back(), limited.next(), limited.next_back(), limited.next()];
        let ends = ends.map(|entry| entry.unwrap().unwrap().0);
        assert_eq!(ends, [0, 699, 1, 698, 2]);
        assert!(limited.next().is_none() && limited.next_back().is_none());
    });
}

/// A thread that stops in a function holds the lock of the leaf.
/// Starts a thread that holds the lock of the entry of key 1 until the sender is dropped, and waits until it does.
fn hold<'s>(
    scope: &'s thread::Scope<'s, '_>,
    index: &'s Index<u64, u64>,
) -> (thread::ScopedJoinHandle<'s, farwood::Result<Option<u64>>>, Sender<()>) {
    let ((begun, has_begun), (end, has_ended)) = (channel(), channel::<()>());
    let holder = scope.spawn(move || {
        index.fetch_update(1, move |value| {
            let _ = begun.send(());
            let _ = has_ended.recv();
            value.copied()
        })
    });
    has_begun.recv().unwrap();
    (holder, end)
}

#[test]
fn a_call_ends_after_its_time_limit() {
    let scratch = scratch();
    with_each::<u64>(&scratch.open().unwrap(), |index| {
        index.put(1, 1).unwrap();
        thread::scope(|scope| {
            let (holder, end) = hold(scope, index);
            let began = Instant::now();
            let error = index.with_timeout(Duration::from_millis(50)).swap(1, 2).unwrap_err();
            // Async calls and sessions have the limit of the handle from which they were created.
            let limited = index.with_timeout(Duration::from_millis(50));
            for error in [
                block_on(limited.to_async().unwrap().put(1, 2)).unwrap_err(),
                block_on(limited.session().put(1, 2)).unwrap_err(),
                block_on(limited.session().swap(1, 2)).unwrap_err(),
            ] {
                assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
            }
            // Without a limit of its own, a call waits for 20 s.
            assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
            drop(end);
            assert_eq!((error.kind(), error.effect()), (ErrorKind::TimedOut, Effect::Unknown), "{error}");
            assert!(error.is_retryable());
            holder.join().unwrap().unwrap();
        });
        assert!(matches!(index.with_timeout(Duration::from_secs(9)).get(1).unwrap(), Some(1 | 2)));
    });
}

/// The program is asked on the thread that waits, also if the thread of the pool executes the call.
#[test]
fn an_interrupted_call_ends() {
    const THREADS: usize = 6;
    fn interrupt_all(index: &Index<u64, u64>) {
        let asked = Arc::new(Mutex::new(HashSet::new()));
        let by_thread = Arc::clone(&asked);
        let impatient = index.with_interrupt(Arc::new(move || {
            by_thread.lock().unwrap().insert(thread::current().id());
            true
        }));
        let barrier = Barrier::new(THREADS);
        thread::scope(|scope| {
            let (holder, end) = hold(scope, index);
            let interrupted = || {
                barrier.wait();
                let began = Instant::now();
                let error = impatient.swap(1, 2).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
                assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
                assert!(asked.lock().unwrap().contains(&thread::current().id()), "another thread was asked");
                barrier.wait();
            };
            let waiters: Vec<_> = (0..THREADS).map(|_| scope.spawn(interrupted)).collect();
            for waiter in waiters {
                waiter.join().unwrap();
            }
            drop(end);
            holder.join().unwrap().unwrap();
        });
        assert_eq!(asked.lock().unwrap().len(), THREADS);
    }
    let scratch = scratch();
    let index = scratch.open().unwrap().create_index("i", &BTree::new()).unwrap();
    index.put(1, 1).unwrap();
    let impatient = index.with_interrupt(Arc::new(|| true));
    assert!(impatient.get(1).is_ok(), "a call that does not wait is not interrupted");
    interrupt_all(&index);
    let (_node, url) = memory_node();
    let index = Pool::open(&url).unwrap().create_index("i", &BTree::new()).unwrap();
    index.put(1, 1).unwrap();
    interrupt_all(&index);
}

/// 64 threads share three clients of their own and one of the pool.
#[test]
fn many_threads_share_few_connections() {
    let (node, url) = memory_node();
    let pool = Pool::open(&url).unwrap();
    let index = pool.create_index::<u64, u64>("i", &BTree::new()).unwrap();
    let before = node.counts().accepted;
    let together = std::sync::Barrier::new(64);
    thread::scope(|scope| {
        let threads = (0..64).map(|thread| {
            let (index, together) = (&index, &together);
            scope.spawn(move || {
                together.wait();
                for number in 0..20 {
                    index.put(100 * thread + number, thread).unwrap();
                    assert_eq!(index.get(100 * thread + number).unwrap(), Some(thread));
                    index.fetch_add(u64::MAX, 1).unwrap();
                }
                let own = index.scan(100 * thread..100 * thread + 20);
                assert_eq!(own.count(), 20);
                together.wait();
            })
        });
        for thread in threads.collect::<Vec<_>>() {
            thread.join().unwrap();
        }
    });
    assert_eq!(index.get(u64::MAX).unwrap(), Some(64 * 20));
    let accepted = node.counts().accepted - before;
    assert!(accepted <= 4, "the threads opened {accepted} connections");
}

/// A thread looks keys up without waiting once it has a client, in shared memory only.
#[test]
fn a_lookup_that_need_not_wait_is_complete() {
    let scratch = scratch();
    with_each::<u64>(&scratch.open().unwrap(), |index| {
        index.put(1, 3).unwrap();
        assert_eq!(index.try_get_with(1, |value| value).unwrap(), Poll::Ready(Some(3)));
        assert_eq!(index.try_get_with(2, |value| value).unwrap(), Poll::Ready(None));
        thread::scope(|scope| {
            let other = scope.spawn(|| {
                assert_eq!(
                    index.try_get_with(1, |value| value).unwrap(),
                    Poll::Pending,
                    "it has no client yet"
                );
                assert_eq!(index.get(1).unwrap(), Some(3));
                assert_eq!(index.try_get_with(1, |value| value).unwrap(), Poll::Ready(Some(3)));
            });
            other.join().unwrap();
        });
        let limited = index.clone().with_timeout(Duration::from_secs(5));
        assert_eq!(limited.try_get_with(1, |value| value).unwrap(), Poll::Pending, "its calls have a limit");
    });
    let (_node, url) = memory_node();
    with_each::<u64>(&Pool::open(&url).unwrap(), |index| {
        index.put(1, 3).unwrap();
        assert_eq!(index.try_get_with(1, |value| value).unwrap(), Poll::Pending);
    });
}

#[test]
fn the_values_of_a_batch_are_read_in_the_order_of_the_keys() {
    let test = |index: &Index<u64, u64>| {
        index.put_many((0..300).map(|key| (key, key * 3))).unwrap();
        let asked: Vec<u64> = (0..300).rev().chain([7, 7, 999, 3]).collect();
        let mut found = Vec::new();
        index.get_many_with(&asked, |value| found.push(value)).unwrap();
        let expected = asked.iter().map(|&key| (key < 300).then(|| key * 3));
        assert_eq!(found, expected.collect::<Vec<_>>());
        assert_eq!(index.get_many(&asked).unwrap(), found);
        assert_eq!(index.remove_many([5, 5, 6]).unwrap(), [true, false, true]);
    };
    with_each(&scratch().open().unwrap(), test);
    let (_node, url) = memory_node();
    with_each(&Pool::open(&url).unwrap(), test);
}

/// The lookups of a batch share doorbells. docs/library.md has the measured ratio; beside other tests, the fastest of
/// several runs show the direction.
#[test]
fn a_batch_over_tcp_is_faster_than_a_loop() {
    let (_node, url) = memory_node();
    let pool = Pool::open(&url).unwrap();
    with_each_over(&pool, |index| {
        index.put_many((0..640).map(|number| (number, number))).unwrap();
        index.get_many(0..640).unwrap();
        let timed = |work: &dyn Fn()| {
            let began = Instant::now();
            work();
            began.elapsed()
        };
        let rounds = (0..20).map(|_| {
            let looped = timed(&|| (0..640).for_each(|key| assert!(index.get(key).unwrap().is_some())));
            (looped, timed(&|| drop(index.get_many(0..640).unwrap())))
        });
        let (looped, batched): (Vec<_>, Vec<_>) = rounds.unzip();
        let (looped, batched) = (looped.iter().min(), batched.iter().min());
        assert!(batched < looped, "a batch took {batched:?}, a loop {looped:?}");
    });
}

fn with_each_over(pool: &Pool, test: impl Fn(&Index<u64, u64>)) {
    fn create(pool: &Pool, options: &impl Structure) -> Index<u64, u64> {
        pool.create_index("i", options).unwrap()
    }
    test(&create(pool, &BTree::new()));
    pool.drop_index("i").unwrap();
    test(&create(pool, &Radix::new()));
}
