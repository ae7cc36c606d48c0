//! One client per thread and pool, stored in a thread-local list.
//!
//! A client belongs to one thread: its buffers and cost counters need no atomic instructions. Blocking calls may come
//! from any thread, so each thread keeps a client for each pool that it has used. The thread that drops the last handle
//! of a pool drops its client at once; other threads drop theirs when they first use another pool, or end. Until then,
//! such a client keeps only the memory of the pool mapped: the process has already detached.
//!
//! A forked child inherits the list of the thread that forked, and gets no client of a pool that its parent opened.

use crate::attached::Attached;
use farwood_fabric::{Client, FabricError};
use farwood_transport::any::AnyFabric;
use std::cell::RefCell;
use std::ptr;
use std::rc::Rc;
use std::sync::{Arc, Weak};

/// A thread's client of one pool.
struct ThreadClient {
    /// Cannot be upgraded after the last handle of the pool was dropped. Its address identifies the pool.
    pool: Weak<Attached>,
    client: Rc<Client<AnyFabric>>,
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

/// This thread's client of `pool`.
///
/// # Errors
/// [`FabricError::Forked`]: this process is a forked child of the one that opened the pool.
#[inline]
pub(crate) fn client(pool: &Arc<Attached>) -> Result<Rc<Client<AnyFabric>>, FabricError> {
    pool.forks().check()?;
    let found = CLIENTS.try_with(|clients| {
        let clients = clients.borrow();
        clients.iter().find(|kept| kept.is_in(pool)).map(|kept| Rc::clone(&kept.client))
    });
    Ok(match found {
        Ok(Some(client)) => client,
        _ => add_client(pool),
    })
}

#[cold]
fn add_client(pool: &Arc<Attached>) -> Rc<Client<AnyFabric>> {
    let client = Rc::new(pool.attachment().client());
    let kept = ThreadClient { pool: Arc::downgrade(pool), client: Rc::clone(&client) };
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
    use crate::options::IndexOptions;
    use crate::pool::Pool;

    fn clients() -> usize {
        CLIENTS.with(|clients| clients.borrow().len())
    }

    #[test]
    fn a_thread_has_one_client_for_each_pool() {
        let [a, b] = [(); 2].map(|()| Pool::anonymous(16 << 20).unwrap());
        let index = a.create_index::<u64, u64>("i", &IndexOptions::default()).unwrap();
        index.put(&1, &2).unwrap();
        b.indexes().unwrap();
        assert_eq!(index.get(&1).unwrap(), Some(2));
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
