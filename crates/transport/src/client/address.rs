//! The addresses of a pool's memory nodes: `host:port,host:port`, node 0 first, with parameters after a `?`.

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
/// assert_eq!(address.nodes(), ["10.0.0.1:7470"]);
/// assert!("10.0.0.1".parse::<PoolAddress>().is_err());
/// # Ok::<(), farwood_transport::tcp::TcpError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PoolAddress {
    nodes: Vec<String>,
    access: AddressOptions,
}

impl PoolAddress {
    /// Returns each memory node's `host:port`.
    pub fn nodes(&self) -> &[String] {
        &self.nodes
    }

    /// Returns the parameters: the files of the token and the certificates, the device.
    pub fn access(&self) -> &AddressOptions {
        &self.access
    }

    /// Returns the addresses without the parameters.
    pub fn hosts(&self) -> String {
        self.nodes.join(",")
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
        let mut nodes: Vec<String> = Vec::new();
        for node in list.split(',') {
            let parts = node.rsplit_once(':').filter(|(host, _)| !host.is_empty());
            let (host, port) = parts.ok_or_else(|| no_list(format!("'{node}' has no host or no port")))?;
            if port.parse::<u16>().is_err() {
                return Err(no_list(format!("'{port}' is not a port number")));
            }
            if host.contains(':') && !(host.starts_with('[') && host.ends_with(']')) {
                return Err(refuse(format!("'{host}' is an IPv6 address; put brackets around it")));
            }
            if nodes.iter().any(|known| known == node) {
                return Err(refuse(format!("'{node}' is listed twice; omit one of them")));
            }
            nodes.push(node.to_owned());
        }
        let nodes_max = Packed::<u64>::NODES_MAX as usize;
        if nodes.len() > nodes_max {
            return Err(refuse(format!("a pool has at most {nodes_max} memory nodes; name fewer")));
        }
        Ok(Self { nodes, access })
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
        ] {
            let error = text.parse::<PoolAddress>().unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
