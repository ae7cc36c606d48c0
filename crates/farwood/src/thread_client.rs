//! One client per thread and pool, stored in a thread-local list.
//!
//! A client belongs to one thread: its buffers and cost counters need no atomic instructions. Blocking calls may come
//! from any thread, so each thread keeps a client for each pool that it has used. The thread that drops the last handle
//! of a pool drops its client at once; other threads drop theirs when they first use another pool, or end. Until then,
//! such a client keeps only the memory of the pool mapped: the process has already detached.
//!
//! Over a network, each client of a pool has connections of its own. So only the first [`OWN_MAX`] threads have one,
//! and a thread of the pool executes the blocking calls of the others: it sends them together on its connections.
//!
//! A forked child inherits the list of the thread that forked, and gets no client of a pool that its parent opened.

use crate::attached::Attached;
use crate::observe::MeteredClient;
use farwood_fabric::FabricError;
use farwood_transport::runtime::TaskThread;
use std::cell::RefCell;
use std::ptr;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

/// A thread's client of one pool.
struct ThreadClient {
    /// Cannot be upgraded after the last handle of the pool was dropped. Its address identifies the pool.
    pool: Weak<Attached>,
    client: Rc<MeteredClient>,
    _counted: Option<CountedClient>,
}

impl ThreadClient {
    #[inline]
    fn is_in(&self, pool: &Attached) -> bool {
        ptr::eq(self.pool.as_ptr(), pool)
    }
}

thread_local! {
    static CLIENTS: RefCell<Vec<ThreadClient>> = const { RefCell::new(Vec::new()) };
}

/// Threads with a client of their own, for each pool over a network. The thread of the pool has another one.
pub(crate) const OWN_MAX: usize = 3;

/// Counts a client of a thread until it is dropped.
struct CountedClient(Weak<Attached>);

impl Drop for CountedClient {
    fn drop(&mut self) {
        if let Some(pool) = self.0.upgrade() {
            pool.own_clients().fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// The executor of the blocking calls of a thread.
pub(crate) enum ThreadPath {
    /// With its own client.
    Own(Rc<MeteredClient>),
    /// On the thread of the pool.
    Shared(Arc<TaskThread>),
}

/// Returns the executor of the blocking calls of this thread on `pool`.
///
/// # Errors
/// [`FabricError::Forked`]: this process is a forked child of the one that opened the pool.
#[inline]
pub(crate) fn path(pool: &Arc<Attached>) -> Result<ThreadPath, FabricError> {
    pool.forks().check()?;
    match find(pool) {
        Some(client) => Ok(ThreadPath::Own(client)),
        None => Ok(new_path(pool)),
    }
}

#[cold]
fn new_path(pool: &Arc<Attached>) -> ThreadPath {
    if pool.attachment().has_connections() {
        let count = |count: usize| (count < OWN_MAX).then_some(count + 1);
        let counted = pool.own_clients().fetch_update(Ordering::Relaxed, Ordering::Relaxed, count);
        if counted.is_err()
            && let Some(thread) = pool.shared_thread()
        {
            return ThreadPath::Shared(thread);
        }
        let counted = counted.is_ok().then(|| CountedClient(Arc::downgrade(pool)));
        return ThreadPath::Own(add_client(pool, counted));
    }
    ThreadPath::Own(add_client(pool, None))
}

/// This thread's client of `pool`, if it has one and this is the process that opened the pool.
#[inline]
pub(crate) fn present(pool: &Attached) -> Option<Rc<MeteredClient>> {
    pool.forks().is_current().then(|| find(pool)).flatten()
}

/// This thread's client of `pool`, or a client for one call if it has none.
///
/// # Errors
/// [`FabricError::Forked`]: this process is a forked child of the one that opened the pool.
pub(crate) fn own(pool: &Arc<Attached>) -> Result<Rc<MeteredClient>, FabricError> {
    pool.forks().check()?;
    Ok(other_use(find(pool).unwrap_or_else(|| Rc::new(pool.client()))))
}

/// This thread's client of `pool`, which stays.
///
/// # Errors
/// [`FabricError::Forked`]: this process is a forked child of the one that opened the pool.
#[inline]
pub(crate) fn client(pool: &Arc<Attached>) -> Result<Rc<MeteredClient>, FabricError> {
    pool.forks().check()?;
    Ok(other_use(find(pool).unwrap_or_else(|| add_client(pool, None))))
}

/// The caller may use the client for something that is not a blocking call.
#[inline]
fn other_use(client: Rc<MeteredClient>) -> Rc<MeteredClient> {
    client.expect_other_costs();
    client
}

#[inline]
fn find(pool: &Attached) -> Option<Rc<MeteredClient>> {
    let found = CLIENTS.try_with(|clients| {
        let clients = clients.borrow();
        clients.iter().find(|kept| kept.is_in(pool)).map(|kept| Rc::clone(&kept.client))
    });
    found.ok().flatten()
}

#[cold]
fn add_client(pool: &Arc<Attached>, counted: Option<CountedClient>) -> Rc<MeteredClient> {
    let client = Rc::new(pool.client());
    let kept = ThreadClient { pool: Arc::downgrade(pool), client: Rc::clone(&client), _counted: counted };
    // While the thread ends, its list no longer exists; the client then serves this call only.
    let _ = CLIENTS.try_with(|clients| {
        let gone = take_where(clients, |kept| kept.pool.strong_count() == 0);
        clients.borrow_mut().push(kept);
        drop(gone);
    });
    client
}

/// Drops this thread's client of `pool`.
pub(crate) fn leave(pool: &Attached) {
    let _ = CLIENTS.try_with(|clients| drop(take_where(clients, |kept| kept.is_in(pool))));
}

/// Removes clients from the list. The caller drops them when the list is not borrowed: dropping the last client of a
/// pool unmaps its memory.
fn take_where(
    clients: &RefCell<Vec<ThreadClient>>,
    leaves: impl Fn(&ThreadClient) -> bool,
) -> Vec<ThreadClient> {
    clients.borrow_mut().extract_if(.., |kept| leaves(kept)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::Pool;
    use crate::structure::BTree;

    fn clients() -> usize {
        CLIENTS.with(|clients| clients.borrow().len())
    }

    #[test]
    fn a_thread_has_one_client_for_each_pool() {
        let [a, b] = [(); 2].map(|()| Pool::anonymous(16 << 20).unwrap());
        let index = a.create_index::<u64, u64>("i", &BTree::default()).unwrap();
        index.put(1, 2).unwrap();
        b.indexes().unwrap();
        assert_eq!(index.get(1).unwrap(), Some(2));
        assert_eq!(clients(), 2);
        drop(b);
        assert_eq!(clients(), 1, "the client of a removed pool");
        drop((a, index));
        assert_eq!(clients(), 0);
    }

    #[test]
    fn another_thread_drops_its_client_when_it_uses_another_pool() {
        let [a, b] = [(); 2].map(|()| Pool::anonymous(16 << 20).unwrap());
        let (go, gone) = std::sync::mpsc::channel();
        let weak = Arc::downgrade(a.attached());
        let other = a.clone();
        let thread = std::thread::spawn(move || {
            other.indexes().unwrap();
            drop(other);
            gone.recv().unwrap();
            assert_eq!(clients(), 1);
            b.indexes().unwrap();
            assert_eq!(clients(), 1, "the client of the removed pool, or no client of the new one");
        });
        while weak.strong_count() > 1 {
            std::thread::yield_now();
        }
        drop(a);
        go.send(()).unwrap();
        thread.join().unwrap();
    }
}
