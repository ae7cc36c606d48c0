//! The writer queue of the server: one worker at a time changes the tree, for all workers that wait.
//!
//! A worker that has changes to commit joins the queue with them. When the tree has no writer, the first worker of the
//! queue becomes the *writer*: it takes its own changes and those of the workers behind it, up to a weight, commits
//! them, and grants each worker its result. It repeats this a few times while other workers have arrived: the next
//! worker is asleep, and while it wakes up no worker would change the tree. Then the next worker becomes the writer.
//! The changes keep their order of arrival.
//!
//! Cancellation at any moment loses no other worker's changes, and executes no changes twice:
//!
//! - the changes of a worker that is dropped while they wait leave the queue;
//! - the changes of a worker that is dropped after a writer has taken them are executed as a whole, or return to the
//!   queue with the others when the writer is dropped, and are removed there;
//! - a writer that is dropped returns the changes without results to the front of the queue, in their order, and the
//!   next worker becomes the writer. A writer grants a result without awaiting anything after its commit.

use crate::queue::{FairQueue, WaitList};
use std::collections::VecDeque;

/// A queue of workers with work of type `W`, whose results have the type `R`.
#[derive(Debug)]
pub(super) struct WriterQueue<W, R> {
    /// The key of a waiter is the number of its entry.
    queue: FairQueue<Grant<R>, Entries<W>>,
    weight_max: usize,
}

/// The work that no writer has taken.
#[derive(Debug)]
struct Entries<W> {
    writer: Writer,
    /// In the order of arrival.
    waiting: VecDeque<Entry<W>>,
    next_number: u64,
}

/// Whether the tree has a writer.
#[derive(Debug, PartialEq, Eq)]
enum Writer {
    Absent,
    Present,
}

#[derive(Debug)]
struct Entry<W> {
    number: u64,
    /// `None`: the worker needs the tree for itself.
    work: Option<W>,
    weight: usize,
}

/// The role that a waiting worker is granted.
#[derive(Debug)]
enum Grant<R> {
    /// The worker is the writer.
    Write,
    /// The result of the worker's changes, which another worker has committed.
    Result(R),
}

/// The role of a worker that has submitted work.
#[derive(Debug)]
pub(super) enum Role<'q, W, R> {
    /// The worker commits its own work, and that of the others in the group.
    Write(WriterGuard<'q, W, R>),
    /// Another worker has committed the work, with this result.
    Done(R),
}

/// The right to change the tree, with the work of a group. Dropping it makes the next worker the writer.
#[derive(Debug)]
#[must_use = "the next worker waits until the guard is dropped"]
pub(super) struct WriterGuard<'q, W, R> {
    queue: &'q WriterQueue<W, R>,
    /// The number of the writer's own entry.
    own: u64,
    /// The entries without results.
    taken: VecDeque<Entry<W>>,
}

/// Removes the entry of a worker that no longer waits for its result.
struct Withdrawal<'q, W, R> {
    queue: &'q WriterQueue<W, R>,
    number: u64,
}

impl<W, R> Drop for Withdrawal<'_, W, R> {
    fn drop(&mut self) {
        self.queue.queue.lock().state.waiting.retain(|entry| entry.number != self.number);
    }
}

impl<W, R> WriterQueue<W, R> {
    /// An empty queue. A writer takes the work of others up to `weight_max`, its own included.
    pub(super) fn new(weight_max: usize) -> Self {
        let entries = Entries { writer: Writer::Absent, waiting: VecDeque::new(), next_number: 0 };
        Self { queue: FairQueue::new(entries), weight_max }
    }

    /// Waits until another worker has committed `work`, or this worker may. [0 RT]
    pub(super) async fn submit(&self, work: W, weight: usize) -> Role<'_, W, R> {
        self.enter(Some(work), weight).await
    }

    /// Waits until this worker is the writer, with no work of others. [0 RT]
    pub(super) async fn lock(&self) -> WriterGuard<'_, W, R> {
        match self.enter(None, 0).await {
            Role::Write(guard) => guard,
            Role::Done(_) => unreachable!("no writer takes an entry without work"),
        }
    }

    async fn enter(&self, work: Option<W>, weight: usize) -> Role<'_, W, R> {
        let (number, waiting) = {
            let mut list = self.queue.lock();
            let number = list.state.next_number;
            list.state.next_number += 1;
            list.state.waiting.push_back(Entry { number, work, weight });
            match std::mem::replace(&mut list.state.writer, Writer::Present) {
                Writer::Absent => (number, None),
                Writer::Present => {
                    let give_up = move |grant| self.give_up(number, &grant);
                    (number, Some(self.queue.join(&mut list, number, give_up)))
                }
            }
        };
        let Some(waiting) = waiting else { return Role::Write(self.take(number)) };
        let withdrawal = Withdrawal { queue: self, number };
        let grant = waiting.await.expect("no worker revokes a grant");
        std::mem::forget(withdrawal);
        match grant {
            Grant::Write => Role::Write(self.take(number)),
            Grant::Result(result) => Role::Done(result),
        }
    }

    /// Takes the work of the writer, whose entry is the first one, and of the workers behind it.
    fn take(&self, own: u64) -> WriterGuard<'_, W, R> {
        let mut list = self.queue.lock();
        let waiting = &mut list.state.waiting;
        let first = waiting.pop_front().expect("the entry of the writer stays until the writer takes it");
        debug_assert_eq!(first.number, own, "the first worker is the writer");
        let mut taken = VecDeque::new();
        if first.work.is_some() {
            let left = self.weight_max.saturating_sub(first.weight);
            taken.push_back(first);
            take_up_to(left, waiting, &mut taken);
        }
        WriterGuard { queue: self, own, taken }
    }

    /// Receives what was granted to a worker that is dropped. A result is of no use to others.
    fn give_up(&self, number: u64, grant: &Grant<R>) {
        if let Grant::Write = grant {
            let mut list = self.queue.lock();
            list.state.waiting.retain(|entry| entry.number != number);
            pass_on(&mut list);
        }
    }
}

/// Takes entries with work until their weight would exceed `left`, or the next worker needs the tree for itself.
fn take_up_to<W>(mut left: usize, waiting: &mut VecDeque<Entry<W>>, taken: &mut VecDeque<Entry<W>>) {
    while waiting.front().is_some_and(|next| next.work.is_some() && next.weight <= left) {
        let Some(next) = waiting.pop_front() else { return };
        left -= next.weight;
        taken.push_back(next);
    }
}

/// Makes the first worker the writer.
fn pass_on<W, R>(list: &mut WaitList<Grant<R>, Entries<W>>) {
    debug_assert_eq!(list.state.writer, Writer::Present, "only a writer passes on the tree");
    while let Some(number) = list.state.waiting.front().map(|entry| entry.number) {
        if list.grant_first(number, Grant::Write) {
            return;
        }
        // The worker is being dropped, and would remove its entry.
        list.state.waiting.pop_front();
    }
    list.state.writer = Writer::Absent;
}

impl<W, R> WriterGuard<'_, W, R> {
    /// The work without results, in the order of arrival.
    pub(super) fn work(&self) -> impl ExactSizeIterator<Item = &W> {
        self.taken.iter().map(|entry| entry.work.as_ref().expect("only entries with work are taken"))
    }

    /// The first work without a result.
    pub(super) fn first(&self) -> Option<&W> {
        self.taken.front().and_then(|entry| entry.work.as_ref())
    }

    /// Takes the work that waits now, up to the weight of a group; `false`: there is none for this writer. All work
    /// that it has taken before must have results.
    pub(super) fn take_more(&mut self) -> bool {
        debug_assert!(self.taken.is_empty(), "{} works have no result", self.taken.len());
        let mut list = self.queue.queue.lock();
        take_up_to(self.queue.weight_max, &mut list.state.waiting, &mut self.taken);
        !self.taken.is_empty()
    }

    /// Grants the first of the [`work`](Self::work) its result; yields the result if the work is the writer's own.
    pub(super) fn grant_first(&mut self, result: R) -> Option<R> {
        let first = self.taken.pop_front().expect("each result belongs to work");
        if first.number == self.own {
            return Some(result);
        }
        self.queue.queue.lock().grant_first(first.number, Grant::Result(result));
        None
    }
}

impl<W, R> Drop for WriterGuard<'_, W, R> {
    fn drop(&mut self) {
        let mut list = self.queue.queue.lock();
        while let Some(entry) = self.taken.pop_back() {
            if list.has_waiter(entry.number) {
                list.state.waiting.push_front(entry);
            }
        }
        pass_on(&mut list);
    }
}
