//! A pool over RDMA, and the memory nodes that it is made of.

use super::device::{CardReport, Device, device_bytes, mtu_bytes};
use super::error::RdmaError;
use super::queue_pairs::QueueLine;
use super::region::{NodeCard, RegionWords, weakest};
use super::shared::Ground;
use super::spec::DeviceSpec;
use super::sys::keep_from_children;
use super::target::Target;
use crate::client::dial::{Dialled, control};
use crate::client::error::no_node;
use crate::client::{Credentials, Fresh, PoolAddress, ServedFabric, ServedPool};
use crate::daemon::verb_executor::Card;
use crate::daemon::{MemoryNode, NodeSpec};
use crate::error::TcpError;
use crate::wire::Control;
use farwood_fabric::Capabilities;
use std::cell::OnceCell;
use std::num::NonZeroU16;

/// A pool over RDMA.
pub type RdmaPool = ServedPool<QueueLine>;
/// One client's connection to a pool over RDMA.
pub type RdmaFabric = ServedFabric<QueueLine>;

impl RdmaPool {
    /// Attaches this process to a pool, as a new compute node, through the card that `device` names. What its memory
    /// nodes are where all of them are fresh, `fresh` says. The clients of a thread share `queue_pairs` queue pairs at
    /// each memory node; a client's requests keep their order, for it has one of them.
    ///
    /// # Errors
    /// [`RdmaError`]: there is no rdma-core or no such device; or as
    /// [`TcpPool::open_with`](crate::tcp::TcpPool::open_with).
    pub fn open(
        address: &PoolAddress,
        credentials: Credentials,
        device: &DeviceSpec,
        queue_pairs: NonZeroU16,
        fresh: Fresh,
    ) -> Result<Self, RdmaError> {
        // Compute nodes fork; memory nodes do not, and older kernels would then refuse what is less than a huge page.
        keep_from_children();
        let device = Device::open(device)?;
        Self::attach(address, credentials, queue_pairs, fresh, |nodes| {
            let mut cards = Vec::new();
            let mut promised: Option<Capabilities> = None;
            for (node, address) in nodes.iter_mut().zip(address.nodes()) {
                let region = ask(node, address)?;
                let unusable = |why| TcpError::Unusable { address: address.clone(), why };
                region.check_link(&device).map_err(unusable)?;
                cards.push(region.card());
                let promises = region.capabilities();
                promised = Some(promised.map_or(promises, |others| weakest(others, &promises)));
            }
            let mut capabilities = promised.expect("a pool has a memory node");
            // Both ends must speak it.
            capabilities.masked_cas &= device.masked_cas;
            let packet = mtu_bytes(device.mtu) as usize;
            let survives = &mut capabilities.write_survives_writer_bytes_max;
            *survives = packet.min(*survives);
            Ok(Ground { device, capabilities, cards })
        })
    }

    /// The card of this process.
    pub fn card(&self) -> CardReport {
        self.ground().device.report()
    }

    /// What each memory node says of its card.
    pub fn cards(&self) -> &[NodeCard] {
        &self.ground().cards
    }
}

fn ask(node: &mut Dialled, address: &str) -> Result<RegionWords, TcpError> {
    let words = control(&mut node.stream, Control::Region, [0; 4]).map_err(|why| no_node(address, why))?;
    RegionWords::from_words(words).ok_or_else(|| TcpError::Unusable {
        address: address.to_owned(),
        why: "its card is of a kind that this program does not know; use the same version on both sides"
            .to_owned(),
    })
}

/// Starts a memory node whose verbs the card that `device` names executes. Compute nodes find it where `spec` says that
/// it listens; only what is no verb goes there.
///
/// # Errors
/// [`RdmaError`]; or as [`MemoryNode::start`].
pub fn serve(spec: &NodeSpec, device: &DeviceSpec) -> Result<(MemoryNode, CardReport), RdmaError> {
    let device = Device::open(device)?;
    let device_bytes = spec.device_bytes.or_else(|| Some(device_bytes(device.limits.device_memory)));
    let place = OnceCell::new();
    let fit = |memory| -> Result<Box<dyn Card>, TcpError> {
        let target = Target::fit(&device, memory)?;
        // A memory node is fitted with one card.
        let _ = place.set(target.place().clone());
        Ok(Box::new(target))
    };
    let node = MemoryNode::start_with(&NodeSpec { device_bytes, ..spec.clone() }, Some(&fit))?;
    Ok((node, CardReport { serves: place.into_inner(), ..device.report() }))
}
