//! What several clients of a compute node want of one key at the same time, done by one of them: read delegation and
//! write combining (SMART, §4.2).
//!
//! A gate is the way of one key. Its first client goes alone. Who comes while it is on its way joins the *group* that
//! waits; when the way is free the group is closed, one of it leads, and what it does counts for all of it. So
//!
//! - a reader shares only a READ that is posted after it arrived, for the leader posts it after the group was closed;
//! - a writer shares only a WRITE that is built after it arrived: the one that came last leads, with its own value,
//!   as if the others had written just before it. They are answered when it is, and where it fails, or is dropped,
//!   nothing of theirs was written, and each goes for itself.
//!
//! The published code lets a client join whoever is on its way, and so returns values from before it asked.
//!
//! The table has a fixed size. Keys that meet in one gate do not wait for each other: the later one goes without.
//!
//! Who finds nobody at a gate passes it with two atomic operations on one word, and meets no lock. The word has a
//! hash of what is on its way, for who is on its way shares nothing with who comes later; the group that waits has the
//! key itself.

use std::future::poll_fn;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use xxhash_rust::xxh3::xxh3_64;

/// Gates of a table.
const GATES: usize = 4096;

/// Who of a group leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leader {
    /// Who came first.
    First,
    /// Who came last.
    Last,
}

/// In a gate's word: somebody is on its way. A word without is 0.
const BUSY: u64 = 1;
/// And somebody waits for that.
const WAITED_FOR: u64 = 2;

/// The gates of a compute node, for one kind of thing that yields a `T`.
#[derive(Debug)]
pub struct Gates<T> {
    /// What is on its way through each: a [`sign`], and whether somebody waits for it.
    ways: Box<[AtomicU64]>,
    /// Who waits. Taken before a way says that it is waited for, and before one that does says anything else.
    queues: Box<[Mutex<Queue<T>>]>,
    leader: Leader,
    /// How often one client's work was another's, too.
    shared: AtomicU64,
    /// Broken on purpose: who comes late joins whoever is on its way.
    joins_late: bool,
}

#[derive(Debug)]
struct Queue<T> {
    /// Whom who comes late joins, where that is broken on purpose.
    running: Option<Arc<Group<T>>>,
    waiting: Option<Arc<Group<T>>>,
}

/// Clients that wait for the same.
#[derive(Debug)]
struct Group<T> {
    /// The key, and what is wanted of it.
    key: Box<[u8]>,
    tag: u8,
    state: Mutex<State<T>>,
}

#[derive(Debug)]
struct State<T> {
    /// In the order in which they came; `None`: it has stopped waiting.
    members: Vec<Option<Waker>>,
    outcome: Outcome<T>,
}

#[derive(Debug)]
enum Outcome<T> {
    Waiting,
    /// Who leads.
    Led(usize),
    /// What came of it; nothing, if the leader failed.
    Done(Option<T>),
}

/// How a client is to go.
#[derive(Debug)]
pub enum Turn<'g, T: Clone> {
    /// For itself, and perhaps for others.
    Lead(Lead<'g, T>),
    /// Not at all: another has done it.
    Done {
        /// What came of it.
        result: T,
        /// How many came before this one.
        position: usize,
    },
    /// For itself.
    Alone,
}

fn guard<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The word of a gate through which `tag` of `key` goes, and the gate's number.
fn sign(key: &[u8], tag: u8) -> (u64, usize) {
    let hash = xxh3_64(key);
    ((hash ^ u64::from(tag) << 2) & !WAITED_FOR | BUSY, (hash >> 32) as usize % GATES)
}

impl<T> Group<T> {
    fn new(key: &[u8], tag: u8) -> Arc<Self> {
        let state = State { members: Vec::new(), outcome: Outcome::Waiting };
        Arc::new(Self { key: key.into(), tag, state: Mutex::new(state) })
    }

    fn join(&self) -> usize {
        let members = &mut guard(&self.state).members;
        members.push(Some(Waker::noop().clone()));
        members.len() - 1
    }

    /// Closes the group and names its leader; `false`: nobody waits any more.
    fn appoint(&self, leader: Leader) -> bool {
        let mut state = guard(&self.state);
        let mut waiting = (0..).zip(&state.members).filter(|(_, waker)| waker.is_some()).map(|(at, _)| at);
        let led = match leader {
            Leader::First => waiting.next(),
            Leader::Last => waiting.last(),
        };
        let Some(led) = led else { return false };
        state.outcome = Outcome::Led(led);
        if let Some(waker) = &state.members[led] {
            waker.wake_by_ref();
        }
        true
    }

    fn publish(&self, result: Option<T>) {
        let mut state = guard(&self.state);
        state.outcome = Outcome::Done(result);
        state.members.iter().flatten().for_each(Waker::wake_by_ref);
    }
}

impl<T: Clone> Gates<T> {
    /// Gates at which the `leader` of a group leads.
    pub fn new(leader: Leader) -> Self {
        let queue = || Mutex::new(Queue { running: None, waiting: None });
        let ways = (0..GATES).map(|_| AtomicU64::new(0)).collect();
        let queues = (0..GATES).map(|_| queue()).collect();
        Self { ways, queues, leader, shared: AtomicU64::new(0), joins_late: false }
    }

    /// How often one client's work was another's, too.
    pub fn shared(&self) -> u64 {
        self.shared.load(Relaxed)
    }

    /// Lets who comes late join whoever is on its way, for tests that want to notice.
    pub(crate) fn join_late(&mut self) {
        self.joins_late = true;
    }

    /// Waits until what `tag` stands for may be done to `key`, or another has done it.
    pub async fn enter(&self, key: &[u8], tag: u8) -> Turn<'_, T> {
        let gate @ (sign, number) = sign(key, tag);
        match self.ways[number].compare_exchange(0, sign, AcqRel, Relaxed) {
            Ok(_) => Turn::Lead(self.set_out(gate, (key, tag))),
            Err(found) if found & !WAITED_FOR == sign => self.meet(gate, (key, tag)).await,
            Err(_) => Turn::Alone,
        }
    }

    /// The turn of who has found its way free.
    fn set_out(&self, gate: (u64, usize), (key, tag): (&[u8], u8)) -> Lead<'_, T> {
        let mut group = None;
        if self.joins_late {
            group = Some(Group::new(key, tag));
            guard(&self.queues[gate.1]).running.clone_from(&group);
        }
        Lead { gates: self, gate, group, position: 0 }
    }

    /// The turn of who has met somebody on its way: it joins the group that waits.
    async fn meet(&self, gate: (u64, usize), (key, tag): (&[u8], u8)) -> Turn<'_, T> {
        match self.join(gate, (key, tag)) {
            Ok(Some(place)) => self.wait(place).await,
            Ok(None) => Turn::Lead(self.set_out(gate, (key, tag))),
            Err(Other) => Turn::Alone,
        }
    }

    /// A place in the group that waits; `None`: the way is free by now, and taken.
    fn join(
        &self,
        gate @ (sign, number): (u64, usize),
        (key, tag): (&[u8], u8),
    ) -> Result<Option<Place<'_, T>>, Other> {
        let mut queue = guard(&self.queues[number]);
        let next = |found| match found {
            0 => Some(sign),
            found if found & !WAITED_FOR == sign => Some(sign | WAITED_FOR),
            _ => None,
        };
        match self.ways[number].fetch_update(AcqRel, Acquire, next) {
            Ok(0) => return Ok(None),
            Ok(_) => {}
            Err(_) => return Err(Other),
        }
        let group = match &queue.running {
            Some(running) => Arc::clone(running),
            None => Arc::clone(queue.waiting.get_or_insert_with(|| Group::new(key, tag))),
        };
        if (&*group.key, group.tag) != (key, tag) {
            return Err(Other);
        }
        let position = group.join();
        Ok(Some(Place { gates: self, gate, group, position, served: false }))
    }

    /// Waits in a group for its turn, or for what comes of another's.
    async fn wait(&self, mut place: Place<'_, T>) -> Turn<'_, T> {
        let (gate, position) = (place.gate, place.position);
        let led = poll_fn(|context| {
            let mut state = guard(&place.group.state);
            match &state.outcome {
                Outcome::Waiting => {}
                Outcome::Led(led) if *led != position => {}
                Outcome::Led(_) => return Poll::Ready(None),
                Outcome::Done(result) => return Poll::Ready(Some(result.clone())),
            }
            match &mut state.members[position] {
                Some(waker) => waker.clone_from(context.waker()),
                None => unreachable!("it is waiting"),
            }
            Poll::Pending
        })
        .await;
        place.served = true;
        match led {
            None => {
                let group = Some(Arc::clone(&place.group));
                Turn::Lead(Lead { gates: self, gate, group, position })
            }
            Some(Some(result)) => {
                self.shared.fetch_add(1, Relaxed);
                Turn::Done { result, position }
            }
            Some(None) => Turn::Alone,
        }
    }

    /// The way is free for the group that waits, if there is one.
    fn pass(&self, (sign, number): (u64, usize)) {
        let way = &self.ways[number];
        if !self.joins_late && way.compare_exchange(sign, 0, Release, Relaxed).is_ok() {
            return;
        }
        let mut queue = guard(&self.queues[number]);
        queue.running = None;
        let next = match queue.waiting.take() {
            Some(group) if group.appoint(self.leader) => sign,
            _ => 0,
        };
        way.store(next, Release);
    }
}

/// What goes through a gate is another thing.
struct Other;

/// A place in a group that waits. Dropped, it is given up.
struct Place<'g, T: Clone> {
    gates: &'g Gates<T>,
    gate: (u64, usize),
    group: Arc<Group<T>>,
    position: usize,
    served: bool,
}

impl<T: Clone> Drop for Place<'_, T> {
    fn drop(&mut self) {
        if self.served {
            return;
        }
        let mut state = guard(&self.group.state);
        state.members[self.position] = None;
        let leads = matches!(state.outcome, Outcome::Led(led) if led == self.position);
        drop(state);
        if leads {
            self.group.publish(None);
            self.gates.pass(self.gate);
        }
    }
}

/// Somebody's turn, for a group. Dropped without a result, it leaves each of the others to itself.
#[derive(Debug)]
#[must_use = "others may wait for what comes of it"]
pub struct Lead<'g, T: Clone> {
    gates: &'g Gates<T>,
    gate: (u64, usize),
    group: Option<Arc<Group<T>>>,
    position: usize,
}

impl<T: Clone> Lead<'_, T> {
    /// How many came before this client.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Shares what came of it, if others wait for it; `result` is asked for only then.
    pub fn share(mut self, result: impl FnOnce() -> T) {
        if let Some(group) = self.group.take() {
            group.publish(Some(result()));
        }
    }
}

impl<T: Clone> Drop for Lead<'_, T> {
    fn drop(&mut self) {
        if let Some(group) = self.group.take() {
            group.publish(None);
        }
        self.gates.pass(self.gate);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::{Pin, pin};
    use std::sync::atomic::Ordering::SeqCst;
    use std::task::{Context, Wake};
    use std::thread::{self, Thread};

    fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    fn ready<F: Future>(future: Pin<&mut F>) -> F::Output {
        match poll(future) {
            Poll::Ready(output) => output,
            Poll::Pending => panic!("it waits"),
        }
    }

    #[test]
    fn who_comes_late_waits_for_the_next() {
        let gates = Gates::<u32>::new(Leader::First);
        let Turn::Lead(first) = ready(pin!(gates.enter(b"k", 0))) else { panic!("nobody is before it") };
        let (mut second, mut third) = (pin!(gates.enter(b"k", 0)), pin!(gates.enter(b"k", 0)));
        assert!(poll(second.as_mut()).is_pending() && poll(third.as_mut()).is_pending());
        first.share(|| 1);
        let Turn::Lead(second) = ready(second) else { panic!("it leads") };
        let mut fourth = pin!(gates.enter(b"k", 0));
        assert!(poll(third.as_mut()).is_pending() && poll(fourth.as_mut()).is_pending());
        second.share(|| 2);
        assert!(matches!(ready(third), Turn::Done { result: 2, position: 1 }));
        assert!(matches!(ready(fourth), Turn::Lead(_)));
        assert_eq!(gates.shared(), 1);
    }

    #[test]
    fn the_last_one_leads_and_the_first_one_knows_that_it_was_first() {
        let gates = Gates::<u32>::new(Leader::Last);
        let Turn::Lead(first) = ready(pin!(gates.enter(b"k", 0))) else { panic!("nobody is before it") };
        let (mut second, mut third) = (pin!(gates.enter(b"k", 0)), pin!(gates.enter(b"k", 0)));
        assert!(poll(second.as_mut()).is_pending() && poll(third.as_mut()).is_pending());
        drop(first);
        let Turn::Lead(lead) = ready(third) else { panic!("it came last") };
        assert_eq!(lead.position(), 1);
        lead.share(|| 7);
        assert!(matches!(ready(second), Turn::Done { result: 7, position: 0 }));
    }

    #[test]
    fn a_leader_that_is_dropped_leaves_nobody_waiting() {
        let gates = Gates::<u32>::new(Leader::First);
        let Turn::Lead(first) = ready(pin!(gates.enter(b"k", 0))) else { panic!("nobody is before it") };
        let mut third = pin!(gates.enter(b"k", 0));
        {
            let mut second = pin!(gates.enter(b"k", 0));
            assert!(poll(second.as_mut()).is_pending() && poll(third.as_mut()).is_pending());
            drop(first);
        }
        assert!(matches!(ready(third), Turn::Alone));
        assert!(matches!(ready(pin!(gates.enter(b"k", 0))), Turn::Lead(_)));
    }

    #[test]
    fn another_key_or_another_wish_goes_without() {
        let gates = Gates::<u32>::new(Leader::First);
        let Turn::Lead(_first) = ready(pin!(gates.enter(b"k", 0))) else { panic!("nobody is before it") };
        assert!(matches!(ready(pin!(gates.enter(b"k", 1))), Turn::Alone));
    }

    /// Wakes a thread.
    struct Bell(Thread);

    impl Wake for Bell {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    fn wait<F: Future>(future: F) -> F::Output {
        let waker = Waker::from(Arc::new(Bell(thread::current())));
        let mut future = pin!(future);
        loop {
            match future.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(output) => return output,
                Poll::Pending => thread::park(),
            }
        }
    }

    /// Threads that want the same all come through, one at a time, and what they share is from after they came.
    #[test]
    fn threads_share_only_what_was_done_after_they_came() {
        for leader in [Leader::First, Leader::Last] {
            let gates = Gates::<u64>::new(leader);
            let (clock, busy) = (AtomicU64::new(0), AtomicU64::new(0));
            let visit = || {
                for round in 0..20_000 {
                    let came = clock.fetch_add(1, SeqCst);
                    match wait(gates.enter(b"k", 0)) {
                        Turn::Lead(lead) => {
                            assert_eq!(busy.fetch_add(1, SeqCst), 0, "another is on its way");
                            let done = clock.fetch_add(1, SeqCst);
                            if round % 7 == 0 {
                                thread::yield_now();
                            }
                            assert_eq!(busy.fetch_sub(1, SeqCst), 1);
                            if round % 100 != 0 {
                                lead.share(|| done);
                            }
                        }
                        Turn::Done { result, .. } => {
                            assert!(result > came, "it was done before it was asked for");
                        }
                        Turn::Alone => {}
                    }
                }
            };
            thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(visit))));
            assert!(gates.shared() > 0, "nobody has met anybody");
            assert!(gates.ways.iter().all(|way| way.load(SeqCst) == 0));
        }
    }
}
