//! One process's attachment to a pool: its identity, and the connections of its threads.

use super::endpoints::{PRESENCE_LINE, Reach};
use super::membership::{Nameless, fence};
use super::transport::Way;
use crate::runtime::block_on;
use farwood_fabric::{Client, ClientId, client_table};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// One process's attachment to a pool.
pub(super) struct Attachment<W: Way> {
    pub(super) reach: Arc<Reach>,
    pub(super) ground: Arc<W::Ground>,
    pub(super) identity: ClientId,
    pub(super) next_line: AtomicU64,
    /// Lines that a thread has, at most.
    pub(super) lines_max: usize,
    /// Set once, when this compute node has left the pool: none of its clients may post any more.
    pub(super) left: AtomicBool,
}

impl<W: Way> Attachment<W> {
    /// A line of this thread for one more client: a new one while there may be more, and then the one that the fewest
    /// hold. A client keeps its line, and so its order.
    pub(super) fn line(self: &Arc<Self>) -> Rc<W> {
        let me: *const () = Arc::as_ptr(self).cast();
        let fresh = || {
            let number = self.next_line.fetch_add(1, Ordering::Relaxed);
            W::new(&self.ground, Arc::clone(&self.reach), Some(self.identity), number)
        };
        let kept = W::with_ways(|lines| {
            let mut lines = lines.borrow_mut();
            lines.retain(|(_, line)| line.strong_count() > 0);
            // A line that lives has a client, and so has its attachment: the address is nobody else's.
            let mine = || lines.iter().filter(|(attachment, _)| *attachment == me).map(|(_, line)| line);
            let least =
                mine().min_by_key(|line| line.strong_count()).filter(|_| mine().count() >= self.lines_max);
            least.and_then(Weak::upgrade).unwrap_or_else(|| {
                let line = fresh();
                lines.push((me, Rc::downgrade(&line)));
                line
            })
        });
        // Without a place to keep it, it serves this once.
        kept.unwrap_or_else(fresh)
    }

    /// Ends the identity at every memory node and then in the client table, once. Should that fail, the end of the
    /// connections will do, and others find out.
    pub(super) fn leave(&self) {
        if self.left.swap(true, Ordering::SeqCst) {
            return;
        }
        let me: *const () = std::ptr::from_ref(self).cast();
        let lines = W::with_ways(|lines| {
            let lines = lines.borrow();
            let mine = lines.iter().filter(|(attachment, _)| *attachment == me);
            mine.filter_map(|(_, line)| line.upgrade()).collect::<Vec<_>>()
        });
        for line in lines.unwrap_or_default() {
            line.finish();
        }
        self.reach.go();
        let nameless = Nameless(W::new(&self.ground, Arc::clone(&self.reach), None, PRESENCE_LINE));
        if block_on(fence(&*nameless.0, &self.reach.shape, self.identity)).is_ok() {
            let _ = block_on(client_table::expire(&Client::new(&nameless), self.identity));
        }
    }
}

impl<W: Way> Drop for Attachment<W> {
    fn drop(&mut self) {
        self.leave();
    }
}
