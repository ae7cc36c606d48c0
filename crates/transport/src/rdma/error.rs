//! Errors of RDMA devices, with remedies.

use crate::error::TcpError;
use std::io;

/// An error of a device, of a memory node with one, or of a pool over RDMA.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RdmaError {
    /// rdma-core is missing or unusable.
    #[error("no RDMA on this machine: {0}")]
    NoLibrary(String),
    /// The machine has no device.
    #[error(
        "this machine has no RDMA device; without hardware, Soft-RoCE creates one on a network interface: `modprobe \
         rdma_rxe && rdma link add rxe0 type rxe netdev INTERFACE`"
    )]
    NoDevices,
    /// The machine has no device of that name.
    #[error("this machine has no RDMA device '{wanted}'; its devices: [{}]", there.join(", "))]
    NoDevice {
        /// The requested name.
        wanted: String,
        /// The existing devices.
        there: Vec<String>,
    },
    /// The text is not the name of a device.
    #[error(
        "'{text}' names no RDMA device: {why}; write DEVICE, DEVICE,PORT or DEVICE,PORT,GID, optionally with \
         ,mtu=BYTES or ,masked-cas"
    )]
    BadDevice {
        /// The text.
        text: String,
        /// The reason why it is invalid.
        why: String,
    },
    /// The device exists, and cannot be used.
    #[error("RDMA device {device}: {why}")]
    Unusable {
        /// The name of the device.
        device: String,
        /// The reason, and the remedy.
        why: String,
    },
    /// An error of the memory node or the pool.
    #[error(transparent)]
    Pool(#[from] TcpError),
}

impl RdmaError {
    /// The text; without the remedy, unless the reason contains it.
    pub fn description(&self) -> String {
        match self {
            Self::NoDevices => "this machine has no RDMA device".to_owned(),
            Self::BadDevice { text, why } => format!("'{text}' names no RDMA device: {why}"),
            Self::NoLibrary(_) | Self::NoDevice { .. } | Self::Unusable { .. } => self.to_string(),
            Self::Pool(error) => error.description(),
        }
    }

    /// Returns the command that resolves the problem.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::NoLibrary(_) => "apt-get install rdma-core ibverbs-providers && modprobe ib_uverbs",
            Self::NoDevices => "modprobe rdma_rxe && rdma link add rxe0 type rxe netdev INTERFACE",
            Self::NoDevice { .. } => "ibv_devices",
            Self::BadDevice { .. } => "export FARWOOD_RDMA_DEVICE=DEVICE,PORT,GID",
            Self::Unusable { .. } => "ibv_devinfo -v",
            Self::Pool(_) => "farwood serve --rdma DEVICE",
        }
    }
}

/// Returns the system's message, with the remedy for its usual refusal, followed by a further remedy, `besides`.
pub(super) fn with_remedy(error: &io::Error, besides: &str) -> String {
    if error.raw_os_error() == Some(libc::ENOMEM) {
        return format!(
            "{error}; raise the limit on locked memory (`ulimit -l unlimited`, LimitMEMLOCK=infinity){besides}"
        );
    }
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_on_locked_memory_is_reported_with_its_remedy() {
        let words = |number| with_remedy(&io::Error::from_raw_os_error(number), ", or this");
        assert!(words(libc::ENOMEM).ends_with("LimitMEMLOCK=infinity), or this"));
        assert!(!words(libc::EINVAL).contains("ulimit"));
    }

    #[test]
    fn the_text_begins_with_the_description() {
        let (device, why) = ("mlx5_0".to_owned(), "its port is down".to_owned());
        for error in [
            RdmaError::NoLibrary(why.clone()),
            RdmaError::NoDevices,
            RdmaError::NoDevice { wanted: device.clone(), there: vec!["rxe0".to_owned()] },
            RdmaError::BadDevice { text: device.clone(), why: why.clone() },
            RdmaError::Unusable { device, why },
            RdmaError::Pool(TcpError::NoPool { pool: "rdma://a".to_owned() }),
        ] {
            let (text, description) = (error.to_string(), error.description());
            let rest = text.strip_prefix(&description).expect("it begins with the description");
            assert!(rest.is_empty() || rest.starts_with("; "), "{text}");
        }
        assert!(RdmaError::NoDevices.to_string().contains(RdmaError::NoDevices.remedy()));
    }
}
