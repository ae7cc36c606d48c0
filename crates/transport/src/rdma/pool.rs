//! A pool over RDMA, and the memory nodes that serve it.

use super::device::{Device, DeviceReport, device_bytes, mtu_bytes};
use super::error::RdmaError;
use super::queue_pairs::QueuePairs;
use super::region::{NodeDevice, NodeRegions, weakest};
use super::shared::RdmaShared;
use super::spec::DeviceSpec;
use super::sys::keep_from_children;
use super::target::Target;
use crate::client::dial::{AcceptedConnection, control};
use crate::client::error::node_error;
use crate::client::{Credentials, FreshNodePolicy, HostPort, PoolAddress, ServedFabric, ServedPool};
use crate::daemon::verb_executor::VerbExecutor;
use crate::daemon::{MemoryNode, NodeSpec};
use crate::error::TcpError;
use crate::wire::Control;
use farwood_fabric::Capabilities;
use std::cell::OnceCell;
use std::num::NonZeroU16;

/// A pool over RDMA.
pub type RdmaPool = ServedPool<QueuePairs>;
/// One client's connection to a pool over RDMA.
pub type RdmaFabric = ServedFabric<QueuePairs>;

impl RdmaPool {
    /// Attaches this process to a pool, as a new compute node, through the device that `device` names. `fresh`
    /// determines what happens if all memory nodes are fresh. The clients of a thread share `queue_pairs` queue pairs
    /// at each memory node; a client uses one of them, so its requests keep their order.
    ///
    /// # Errors
    /// [`RdmaError`]: rdma-core or the device is missing; or as
    /// [`TcpPool::open_with`](crate::tcp::TcpPool::open_with).
    pub fn open(
        address: &PoolAddress,
        credentials: Credentials,
        device: &DeviceSpec,
        queue_pairs: NonZeroU16,
        fresh: FreshNodePolicy,
    ) -> Result<Self, RdmaError> {
        // Compute nodes fork; memory nodes do not, and on older kernels this call would refuse registrations
        // below a huge page.
        keep_from_children();
        let device = Device::open(device)?;
        Self::attach(address, credentials, queue_pairs, fresh, |nodes| {
            let mut cards = Vec::new();
            let mut promised: Option<Capabilities> = None;
            for (node, address) in nodes.iter_mut().zip(address.nodes()) {
                let region = ask(node, address)?;
                let unusable = |why| TcpError::Unusable { address: address.to_string(), why };
                region.check_link(&device).map_err(unusable)?;
                cards.push(region.card());
                let promises = region.capabilities();
                promised = Some(promised.map_or(promises, |others| weakest(others, &promises)));
            }
            let mut capabilities = promised.expect("a pool has a memory node");
            // Both ends must support it.
            capabilities.masked_cas &= device.masked_cas;
            let packet = mtu_bytes(device.mtu) as usize;
            capabilities.brief_reads &= packet >= capabilities.version_pair_bytes_max;
            let survives = &mut capabilities.write_survives_writer_bytes_max;
            *survives = packet.min(*survives);
            Ok(RdmaShared { device, capabilities, cards })
        })
    }

    /// Returns the properties of this process's device.
    pub fn card(&self) -> DeviceReport {
        self.shared().device.report()
    }

    /// Returns the properties that each memory node reports of its device.
    pub fn cards(&self) -> &[NodeDevice] {
        &self.shared().cards
    }
}

fn ask(node: &mut AcceptedConnection, address: &HostPort) -> Result<NodeRegions, TcpError> {
    let words = control(&mut node.stream, Control::Region, [0; 4]).map_err(|why| node_error(address, why))?;
    NodeRegions::from_words(words).ok_or_else(|| TcpError::Unusable {
        address: address.to_string(),
        why: "its device is of an unknown kind; use the same version on both sides".to_owned(),
    })
}

/// Starts a memory node whose verbs the device that `device` names executes. Compute nodes connect to the
/// address in `spec` for everything but verbs.
///
/// # Errors
/// [`RdmaError`]; or as [`MemoryNode::start`].
pub fn serve(spec: &NodeSpec, device: &DeviceSpec) -> Result<(MemoryNode, DeviceReport), RdmaError> {
    let device = Device::open(device)?;
    let device_bytes = spec.device_bytes.or_else(|| Some(device_bytes(device.limits.device_memory)));
    let location = OnceCell::new();
    let attach = |memory| -> Result<Box<dyn VerbExecutor>, TcpError> {
        let target = Target::attach(&device, memory)?;
        // A memory node has one device.
        let _ = location.set(target.location().clone());
        Ok(Box::new(target))
    };
    let node = MemoryNode::start_with(&NodeSpec { device_bytes, ..spec.clone() }, Some(&attach))?;
    Ok((node, DeviceReport { serves: location.into_inner(), ..device.report() }))
}
