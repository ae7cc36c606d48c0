//! The state that all threads of a compute node with an RDMA device share.

use super::device::Device;
use super::region::NodeDevice;
use farwood_fabric::Capabilities;
use std::sync::Arc;

/// The state that all threads of a compute node share.
#[derive(Debug)]
pub struct RdmaShared {
    pub(super) device: Arc<Device>,
    pub(super) capabilities: Capabilities,
    pub(super) cards: Vec<NodeDevice>,
}
