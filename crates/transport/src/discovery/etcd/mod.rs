//! Discovery through etcd: memory nodes register under a lease, compute nodes look them up.
//!
//! # Entries
//!
//! ```text
//! key    /farwood/POOL/NUMBER             NUMBER decimal, under a lease of 10 s
//! value  {"address":"HOST:PORT","nodes":N}
//! ```
//!
//! A memory node that stops ends its lease; the entry of a killed one expires after 10 s. As without etcd, the memory
//! nodes decide which of them form a pool, and whether their memory belongs to it: etcd only stores their addresses.

mod access;
mod error;
mod gateway;

pub use error::EtcdError;

use crate::client::host_port::decimal;
use crate::client::{AddressOptions, HostPort, PoolAddress};
use crate::fork::ForkCount;
use access::EtcdAccess;
use farwood_fabric::{Packed, printable};
use gateway::{Gateway, KeyCreation};
use serde_json::{Value, json};
use std::fmt;
use std::str::FromStr;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A memory node that does not renew its lease for this long is removed, seconds.
const LEASE_SECONDS: u64 = 10;
/// The interval of renewals.
const RENEW_INTERVAL: Duration = Duration::from_secs(LEASE_SECONDS / 4);
/// The time that a compute node waits until all memory nodes of a pool are registered.
const COMPLETE_MAX: Duration = Duration::from_secs(5);
/// The pause between two queries.
const POLL_PAUSE: Duration = Duration::from_millis(200);

/// A pool in etcd: `host:port,host:port/pool`, the servers of one etcd cluster and the pool's name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EtcdAddress {
    servers: Vec<HostPort>,
    pool: String,
    access: AddressOptions,
}

impl EtcdAddress {
    /// Returns the pool's name.
    pub fn pool(&self) -> &str {
        &self.pool
    }

    /// Returns the servers and the pool, without parameters.
    pub fn place(&self) -> String {
        format!("{}/{}", listed(&self.servers), self.pool)
    }

    /// Returns the parameters: the files of the token and the certificates.
    pub fn access(&self) -> &AddressOptions {
        &self.access
    }

    /// Returns the same pool with other parameters.
    #[must_use]
    pub fn with_access(&self, access: AddressOptions) -> Self {
        Self { access, ..self.clone() }
    }

    fn gateway(&self) -> Result<Gateway, EtcdError> {
        Ok(Gateway::new(&self.servers, EtcdAccess::find(&self.access)?))
    }

    fn prefix(&self) -> String {
        format!("/farwood/{}/", self.pool)
    }

    /// Looks up the memory nodes. Waits for up to 5 s until all have registered.
    ///
    /// # Errors
    /// [`EtcdError::NoAnswer`], [`EtcdError::Incomplete`].
    pub fn discover(&self) -> Result<PoolAddress, EtcdError> {
        let (gateway, end) = (self.gateway()?, Instant::now() + COMPLETE_MAX);
        loop {
            let found = self.complete(&gateway.list(&self.prefix())?);
            match found {
                Ok(nodes) => {
                    let pool = PoolAddress::new(nodes, self.access.clone().without_etcd());
                    return pool.map_err(|error| self.incomplete(format!("{error}")));
                }
                Err(why) if Instant::now() > end => return Err(self.incomplete(why)),
                Err(_) => std::thread::sleep(POLL_PAUSE),
            }
        }
    }

    fn incomplete(&self, found: String) -> EtcdError {
        EtcdError::Incomplete { pool: self.pool.clone(), found, at: format!("etcd://{}", self.place()) }
    }

    /// Returns the addresses of all memory nodes, in the order of their numbers, or what is missing.
    fn complete(&self, entries: &[(String, String)]) -> Result<Vec<HostPort>, String> {
        let prefix = self.prefix();
        let mut nodes = Vec::new();
        for (key, value) in entries {
            let number = key.strip_prefix(&prefix).and_then(decimal);
            let number =
                number.ok_or_else(|| format!("{} is not the key of a memory node", printable(key)))?;
            let (address, count) =
                read(value).map_err(|why| format!("{} holds {}: {why}", printable(key), printable(value)))?;
            nodes.push((number, address, count));
        }
        nodes.sort_unstable();
        if let Some((one, _)) = nodes.iter().zip(nodes.iter().skip(1)).find(|(one, next)| one.0 == next.0) {
            return Err(format!("node {} is listed twice", one.0));
        }
        let Some(wanted) = nodes.iter().map(|node| node.2).max() else {
            return Err("no memory node has registered".to_owned());
        };
        let missing: Vec<_> =
            (0..wanted).filter(|&number| nodes.iter().all(|node| node.0 != number)).collect();
        match &missing[..] {
            [] if nodes.iter().all(|node| node.2 == wanted && node.0 < wanted) => {}
            [] => {
                let says = nodes.iter().map(|node| format!("node {} says {}", node.0, node.2));
                let says = says.collect::<Vec<_>>().join(", ");
                return Err(format!("its memory nodes were started with different --nodes: {says}"));
            }
            [one] => return Err(format!("it has {wanted} memory nodes, and node {one} has not registered")),
            several => {
                let several = several.iter().map(u16::to_string).collect::<Vec<_>>().join(", ");
                return Err(format!("it has {wanted} memory nodes, and nodes {several} have not registered"));
            }
        }
        Ok(nodes.into_iter().map(|node| node.1).collect())
    }
}

/// Returns the address and the number of memory nodes in a value, or why it is invalid.
fn read(value: &str) -> Result<(HostPort, u16), String> {
    let value: Value = serde_json::from_str(value).map_err(|error| error.to_string())?;
    let address = value["address"].as_str().ok_or("it has no address")?.parse()?;
    let count =
        value["nodes"].as_u64().filter(|count| (1..=u64::from(Packed::<u64>::NODES_MAX)).contains(count));
    Ok((address, count.ok_or("it has no valid number of memory nodes")? as u16))
}

/// Returns the servers with commas between them.
fn listed(servers: &[HostPort]) -> String {
    servers.iter().map(HostPort::as_str).collect::<Vec<_>>().join(",")
}

impl FromStr for EtcdAddress {
    type Err = EtcdError;

    fn from_str(text: &str) -> Result<Self, EtcdError> {
        let refuse = |why: String| EtcdError::BadAddress { text: text.to_owned(), why };
        let (location, access) = match text.split_once('?') {
            None => (text, AddressOptions::default()),
            Some((location, access)) => (location, access.parse().map_err(refuse)?),
        };
        let (servers, pool) =
            location.split_once('/').ok_or_else(|| refuse("the pool's name is missing".into()))?;
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if pool.is_empty() || !pool.bytes().all(fits) {
            return Err(refuse(format!("'{pool}' is not the name of a pool: use A-Z a-z 0-9 . _ -")));
        }
        let servers: PoolAddress = servers.parse().map_err(|error| refuse(format!("{error}")))?;
        Ok(Self { servers: servers.nodes().to_vec(), pool: pool.to_owned(), access })
    }
}

impl fmt::Display for EtcdAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.place(), self.access)
    }
}

/// A memory node to register.
#[derive(Clone, Debug)]
pub struct Registrant {
    /// The pool, in etcd.
    pub etcd: EtcdAddress,
    /// The number of the memory node in its pool.
    pub node: u16,
    /// Memory nodes of the pool.
    pub nodes: u16,
    /// The address that compute nodes connect to.
    pub address: HostPort,
}

/// A registered memory node; its registration ends on drop.
#[derive(Debug)]
pub struct Registration {
    stop: Option<Sender<()>>,
    keeper: Option<JoinHandle<()>>,
    /// The process that registered.
    forks: ForkCount,
}

impl Registrant {
    fn key(&self) -> String {
        format!("{}{}", self.etcd.prefix(), self.node)
    }

    fn value(&self) -> String {
        json!({ "address": self.address.as_str(), "nodes": self.nodes }).to_string()
    }

    /// Registers the memory node, and keeps it registered. Calls `report` when a renewal fails, and when it succeeds
    /// again.
    ///
    /// # Errors
    /// [`EtcdError::NoAnswer`], [`EtcdError::Taken`].
    pub fn register(self, report: impl Fn(String) + Send + 'static) -> Result<Registration, EtcdError> {
        let gateway = self.etcd.gateway()?;
        let forks = ForkCount::now();
        let lease = self.enter(&gateway)?;
        let (stop, stopped) = channel();
        let keep = move || {
            let (mut lease, mut is_registered) = (Some(lease), true);
            while stopped.recv_timeout(RENEW_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                let kept = self.keep(&gateway, &mut lease);
                match &kept {
                    Err(error) if is_registered => report(error.to_string()),
                    Ok(()) if !is_registered => report("registered in etcd again".to_owned()),
                    _ => {}
                }
                is_registered = kept.is_ok();
            }
            if let Some(lease) = lease {
                // If that fails, the lease expires.
                let _ = gateway.revoke(&lease);
            }
        };
        let keeper = std::thread::Builder::new().name("farwood-etcd".to_owned()).spawn(keep);
        let keeper = keeper.map_err(|error| EtcdError::NoAnswer { why: error.to_string() })?;
        Ok(Registration { stop: Some(stop), keeper: Some(keeper), forks })
    }

    /// Renews the lease, or registers again after it has expired.
    fn keep(&self, gateway: &Gateway, lease: &mut Option<String>) -> Result<(), EtcdError> {
        if let Some(granted) = lease
            && gateway.keep(granted)?
        {
            return Ok(());
        }
        *lease = None;
        *lease = Some(self.enter(gateway)?);
        Ok(())
    }

    /// Creates the key under a new lease; returns the lease. A stale key with the same value is replaced.
    fn enter(&self, gateway: &Gateway) -> Result<String, EtcdError> {
        let (key, value) = (self.key(), self.value());
        let lease = gateway.grant(LEASE_SECONDS)?;
        match gateway.make(&key, &value, &lease)? {
            KeyCreation::Created => {}
            KeyCreation::Exists(there) if there == value => gateway.put(&key, &value, &lease)?,
            KeyCreation::Exists(there) => {
                let _ = gateway.revoke(&lease);
                let other = read(&there)
                    .map_or_else(|_| printable(&there).into_owned(), |(address, _)| address.to_string());
                return Err(EtcdError::Taken { node: self.node, other });
            }
        }
        Ok(lease)
    }
}

impl Drop for Registration {
    /// A forked child leaks the channel and the handle of the thread, which exists in the parent only.
    fn drop(&mut self) {
        if !self.forks.is_current() {
            std::mem::forget((self.stop.take(), self.keeper.take()));
            return;
        }
        self.stop = None;
        if let Some(keeper) = self.keeper.take() {
            let _ = keeper.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_round_trip_and_invalid_ones_are_refused() {
        for text in
            ["a:2379/words", "a:1,b:2/w.o-r_d?tls-ca=/etc/ca.pem", "a:1/p?etcd-ca=/c&etcd-user-file=/u"]
        {
            assert_eq!(text.parse::<EtcdAddress>().unwrap().to_string(), text);
        }
        for (text, words) in [
            ("a:1", "name is missing"),
            ("a:1/", "not the name of a pool"),
            ("a:1/x/y", "not the name of a pool"),
            ("a/x", "no port"),
            ("a:1/x?y=z", "no parameter"),
        ] {
            let error = text.parse::<EtcdAddress>().unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn a_pool_is_complete_when_all_its_nodes_are_registered() {
        let etcd: EtcdAddress = "a:1/p".parse().unwrap();
        let entry = |number: &str, nodes: u16| {
            (
                format!("/farwood/p/{number}"),
                json!({ "address": format!("h:1{number}"), "nodes": nodes }).to_string(),
            )
        };
        assert_eq!(listed(&etcd.complete(&[entry("1", 2), entry("0", 2)]).unwrap()), "h:10,h:11");
        let why = |entries: &[(String, String)]| etcd.complete(entries).unwrap_err();
        assert_eq!(why(&[]), "no memory node has registered");
        assert_eq!(why(&[entry("1", 2)]), "it has 2 memory nodes, and node 0 has not registered");
        assert_eq!(why(&[entry("1", 3)]), "it has 3 memory nodes, and nodes 0, 2 have not registered");
        assert!(
            why(&[entry("0", 1), entry("1", 2)]).contains("node 0 says 1, node 1 says 2"),
            "they disagree"
        );
        assert!(etcd.complete(&[entry("x", 1)]).unwrap_err().contains("not the key of a memory node"));
        assert!(etcd.complete(&[("/farwood/p/0".to_owned(), "{}".to_owned())]).is_err());
    }

    /// A malicious etcd, or a client that writes to it, supplies addresses and nothing else: neither the token file
    /// nor TLS of the URL changes.
    #[test]
    fn an_entry_that_contains_more_than_an_address_is_refused() {
        let etcd: EtcdAddress = "a:1/p?tls-ca=/ca.pem".parse().unwrap();
        for address in [
            "h:1?token-file=/secret&tls-name=x",
            "h:1?environment=no",
            "h:1,g:2",
            "h:1/x",
            "h:1#",
            "u@h:1",
            "h",
            "\u{1b}[2J:1",
        ] {
            let value = json!({ "address": address, "nodes": 1 }).to_string();
            let why = etcd.complete(&[("/farwood/p/0".to_owned(), value)]).unwrap_err();
            assert!(why.starts_with("/farwood/p/0 holds ") && !why.contains(char::is_control), "{why}");
        }
    }

    /// The text after the first semicolon is the remedy.
    #[test]
    fn the_reasons_of_all_servers_precede_the_remedy() {
        let etcd: EtcdAddress = "127.0.0.1:1,localhost:1/p".parse().unwrap();
        let text = etcd.discover().unwrap_err().to_string();
        let (problem, remedy) = text.split_once("; ").unwrap();
        assert!(problem.contains("127.0.0.1:1: ") && problem.contains("localhost:1: "), "{text}");
        assert!(!remedy.contains("localhost"), "{text}");
    }

    #[test]
    fn a_memory_node_has_one_number_and_one_address() {
        let etcd: EtcdAddress = "a:1/p".parse().unwrap();
        let entry = |number: &str, address: &str| {
            (format!("/farwood/p/{number}"), json!({ "address": address, "nodes": 1 }).to_string())
        };
        for number in ["00", "+0", " 0", "-0", "0x0", "65536", ""] {
            let why = etcd.complete(&[entry(number, "h:1")]).unwrap_err();
            assert!(why.contains("not the key of a memory node"), "{number}: {why}");
        }
        assert!(etcd.complete(&[entry("0", "h:1"), entry("0", "g:2")]).unwrap_err().contains("listed twice"));
    }
}
