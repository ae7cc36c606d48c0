//! A client's connection to the server: rings in the server's memory, or an ordinary socket.

use farwood_fabric::{Client, Fabric, LocalMemory, Server as _};
use farwood_index::IndexError;
use farwood_index::catfish::{
    Answer, Carrier, Catfish, Correspondent, Inbox, Messenger, Notice, Reply, Request, Talk,
};
use farwood_transport::any::{AnyFabric, AnyMemory, AnyServer};
use farwood_transport::tcp::exchange::Exchange;
use farwood_transport::tcp::{Credentials, TcpPool};

/// A connection of either kind.
#[derive(Debug)]
pub enum Connection<'t, F, L> {
    /// Rings: for who can read the server's memory in place, or has memory that the server can write.
    Rings(Box<Messenger<'t, F, L>>),
    /// A socket.
    Socket(Correspondent<Socket>),
}

/// Through what a client reaches the server of an index.
#[derive(Clone, Copy, Debug)]
pub enum Reach<'t> {
    /// The index's memory, which is here, too.
    Memory(&'t AnyServer),
    /// The machine of the index's memory node.
    Machine(&'t TcpPool),
}

impl<'t> Connection<'t, AnyFabric, AnyMemory> {
    /// Connects to the server of `index`. [as [`Messenger::connect`], or 2 RT]
    ///
    /// # Errors
    /// [`IndexError::NotServed`]; those of [`Messenger::connect`].
    pub async fn open(
        index: &'t Catfish,
        client: &'t Client<AnyFabric>,
        reach: Reach<'t>,
    ) -> Result<Self, IndexError> {
        let pool = match reach {
            Reach::Memory(server) => {
                let inbox = Inbox { local: server.local(), at: None };
                let messenger = Messenger::connect(index, client, inbox, Notice::Event).await?;
                return Ok(Connection::Rings(Box::new(messenger)));
            }
            Reach::Machine(pool) => pool,
        };
        let name = &index.entry().name;
        let lost = || IndexError::NotServed { name: name.clone() };
        let port = index.port(client).await?.ok_or_else(lost)?;
        let node = &pool.address().nodes()[usize::from(index.layout().node.0)];
        let host = node.rsplit_once(':').map_or(node.as_str(), |(host, _)| host).trim_matches(['[', ']']);
        let token = Credentials::find(pool.address()).map_err(|_| lost())?.token;
        let exchange = Exchange::open((host, port), token.as_ref()).map_err(|_| lost())?;
        Ok(Connection::Socket(Correspondent::new(Socket::new(exchange, name))))
    }
}

/// A socket that a thread's clients share.
#[derive(Clone, Debug)]
pub struct Socket {
    exchange: Exchange,
    /// The index, for errors.
    name: String,
}

impl Socket {
    /// The connection `exchange` to the server of the index `name`.
    pub fn new(exchange: Exchange, name: &str) -> Socket {
        Socket { exchange, name: name.to_owned() }
    }
}

impl Carrier for Socket {
    async fn carry(&mut self, request: &[u64], response: &mut Vec<u64>) -> Result<(), IndexError> {
        let lost = |_| IndexError::ServerLost { name: self.name.clone() };
        self.exchange.call(request, response).await.map_err(lost)
    }
}

impl<F: Fabric, L: LocalMemory> Connection<'_, F, L> {
    /// Leaves the connection to others. Costs and errors as [`Messenger::close`].
    ///
    /// # Errors
    /// As [`Messenger::close`].
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
