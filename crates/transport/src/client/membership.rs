//! Entering the client table, fencing, and detecting connected clients.

use super::added_nodes;
use super::dial::{AcceptedConnection, control};
use super::endpoints::{Endpoints, PRESENCE_CONNECTION};
use super::error::ConnectError;
use super::post::Waiter;
use super::transport::VerbTransport;
use crate::runtime::{block_on, sleep};
use crate::shm::monotonic_nanoseconds;
use crate::wire::{Code, Control, FENCED_BY_ITSELF};
use farwood_fabric::{
    Address, Capabilities, Client, ClientId, Doorbell, Fabric, FabricError, NodeId, PoolShape, Revocation,
    client_table,
};
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;

/// Takes a slot of the client table: a slot that is not claimed at memory node 0, whose last owner has no connection to
/// any memory node, and whose next epoch no memory node has fenced. `nodes` are connections without an identity, one to
/// each memory node; that to node 0 becomes the client's presence.
pub(super) fn enter<W: VerbTransport>(
    shared: &Arc<W::Shared>,
    endpoints: &Arc<Endpoints>,
    nodes: &mut [AcceptedConnection],
) -> Result<ClientId, FabricError> {
    let unregistered = Unregistered(W::new(shared, Arc::clone(endpoints), None, PRESENCE_CONNECTION));
    let client = Client::new(&unregistered);
    let process = u64::from(std::process::id());
    // The reason why a slot cannot be used; other slots are tried.
    let mut refused = None;
    for slot in 0..client_table::CLIENTS_MAX as u16 {
        match control(&mut nodes[0].stream, Control::Claim, [slot.into(), 0, 0, 0]) {
            Ok(_) => {}
            Err(ConnectError::Refused(Code::SlotTaken, _)) => continue,
            Err(why) => return Err(why.into_fabric_error(NodeId(0), None)),
        }
        let before = match block_on(client_table::slot_state(&client, slot)) {
            Ok(before) => before,
            Err(damaged @ FabricError::Damaged { .. }) => {
                refused = Some(damaged);
                continue;
            }
            Err(why) => return Err(why),
        };
        if before.live {
            match fence_if_gone(endpoints, nodes, before.client) {
                Ok(true) => {}
                Ok(false) => continue,
                Err((node, why @ ConnectError::Refused(..))) => {
                    refused = Some(why.into_fabric_error(node, None));
                    continue;
                }
                Err((node, why)) => return Err(why.into_fabric_error(node, None)),
            }
        }
        let Some(identity) = block_on(client_table::enter(&client, slot, process))? else { continue };
        match identify(nodes, identity) {
            Ok(()) => return Ok(identity),
            Err((_, ConnectError::Refused(Code::Revoked, _))) => {
                block_on(client_table::expire(&client, identity))?;
            }
            Err((node, why)) => return Err(why.into_fabric_error(node, Some(identity))),
        }
    }
    Err(refused.unwrap_or(FabricError::NoClientSlot { slots: client_table::CLIENTS_MAX }))
}

/// Assigns the client's identity to the connection at every memory node, at node 0 last, because the connection to node
/// 0 keeps the identity.
fn identify(nodes: &mut [AcceptedConnection], client: ClientId) -> Result<(), (NodeId, ConnectError)> {
    for (number, node) in nodes.iter_mut().enumerate().rev() {
        let named = control(&mut node.stream, Control::Identify, words_of(client));
        named.map_err(|why| (NodeId(number as u16), why))?;
    }
    Ok(())
}

fn words_of(client: ClientId) -> [u64; 4] {
    [client.slot.into(), client.epoch.into(), 0, 0]
}

/// Returns whether `client` has a connection to some memory node, also one that was added to the pool. Node 0 also
/// counts a new claim of the slot.
pub(super) async fn is_connected<W: VerbTransport>(
    connections: &W,
    endpoints: &Endpoints,
    client: ClientId,
) -> Result<bool, FabricError> {
    added_nodes::find(connections, endpoints).await?;
    for node in (0..endpoints.shape().nodes).map(NodeId) {
        if connections.control(node, Control::CountConnections, words_of(client)).await?[0] > 0 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Ensures that no memory node executes another verb of `client`.
pub(super) async fn fence<W: VerbTransport>(
    connections: &W,
    endpoints: &Endpoints,
    client: ClientId,
) -> Result<(), FabricError> {
    fence_with(connections, endpoints, words_of(client)).await
}

/// Ensures that no verb of `client`, the caller's own identity, lands at any memory node any more.
pub(super) async fn fence_own<W: VerbTransport>(
    connections: &W,
    endpoints: &Endpoints,
    client: ClientId,
) -> Result<(), FabricError> {
    let [slot, epoch, ..] = words_of(client);
    fence_with(connections, endpoints, [slot, epoch, FENCED_BY_ITSELF, 0]).await
}

/// Fences a client at memory node 0, and then at the others. The client knows the memory nodes that node 0 named before
/// its fence there, so those that were added until then are all that it can reach.
async fn fence_with<W: VerbTransport>(
    connections: &W,
    endpoints: &Endpoints,
    words: [u64; 4],
) -> Result<(), FabricError> {
    connections.control(NodeId(0), Control::Fence, words).await?;
    added_nodes::find(connections, endpoints).await?;
    for node in (1..endpoints.shape().nodes).map(NodeId) {
        connections.control(node, Control::Fence, words).await?;
    }
    Ok(())
}

/// For the process that has claimed the slot: returns whether the last owner has no connection to the memory nodes from
/// 1 on; if so, fences it.
fn fence_if_gone(
    endpoints: &Endpoints,
    nodes: &mut [AcceptedConnection],
    client: ClientId,
) -> Result<bool, (NodeId, ConnectError)> {
    for (number, node) in nodes.iter_mut().enumerate().skip(1) {
        let counted = control(&mut node.stream, Control::CountConnections, words_of(client));
        if counted.map_err(|why| (NodeId(number as u16), why))?[0] > 0 {
            return Ok(false);
        }
    }
    for (number, node) in nodes.iter_mut().enumerate() {
        let fenced = control(&mut node.stream, Control::Fence, words_of(client));
        fenced.map_err(|why| (NodeId(number as u16), why))?;
    }
    if endpoints.is_snapshot() {
        // It keeps the memory nodes of its cut.
        return Ok(true);
    }
    // As in `fence_with`, but this process has a connection to each memory node that it fences.
    let counted = control(&mut nodes[0].stream, Control::CountNodes, [0; 4]);
    if counted.map_err(|why| (NodeId(0), why))?[0] == nodes.len() as u64 {
        return Ok(true);
    }
    let why = "a memory node was added to its pool at this moment; open the pool again".to_owned();
    Err((NodeId(0), ConnectError::Lost(why)))
}

/// The connections of a compute node without an entry in the client table: while it enters, and while it
/// leaves.
pub(super) struct Unregistered<W: VerbTransport>(pub(super) Rc<W>);

impl<W: VerbTransport> Fabric for Unregistered<W> {
    fn capabilities(&self) -> &Capabilities {
        unreachable!("entering and leaving the client table needs no capabilities")
    }

    fn shape(&self) -> PoolShape {
        unreachable!("entering and leaving the client table needs no shape")
    }

    fn find_added_nodes(&self) -> impl Future<Output = Result<(), FabricError>> {
        std::future::ready(Ok(()))
    }

    fn identity(&self) -> ClientId {
        unreachable!("entering and leaving the client table needs no identity")
    }

    async fn submit(&self, doorbell: Doorbell) -> Result<Doorbell, FabricError> {
        let post = self.0.post(doorbell, Waiter::Future);
        self.0.wait(post).await
    }

    fn submit_detached(&self, doorbell: Doorbell) -> Option<Doorbell> {
        // No caller posts detached verbs here, so nothing can report their errors.
        self.0.post(doorbell, Waiter::Gone);
        None
    }

    fn lock_tag(&self) -> u16 {
        unreachable!("entering and leaving the client table needs no lock")
    }

    fn now(&self) -> u64 {
        monotonic_nanoseconds()
    }

    fn sleep(&self, nanoseconds: u64) -> impl Future<Output = ()> {
        sleep(nanoseconds)
    }

    fn revoke(&self, _: ClientId) -> impl Future<Output = Result<Revocation, FabricError>> {
        std::future::ready(Ok(Revocation::Alive))
    }

    fn provision(&self, _: Address, _: u64) -> impl Future<Output = Result<(), FabricError>> {
        std::future::ready(Ok(()))
    }
}
