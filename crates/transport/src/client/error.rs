//! Why a connection to a memory node fails.

use crate::error::TcpError;
use crate::wire::Code;
use farwood_fabric::{ClientId, FabricError, NodeId};

/// Why a connection to one memory node is not to be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoWay {
    /// Nobody answers, or not as they should.
    Lost(String),
    /// Refused, under a code.
    Refused(Code, String),
    /// This machine refuses what it takes.
    Here(String),
    /// One side does not believe the other, or speaks no TLS.
    Untrusted(String),
}

impl NoWay {
    /// As the fabric says it.
    pub(crate) fn of_node(self, node: NodeId, client: Option<ClientId>) -> FabricError {
        match (self, client) {
            (Self::Refused(Code::Revoked, _), Some(client)) => FabricError::Revoked(client),
            (Self::Refused(Code::OtherPool, why), _) => FabricError::NotAPool { node, why },
            (Self::Here(why), _) => FabricError::CannotPost { node, why },
            (Self::Lost(why) | Self::Refused(_, why) | Self::Untrusted(why), _) => {
                FabricError::NodeLost { node, why }
            }
        }
    }
}

pub(crate) fn no_node(address: &str, why: NoWay) -> TcpError {
    let address = address.to_owned();
    match why {
        NoWay::Lost(why) => TcpError::NotThere { address, why },
        NoWay::Refused(Code::BadToken, why) => TcpError::BadToken { address, why },
        NoWay::Untrusted(why) => TcpError::Untrusted { address, why },
        NoWay::Refused(_, why) | NoWay::Here(why) => TcpError::Unusable { address, why },
    }
}
