//! What can go wrong with a card: where, why, and what to do about it.

use crate::tcp::TcpError;

/// An error of a card, of a memory node with one, or of a pool over RDMA.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RdmaError {
    /// rdma-core is not there, or cannot be used.
    #[error("no RDMA on this machine: {0}")]
    NoLibrary(String),
    /// There is no device at all.
    #[error(
        "this machine has no RDMA device; without a card, Soft-RoCE makes one of a network interface: `modprobe \
         rdma_rxe && rdma link add rxe0 type rxe netdev INTERFACE`"
    )]
    NoDevices,
    /// There is no device of that name.
    #[error("this machine has no RDMA device '{wanted}', only: [{}]", there.join(", "))]
    NoDevice {
        /// What was asked for.
        wanted: String,
        /// What there is.
        there: Vec<String>,
    },
    /// That names no device.
    #[error(
        "'{text}' names no RDMA device: {why}; write DEVICE, DEVICE,PORT or DEVICE,PORT,GID, perhaps with ,mtu=BYTES \
         or ,masked-cas"
    )]
    BadDevice {
        /// What was given.
        text: String,
        /// What is wrong with it.
        why: String,
    },
    /// The device is there, and cannot be used.
    #[error("RDMA device {device}: {why}")]
    Unusable {
        /// Its name.
        device: String,
        /// Why, and what would help.
        why: String,
    },
    /// The memory node, or the pool.
    #[error(transparent)]
    Pool(#[from] TcpError),
}
