//! The writer lock of the server: one worker at a time changes the tree, in the order of their requests.

use crate::queue::FairQueue;

/// A lock that its waiters acquire in order.
#[derive(Debug)]
pub(super) struct WriterLock {
    queue: FairQueue<(), Writer>,
}

/// Whether a worker holds the lock.
#[derive(Debug, PartialEq, Eq)]
enum Writer {
    Absent,
    Present,
}

/// The lock, held until it is dropped.
#[derive(Debug)]
#[must_use = "the lock is released when the guard is dropped"]
pub(super) struct WriterGuard<'l> {
    lock: &'l WriterLock,
}

impl Default for WriterLock {
    fn default() -> Self {
        Self { queue: FairQueue::new(Writer::Absent) }
    }
}

impl WriterLock {
    /// Acquires the lock. [0 RT]
    pub(super) async fn acquire(&self) -> WriterGuard<'_> {
        let waiting = {
            let mut list = self.queue.lock();
            match std::mem::replace(&mut list.state, Writer::Present) {
                Writer::Absent => None,
                Writer::Present => Some(self.queue.join(&mut list, 0, |()| self.release())),
            }
        };
        if let Some(waiting) = waiting {
            waiting.await;
        }
        WriterGuard { lock: self }
    }

    /// Passes the lock to the next waiter, or frees it.
    fn release(&self) {
        let mut list = self.queue.lock();
        debug_assert_eq!(list.state, Writer::Present, "only a held lock is released");
        if !list.grant_first(0, ()) {
            list.state = Writer::Absent;
        }
    }
}

impl Drop for WriterGuard<'_> {
    fn drop(&mut self) {
        self.lock.release();
    }
}
