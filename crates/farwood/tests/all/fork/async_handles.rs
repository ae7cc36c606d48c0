//! Async handles and their answers in a forked child.

use super::{Place, is_alone, refused, sys};
use farwood::runtime::block_on;
use farwood::spatial::{AsyncSpatial, Item, Query, RTree, Rectangle};
use farwood::{AsyncIndex, BTree, Index, Pool};
use std::sync::Arc;
use std::sync::mpsc::channel;

fn item(id: u64) -> Item {
    Item { bounds: Rectangle::point([id as f64, 0.0]).unwrap(), id }
}

/// Handles of a process, which are dropped in this order.
struct AsyncHandles {
    tasks: AsyncIndex<u64, u64>,
    places: AsyncSpatial,
    index: Index<u64, u64>,
    pool: Pool,
}

impl AsyncHandles {
    fn open(place: &Place) -> Self {
        let pool = Pool::open(&place.url).unwrap();
        let index = pool.create_index::<u64, u64>("x", &BTree::new()).unwrap();
        let places = Arc::new(pool.create_spatial("s", &RTree::new()).unwrap());
        let (tasks, places) = (index.to_async().unwrap(), places.to_async().unwrap());
        Self { tasks, places, index, pool }
    }

    fn expect_refused(&self) {
        let Self { tasks, places, index, .. } = self;
        refused(block_on(tasks.get(1)));
        refused(block_on(tasks.put(1, 1)));
        refused(block_on(tasks.fetch_add(1, 1)));
        refused(block_on(places.count(&Query::intersecting(item(1).bounds))));
        refused(block_on(places.insert(&item(1))));
        block_on(index.to_async().unwrap().get(3)).unwrap();
        block_on(tasks.finished());
        block_on(places.finished());
    }
}

/// The thread of the pool executes a function of the parent during the fork, and other calls wait.
fn fork_beside_pending_answers(place: &Place) {
    let handles = AsyncHandles::open(place);
    handles.index.put(3, 3).unwrap();
    let (begun, has_begun) = channel();
    let (end, has_ended) = channel::<()>();
    let busy = handles.tasks.fetch_update(1, move |_| {
        begun.send(()).unwrap();
        has_ended.recv().unwrap();
        Some(1)
    });
    has_begun.recv().unwrap();
    let (waiting, finished) = (handles.tasks.put(2, 2), handles.tasks.finished());
    let Some(child) = sys::fork() else {
        refused(block_on(busy));
        refused(block_on(waiting));
        block_on(finished);
        handles.expect_refused();
        drop(handles);
        // The lock of the leaf is held by the parent.
        let own = Pool::open(&place.url).unwrap().open_index::<u64, u64>("x").unwrap();
        assert_eq!(block_on(own.to_async().unwrap().get(3)).unwrap(), Some(3));
        sys::end_at_once();
    };
    sys::expect_success(child);
    end.send(()).unwrap();
    assert_eq!(block_on(busy).unwrap(), None);
    assert!(!block_on(waiting).unwrap());
    block_on(finished);
    assert_eq!(block_on(handles.tasks.get_many([1, 2])).unwrap(), [Some(1), Some(2)]);
}

/// At most moments of a fork, the thread of the pool holds a mutex.
fn fork_beside_calls(place: &Place) {
    let handles = AsyncHandles::open(place);
    for round in 0..40 {
        let answers: Vec<_> = (0..100).map(|key| handles.tasks.put(key, round)).collect();
        let Some(child) = sys::fork() else {
            for answer in answers {
                refused(block_on(answer));
            }
            handles.expect_refused();
            drop(handles);
            sys::end_at_once();
        };
        for answer in answers {
            block_on(answer).unwrap();
        }
        sys::expect_success(child);
    }
    assert_eq!(handles.index.check().unwrap().problems(), []);
    assert_eq!(handles.pool.indexes().unwrap().len(), 2);
}

#[test]
fn a_child_is_refused_async_handles_and_answers() {
    if !is_alone("async_handles::a_child_is_refused_async_handles_and_answers") {
        return;
    }
    for place in [Place::shm, Place::tcp] {
        fork_beside_pending_answers(&place());
        let _ = Pool::remove_by_force("shm://forked");
        fork_beside_calls(&place());
        let _ = Pool::remove_by_force("shm://forked");
    }
}
