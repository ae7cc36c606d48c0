//! A client's connection to the server of a spatial index: rings in the server's memory, or a socket.

#[cfg(feature = "tcp")]
use super::socket::Socket;
use farwood_fabric::{Client, Fabric, Server as _, ServerMemory};
use farwood_index::IndexError;
#[cfg(feature = "tcp")]
use farwood_index::catfish::SocketRpc;
use farwood_index::catfish::{
    Catfish, Change, Inbox, NotificationMode, Record, RecordLookup, Reply, Request, RingRpc, SearchSink,
    SpatialRpc,
};
use farwood_transport::any::{AnyFabric, AnyMemory, AnyServer};
#[cfg(feature = "tcp")]
use farwood_transport::tcp::PoolAddress;

/// A connection to the server of a spatial index.
#[derive(Debug)]
pub enum Connection<'t, F, L> {
    /// Ring buffers: the client reads the server's memory directly, or has memory that the server can write.
    Rings(RingRpc<'t, F, L>),
    /// A TCP socket.
    #[cfg(feature = "tcp")]
    Socket(SocketRpc<Socket>),
}

/// The location of an index's server.
#[derive(Clone, Copy, Debug)]
pub enum ServerLocation<'t> {
    /// This machine: the index's memory is mapped into this process.
    Memory(&'t AnyServer),
    /// The machine of the index's memory node.
    #[cfg(feature = "tcp")]
    Machine(&'t PoolAddress),
}

impl<'t> Connection<'t, AnyFabric, AnyMemory> {
    /// Connects to the server of `index`. [as [`RingRpc::connect`]; 2 RT for a socket]
    ///
    /// # Errors
    /// [`IndexError::NotServed`], [`IndexError::NoAccess`]; the errors of [`RingRpc::connect`].
    pub async fn open(
        index: &'t Catfish,
        client: &'t Client<AnyFabric>,
        location: ServerLocation<'t>,
    ) -> Result<Self, IndexError> {
        match location {
            ServerLocation::Memory(server) => {
                let inbox = Inbox { local: server.local(), at: None };
                let messenger = RingRpc::connect(index, client, inbox, NotificationMode::Event).await?;
                Ok(Connection::Rings(messenger))
            }
            #[cfg(feature = "tcp")]
            ServerLocation::Machine(address) => {
                let token = Socket::token(index, address)?;
                let port = index.port(client).await?;
                let socket = Socket::connect(index, client, (address, port), token.as_ref()).await?;
                Ok(Connection::Socket(SocketRpc::new(socket)))
            }
        }
    }
}

impl<F: Fabric, L: ServerMemory> Connection<'_, F, L> {
    /// Whether the server that opened the connection still serves it, as far as this process knows. [at most 3 RT; 0
    /// for a socket]
    ///
    /// # Errors
    /// The errors of the fabric.
    pub(super) async fn is_open(&self) -> Result<bool, IndexError> {
        match self {
            Connection::Rings(messenger) => messenger.is_open().await,
            #[cfg(feature = "tcp")]
            Connection::Socket(rpc) => Ok(rpc.transport().is_open()),
        }
    }

    /// Closes the connection and frees its rings. Costs and errors as [`RingRpc::close`].
    ///
    /// # Errors
    /// As [`RingRpc::close`].
    pub async fn close(mut self) -> Result<(), IndexError> {
        self.end().await
    }

    /// As [`close`](Self::close). If the future is dropped, the connection stays open.
    pub(super) async fn end(&mut self) -> Result<(), IndexError> {
        match self {
            Connection::Rings(messenger) => messenger.end().await,
            #[cfg(feature = "tcp")]
            Connection::Socket(_) => Ok(()),
        }
    }
}

impl<F: Fabric, L: ServerMemory> SpatialRpc for Connection<'_, F, L> {
    async fn call(&mut self, request: &Request, found: &mut impl SearchSink) -> Result<Reply, IndexError> {
        match self {
            Connection::Rings(messenger) => messenger.call(request, found).await,
            #[cfg(feature = "tcp")]
            Connection::Socket(correspondent) => correspondent.call(request, found).await,
        }
    }

    async fn apply(&mut self, changes: &[Change]) -> Result<Vec<bool>, IndexError> {
        match self {
            Connection::Rings(messenger) => messenger.apply(changes).await,
            #[cfg(feature = "tcp")]
            Connection::Socket(correspondent) => correspondent.apply(changes).await,
        }
    }

    async fn find_records(&mut self, lookup: &RecordLookup) -> Result<Vec<Record>, IndexError> {
        match self {
            Connection::Rings(messenger) => messenger.find_records(lookup).await,
            #[cfg(feature = "tcp")]
            Connection::Socket(correspondent) => correspondent.find_records(lookup).await,
        }
    }

    fn changes_that_fit(&self, changes: &[Change]) -> usize {
        match self {
            Connection::Rings(messenger) => messenger.changes_that_fit(changes),
            #[cfg(feature = "tcp")]
            Connection::Socket(correspondent) => correspondent.changes_that_fit(changes),
        }
    }

    fn take_heartbeat(&mut self) -> Result<Option<f64>, IndexError> {
        match self {
            Connection::Rings(messenger) => messenger.take_heartbeat(),
            #[cfg(feature = "tcp")]
            Connection::Socket(correspondent) => correspondent.take_heartbeat(),
        }
    }
}
