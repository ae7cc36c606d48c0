//! A client that may only read, on any fabric.

use farwood_fabric::{
    Access, Address, Capabilities, ClientId, CpuWork, Doorbell, Fabric, FabricError, PoolShape, Revocation,
};
use std::future::Future;

/// A connection for reading only. A post with a verb other than READ is a failed assertion.
#[derive(Debug)]
pub struct ReadOnlyFabric<F>(pub F);

impl<F> ReadOnlyFabric<F> {
    #[track_caller]
    fn check(doorbell: &Doorbell) {
        assert!(doorbell.only_reads(), "a client that may only read posts another verb");
    }
}

impl<F: Fabric> Fabric for ReadOnlyFabric<F> {
    fn capabilities(&self) -> &Capabilities {
        self.0.capabilities()
    }

    fn shape(&self) -> PoolShape {
        self.0.shape()
    }

    fn find_added_nodes(&self) -> impl Future<Output = Result<(), FabricError>> {
        self.0.find_added_nodes()
    }

    fn identity(&self) -> ClientId {
        ClientId::NONE
    }

    fn access(&self) -> Access {
        Access::ReadOnly
    }

    fn submit(&self, doorbell: Doorbell) -> impl Future<Output = Result<Doorbell, FabricError>> {
        Self::check(&doorbell);
        self.0.submit(doorbell)
    }

    fn submit_detached(&self, doorbell: Doorbell) -> Option<Doorbell> {
        Self::check(&doorbell);
        self.0.submit_detached(doorbell)
    }

    fn lock_tag(&self) -> u16 {
        unreachable!("a client that may only read takes no lock")
    }

    fn now(&self) -> u64 {
        self.0.now()
    }

    fn thread(&self) -> usize {
        self.0.thread()
    }

    fn sleep(&self, nanoseconds: u64) -> impl Future<Output = ()> {
        self.0.sleep(nanoseconds)
    }

    fn alarm(&self, nanoseconds: u64) -> impl Future<Output = ()> {
        self.0.alarm(nanoseconds)
    }

    fn revoke(&self, _: ClientId) -> impl Future<Output = Result<Revocation, FabricError>> {
        std::future::ready(Ok(Revocation::Alive))
    }

    fn provision(&self, _: Address, _: u64) -> impl Future<Output = Result<(), FabricError>> {
        std::future::ready(Err(FabricError::ReadOnly))
    }

    fn record_coverage(&self, mark: &'static str) {
        self.0.record_coverage(mark);
    }

    fn charge(&self, work: CpuWork) {
        self.0.charge(work);
    }
}
