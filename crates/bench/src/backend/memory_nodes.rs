//! Memory nodes over TCP in a worker process.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use farwood_transport::tcp::{MemoryNode, NodeFile, NodeSpec};
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::driver::cpu::pin;
use crate::driver::program::failed;
use crate::driver::protocol::Order;
use crate::driver::worker::{Job, ParentConnection};

/// A process of memory nodes, which outputs their addresses when it is ready.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct MemoryNodesJob {
    pub(crate) nodes: u16,
    /// Host memory of each, in bytes.
    pub(crate) host_bytes: u64,
    /// The CPUs that the process may use; empty: all.
    pub(crate) cpus: Vec<usize>,
    /// The level of durability, and the folder of their files.
    pub(crate) files: Option<(String, PathBuf)>,
}

impl MemoryNodesJob {
    fn spec(&self, node: u16) -> NodeSpec {
        let file = self.files.as_ref().map(|(level, folder)| {
            let durability = level.parse().expect("the parent process has written a level");
            NodeFile { durability, ..NodeFile::new(folder.join(node.to_string())) }
        });
        NodeSpec { file, ..NodeSpec::new((Ipv4Addr::LOCALHOST, 0).into(), self.host_bytes) }
    }
}

impl Job for MemoryNodesJob {
    const KIND: &'static str = "memory-nodes";

    fn run(self, parent: &mut ParentConnection<'_>) -> Result<()> {
        pin(&self.cpus).map_err(failed("pin memory nodes to their CPUs"))?;
        parent.follow();
        let nodes: Vec<MemoryNode> =
            (0..self.nodes).map(|node| Ok(MemoryNode::start(&self.spec(node))?)).collect::<Result<_>>()?;
        let addresses: Vec<String> = nodes.iter().map(|node| node.address().to_string()).collect();
        parent.output(&addresses)?;
        while parent.order()? != Order::End {}
        Ok(())
    }
}
