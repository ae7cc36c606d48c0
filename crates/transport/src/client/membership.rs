//! Entering the client table, fencing, and the question whether a client is connected.

use super::dial::control;
use super::endpoints::{PRESENCE_LINE, Reach};
use super::error::NoWay;
use super::post::Waits;
use super::transport::Way;
use crate::runtime::{block_on, sleep};
use crate::shm::monotonic_nanoseconds;
use crate::stream::Stream;
use crate::wire::{Code, Control};
use farwood_fabric::{
    Address, Capabilities, Client, ClientId, Doorbell, Fabric, FabricError, NodeId, PoolShape, Revocation,
    client_table,
};
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;

/// Takes a slot of the client table: one that nobody has claimed at memory node 0, and whose last owner is gone from
/// every memory node.
pub(super) fn enter<W: Way>(
    ground: &Arc<W::Ground>,
    reach: &Arc<Reach>,
    presence: &mut Stream,
) -> Result<ClientId, FabricError> {
    let node = NodeId(0);
    let nameless = Nameless(W::new(ground, Arc::clone(reach), None, PRESENCE_LINE));
    let client = Client::new(&nameless);
    let process = u64::from(std::process::id());
    for slot in 0..client_table::CLIENTS_MAX as u16 {
        match control(presence, Control::Claim, [slot.into(), 0, 0, 0]) {
            Ok(_) => {}
            Err(NoWay::Refused(Code::Taken, _)) => continue,
            Err(why) => return Err(why.of_node(node, None)),
        }
        let before = block_on(client_table::look(&client, slot))?;
        if before.live && !block_on(is_gone(&*nameless.0, &reach.shape, before.client))? {
            continue;
        }
        let Some(identity) = block_on(client_table::enter(&client, slot, process))? else { continue };
        let name = [identity.slot.into(), identity.epoch.into(), 0, 0];
        control(presence, Control::Name, name).map_err(|why| why.of_node(node, Some(identity)))?;
        return Ok(identity);
    }
    Err(FabricError::NoClientSlot { slots: client_table::CLIENTS_MAX })
}

fn words_of(client: ClientId) -> [u64; 4] {
    [client.slot.into(), client.epoch.into(), 0, 0]
}

/// Whether `client` has a connection to some memory node. Where its slot was claimed anew, node 0 counts that as one.
pub(super) async fn is_connected<W: Way>(
    line: &W,
    shape: &PoolShape,
    client: ClientId,
) -> Result<bool, FabricError> {
    for node in (0..shape.nodes).map(NodeId) {
        if line.control(node, Control::Census, words_of(client)).await?[0] > 0 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Makes sure that nothing of `client` lands at any memory node any more.
pub(super) async fn fence<W: Way>(line: &W, shape: &PoolShape, client: ClientId) -> Result<(), FabricError> {
    for node in (0..shape.nodes).map(NodeId) {
        line.control(node, Control::Fence, words_of(client)).await?;
    }
    Ok(())
}

/// For whoever has claimed the slot: whether its last owner is gone from the memory nodes but 0, and if so for good.
async fn is_gone<W: Way>(line: &W, shape: &PoolShape, client: ClientId) -> Result<bool, FabricError> {
    for node in (1..shape.nodes).map(NodeId) {
        if line.control(node, Control::Census, words_of(client)).await?[0] > 0 {
            return Ok(false);
        }
    }
    fence(line, shape, client).await?;
    Ok(true)
}

/// The connection of a compute node that is not in the client table: while it enters, and when it leaves.
pub(super) struct Nameless<W: Way>(pub(super) Rc<W>);

impl<W: Way> Fabric for Nameless<W> {
    fn capabilities(&self) -> &Capabilities {
        unreachable!("who enters or leaves the client table asks for no promises")
    }

    fn shape(&self) -> &PoolShape {
        unreachable!("who enters or leaves the client table asks for no shape")
    }

    fn identity(&self) -> ClientId {
        unreachable!("who enters or leaves the client table asks for no identity")
    }

    async fn submit(&self, doorbell: Doorbell) -> Result<Doorbell, FabricError> {
        let post = self.0.post(doorbell, Waits::Somebody);
        self.0.wait(post).await
    }

    fn submit_detached(&self, doorbell: Doorbell) -> Option<Doorbell> {
        // Nobody here posts detached verbs; their failure would have nobody to be told.
        self.0.post(doorbell, Waits::Nobody);
        None
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
