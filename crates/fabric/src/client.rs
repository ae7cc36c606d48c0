//! A client: one flow of operations, with its own queue pairs, buffers and cost counters.

use crate::buffers::Buffers;
use crate::chain::Post;
use crate::costs::Costs;
use crate::doorbell::{Doorbell, DoorbellPool, Op};
use crate::error::FabricError;
use crate::fabric::{Access, Fabric};
use crate::fetched::{Fetched, Object};
use std::cell::RefCell;

/// One flow of operations on far memory.
///
/// A client belongs to one thread, so its queue pairs, buffers and cost counters need no atomic instructions
/// (`docs/decisions/0004-send.md`).
///
/// ```compile_fail,E0277
/// fn elsewhere<F: farwood_fabric::Fabric>(client: farwood_fabric::Client<F>)
/// where farwood_fabric::Client<F>: Sync {}
/// fn sync<F: farwood_fabric::Fabric + Sync>(client: farwood_fabric::Client<F>) { elsewhere(client) }
/// ```
pub struct Client<F> {
    fabric: F,
    buffers: Buffers,
    doorbells: DoorbellPool,
    ledger: RefCell<Costs>,
}

impl<F: Fabric> Client<F> {
    /// Creates a client of `fabric`.
    pub fn new(fabric: F) -> Self {
        Self {
            fabric,
            buffers: Buffers::default(),
            doorbells: DoorbellPool::default(),
            ledger: RefCell::default(),
        }
    }

    /// The fabric of the client.
    #[inline]
    pub fn fabric(&self) -> &F {
        &self.fabric
    }

    /// Whether the client may change something. If not, it neither locks nor completes changes of other clients. [0 RT]
    #[inline]
    pub fn may_write(&self) -> bool {
        self.fabric.access() == Access::ReadWrite
    }

    /// Refuses a client that may only read. Operations that change something call it first. [0 RT]
    ///
    /// # Errors
    /// [`FabricError::ReadOnly`].
    #[inline]
    pub fn check_write(&self) -> Result<(), FabricError> {
        if self.may_write() { Ok(()) } else { Err(FabricError::ReadOnly) }
    }

    /// Posts verbs and waits for all answers. **One round trip.**
    ///
    /// Cancelling the future does not cancel the verbs.
    ///
    /// # Errors
    /// If the fabric fails. Any subset of the verbs may have been executed.
    #[inline]
    pub async fn post<P: Post>(&self, post: P) -> Result<P::Output, FabricError> {
        let mut doorbell = self.doorbells.take();
        let ticket = post.ring(&mut doorbell, &self.buffers);
        let doorbell = self.fabric.submit(doorbell).await?;
        self.charge(&doorbell, 1);
        Ok(P::answer(ticket, doorbell, &self.doorbells))
    }

    /// Posts verbs without waiting for answers; returns whether they are in flight. Otherwise they are executed, or
    /// were refused. They count as verbs and bytes, not as a round trip. The client's next post reports a failure. [0
    /// RT]
    pub fn post_detached<P: Post>(&self, post: P) -> bool {
        let mut doorbell = self.doorbells.take();
        let _ = post.ring(&mut doorbell, &self.buffers);
        self.charge(&doorbell, 0);
        match self.fabric.submit_detached(doorbell) {
            Some(doorbell) => {
                self.doorbells.put(doorbell);
                false
            }
            None => true,
        }
    }

    /// Copies bytes that another client of the compute node has read or written into a [`Fetched`] copy of this client.
    /// [0 RT]
    pub fn copy_of<T: Object + ?Sized>(&self, bytes: &[u8]) -> Fetched<T> {
        let mut copy = self.buffers.take(bytes.len());
        copy.copy_from_slice(bytes);
        Fetched::new(copy)
    }

    /// Returns the costs since the last call of [`take_costs`](Self::take_costs).
    #[inline]
    pub fn costs(&self) -> Costs {
        *self.ledger.borrow()
    }

    /// Returns the costs since the last call, and resets them.
    #[inline]
    pub fn take_costs(&self) -> Costs {
        self.ledger.take()
    }

    /// Updates the cost counters with events that only the index observes: retries, cache hits, hand-overs.
    #[inline]
    pub fn note(&self, note: impl FnOnce(&mut Costs)) {
        note(&mut self.ledger.borrow_mut());
    }

    #[inline]
    fn charge(&self, doorbell: &Doorbell, round_trips: u64) {
        self.note(|costs| {
            costs.round_trips += round_trips;
            for request in doorbell.requests() {
                charge_verb(costs, &request.op);
                costs.cas_failures += round_trips * u64::from(failed(&request.op));
            }
        });
    }
}

/// Whether an answered compare-and-swap failed.
#[inline]
fn failed(op: &Op) -> bool {
    match op {
        Op::Cas { compare, old, .. } => old != compare,
        Op::MaskedCas { compare, compare_mask, old, .. } => (old ^ compare) & compare_mask != 0,
        _ => false,
    }
}

#[inline]
fn charge_verb(costs: &mut Costs, op: &Op) {
    match op {
        Op::Read { into } => {
            costs.reads += 1;
            costs.bytes_read += into.len() as u64;
        }
        Op::Write { data, immediate } => {
            match immediate {
                None => costs.writes += 1,
                Some(_) => costs.write_imm += 1,
            }
            costs.bytes_written += data.len() as u64;
        }
        Op::Cas { .. } => costs.cas += 1,
        Op::MaskedCas { .. } => costs.masked_cas += 1,
        Op::Faa { .. } => costs.faa += 1,
    }
}

impl<F> std::fmt::Debug for Client<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("costs", &self.ledger.borrow()).finish_non_exhaustive()
    }
}
