//! A pool over RDMA, and the memory nodes that it is made of.

use super::device::{CardKind, CardReport, Device, DeviceSpec, LinkKind, device_bytes, mtu_bytes};
use super::error::RdmaError;
use super::line::QueueLine;
use super::sys::keep_from_children;
use super::target::{RegionWords, Target, weakest};
use crate::tcp::card::Card;
use crate::tcp::dial::{Dialled, control};
use crate::tcp::wire::Control;
use crate::tcp::{
    Credentials, Fresh, MemoryNode, NodeSpec, PoolAddress, ServedFabric, ServedPool, TcpError, no_node,
};
use farwood_fabric::Capabilities;
use std::cell::OnceCell;
use std::num::NonZeroU16;
use std::sync::Arc;

/// A pool over RDMA.
pub type RdmaPool = ServedPool<QueueLine>;
/// One client's connection to a pool over RDMA.
pub type RdmaFabric = ServedFabric<QueueLine>;

/// What all threads of a compute node share.
#[derive(Debug)]
pub struct Ground {
    pub(super) device: Arc<Device>,
    pub(super) capabilities: Capabilities,
    cards: Vec<NodeCard>,
}

/// What a memory node says of its card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeCard {
    /// What executes verbs there.
    pub kind: CardKind,
    /// Whether device memory is the card's own, or host memory in its place.
    pub device_on_card: bool,
    /// Device memory that the card has, used or not, bytes.
    pub device_memory: u64,
    /// Bytes of a packet's data.
    pub mtu_bytes: u32,
    /// What its port speaks.
    pub link: LinkKind,
}

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

impl RegionWords {
    fn card(&self) -> NodeCard {
        NodeCard {
            kind: self.kind,
            device_on_card: self.device_on_card,
            device_memory: self.of_card,
            mtu_bytes: mtu_bytes(self.mtu),
            link: self.link,
        }
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
