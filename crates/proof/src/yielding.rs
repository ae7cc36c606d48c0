//! A fabric that yields to other threads and processes after some posts. On a machine with few processors, clients
//! that are never interrupted rarely overlap.

use farwood_fabric::{Address, Capabilities, ClientId, Doorbell, Fabric, FabricError, PoolShape, Revocation};
use farwood_testkit::harness::TestRng;
use std::cell::RefCell;
use std::future::Future;

/// Posts for each yield, on average.
const POSTS_PER_YIELD: u64 = 4;

/// A connection that yields after some posts.
#[derive(Debug)]
pub struct Yielding<F> {
    fabric: F,
    random: RefCell<TestRng>,
}

impl<F: Fabric> Yielding<F> {
    /// Wraps `fabric`; `seed` determines after which posts it yields.
    pub fn new(fabric: F, seed: u64) -> Self {
        Self { fabric, random: RefCell::new(TestRng::new(seed)) }
    }
}

impl<F: Fabric> Fabric for Yielding<F> {
    fn capabilities(&self) -> &Capabilities {
        self.fabric.capabilities()
    }

    fn shape(&self) -> &PoolShape {
        self.fabric.shape()
    }

    fn identity(&self) -> ClientId {
        self.fabric.identity()
    }

    async fn submit(&self, doorbell: Doorbell) -> Result<Doorbell, FabricError> {
        let answered = self.fabric.submit(doorbell).await;
        if self.random.borrow_mut().once_in(POSTS_PER_YIELD) {
            std::thread::yield_now();
        }
        answered
    }

    fn submit_detached(&self, doorbell: Doorbell) -> Option<Doorbell> {
        self.fabric.submit_detached(doorbell)
    }

    fn lock_tag(&self) -> u16 {
        self.fabric.lock_tag()
    }

    fn now(&self) -> u64 {
        self.fabric.now()
    }

    fn sleep(&self, nanoseconds: u64) -> impl Future<Output = ()> {
        self.fabric.sleep(nanoseconds)
    }

    fn revoke(&self, client: ClientId) -> impl Future<Output = Result<Revocation, FabricError>> {
        self.fabric.revoke(client)
    }

    fn provision(&self, at: Address, bytes: u64) -> impl Future<Output = Result<(), FabricError>> {
        self.fabric.provision(at, bytes)
    }
}
