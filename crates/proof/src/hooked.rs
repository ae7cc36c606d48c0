//! A fabric whose posts pass through a hook.

use farwood_fabric::{
    Address, Capabilities, ClientId, CpuWork, Doorbell, Fabric, FabricError, PoolShape, Revocation,
};
use std::future::Future;

/// The execution of a post on another fabric.
pub trait PostHook<F> {
    /// Executes `doorbell` on `fabric`.
    ///
    /// # Errors
    /// The errors of the fabric.
    fn submit(&self, fabric: &F, doorbell: Doorbell) -> impl Future<Output = Result<Doorbell, FabricError>>;
}

/// A connection with a hook; all other functions are those of the fabric.
#[derive(Debug)]
pub struct Hooked<F, H> {
    /// The fabric that executes the posts.
    pub fabric: F,
    /// The hook.
    pub hook: H,
}

impl<F: Fabric, H: PostHook<F>> Fabric for Hooked<F, H> {
    fn capabilities(&self) -> &Capabilities {
        self.fabric.capabilities()
    }

    fn shape(&self) -> PoolShape {
        self.fabric.shape()
    }

    fn find_added_nodes(&self) -> impl Future<Output = Result<(), FabricError>> {
        self.fabric.find_added_nodes()
    }

    fn identity(&self) -> ClientId {
        self.fabric.identity()
    }

    fn submit(&self, doorbell: Doorbell) -> impl Future<Output = Result<Doorbell, FabricError>> {
        self.hook.submit(&self.fabric, doorbell)
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

    fn thread(&self) -> usize {
        self.fabric.thread()
    }

    fn sleep(&self, nanoseconds: u64) -> impl Future<Output = ()> {
        self.fabric.sleep(nanoseconds)
    }

    fn alarm(&self, nanoseconds: u64) -> impl Future<Output = ()> {
        self.fabric.alarm(nanoseconds)
    }

    fn revoke(&self, client: ClientId) -> impl Future<Output = Result<Revocation, FabricError>> {
        self.fabric.revoke(client)
    }

    fn provision(&self, at: Address, bytes: u64) -> impl Future<Output = Result<(), FabricError>> {
        self.fabric.provision(at, bytes)
    }

    fn record_coverage(&self, mark: &'static str) {
        self.fabric.record_coverage(mark);
    }

    fn charge(&self, work: CpuWork) {
        self.fabric.charge(work);
    }
}
