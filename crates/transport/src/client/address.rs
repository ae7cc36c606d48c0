//! The addresses of a pool's memory nodes: `host:port,host:port`, node 0 first, with parameters after a `?`.

use super::host_port::HostPort;
use super::options::AddressOptions;
use crate::error::TcpError;
use farwood_fabric::Packed;
use std::fmt;
use std::str::FromStr;

/// The addresses of a pool's memory nodes, in the order of their numbers, with the parameters of this compute node.
///
/// ```
/// use farwood_transport::tcp::PoolAddress;
/// let address: PoolAddress = "10.0.0.1:7470,10.0.0.2:7470".parse()?;
/// assert_eq!(address.nodes().len(), 2);
/// let address: PoolAddress = "10.0.0.1:7470?tls-ca=/etc/farwood/ca.pem".parse()?;
/// assert_eq!(address.hosts(), "10.0.0.1:7470");
/// assert!("10.0.0.1".parse::<PoolAddress>().is_err());
/// # Ok::<(), farwood_transport::tcp::TcpError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PoolAddress {
    nodes: Vec<HostPort>,
    access: AddressOptions,
}

impl PoolAddress {
    /// The address of memory nodes `nodes`, node 0 first, with the parameters `access`.
    ///
    /// # Errors
    /// [`TcpError::BadAddress`]: there are too many, or one is listed twice.
    pub fn new(nodes: Vec<HostPort>, access: AddressOptions) -> Result<Self, TcpError> {
        let address = Self { nodes, access };
        let refuse = |why: String| Err(TcpError::BadAddress { text: address.hosts(), why });
        for (at, node) in address.nodes.iter().enumerate() {
            if address.nodes[..at].contains(node) {
                return refuse(format!("'{node}' is listed twice; omit one of them"));
            }
        }
        let nodes_max = Packed::<u64>::NODES_MAX as usize;
        if address.nodes.is_empty() || address.nodes.len() > nodes_max {
            return refuse(format!("a pool has 1 to {nodes_max} memory nodes; name fewer"));
        }
        Ok(address)
    }

    /// Returns the same memory nodes with other parameters.
    #[must_use]
    pub fn with_access(&self, access: AddressOptions) -> Self {
        Self { nodes: self.nodes.clone(), access }
    }

    /// Returns each memory node's `host:port`.
    pub fn nodes(&self) -> &[HostPort] {
        &self.nodes
    }

    /// Returns the parameters: the files of the token and the certificates, the device.
    pub fn access(&self) -> &AddressOptions {
        &self.access
    }

    /// Returns the addresses without the parameters.
    pub fn hosts(&self) -> String {
        self.nodes.iter().map(HostPort::as_str).collect::<Vec<_>>().join(",")
    }
}

impl FromStr for PoolAddress {
    type Err = TcpError;

    fn from_str(text: &str) -> Result<Self, TcpError> {
        let refuse = |why: String| TcpError::BadAddress { text: text.to_owned(), why };
        let no_list =
            |why: String| refuse(format!("{why}; write HOST:PORT, or several with commas between them"));
        let (list, access) = match text.split_once('?') {
            None => (text, AddressOptions::default()),
            Some((list, access)) => (list, access.parse().map_err(refuse)?),
        };
        if let Some(key) = access.for_etcd_only() {
            return Err(refuse(format!("the parameter '{key}' is for pools in etcd (etcd://)")));
        }
        let nodes = list.split(',').map(|node| node.parse().map_err(no_list)).collect::<Result<_, _>>()?;
        Self::new(nodes, access)
    }
}

impl fmt::Display for PoolAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.hosts(), self.access)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_round_trip() {
        for text in [
            "localhost:7470",
            "10.0.0.1:1,10.0.0.2:65535",
            "[::1]:7470,host-b:1",
            "a:1?token-file=/t&tls-ca=/c",
        ] {
            assert_eq!(text.parse::<PoolAddress>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn an_invalid_address_is_refused_with_its_reason() {
        for (text, words) in [
            ("", "no port"),
            ("host", "no port"),
            (":7470", "no host"),
            ("host:", "is not a port"),
            ("host:99999", "is not a port"),
            ("::1:7470", "brackets"),
            ("a:1,a:1", "twice"),
            ("a:1,", "no host"),
            ("a:1?x=y", "no parameter 'x'"),
            ("a:1?etcd-ca=/c", "etcd://"),
        ] {
            let error = text.parse::<PoolAddress>().unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
