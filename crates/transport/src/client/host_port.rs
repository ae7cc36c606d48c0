//! The address of one server, `HOST:PORT`. An address from another machine, such as etcd, is parsed into this type, and
//! so contains no parameter, second address or path.

use farwood_fabric::printable;
use std::fmt;
use std::net::SocketAddrV6;
use std::str::FromStr;

/// `HOST:PORT`: a name, an IPv4 address, or an IPv6 address in brackets, and a port.
///
/// ```
/// use farwood_transport::tcp::HostPort;
/// let address: HostPort = "[::1]:7470".parse()?;
/// assert_eq!((address.host(), address.port()), ("::1", 7470));
/// assert!("a:1?tls-ca=x".parse::<HostPort>().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPort {
    text: String,
    host_bytes: usize,
    port: u16,
}

/// Bytes of the longest host: a name (RFC 1035), or an IPv6 address with its zone.
const HOST_BYTES_MAX: usize = 253;
/// Bytes of the longest address: the name of a host, `:`, and a port of five digits.
pub(super) const ADDRESS_BYTES_MAX: usize = HOST_BYTES_MAX + 6;

impl HostPort {
    /// Returns `HOST:PORT`.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the host, an IPv6 address without its brackets.
    pub fn host(&self) -> &str {
        self.text[..self.host_bytes].trim_start_matches('[').trim_end_matches(']')
    }

    /// Returns the port.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl FromStr for HostPort {
    /// The reason.
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.rsplit_once(':').filter(|(host, _)| !host.is_empty());
        let (host, digits) = parts.ok_or_else(|| format!("'{}' has no host or no port", printable(text)))?;
        let port = decimal(digits).ok_or_else(|| format!("'{}' is not a port number", printable(digits)))?;
        if host.len() > HOST_BYTES_MAX {
            let most = HOST_BYTES_MAX;
            return Err(format!("the host has {} bytes, and the most is {most}", host.len()));
        }
        if host.starts_with('[') {
            text.parse::<SocketAddrV6>()
                .map_err(|_| format!("'{}' is not an IPv6 address in brackets", printable(host)))?;
        } else if host.contains(':') && !host.contains(['/', '?', '@', ',']) {
            return Err(format!("'{}' is an IPv6 address: put brackets around it", printable(host)));
        } else {
            let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
            if !host.bytes().all(fits) {
                return Err(format!("'{}' is not the name of a host", printable(host)));
            }
        }
        Ok(Self { text: text.to_owned(), host_bytes: host.len(), port })
    }
}

/// Returns the number that `digits` writes in the only accepted form: without a sign and without leading zeros.
pub(crate) fn decimal(digits: &str) -> Option<u16> {
    digits.parse().ok().filter(|number: &u16| number.to_string() == digits)
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports_are_read() {
        for (text, host, port) in [
            ("a.b-c_d:1", "a.b-c_d", 1),
            ("10.0.0.1:65535", "10.0.0.1", 65535),
            ("[fe80::1%2]:7", "fe80::1%2", 7),
        ] {
            let read: HostPort = text.parse().unwrap();
            assert_eq!((read.host(), read.port(), read.as_str()), (host, port, text));
        }
    }

    #[test]
    fn an_address_contains_only_host_and_port() {
        for text in [
            "a:1?token-file=/secret",
            "a?token-file=x:1",
            "a:1,b:2",
            "a,b:2",
            "a:1/x",
            "a/x:1",
            "u@a:1",
            "a b:1",
            "a\n:1",
            "a:+1",
            "a:01",
            "a:1 ",
            "[::1:1",
            "[x]:1",
            "[::1]x:1",
            "a]:1",
            "tcp://a:1",
        ] {
            assert!(text.parse::<HostPort>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn the_bytes_of_a_host_are_limited() {
        let name = |bytes| format!("{}:65535", "h".repeat(bytes)).parse::<HostPort>();
        assert_eq!(name(253).unwrap().as_str().len(), ADDRESS_BYTES_MAX);
        assert!(name(254).is_err());
        assert!(format!("[fe80::1%{}1]:7", "0".repeat(253)).parse::<HostPort>().is_err());
    }
}
