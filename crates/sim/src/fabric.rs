//! The `Fabric` of the simulator.

use crate::device::{Completion, Counts, Device, SimConnection};
use crate::queue::{Event, Key};
use crate::task_group::SimThread;
use crate::world::PoolMembership;
use farwood_fabric::{
    Address, Capabilities, Client, ClientId, CpuWork, Doorbell, Fabric, FabricError, NodeId, PoolShape,
    Revocation, client_table,
};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// One client's connection to a simulated network.
#[derive(Clone)]
pub struct SimFabric {
    pub(crate) device: Rc<RefCell<Device>>,
    pub(crate) promised: Capabilities,
    /// The pool with the memory nodes that this client knows.
    pub(crate) shape: Cell<PoolShape>,
    pub(crate) identity: ClientId,
    pub(crate) client: Key,
    /// Whether posts take no virtual time.
    pub(crate) untimed: bool,
    /// Expires the identity of the compute node when the last client is dropped.
    #[expect(dead_code, reason = "only its destructor is used")]
    pub(crate) membership: Option<Rc<PoolMembership>>,
}

impl SimFabric {
    /// Spends CPU time of the client's thread, in addition to posts and completions.
    pub fn spend(&self, nanoseconds: f64) {
        self.device.borrow_mut().spend(nanoseconds);
    }

    /// Spends the CPU time of an index operation, besides posts and completions, as the NIC model defines it.
    pub fn spend_operation(&self) {
        let mut device = self.device.borrow_mut();
        let operation = device.card.cpu.operation_ns;
        device.spend(operation);
    }

    /// The number of the client in traces: clients whose posts take virtual time are numbered in the order of their
    /// creation, from 0.
    pub fn number(&self) -> u32 {
        self.device.borrow().connections[self.client as usize].traced_as
    }

    /// Counts the verbs that the device executed for the client, without those for revoking others. The number of
    /// doorbells includes both.
    pub fn executed(&self) -> Counts {
        let device = self.device.borrow();
        let SimConnection { counts, aside, .. } = &device.connections[self.client as usize];
        Counts {
            reads: counts.reads - aside.reads,
            cas: counts.cas - aside.cas,
            bytes_read: counts.bytes_read - aside.bytes_read,
            ..*counts
        }
    }

    /// Counts the verbs of this client that failed, executed or not.
    pub fn lost(&self) -> u64 {
        self.device.borrow().connections[self.client as usize].lost
    }

    /// Yields the thread that the client runs on.
    pub fn sim_thread(&self) -> SimThread {
        let device = self.device.borrow();
        let connection = &device.connections[self.client as usize];
        SimThread { thread: connection.thread, compute: connection.compute }
    }
}

impl SimFabric {
    /// Checks a doorbell. The client learns of memory nodes that were added when a doorbell addresses them.
    fn check(&self, device: &Device, doorbell: &Doorbell) -> Result<(), FabricError> {
        device.check(doorbell)?;
        let knows = |at: Address| at.node().0 < self.shape.get().nodes;
        let unknown = || doorbell.requests().iter().find(|request| !knows(request.at));
        if unknown().is_none() {
            return Ok(());
        }
        self.shape.set(device.shape_now());
        let still = unknown().map(|request| FabricError::OutOfRange { at: request.at, bytes: 0 });
        still.map_or(Ok(()), Err)
    }

    async fn revoke_by(&self, table: &Client<&Self>, client: ClientId) -> Result<Revocation, FabricError> {
        if !client_table::slot_state(table, client.slot).await?.is(client) {
            return Ok(Revocation::Gone);
        }
        {
            let mut device = self.device.borrow_mut();
            let dead =
                device.compute.iter().position(|node| node.identity == client && device.may_be_revoked(node));
            let Some(dead) = dead else { return Ok(Revocation::Alive) };
            let reached = (0..device.shape.nodes)
                .all(|node| device.unreachable_until(self.client, NodeId(node)).is_none());
            if !reached {
                return Ok(Revocation::Alive);
            }
            device.compute[dead].revoked = true;
        }
        // All memory nodes confirm within a round trip, once the transfers in progress have ended.
        let (round_trip, placed) = {
            let device = self.device.borrow();
            let open = device.memory.iter().flat_map(|node| &node.open);
            let placed = open.map(|transfer| transfer.to).max().unwrap_or(0);
            (2 * device.card.wire.one_way_ns as u64, placed.saturating_sub(device.now()))
        };
        self.sleep(round_trip.max(placed) + CONFIRM_NS).await;
        client_table::expire(table, client).await?;
        Ok(Revocation::Gone)
    }
}

impl Fabric for SimFabric {
    #[inline]
    fn capabilities(&self) -> &Capabilities {
        &self.promised
    }

    #[inline]
    fn shape(&self) -> PoolShape {
        self.shape.get()
    }

    fn find_added_nodes(&self) -> impl Future<Output = Result<(), FabricError>> {
        self.shape.set(self.device.borrow().shape_now());
        std::future::ready(Ok(()))
    }

    #[inline]
    fn identity(&self) -> ClientId {
        self.identity
    }

    fn submit(&self, mut doorbell: Doorbell) -> impl Future<Output = Result<Doorbell, FabricError>> {
        let mut device = self.device.borrow_mut();
        let failed = device.connections[self.client as usize].failed.take();
        if let Some(error) = failed {
            return Submission::Done(Some(Err(error)));
        }
        if self.untimed {
            return Submission::Done(Some(device.execute_at_once(&mut doorbell).map(|()| doorbell)));
        }
        match self.check(&device, &doorbell) {
            Err(error) => Submission::Done(Some(Err(error))),
            Ok(()) if doorbell.requests().is_empty() => Submission::Done(Some(Ok(doorbell))),
            Ok(()) => {
                let doorbell_key = device.ring(self.client, doorbell, Completion::Awaited);
                Submission::PostedVerb(AwaitedDoorbell {
                    device: Rc::clone(&self.device),
                    doorbell_key,
                    taken: false,
                })
            }
        }
    }

    fn submit_detached(&self, mut doorbell: Doorbell) -> Option<Doorbell> {
        let mut device = self.device.borrow_mut();
        if self.untimed {
            let done = device.execute_at_once(&mut doorbell);
            device.connections[self.client as usize].failed = done.err();
            return Some(doorbell);
        }
        if device.compute[device.connections[self.client as usize].compute].crashed {
            return Some(doorbell);
        }
        match self.check(&device, &doorbell) {
            Ok(()) if doorbell.requests().is_empty() => Some(doorbell),
            Ok(()) => {
                device.ring(self.client, doorbell, Completion::Detached);
                None
            }
            Err(error) => {
                device.connections[self.client as usize].failed = Some(error);
                Some(doorbell)
            }
        }
    }

    fn lock_tag(&self) -> u16 {
        self.device.borrow_mut().take_lock_tag()
    }

    fn now(&self) -> u64 {
        self.device.borrow().now()
    }

    fn sleep(&self, nanoseconds: u64) -> impl Future<Output = ()> {
        Sleep { device: Rc::clone(&self.device), nanoseconds, untimed: self.untimed, timer: None }
    }

    /// The alarm never completes, because the simulator polls every operation that is woken.
    fn alarm(&self, _: u64) -> impl Future<Output = ()> {
        std::future::pending()
    }

    /// Revokes a compute node that crashed, or that was frozen for longer than the lease: every memory node closes
    /// its queue pairs and confirms. An unreachable memory node cannot confirm.
    async fn revoke(&self, client: ClientId) -> Result<Revocation, FabricError> {
        let table = Client::new(self);
        let revoked = self.revoke_by(&table, client).await;
        self.device.borrow_mut().connections[self.client as usize].aside += table.take_costs();
        revoked
    }

    fn provision(&self, _: Address, _: u64) -> impl Future<Output = Result<(), FabricError>> {
        std::future::ready(Ok(()))
    }

    fn record_coverage(&self, mark: &'static str) {
        self.device.borrow_mut().record_coverage(self.client, mark);
    }

    fn charge(&self, work: CpuWork) {
        if !self.untimed {
            let mut device = self.device.borrow_mut();
            let nanoseconds = device.card.cpu.of(work);
            device.spend(nanoseconds);
        }
    }
}

/// Time to close a queue pair, besides the round trip and the transfers in progress, nanoseconds.
const CONFIRM_NS: u64 = 50_000;

enum Submission {
    Done(Option<Result<Doorbell, FabricError>>),
    PostedVerb(AwaitedDoorbell),
}

/// A posted doorbell that the client awaits.
struct AwaitedDoorbell {
    device: Rc<RefCell<Device>>,
    doorbell_key: Key,
    taken: bool,
}

impl Future for Submission {
    type Output = Result<Doorbell, FabricError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            Self::Done(done) => Poll::Ready(done.take().expect("not polled after completion")),
            Self::PostedVerb(waiting) => waiting.poll(context),
        }
    }
}

impl AwaitedDoorbell {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Doorbell, FabricError>> {
        let device = &mut *self.device.borrow_mut();
        let posted = &mut device.doorbells[self.doorbell_key as usize];
        if posted.left > 0 {
            if !posted.waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
                posted.waker = Some(context.waker().clone());
            }
            return Poll::Pending;
        }
        self.taken = true;
        let posted = device.doorbells.remove(self.doorbell_key as usize);
        Poll::Ready(match (posted.error, posted.doorbell) {
            (None, Some(doorbell)) => Ok(doorbell),
            (error, _) => Err(error.expect("a doorbell without an error is returned")),
        })
    }
}

impl Drop for AwaitedDoorbell {
    fn drop(&mut self) {
        if self.taken {
            return;
        }
        let device = &mut *self.device.borrow_mut();
        let Some(posted) = device.doorbells.get_mut(self.doorbell_key as usize) else { return };
        if posted.left == 0 {
            device.doorbells.remove(self.doorbell_key as usize);
        } else {
            // The verbs continue as if detached.
            (posted.awaited, posted.waker) = (false, None);
        }
    }
}

/// Sleeps in virtual time.
struct Sleep {
    device: Rc<RefCell<Device>>,
    nanoseconds: u64,
    untimed: bool,
    timer: Option<u64>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let device = Rc::clone(&self.device);
        let device = &mut *device.borrow_mut();
        match self.timer {
            _ if self.untimed => Poll::Ready(()),
            Some(due) if device.now() >= due => Poll::Ready(()),
            Some(_) => Poll::Pending,
            None => {
                device.spend(device.card.cpu.yield_ns);
                let due = device.now() + self.nanoseconds;
                self.timer = Some(due);
                let timer = device.timers.insert(context.waker().clone());
                device.queue.at(due, Event::Timer(timer as Key));
                Poll::Pending
            }
        }
    }
}
