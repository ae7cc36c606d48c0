//! A pool of memory nodes without threads and connections, for tests that restart memory nodes thousands of times.

use crate::client::returning::{NodeCuts, ReturnStep, is_returning, next_step};
use crate::daemon::{NodeSpec, RestoredNode};
use crate::error::TcpError;
use crate::runtime::block_on;
use crate::wire::{Code, Formation, WireOp, WireVerb};
use farwood_fabric::client_table::{self, CLIENTS_MAX};
use farwood_fabric::{
    Address, Capabilities, Client, ClientId, Doorbell, Fabric, FabricError, Op, PoolShape, Remote, Request,
    Revocation,
};
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::task::Poll;
use zerocopy::IntoBytes as _;

/// The virtual time of the shortest sleep: a wait for an ended client takes few attempts.
const SLEEP_LEAST_NS: u64 = 100_000;

/// The memory nodes of a stopped pool, restored from their files as after a start, and returned to a common cut if they
/// must. It is the fabric of one client, the only one: a post executes when it is made, virtual time passes
/// only while the client sleeps, and all earlier clients have ended.
pub struct RestoredPool {
    nodes: Vec<RestoredNode>,
    shape: PoolShape,
    identity: Cell<ClientId>,
    time: Cell<u64>,
    /// The error of a detached post.
    failed: RefCell<Option<FabricError>>,
}

impl RestoredPool {
    /// Restores the memory nodes, which belong to one pool, and attaches the client.
    ///
    /// # Errors
    /// The reason why a memory node does not start, or why the pool cannot return to a cut.
    pub fn restore(nodes: &[NodeSpec]) -> Result<Self, String> {
        let nodes = nodes.iter().map(RestoredNode::restore).collect::<Result<Vec<_>, TcpError>>();
        let nodes = nodes.map_err(|error| error.to_string())?;
        if nodes.iter().any(|node| is_returning(node.pool().1)) {
            return_to_cut(&nodes)?;
        }
        let (identity, time) = (Cell::new(ClientId::NONE), Cell::new(1));
        let shape = nodes[0].pool().0;
        let pool = Self { nodes, shape, identity, time, failed: RefCell::default() };
        pool.identity.set(block_on(pool.enter()).map_err(|error| error.to_string())?);
        Ok(pool)
    }

    /// The client.
    pub fn client(&self) -> Client<&Self> {
        Client::new(self)
    }

    /// Takes a free slot of the client table.
    async fn enter(&self) -> Result<ClientId, FabricError> {
        let client = self.client();
        for slot in 0..CLIENTS_MAX as u16 {
            if !client_table::slot_state(&client, slot).await?.live {
                let entered = client_table::enter(&client, slot, 0).await?;
                return Ok(entered.expect("there is no other client"));
            }
        }
        Err(FabricError::NoClientSlot { slots: CLIENTS_MAX })
    }

    fn execute(&self, doorbell: &mut Doorbell) -> Result<(), FabricError> {
        let (requests, payload) = doorbell.parts_mut();
        requests.iter_mut().try_for_each(|request| self.execute_one(request, payload))
    }

    fn execute_one(&self, request: &mut Request, payload: &[u8]) -> Result<(), FabricError> {
        let at = request.at;
        let (op, bytes) = match &request.op {
            Op::Read { into } => (WireOp::Read(into.len()), into.len()),
            Op::Write { data, immediate } => (WireOp::Write(&payload[data.clone()], *immediate), data.len()),
            Op::Cas { compare, swap, .. } => (WireOp::Cas { compare: *compare, swap: *swap }, 8),
            Op::MaskedCas { compare, compare_mask, swap, swap_mask, .. } => {
                (WireOp::MaskedCas { words: [*compare, *compare_mask, *swap, *swap_mask] }, 8)
            }
            Op::Faa { add, .. } => (WireOp::Faa(*add), 8),
        };
        let verb = WireVerb { at: Remote::<u8>::at(at).word(), op };
        let node = self.nodes.get(usize::from(at.node().0)).ok_or(FabricError::OutOfRange { at, bytes })?;
        let mut words = Vec::new();
        node.execute(&verb, &mut words).map_err(|code| error_of(code, (at, bytes)))?;
        match &mut request.op {
            Op::Read { into } => into.copy_from_slice(&words.as_bytes()[..bytes]),
            Op::Write { .. } => {}
            Op::Cas { old, .. } | Op::MaskedCas { old, .. } | Op::Faa { old, .. } => {
                *old = u64::from_le(words[0]);
            }
        }
        Ok(())
    }
}

/// Returns the memory nodes to their newest common cut.
fn return_to_cut(nodes: &[RestoredNode]) -> Result<(), String> {
    let cuts = |node: &RestoredNode| -> Result<NodeCuts, String> {
        let [oldest, newest, returned] = node.cuts()?;
        Ok(NodeCuts { formed: node.pool().1, oldest, newest, returned })
    };
    let all = nodes.iter().map(cuts).collect::<Result<Vec<_>, _>>()?;
    if let ReturnStep::To(cut) = next_step(&all) {
        let number = all.iter().map(|cuts| cuts.newest).max().unwrap_or(cut);
        // Node 0 last, as a client of running memory nodes returns them.
        let to_return = nodes.iter().zip(&all).rev().filter(|(_, cuts)| cuts.formed != Formation::Returned);
        to_return.map(|(node, _)| node).try_for_each(|node| node.return_to(cut, number))?;
    }
    let returned = nodes.iter().map(cuts).collect::<Result<Vec<_>, _>>()?;
    match next_step(&returned) {
        ReturnStep::Finish => nodes.iter().try_for_each(RestoredNode::finish_return),
        step => Err(format!("the pool does not return to a common state: {step:?} after {returned:?}")),
    }
}

fn error_of(code: Code, (at, bytes): (Address, usize)) -> FabricError {
    match code {
        Code::OutOfRange => FabricError::OutOfRange { at, bytes },
        Code::Misaligned => FabricError::Misaligned { at },
        other => FabricError::NodeLost { node: at.node(), why: format!("{other:?}") },
    }
}

impl Fabric for RestoredPool {
    fn capabilities(&self) -> &Capabilities {
        &crate::client::framed::CAPABILITIES
    }

    fn shape(&self) -> PoolShape {
        self.shape
    }

    fn find_added_nodes(&self) -> impl Future<Output = Result<(), FabricError>> {
        std::future::ready(Ok(()))
    }

    fn identity(&self) -> ClientId {
        self.identity.get()
    }

    fn submit(&self, mut doorbell: Doorbell) -> impl Future<Output = Result<Doorbell, FabricError>> {
        let earlier = self.failed.take();
        let done = earlier.map_or_else(|| self.execute(&mut doorbell), Err);
        std::future::ready(done.map(|()| doorbell))
    }

    fn submit_detached(&self, mut doorbell: Doorbell) -> Option<Doorbell> {
        if let Err(error) = self.execute(&mut doorbell) {
            self.failed.replace(Some(error));
        }
        Some(doorbell)
    }

    fn lock_tag(&self) -> u16 {
        0
    }

    fn now(&self) -> u64 {
        self.time.get()
    }

    /// Other operations of the client continue first: one of them may hold what this one waits for.
    fn sleep(&self, nanoseconds: u64) -> impl Future<Output = ()> {
        let mut has_yielded = false;
        poll_fn(move |context| {
            if has_yielded {
                self.time.set(self.time.get() + nanoseconds.max(SLEEP_LEAST_NS));
                return Poll::Ready(());
            }
            has_yielded = true;
            context.waker().wake_by_ref();
            Poll::Pending
        })
    }

    async fn revoke(&self, client: ClientId) -> Result<Revocation, FabricError> {
        if client == self.identity() {
            return Ok(Revocation::Alive);
        }
        client_table::expire(&self.client(), client).await?;
        Ok(Revocation::Gone)
    }

    fn provision(&self, _: Address, _: u64) -> impl Future<Output = Result<(), FabricError>> {
        std::future::ready(Ok(()))
    }
}

impl std::fmt::Debug for RestoredPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RestoredPool").field("nodes", &self.nodes).finish_non_exhaustive()
    }
}
