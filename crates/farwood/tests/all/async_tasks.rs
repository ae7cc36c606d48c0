//! Async handles of ordered indexes in the tasks of a tokio runtime.

use farwood::error::{Effect, ErrorKind};
use farwood::index::Direction;
use farwood::node::{MemoryNode, NodeSpec};
use farwood::{AsyncIndex, BTree, Hashed, Index, Pool, PoolOptions, Radix};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};
use tokio::task::{JoinSet, LocalSet};
use tokio::time::{sleep, timeout};

/// The longest time of a call that waits for no other client, on a busy machine. A call waits 20 s for the lock of a
/// live client.
const CALL_MAX: Duration = Duration::from_secs(5);
/// Calls of a lost memory node fail within this time. A client that gets no answer for 10 s reconnects, and a memory
/// node that accepts the connection has 5 s for the greeting. The rest is for a busy machine.
const LOST_MAX: Duration = Duration::from_secs(40);
/// The time for which a thread keeps a lock.
const HOLD: Duration = Duration::from_millis(300);

/// A pool of one test, removed when the test ends.
struct Place {
    url: String,
    node: Option<MemoryNode>,
}

impl Place {
    fn shm(name: &str) -> Self {
        let url = format!("shm://tasks-{name}-{}", std::process::id());
        Pool::create(&url, &PoolOptions::new().memory_bytes(64 << 20)).unwrap();
        Self { url, node: None }
    }

    fn tcp() -> Self {
        let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let node = MemoryNode::start(&NodeSpec::new(listen, 64 << 20)).unwrap();
        Self { url: format!("tcp://{}", node.address()), node: Some(node) }
    }

    /// A pool of each kind.
    fn both(name: &str) -> [Self; 2] {
        [Self::shm(name), Self::tcp()]
    }

    fn open(&self) -> Pool {
        Pool::open(&self.url).unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.node.is_none() {
            let _ = Pool::remove_by_force(&self.url);
        }
    }
}

/// An index of each system.
fn indexes(pool: &Pool) -> [Index<u64, u64>; 3] {
    [
        pool.create_index("sherman", &BTree::new()).unwrap(),
        pool.create_index("smart", &Radix::new()).unwrap(),
        pool.create_index("sphinx", &Hashed::new()).unwrap(),
    ]
}

async fn soon<T>(call: impl Future<Output = farwood::Result<T>>) -> T {
    timeout(CALL_MAX, call).await.expect("a call waits for another one").unwrap()
}

/// The calls of one task.
async fn work(index: AsyncIndex<u64, u64>, task: u64) {
    let first = 100 * task;
    for number in first..first + 30 {
        assert!(!index.put(number, task).await.unwrap());
        assert_eq!(index.get(number).await.unwrap(), Some(task));
        index.fetch_add(u64::MAX, 1).await.unwrap();
    }
    let own = index.scan(first..first + 100, Direction::Backward, 9).await.unwrap();
    assert!(own.into_iter().eq((first + 21..first + 30).rev().map(|number| (number, task))));
    assert_eq!(index.compare_exchange(first, Some(&task), None).await.unwrap(), Ok(()));
    assert!(index.remove(first + 1).await.unwrap());
    let found = index.get_many([first, first + 1, first + 2]).await.unwrap();
    assert_eq!(found, [None, None, Some(task)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_share_an_index_of_each_system() {
    for place in Place::both("share") {
        for index in indexes(&place.open()) {
            let tasks = index.to_async().unwrap();
            let done: JoinSet<()> = (0..32).map(|task| work(tasks.clone(), task)).collect();
            done.join_all().await;
            assert_eq!(tasks.get(u64::MAX).await.unwrap(), Some(32 * 30));
            assert_eq!(tasks.count().await.unwrap(), 32 * 28 + 1);
            assert_eq!(index.check().unwrap().problems(), []);
        }
    }
}

/// Calls `work` while a thread keeps the lock of key 1, in the function of a change, until `wait` returns.
async fn while_locked_during<F: Future<Output = ()>>(
    index: &Index<u64, u64>,
    wait: impl Fn() + Send + 'static,
    work: impl FnOnce() -> F,
) {
    index.put(1, 1).unwrap();
    let (locked, is_locked) = channel();
    let holder = index.clone();
    let holder = thread::spawn(move || {
        holder.fetch_update(1, move |value| {
            let _ = locked.send(());
            wait();
            value.copied()
        })
    });
    is_locked.recv().unwrap();
    work().await;
    holder.join().unwrap().unwrap();
}

/// Calls `work` while a thread keeps the lock of key 1.
async fn while_locked<F: Future<Output = ()>>(index: &Index<u64, u64>, work: impl FnOnce() -> F) {
    let (working, has_worked) = channel::<()>();
    let wait = move || {
        let _ = has_worked.recv();
    };
    while_locked_during(index, wait, async || {
        work().await;
        drop(working);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_after_a_timeout_of_the_task_continues() {
    for place in Place::both("timeout") {
        for index in indexes(&place.open()) {
            let tasks = index.to_async().unwrap();
            while_locked(&index, async || {
                for value in 2..6 {
                    assert!(timeout(Duration::from_millis(20), tasks.put(1, value)).await.is_err());
                }
                soon(tasks.get(1)).await;
            })
            .await;
            tasks.finished().await;
            assert!((2..6).contains(&soon(tasks.get(1)).await.unwrap()), "the forgotten puts have ended");
            assert!(soon(tasks.put(1, 9)).await);
            assert_eq!(index.check().unwrap().problems(), []);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_loser_of_a_select_is_forgotten() {
    for place in Place::both("select") {
        for index in indexes(&place.open()) {
            let tasks = index.to_async().unwrap();
            let mut answered = 0;
            for number in 0..500 {
                tokio::select! {
                    biased;
                    put = tasks.put(number, number) => { put.unwrap(); answered += 1; }
                    () = sleep(Duration::from_micros(number % 50)) => {}
                }
            }
            tasks.finished().await;
            assert_eq!(soon(tasks.count()).await, 500, "{answered} calls were awaited");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_answers_leave_no_lock() {
    for place in Place::both("dropped") {
        for index in indexes(&place.open()) {
            let tasks = index.to_async().unwrap();
            for number in 0..2_000 {
                let key = number % 100;
                drop(tasks.put(key, number));
                drop(tasks.remove(key + 1));
                drop(tasks.fetch_add(key, 1));
                drop(tasks.swap(key + 100, number));
                drop(tasks.scan(key.., Direction::Forward, 10));
            }
            timeout(40 * CALL_MAX, tasks.finished()).await.expect("10,000 calls end");
            // Another compute node would wait for a lock that is still held.
            let other = Pool::open(&place.url).unwrap();
            let other = other.open_index::<u64, u64>(name_of(&index)).unwrap();
            let other = other.with_timeout(Duration::from_secs(2));
            for key in 0..201 {
                other.put(key, 7).unwrap();
            }
            assert_eq!(soon(tasks.count()).await, 201);
            assert_eq!(index.check().unwrap().problems(), []);
        }
    }
}

/// The name of an index.
fn name_of(index: &Index<u64, u64>) -> &'static str {
    let url = index.url();
    ["sherman", "smart", "sphinx"].into_iter().find(|name| url.ends_with(name)).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_is_stored_and_closed_after_finished() {
    for place in Place::both("shutdown") {
        let pool = place.open();
        for (index, name) in indexes(&pool).into_iter().zip(["sherman", "smart", "sphinx"]) {
            let tasks = index.to_async().unwrap();
            drop(index);
            for number in 0..2_000 {
                drop(tasks.put(number, number));
            }
            let finished = tasks.finished();
            drop(tasks);
            timeout(40 * CALL_MAX, finished).await.expect("2,000 calls end");
            let other = place.open();
            assert_eq!(other.open_index::<u64, u64>(name).unwrap().count().unwrap(), 2_000);
            pool.drop_index(name).expect("this process has closed the index");
        }
    }
}

#[test]
fn calls_end_when_their_runtime_has_ended() {
    for place in Place::both("runtime") {
        let pool = place.open();
        for index in indexes(&pool) {
            let tasks = index.to_async().unwrap();
            let runtime = tokio::runtime::Runtime::new().unwrap();
            for task in 0..16 {
                let tasks = tasks.clone();
                runtime.spawn(async move {
                    for number in 0.. {
                        tasks.put(100 * task + number % 100, number).await.unwrap();
                    }
                });
            }
            thread::sleep(Duration::from_millis(30));
            runtime.shutdown_background();
            farwood::runtime::block_on(tasks.finished());
            index.with_timeout(CALL_MAX).put(0, 0).unwrap();
            assert_eq!(index.check().unwrap().problems(), []);
        }
    }
}

/// Forwards connections to `node`, and nothing any more once `stopped` is set. Returns the address to connect to.
fn forward(node: SocketAddr, stopped: &Arc<AtomicBool>) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let stopped = Arc::clone(stopped);
    thread::spawn(move || {
        for from in listener.incoming() {
            let (from, to) = (from.unwrap(), TcpStream::connect(node).unwrap());
            for (mut from, mut to) in [(from.try_clone().unwrap(), to.try_clone().unwrap()), (to, from)] {
                let stopped = Arc::clone(&stopped);
                thread::spawn(move || {
                    let mut bytes = vec![0; 1 << 16];
                    while let Ok(count @ 1..) = from.read(&mut bytes) {
                        if stopped.load(Ordering::Acquire) {
                            thread::sleep(2 * LOST_MAX);
                        }
                        if to.write_all(&bytes[..count]).is_err() {
                            break;
                        }
                    }
                    let _ = to.shutdown(Shutdown::Both);
                });
            }
        }
    });
    address
}

/// The memory node does not answer any more, so that closing the index takes as long as a post.
#[tokio::test]
async fn calls_of_a_silent_memory_node_fail_and_dropping_the_last_handle_does_not_wait() {
    let place = Place::tcp();
    let stopped = Arc::default();
    let address = forward(place.node.as_ref().unwrap().address(), &stopped);
    let pool = Pool::open(format!("tcp://{address}")).unwrap();
    let tasks = pool.create_index::<u64, u64>("i", &BTree::new()).unwrap().to_async().unwrap();
    drop(pool);
    tasks.put(1, 1).await.unwrap();
    stopped.store(true, Ordering::Release);
    let put = tasks.put(1, 2);
    assert!(timeout(Duration::from_millis(100), tasks.get(1)).await.is_err());
    let (finished, began) = (tasks.finished(), Instant::now());
    drop(tasks);
    let took = began.elapsed();
    assert!(took < CALL_MAX, "it took {took:?}");
    let error = timeout(LOST_MAX, put).await.expect("the call fails").unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Unreachable, Effect::Unknown), "{error}");
    timeout(2 * LOST_MAX, finished).await.expect("the thread closes the index");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_calls_than_the_thread_runs_at_a_time_are_answered() {
    for place in Place::both("many") {
        for index in indexes(&place.open()) {
            let tasks = index.to_async().unwrap();
            let puts: Vec<_> = (0..3_000).map(|number| tasks.put(number, number)).collect();
            for put in puts {
                assert!(!put.await.unwrap());
            }
            while_locked_during(
                &index,
                || thread::sleep(HOLD),
                async || {
                    let puts: Vec<_> = (0..600).map(|number| tasks.put(1, number)).collect();
                    for put in puts {
                        assert!(soon(put).await);
                    }
                },
            )
            .await;
            assert_eq!(soon(tasks.count()).await, 3_000);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_share_one_connection() {
    let place = Place::tcp();
    let node = place.node.as_ref().unwrap();
    let [one, two, _] = indexes(&place.open());
    let before = node.counts().accepted;
    let handles = [one.to_async().unwrap(), two.to_async().unwrap()];
    let done: JoinSet<()> = (0..64).map(|task| work(handles[task as usize % 2].clone(), task)).collect();
    done.join_all().await;
    let accepted = node.counts().accepted - before;
    assert_eq!(accepted, 1, "64 tasks use the connection of the pool's thread");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_fail_when_the_memory_node_has_ended() {
    let mut place = Place::tcp();
    let pool = place.open();
    for index in indexes(&pool).map(|index| index.to_async().unwrap()) {
        index.put(1, 1).await.unwrap();
    }
    let index = pool.open_index::<u64, u64>("sherman").unwrap().to_async().unwrap();
    let tasks: JoinSet<_> = (0..16)
        .map(|task| {
            let index = index.clone();
            async move {
                for number in 0.. {
                    if let Err(error) = index.put(number, task).await {
                        return error;
                    }
                }
                unreachable!("the memory node ends")
            }
        })
        .collect();
    sleep(Duration::from_millis(50)).await;
    place.node.take().unwrap().stop().unwrap();
    let began = Instant::now();
    let errors = timeout(LOST_MAX, tasks.join_all()).await.expect("the calls fail");
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
        assert!(error.is_retryable());
    }
    let later = timeout(LOST_MAX, index.get(1)).await.expect("later calls fail").unwrap_err();
    assert_eq!(later.kind(), ErrorKind::Unreachable, "{later}");
    assert!(began.elapsed() < LOST_MAX);
    timeout(LOST_MAX, index.finished()).await.expect("no call is left");
}

/// A timeout suspends a put of a session that waits for a lock. The task does not poll it while another put runs.
async fn put_beside_a_suspended_one(index: &Index<u64, u64>) {
    let session = index.session();
    let mut put = Box::pin(session.put(1, 3));
    while_locked(index, async || {
        assert!(timeout(Duration::ZERO, &mut put).await.is_err());
    })
    .await;
    soon(session.put(1, 4)).await;
    soon(put).await;
}

/// Over a network, a put also waits for its verbs, with the lock of its leaf. The task drops it.
async fn put_after_a_dropped_one(index: &Index<u64, u64>) {
    let session = index.session();
    for pause in 0..20 {
        let mut put = Box::pin(session.put(1, 1));
        if timeout(Duration::from_micros(20 * pause), &mut put).await.is_err() {
            drop(put);
            soon(session.put(1, 2)).await;
        }
    }
}

#[tokio::test]
async fn a_put_of_a_session_continues_beside_a_suspended_one() {
    let place = Place::shm("suspended");
    for index in indexes(&place.open()) {
        LocalSet::new().run_until(Box::pin(put_beside_a_suspended_one(&index))).await;
    }
}

#[tokio::test]
async fn a_put_of_a_session_continues_after_a_dropped_one() {
    for place in Place::both("session") {
        for index in indexes(&place.open()) {
            LocalSet::new().run_until(Box::pin(put_after_a_dropped_one(&index))).await;
        }
    }
}
