//! A fabric that yields to other threads and processes after some posts. On a machine with few processors, clients
//! that are never interrupted rarely overlap.

use crate::hooked::{Hooked, PostHook};
use farwood_fabric::{Doorbell, Fabric, FabricError};
use farwood_testkit::harness::TestRng;
use std::cell::RefCell;

/// Posts for each yield, on average.
const POSTS_PER_YIELD: u64 = 4;

/// A connection that yields after some posts.
pub type Yielding<F> = Hooked<F, RandomYields>;

/// The choice of the posts after which a connection yields.
#[derive(Debug)]
pub struct RandomYields(RefCell<TestRng>);

impl<F: Fabric> Yielding<F> {
    /// Wraps `fabric`; `seed` determines after which posts it yields.
    pub fn new(fabric: F, seed: u64) -> Self {
        Self { fabric, hook: RandomYields(RefCell::new(TestRng::new(seed))) }
    }
}

impl<F: Fabric> PostHook<F> for RandomYields {
    async fn submit(&self, fabric: &F, doorbell: Doorbell) -> Result<Doorbell, FabricError> {
        let answered = fabric.submit(doorbell).await;
        if self.0.borrow_mut().once_in(POSTS_PER_YIELD) {
            std::thread::yield_now();
        }
        answered
    }
}
