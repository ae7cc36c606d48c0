//! Pools with spatial indexes, and threads that serve them.

use farwood::Pool;
use farwood::node::{MemoryNode, NodeSpec};
use farwood::spatial::{RTree, SearchMode, SearchOptions, ServeOptions, Spatial};
use farwood::testing::ScratchPool;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;

/// A pool in shared memory, which is removed at the end of the test.
pub(crate) struct SpatialPool(ScratchPool);

impl SpatialPool {
    pub(crate) fn new() -> Self {
        Self::with_memory(128 << 20)
    }

    pub(crate) fn with_memory(memory_bytes: u64) -> Self {
        Self(ScratchPool::new(memory_bytes).unwrap())
    }

    pub(crate) fn open(&self) -> Pool {
        self.0.open().unwrap()
    }

    pub(crate) fn create(&self, name: &str, config: &RTree) -> Spatial {
        self.open().create_spatial(name, config).unwrap()
    }

    /// The index of that name, with lookups by one path.
    pub(crate) fn by(&self, mode: SearchMode, name: &str) -> Spatial {
        in_mode(self.open().open_spatial(name).unwrap(), mode)
    }
}

/// The same handle, with lookups by one path.
pub(crate) fn in_mode(spatial: Spatial, mode: SearchMode) -> Spatial {
    spatial.with_search(SearchOptions { mode, ..SearchOptions::default() }).unwrap()
}

/// Calls `work` while a thread serves `spatial`.
pub(crate) fn served<T>(spatial: &Spatial, options: &ServeOptions, work: impl FnOnce() -> T) -> T {
    let (stop, (ready, is_ready)) = (AtomicBool::new(false), channel());
    std::thread::scope(|scope| {
        let server = scope.spawn(|| spatial.serve(options, &stop, || ready.send(()).unwrap()).unwrap());
        is_ready.recv().unwrap();
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        stop.store(true, Ordering::Release);
        server.join().unwrap();
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Calls `work` with a memory node that serves the empty index `places`, and a function that opens the index as a
/// client.
pub(crate) fn served_over_tcp(
    config: &RTree,
    work: impl FnOnce(&MemoryNode, &dyn Fn(SearchMode) -> Spatial),
) {
    let node = MemoryNode::start(&NodeSpec::new("127.0.0.1:0".parse().unwrap(), 64 << 20)).unwrap();
    let url = format!("tcp://{}", node.address());
    let places = Pool::open(url.as_str()).unwrap().create_spatial("places", config).unwrap();
    let options = ServeOptions {
        listener: Some(TcpListener::bind("127.0.0.1:0").unwrap()),
        memory_node: Some(node.server()),
        ..ServeOptions::default()
    };
    served(&places, &options, || {
        let client = Pool::open(url.as_str()).unwrap();
        work(&node, &|mode| in_mode(client.open_spatial("places").unwrap(), mode));
    });
}
