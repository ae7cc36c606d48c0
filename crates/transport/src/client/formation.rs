//! Forming a pool of memory nodes, or recognising the pool that they are.

use super::address::PoolAddress;
use super::credentials::Credentials;
use super::dial::{Dialled, control, dial};
use super::endpoints::PRESENCE_LINE;
use super::error::{NoWay, no_node};
use crate::error::TcpError;
use crate::wire::{ANY_NODE, Code, Control, Formed, Hello, Welcome};
use farwood_fabric::PoolShape;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::Duration;

/// What memory nodes are to whoever attaches to them when all of them are fresh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fresh {
    /// They become a pool.
    Forms,
    /// No pool: who only looks binds nothing together.
    IsNone,
}

/// What is to be done where a memory node has lost what a pool had there.
const ANEW: &str = "start all its memory nodes anew, those that have files with new ones, and load it again";

/// The memory nodes of an address, each with a connection that has no name.
pub(super) struct Nodes<'a> {
    address: &'a PoolAddress,
    scheme: &'static str,
    pub(super) all: Vec<Dialled>,
}

impl<'a> Nodes<'a> {
    fn dial(
        address: &'a PoolAddress,
        credentials: &Credentials,
        scheme: &'static str,
    ) -> Result<Self, TcpError> {
        let token = credentials.token_bytes();
        let hello = Hello { pool: 0, node: ANY_NODE, client: None, line: PRESENCE_LINE, token };
        let dialled = |at: &String| dial(at, credentials, &hello).map_err(|why| no_node(at, why));
        let all = address.nodes().iter().map(dialled).collect::<Result<_, _>>()?;
        Ok(Self { address, scheme, all })
    }

    /// The memory nodes, and the pool that they are or become. While others form it, they can seem not to go together:
    /// what still seems so after a little while does so for good.
    pub(super) fn form_in_time(
        address: &'a PoolAddress,
        credentials: &Credentials,
        fresh: Fresh,
        scheme: &'static str,
    ) -> Result<(Self, PoolShape), TcpError> {
        const ATTEMPTS_MAX: u32 = 5;
        let mut attempt = 0;
        loop {
            let mut nodes = Self::dial(address, credentials, scheme)?;
            match nodes.form(fresh) {
                Ok(shape) => return Ok((nodes, shape)),
                Err(TcpError::NotThisPool { .. }) if attempt < ATTEMPTS_MAX => {
                    attempt += 1;
                    std::thread::sleep(Duration::from_millis(4 << attempt));
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn refuse(&self, why: String) -> TcpError {
        TcpError::NotThisPool { pool: format!("{}://{}", self.scheme, self.address), why }
    }

    fn welcome(&self, at: usize) -> &Welcome {
        &self.all[at].welcome
    }

    /// The pool that these memory nodes are, or become.
    ///
    /// Node 0 decides which. A node with fresh memory is taken into the pool only until node 0 knows that the pool is
    /// whole; from then on clients have used it, and a node with fresh memory has lost what they put there.
    fn form(&mut self, fresh: Fresh) -> Result<PoolShape, TcpError> {
        let nodes = self.all.len() as u16;
        let first = *self.welcome(0);
        for at in 1..self.all.len() {
            let (other, address) = (self.welcome(at), &self.address.nodes()[at]);
            if (other.host_bytes, other.device_bytes) != (first.host_bytes, first.device_bytes) {
                let why = format!("{address} has another size than {}", self.address.nodes()[0]);
                return Err(self.refuse(format!("{why}; the memory nodes of a pool are of one size")));
            }
            if other.formed != Formed::Blank && other.pool != first.pool {
                return Err(self.refuse(self.stranger(at)));
            }
            if other.formed == Formed::Blank && first.formed == Formed::Whole {
                let why = format!("{address} has fresh memory: what the pool had there is lost");
                return Err(self.refuse(format!("{why}; {ANEW}")));
            }
        }
        if first.formed != Formed::Blank && (first.node, first.nodes) != (0, nodes) {
            let why = format!("{} is node {} of {}", self.address.nodes()[0], first.node, first.nodes);
            return Err(
                self.refuse(format!("{why}; name the memory nodes of the pool in their order, all of them"))
            );
        }
        let pool = match (first.formed, fresh) {
            (Formed::Blank, Fresh::Forms) => self.draw()?,
            (Formed::Blank, Fresh::IsNone) => {
                return Err(TcpError::NoPool { pool: format!("{}://{}", self.scheme, self.address) });
            }
            _ => first.pool,
        };
        for at in 0..self.all.len() {
            self.ask(at, Control::Form, [pool, at as u64, nodes.into(), 0])?;
        }
        for at in 0..self.all.len() {
            self.ask(at, Control::Whole, [0; 4])?;
        }
        Ok(PoolShape { pool, nodes, host_bytes: first.host_bytes, device_bytes: first.device_bytes })
    }

    /// Why memory node `at` does not go with node 0.
    fn stranger(&self, at: usize) -> String {
        let (first, address) = (&self.address.nodes()[0], &self.address.nodes()[at]);
        match self.welcome(0).formed {
            Formed::Blank => format!(
                "{first} has fresh memory, and {address} belongs to a pool; what the pool had on {first} is lost: \
                 {ANEW}"
            ),
            _ => format!("{address} belongs to another pool than {first}"),
        }
    }

    /// Makes node 0 the first of a new pool; of several who do so at once, one draws the pool's identity.
    fn draw(&mut self) -> Result<u64, TcpError> {
        let drawn = RandomState::new().build_hasher().finish().max(1);
        let nodes = self.all.len() as u64;
        match control(&mut self.all[0].stream, Control::Form, [drawn, 0, nodes, 0]) {
            Ok(_) => Ok(drawn),
            Err(NoWay::Refused(Code::OtherPool, why)) => {
                Err(self
                    .refuse(format!("{} is no fresh memory node any more: {why}", self.address.nodes()[0])))
            }
            Err(why) => Err(no_node(&self.address.nodes()[0], why)),
        }
    }

    fn ask(&mut self, at: usize, what: Control, words: [u64; 4]) -> Result<(), TcpError> {
        control(&mut self.all[at].stream, what, words)
            .map(|_| ())
            .map_err(|why| no_node(&self.address.nodes()[at], why))
    }
}
