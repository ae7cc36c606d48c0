//! Forms a pool of fresh memory nodes, or recognises the pool to which memory nodes belong.

use super::added_nodes;
use super::address::PoolAddress;
use super::credentials::Credentials;
use super::dial::{AcceptedConnection, control};
use super::endpoints::dial_any;
use super::error::{ConnectError, node_error};
use super::host_port::HostPort;
use super::returning::{is_returning, return_to_cut};
use crate::error::TcpError;
use crate::wire::{Code, Control, Formation, LogKind, Welcome};
use farwood_fabric::{Access, NodeId, PoolShape};
use std::time::Duration;

/// The treatment of memory nodes that are all fresh by a process that attaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreshNodePolicy {
    /// The process forms a pool of them.
    FormPool,
    /// Opening the pool fails: a process that only inspects memory nodes must not form a pool.
    Refuse,
}

/// The remedy if a memory node has lost the pool's data.
const RESTART_REMEDY: &str =
    "restart all its memory nodes, those with files on new files, and load the data again";

/// The remedy for a list of memory nodes that is not that of the pool.
const NAME_ALL: &str = "name all memory nodes of the pool, in order, and no others; `farwood grow --add-node` adds a \
                        memory node to a pool";

/// The reason for refusing a pool that a process only inspects.
const RETURNS: &str = "a memory node has lost its last changes in a failure of its machine; the next process that \
                       opens the pool for its indexes returns all memory nodes to the last common state: run \
                       `farwood indexes` with its address";

/// The memory nodes of an address, each with a connection that has no identity.
pub(super) struct CandidateNodes {
    address: PoolAddress,
    scheme: &'static str,
    pub(super) all: Vec<AcceptedConnection>,
}

/// The addresses of the memory nodes that were added to the pool after the ones of `address`, whose connections are
/// `all`.
fn added_since(
    address: &PoolAddress,
    all: &mut [AcceptedConnection],
    scheme: &str,
) -> Result<Vec<HostPort>, TcpError> {
    let (known, first) = (all.len() as u16, &mut all[0]);
    let is_first = first.welcome.formed != Formation::Blank && first.welcome.node == 0;
    let mut added = Vec::new();
    for node in if is_first { known..first.welcome.nodes } else { 0..0 } {
        let found = added_nodes::address_of(first, NodeId(node));
        let Some(at) = found.map_err(|why| node_error(&address.nodes()[0], why))? else {
            let (nodes, at) = (first.welcome.nodes, &address.nodes()[0]);
            let why =
                format!("{at} is node 0 of {nodes}, and no address of node {node} is known; {NAME_ALL}");
            return Err(TcpError::NotThisPool { pool: format!("{scheme}://{address}"), why });
        };
        added.push(at);
    }
    Ok(added)
}

impl CandidateNodes {
    fn dial(
        address: &PoolAddress,
        credentials: &Credentials,
        scheme: &'static str,
    ) -> Result<Self, TcpError> {
        let dialled = |at: &HostPort| dial_any(at, credentials).map_err(|why| node_error(at, why));
        let mut all = address.nodes().iter().map(dialled).collect::<Result<Vec<_>, _>>()?;
        let added = added_since(address, &mut all, scheme)?;
        if added.is_empty() {
            return Ok(Self { address: address.clone(), scheme, all });
        }
        for at in &added {
            all.push(dialled(at)?);
        }
        let nodes = address.nodes().iter().cloned().chain(added).collect();
        Ok(Self { address: PoolAddress::new(nodes, address.access().clone())?, scheme, all })
    }

    /// The addresses of all memory nodes, with those that were added to the pool.
    pub(super) fn address(&self) -> &PoolAddress {
        &self.address
    }

    /// Connects to the memory nodes, and returns them with their pool, which it forms if necessary. While another
    /// process forms the pool, its nodes can disagree for a short time, so this retries.
    pub(super) fn form_in_time(
        address: &PoolAddress,
        credentials: &Credentials,
        fresh: FreshNodePolicy,
        scheme: &'static str,
    ) -> Result<(Self, PoolShape), TcpError> {
        Self::in_time(address, credentials, scheme, |nodes| {
            nodes.check_access()?;
            nodes.form(fresh)
        })
    }

    /// Connects to the memory nodes, and returns them with the pool that `join` finds, which it tries several times.
    fn in_time(
        address: &PoolAddress,
        credentials: &Credentials,
        scheme: &'static str,
        join: impl Fn(&mut Self) -> Result<Option<PoolShape>, TcpError>,
    ) -> Result<(Self, PoolShape), TcpError> {
        const ATTEMPTS_MAX: u32 = 5;
        // Each return ends with a pool that needs none, unless another machine fails in the meantime.
        const RETURNS_MAX: u32 = 5;
        let (mut attempt, mut returns) = (0, 0);
        loop {
            let mut nodes = Self::dial(address, credentials, scheme)?;
            match join(&mut nodes) {
                Ok(Some(shape)) => return Ok((nodes, shape)),
                // They have returned to a cut, and their memory has other incarnations now.
                Ok(None) if returns < RETURNS_MAX => returns += 1,
                Ok(None) => {
                    return Err(
                        nodes.refuse("its memory nodes lose their last changes again and again".to_owned())
                    );
                }
                Err(TcpError::NotThisPool { .. }) if attempt < ATTEMPTS_MAX => {
                    attempt += 1;
                    std::thread::sleep(Duration::from_millis(4 << attempt));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Connects to the memory nodes of an existing pool, and returns them with their pool, without changing anything.
    /// While another process forms the pool, this retries.
    pub(super) fn find_in_time(
        address: &PoolAddress,
        credentials: &Credentials,
        scheme: &'static str,
    ) -> Result<(Self, PoolShape), TcpError> {
        Self::in_time(address, credentials, scheme, Self::find)
    }

    /// Returns the pool of these memory nodes, which must be complete.
    fn find(&mut self) -> Result<Option<PoolShape>, TcpError> {
        let first = *self.welcome(0);
        if first.formed == Formation::Blank {
            return Err(TcpError::NoPool { pool: format!("{}://{}", self.scheme, self.address) });
        }
        let nodes = self.all.len() as u16;
        for (node, address) in (0..nodes).zip(self.address.nodes()) {
            let found = self.welcome(usize::from(node));
            let expected = (first.pool, node, nodes, first.host_bytes, first.device_bytes);
            // An interrupted growth may have given it more nodes.
            let counted = found.nodes.min(first.nodes);
            if (found.pool, found.node, counted, found.host_bytes, found.device_bytes) != expected {
                let why = format!(
                    "{address} is not node {node} of {nodes} of the pool of {}",
                    self.address.nodes()[0]
                );
                return Err(self.refuse(format!("{why}; {NAME_ALL}")));
            }
            if is_returning(self.all[usize::from(node)].welcome.formed) {
                return Err(self.refuse(RETURNS.to_owned()));
            }
            if found.formed != Formation::Whole {
                let remedy = "open it once with a process that may write, which completes it";
                return Err(self.refuse(format!("the pool is not complete at {address}; {remedy}")));
            }
        }
        let (host_bytes, device_bytes) = (first.host_bytes, first.device_bytes);
        Ok(Some(PoolShape { pool: first.pool, nodes, host_bytes, device_bytes }))
    }

    /// Refuses a process that wants to write if its token permits only reads.
    fn check_access(&self) -> Result<(), TcpError> {
        let mut nodes = self.address.nodes().iter().zip(&self.all);
        let reads = nodes.find(|(_, node)| node.welcome.access == Access::ReadOnly);
        reads.map_or(Ok(()), |(address, _)| Err(TcpError::ReadOnlyToken { address: address.to_string() }))
    }

    fn refuse(&self, why: String) -> TcpError {
        TcpError::NotThisPool { pool: format!("{}://{}", self.scheme, self.address), why }
    }

    fn welcome(&self, at: usize) -> &Welcome {
        &self.all[at].welcome
    }

    /// Returns the pool of these memory nodes, which it forms if necessary; `None`: they have returned to a cut, and
    /// the caller connects again.
    ///
    /// Node 0 decides which pool it is. A node with fresh memory joins the pool only until node 0 knows that the pool
    /// is complete. After that, clients may have used the pool, so a node with fresh memory has lost their data.
    fn form(&mut self, fresh: FreshNodePolicy) -> Result<Option<PoolShape>, TcpError> {
        let nodes = self.all.len() as u16;
        let first = *self.welcome(0);
        for at in 1..self.all.len() {
            let (other, address) = (self.welcome(at), &self.address.nodes()[at]);
            if (other.host_bytes, other.device_bytes) != (first.host_bytes, first.device_bytes) {
                let why = format!("{address} and {} have different sizes", self.address.nodes()[0]);
                return Err(self.refuse(format!("{why}; all memory nodes of a pool must have one size")));
            }
            if other.formed != Formation::Blank && other.pool != first.pool {
                return Err(self.refuse(self.mismatch(at)));
            }
            // A pool that exists may have been formed before the levels were compared.
            let has_cuts = [other.log, first.log].contains(&LogKind::WithCuts);
            if other.log != first.log && (has_cuts || first.formed != Formation::Whole) {
                return Err(self.refuse(format!(
                    "{address} has {}, and {} has {}: start all memory nodes of a pool with the same level of \
                     durability",
                    other.log.description(),
                    self.address.nodes()[0],
                    first.log.description()
                )));
            }
            if other.formed == Formation::Blank && first.formed == Formation::Whole {
                return Err(self.refuse(format!(
                    "{address} has fresh memory, and the pool has {} memory nodes: name them, and no others; a new \
                     memory node is added with `farwood grow --add-node`; if {address} is one of them, the pool's data \
                     there is lost: {RESTART_REMEDY}",
                    first.nodes
                )));
            }
        }
        if first.formed != Formation::Blank && (first.node, first.nodes) != (0, nodes) {
            let why = format!("{} is node {} of {}", self.address.nodes()[0], first.node, first.nodes);
            return Err(self.refuse(format!("{why}; {NAME_ALL}")));
        }
        if self.all.iter().any(|node| is_returning(node.welcome.formed)) {
            if fresh == FreshNodePolicy::Refuse {
                return Err(self.refuse(RETURNS.to_owned()));
            }
            if return_to_cut(&mut self.all, self.address.nodes())? {
                return Ok(None);
            }
        }
        let pool = match (first.formed, fresh) {
            (Formation::Blank, FreshNodePolicy::FormPool) => self.form_first()?,
            (Formation::Blank, FreshNodePolicy::Refuse) => {
                return Err(TcpError::NoPool { pool: format!("{}://{}", self.scheme, self.address) });
            }
            _ => first.pool,
        };
        for at in 0..self.all.len() {
            self.ask(at, Control::Form, [pool, at as u64, nodes.into(), 0])?;
        }
        for at in 0..self.all.len() {
            self.ask(at, Control::FinishForming, [0; 4])?;
        }
        let (host_bytes, device_bytes) = (first.host_bytes, first.device_bytes);
        Ok(Some(PoolShape { pool, nodes, host_bytes, device_bytes }))
    }

    /// Returns why memory node `at` does not belong to the same pool as node 0.
    fn mismatch(&self, at: usize) -> String {
        let (first, address) = (&self.address.nodes()[0], &self.address.nodes()[at]);
        match self.welcome(0).formed {
            Formation::Blank => format!(
                "{first} has fresh memory, and {address} belongs to a pool; the pool's data on {first} is lost: \
                 {RESTART_REMEDY}"
            ),
            _ => format!("{address} belongs to another pool than {first}"),
        }
    }

    /// Makes node 0 the first of a new pool. If several processes do so at once, node 0 keeps the identity of
    /// the first.
    fn form_first(&mut self) -> Result<u64, TcpError> {
        let random = crate::random_number().max(1);
        let nodes = self.all.len() as u64;
        match control(&mut self.all[0].stream, Control::Form, [random, 0, nodes, 0]) {
            Ok(_) => Ok(random),
            Err(ConnectError::Refused(Code::WrongPool, why)) => Err(self
                .refuse(format!("{} does not have fresh memory any more: {why}", self.address.nodes()[0]))),
            Err(why) => Err(node_error(&self.address.nodes()[0], why)),
        }
    }

    fn ask(&mut self, at: usize, what: Control, words: [u64; 4]) -> Result<(), TcpError> {
        control(&mut self.all[at].stream, what, words)
            .map(|_| ())
            .map_err(|why| node_error(&self.address.nodes()[at], why))
    }
}
