//! A client's connection to the server: rings in the server's memory, or an ordinary socket.

use std::cell::RefCell;
use std::rc::Rc;

use farwood_fabric::{Fabric, LocalMemory};
use farwood_index::IndexError;
use farwood_index::catfish::{Answer, Carrier, Correspondent, Messenger, Reply, Request, Talk};
use farwood_transport::tcp::exchange::Exchange;

/// A connection of either kind.
#[derive(Debug)]
pub enum Connection<'t, F, L> {
    /// Rings: for who can read the server's memory in place, or has memory that the server can write.
    Rings(Box<Messenger<'t, F, L>>),
    /// A socket.
    Socket(Correspondent<Socket>),
}

/// A socket that a thread's clients share.
#[derive(Clone, Debug)]
pub struct Socket {
    exchange: Rc<RefCell<Exchange>>,
    /// The index, for errors.
    name: String,
}

impl Socket {
    /// The connection `exchange` to the server of the index `name`.
    pub fn new(exchange: Exchange, name: &str) -> Socket {
        Socket { exchange: Rc::new(RefCell::new(exchange)), name: name.to_owned() }
    }
}

impl Carrier for Socket {
    async fn carry(&mut self, request: &[u64], response: &mut Vec<u64>) -> Result<(), IndexError> {
        let lost = |_| IndexError::ServerLost { name: self.name.clone() };
        Exchange::call(&self.exchange, request, response).await.map_err(lost)
    }
}

impl<F: Fabric, L: LocalMemory> Connection<'_, F, L> {
    /// Leaves the connection to others. [1 RT]
    ///
    /// # Errors
    /// The fabric's.
    pub async fn close(self) -> Result<(), IndexError> {
        match self {
            Connection::Rings(messenger) => messenger.close().await,
            Connection::Socket(_) => Ok(()),
        }
    }
}

impl<F: Fabric, L: LocalMemory> Talk for Connection<'_, F, L> {
    async fn call(&mut self, request: &Request, found: &mut impl Answer) -> Result<Reply, IndexError> {
        match self {
            Connection::Rings(messenger) => messenger.call(request, found).await,
            Connection::Socket(correspondent) => correspondent.call(request, found).await,
        }
    }

    fn take_heartbeat(&mut self) -> Result<Option<f64>, IndexError> {
        match self {
            Connection::Rings(messenger) => messenger.take_heartbeat(),
            Connection::Socket(correspondent) => correspondent.take_heartbeat(),
        }
    }
}
