//! Errors of connections to memory nodes.

use super::host_port::HostPort;
use crate::error::TcpError;
use crate::wire::Code;
use farwood_fabric::{ClientId, FabricError, NodeId};

/// The reason why a connection to one memory node failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ConnectError {
    /// The memory node does not answer, or its answer is not that of a memory node.
    Lost(String),
    /// The memory node refused it, with a code.
    Refused(Code, String),
    /// This machine lacks a resource.
    Local(String),
    /// One side does not trust the other, or only one side uses TLS.
    Untrusted(String),
    /// The memory node does not prove that it knows the token.
    Unproven(String),
}

impl ConnectError {
    /// Converts it to the error of the fabric.
    pub(crate) fn into_fabric_error(self, node: NodeId, client: Option<ClientId>) -> FabricError {
        match (self, client) {
            (Self::Refused(Code::Revoked, _), Some(client)) => FabricError::Revoked(client),
            (Self::Refused(Code::WrongPool, why), _) => FabricError::NotAPool { node, why },
            (Self::Refused(Code::ReadOnly, _), _) => FabricError::ReadOnly,
            (Self::Local(why), _) => FabricError::CannotPost { node, why },
            (Self::Lost(why) | Self::Refused(_, why) | Self::Untrusted(why) | Self::Unproven(why), _) => {
                FabricError::NodeLost { node, why }
            }
        }
    }
}

pub(crate) fn node_error(address: &HostPort, why: ConnectError) -> TcpError {
    let address = address.to_string();
    match why {
        ConnectError::Lost(why) => TcpError::NotThere { address, why },
        ConnectError::Refused(Code::BadToken, why) => TcpError::BadToken { address, why },
        ConnectError::Refused(Code::ReadOnly, _) => TcpError::ReadOnlyToken { address },
        ConnectError::Refused(Code::SnapshotBusy, why) => TcpError::SnapshotBusy { address, why },
        ConnectError::Refused(Code::SnapshotLost, why) => TcpError::SnapshotLost { address, why },
        ConnectError::Untrusted(why) => TcpError::Untrusted { address, why },
        ConnectError::Unproven(why) => TcpError::Unproven { address, why },
        ConnectError::Refused(_, why) | ConnectError::Local(why) => TcpError::Unusable { address, why },
    }
}
