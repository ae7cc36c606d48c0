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

use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
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

/// The gates of a compute node, for one kind of thing that yields a `T`.
#[derive(Debug)]
pub struct Gates<T> {
    table: Box<[Mutex<Gate<T>>]>,
    leader: Leader,
    /// How often one client's work was another's, too.
    shared: AtomicU64,
    /// Broken on purpose: who comes late joins whoever is on its way.
    joins_late: bool,
}

#[derive(Debug)]
struct Gate<T> {
    /// Whether somebody is on its way.
    busy: bool,
    /// The key, and what is wanted of it.
    key: Vec<u8>,
    tag: u8,
    running: Option<Arc<Group<T>>>,
    waiting: Option<Arc<Group<T>>>,
}

/// Clients that wait for the same.
#[derive(Debug)]
struct Group<T>(Mutex<State<T>>);

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

impl<T> Group<T> {
    fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(State { members: Vec::new(), outcome: Outcome::Waiting })))
    }

    fn join(&self) -> usize {
        let members = &mut guard(&self.0).members;
        members.push(Some(Waker::noop().clone()));
        members.len() - 1
    }

    /// Closes the group and names its leader; `false`: nobody waits any more.
    fn appoint(&self, leader: Leader) -> bool {
        let mut state = guard(&self.0);
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
        let mut state = guard(&self.0);
        state.outcome = Outcome::Done(result);
        state.members.iter().flatten().for_each(Waker::wake_by_ref);
    }
}

impl<T: Clone> Gates<T> {
    /// Gates at which the `leader` of a group leads.
    pub fn new(leader: Leader) -> Self {
        let gate = || Mutex::new(Gate { busy: false, key: Vec::new(), tag: 0, running: None, waiting: None });
        let table = (0..GATES).map(|_| gate()).collect();
        Self { table, leader, shared: AtomicU64::new(0), joins_late: false }
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
        let number = xxh3_64(key) as usize % GATES;
        let (group, position) = {
            let mut gate = guard(&self.table[number]);
            if !gate.busy {
                gate.busy = true;
                gate.tag = tag;
                gate.key.clear();
                gate.key.extend_from_slice(key);
                if self.joins_late {
                    gate.running = Some(Group::new());
                }
                return Turn::Lead(Lead { gates: self, number, group: gate.running.clone(), position: 0 });
            }
            if gate.tag != tag || gate.key != key {
                return Turn::Alone;
            }
            let group = match gate.running.clone() {
                Some(running) if self.joins_late => running,
                _ => Arc::clone(gate.waiting.get_or_insert_with(Group::new)),
            };
            let position = group.join();
            (group, position)
        };
        let mut place = Place { gates: self, number, group, position, served: false };
        let led = poll_fn(|context| {
            let mut state = guard(&place.group.0);
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
                Turn::Lead(Lead { gates: self, number, group, position })
            }
            Some(Some(result)) => {
                self.shared.fetch_add(1, Relaxed);
                Turn::Done { result, position }
            }
            Some(None) => Turn::Alone,
        }
    }

    /// The way is free for the group that waits, if there is one.
    fn pass(&self, number: usize) {
        let mut gate = guard(&self.table[number]);
        gate.running = None;
        match gate.waiting.take() {
            Some(group) if group.appoint(self.leader) => {}
            _ => gate.busy = false,
        }
    }
}

/// A place in a group that waits. Dropped, it is given up.
struct Place<'g, T: Clone> {
    gates: &'g Gates<T>,
    number: usize,
    group: Arc<Group<T>>,
    position: usize,
    served: bool,
}

impl<T: Clone> Drop for Place<'_, T> {
    fn drop(&mut self) {
        if self.served {
            return;
        }
        let mut state = guard(&self.group.0);
        state.members[self.position] = None;
        let leads = matches!(state.outcome, Outcome::Led(led) if led == self.position);
        drop(state);
        if leads {
            self.group.publish(None);
            self.gates.pass(self.number);
        }
    }
}

/// Somebody's turn, for a group. Dropped without a result, it leaves each of the others to itself.
#[derive(Debug)]
#[must_use = "others may wait for what comes of it"]
pub struct Lead<'g, T: Clone> {
    gates: &'g Gates<T>,
    number: usize,
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
        self.gates.pass(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::{Pin, pin};
    use std::task::Context;

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
}
