//! Conversions from the errors of memory nodes, for a program that starts them.

use super::Error;
#[cfg(feature = "etcd")]
use farwood_transport::etcd::EtcdError;
#[cfg(feature = "rdma")]
use farwood_transport::rdma::RdmaError;
#[cfg(feature = "tcp")]
use farwood_transport::tcp::TcpError;
use std::convert::Infallible;

impl From<Infallible> for Error {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

/// Errors of `MemoryNode::start`, `MemoryNode::stop`, tokens and certificates.
///
/// ```
/// # #[cfg(feature = "tcp")] {
/// use farwood::node::{MemoryNode, NodeSpec};
///
/// fn start(spec: &NodeSpec) -> farwood::Result<MemoryNode> {
///     Ok(MemoryNode::start(spec)?)
/// }
/// # let _ = start;
/// # }
/// ```
#[cfg(feature = "tcp")]
impl From<TcpError> for Error {
    fn from(source: TcpError) -> Self {
        Self::Tcp { operation: "run a memory node", source }
    }
}

/// Errors of `serve_rdma` and of RDMA devices.
#[cfg(feature = "rdma")]
impl From<RdmaError> for Error {
    fn from(source: RdmaError) -> Self {
        Self::Rdma { operation: "run a memory node", source }
    }
}

/// Errors of `Registrant::register`.
#[cfg(feature = "etcd")]
impl From<EtcdError> for Error {
    fn from(source: EtcdError) -> Self {
        Self::Etcd { operation: "register a memory node", source }
    }
}

#[cfg(all(test, feature = "etcd"))]
mod tests {
    use super::*;

    #[test]
    fn errors_of_memory_nodes_convert_with_the_name_of_the_operation() {
        let of_node = || -> crate::Result<()> { Err(TcpError::BadShape("too small".to_owned()))? };
        assert!(of_node().unwrap_err().to_string().starts_with("run a memory node: "));
        let of_device = || -> crate::Result<()> { Err(RdmaError::NoDevices)? };
        assert!(of_device().unwrap_err().to_string().starts_with("run a memory node: "));
        let of_etcd = || -> crate::Result<()> { Err(EtcdError::NoAnswer { why: "refused".to_owned() })? };
        assert!(of_etcd().unwrap_err().to_string().starts_with("register a memory node: "));
    }
}
