//! Calls that wait for a memory node that does not answer: they end at their limit, and use little processor time.
//!
//! Each test measures a separate process, which runs nothing else. The share is printed.

use crate::machine::{Machine, eventually};
use crate::serve::Served;
use farwood::error::ErrorKind;
use farwood::{AsyncIndex, Index, Pool};
use rustix::time::{ClockId, clock_gettime};
use std::pin::Pin;
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// The variable that gives a separate process the memory node, and its process number.
const ALONE: &str = "FARWOOD_TEST_WAITING";
/// The duration of a wait.
const WAIT: Duration = Duration::from_secs(2);
/// The greatest share of a processor that a waiting process uses, also on a busy machine. Mostly it is 1 to 3 %. A wait
/// that polls continuously uses all of a processor.
const SHARE_MAX: f64 = 0.1;

/// A command that runs one test of this program in a separate process.
pub(crate) fn rerun(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
    command
}

/// Runs a test of this file in a separate process, beside a memory node with an index; yields the index in that
/// process, and the process number of the memory node.
#[expect(clippy::print_stdout, reason = "libtest prints it with --nocapture, and after a failure")]
fn alone(test: &str) -> Option<(Index<u64, u64>, String)> {
    if let Ok(given) = std::env::var(ALONE) {
        let (url, process) = given.split_once(' ').unwrap();
        let index = Pool::open(url).unwrap().open_index("i").unwrap();
        return Some((index, process.to_owned()));
    }
    let machine = Machine::new();
    let node = Served::start(&machine);
    machine.ok(&["create", &format!("{}/i", node.url)]);
    let mut command = rerun(&format!("waiting::{test}"));
    let output = command.env(ALONE, format!("{} {}", node.url, node.process_number())).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{text}");
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("1 passed"), "it did not run: {text}");
    None
}

fn signal(name: &str, process: &str) {
    assert!(Command::new("kill").args([name, process]).status().unwrap().success());
}

/// Whether the kernel has stopped all threads of a process.
fn is_stopped(process: &str) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    threads.map(|thread| thread.unwrap().path().join("stat")).all(|stat| {
        let stat = std::fs::read_to_string(stat).unwrap();
        stat.rsplit(") ").next().unwrap().starts_with('T')
    })
}

/// Stops a process, and returns when none of its threads runs.
pub(crate) fn stop(process: &str) {
    signal("-STOP", process);
    eventually("the process is stopped", || is_stopped(process));
}

/// The processor time of all threads of this process.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap(), time.tv_nsec.try_into().unwrap())
}

/// A moment, and the processor time until then.
type Moment = (Instant, Duration);

fn now() -> Moment {
    (Instant::now(), processor_time())
}

/// The share of a processor that this process used between two moments.
fn share(from: Moment, until: Moment) -> f64 {
    until.1.abs_diff(from.1).as_secs_f64() / until.0.duration_since(from.0).as_secs_f64()
}

/// Waits with `wait`; asserts that the wait took [`WAIT`] and little processor time.
#[expect(clippy::print_stdout, reason = "libtest prints it with --nocapture, and after a failure")]
fn measure(what: &str, wait: impl FnOnce()) {
    let begin = now();
    let sampler = std::thread::spawn(|| {
        std::thread::sleep(WAIT / 2);
        now()
    });
    wait();
    let (middle, end) = (sampler.join().unwrap(), now());
    let [first, second, all] =
        [(begin, middle), (middle, end), (begin, end)].map(|(from, until)| share(from, until));
    println!(
        "{what}: {:.2} % of a processor, {:.2} % in the first second and {:.2} % in the second",
        100.0 * all,
        100.0 * first,
        100.0 * second
    );
    let elapsed = end.0 - begin.0;
    assert!(elapsed >= WAIT && elapsed < 2 * WAIT, "{elapsed:?}");
    assert!(all < SHARE_MAX, "{what} uses {:.1} % of a processor", 100.0 * all);
}

#[test]
fn a_blocking_call_that_waits_for_a_memory_node_uses_little_processor_time() {
    let test = "a_blocking_call_that_waits_for_a_memory_node_uses_little_processor_time";
    let Some((index, node)) = alone(test) else { return };
    index.put(7, 70).unwrap();
    stop(&node);
    let limited = index.with_timeout(WAIT);
    measure("a blocking get", || {
        let error = limited.get(7).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
    });
    signal("-CONT", &node);
    assert_eq!(index.get(7).unwrap(), Some(70));
    assert_eq!(limited.get(7).unwrap(), Some(70));
}

#[test]
fn an_async_call_that_waits_for_a_memory_node_uses_little_processor_time() {
    let test = "an_async_call_that_waits_for_a_memory_node_uses_little_processor_time";
    let Some((index, node)) = alone(test) else { return };
    index.put(7, 70).unwrap();
    let async_index: AsyncIndex<u64, u64> = index.to_async().unwrap();
    assert_eq!(farwood::runtime::block_on(async_index.get(7)).unwrap(), Some(70));
    stop(&node);
    let (done, answer) = channel();
    let pending = async_index.get(7);
    let waiter = std::thread::spawn(move || done.send(farwood::runtime::block_on(pending)));
    measure("an async get", || {
        assert!(answer.recv_timeout(WAIT).is_err(), "a stopped memory node has answered");
    });
    signal("-CONT", &node);
    assert_eq!(answer.recv().unwrap().unwrap(), Some(70));
    waiter.join().unwrap().unwrap();
    assert_eq!(farwood::runtime::block_on(async_index.get(7)).unwrap(), Some(70));
}

#[test]
fn async_puts_that_wait_for_a_lock_use_little_processor_time() {
    let test = "async_puts_that_wait_for_a_lock_use_little_processor_time";
    let Some((index, node)) = alone(test) else { return };
    let async_index: AsyncIndex<u64, u64> = index.to_async().unwrap();
    farwood::runtime::block_on(async_index.put(7, 70)).unwrap();
    stop(&node);
    // The second one waits for the lock that the first one acquires.
    let puts = [71, 72].map(|value| async_index.put(7, value));
    measure("two async puts of a key", || std::thread::sleep(WAIT));
    signal("-CONT", &node);
    assert!(puts.into_iter().all(|put| farwood::runtime::block_on(put).unwrap()), "the key existed");
}

/// Wakes a thread.
struct Unparks(Thread);

impl Wake for Unparks {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Polls futures as one task of an executor that does not know the connections, such as that of tokio, until they have
/// ended or `end` has come. Returns the outputs of those that have ended, which are removed.
fn poll_until<T>(futures: &mut Vec<Pin<Box<dyn Future<Output = T> + '_>>>, end: Instant) -> Vec<T> {
    let waker = Waker::from(Arc::new(Unparks(std::thread::current())));
    let (mut outputs, mut context) = (Vec::new(), Context::from_waker(&waker));
    loop {
        futures.retain_mut(|future| {
            let Poll::Ready(output) = future.as_mut().poll(&mut context) else { return true };
            outputs.push(output);
            false
        });
        let left = end.saturating_duration_since(Instant::now());
        if futures.is_empty() || left.is_zero() {
            return outputs;
        }
        std::thread::park_timeout(left);
    }
}

#[test]
fn calls_of_sessions_in_another_executor_use_little_processor_time() {
    let test = "calls_of_sessions_in_another_executor_use_little_processor_time";
    let Some((index, node)) = alone(test) else { return };
    index.put(7, 70).unwrap();
    let session = index.session();
    stop(&node);
    let get =
        |_| Box::pin(session.get(7)) as Pin<Box<dyn Future<Output = farwood::Result<Option<u64>>> + '_>>;
    let mut gets: Vec<_> = (0..8).map(get).collect();
    measure("eight gets of sessions", || {
        let answered = poll_until(&mut gets, Instant::now() + WAIT);
        assert!(answered.is_empty(), "a stopped memory node has answered");
    });
    signal("-CONT", &node);
    let answers = poll_until(&mut gets, Instant::now() + Duration::from_mins(1));
    assert_eq!(answers.into_iter().map(Result::unwrap).collect::<Vec<_>>(), [Some(70); 8]);
}
