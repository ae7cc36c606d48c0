//! A socket to the server of a spatial index on another machine.

use farwood_fabric::Client;
use farwood_index::IndexError;
use farwood_index::catfish::{Catfish, RequestTransport};
use farwood_transport::any::AnyFabric;
use farwood_transport::tcp::exchange::Exchange;
use farwood_transport::tcp::{Credentials, PoolAddress, TcpError, Token};
use std::io::ErrorKind;
use std::time::Instant;

/// A socket that the clients of one thread share.
#[derive(Clone, Debug)]
pub struct Socket {
    exchange: Exchange,
    /// The name of the index, which errors contain.
    name: String,
}

impl Socket {
    /// Uses the connection `exchange` to the server of the index `name`.
    pub fn new(exchange: Exchange, name: &str) -> Socket {
        Socket { exchange, name: name.to_owned() }
    }

    /// Reads the token for the server of `index`. [0 RT]
    ///
    /// # Errors
    /// [`IndexError::NoAccess`]: the token cannot be read.
    pub(super) fn token(index: &Catfish, address: &PoolAddress) -> Result<Option<Token>, IndexError> {
        let name = || index.entry().name.clone();
        let credentials = Credentials::find(address);
        let no_access = |error: TcpError| IndexError::NoAccess { name: name(), why: error.to_string() };
        Ok(credentials.map_err(no_access)?.token)
    }

    /// Connects to the port that the server of `index` has announced in the index. [1 RT]
    ///
    /// # Errors
    /// [`IndexError::NotServed`]; [`IndexError::NoConnection`] for a server that does not answer;
    /// [`IndexError::NoAccess`] for a token that the server refuses.
    pub(super) async fn connect(
        index: &Catfish,
        client: &Client<AnyFabric>,
        (address, port): (&PoolAddress, u16),
        token: Option<&Token>,
    ) -> Result<Socket, IndexError> {
        let name = &index.entry().name;
        let not_served = || IndexError::NotServed { name: name.clone() };
        let no_access = |why: String| IndexError::NoAccess { name: name.clone(), why };
        let node = &address.nodes()[usize::from(index.layout().node.0)];
        let begun = Instant::now();
        let error = match Exchange::open((node.host(), port), token) {
            Ok(exchange) => return Ok(Socket::new(exchange, name)),
            Err(error) => error,
        };
        Err(match (error.kind(), index.served_by(client).await?) {
            (ErrorKind::PermissionDenied, _) => no_access(error.to_string()),
            (ErrorKind::TimedOut, Some(by)) => {
                IndexError::NoConnection { name: name.clone(), by, seconds: begun.elapsed().as_secs() }
            }
            _ => not_served(),
        })
    }
}

impl Socket {
    /// Whether the server has not closed the connection, as far as this machine knows. [0 RT]
    pub(super) fn is_open(&self) -> bool {
        self.exchange.is_open()
    }

    /// Whether both use the same connection.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.exchange.is_same(&other.exchange)
    }
}

impl RequestTransport for Socket {
    async fn carry(&mut self, request: &[u64], response: &mut Vec<u64>) -> Result<(), IndexError> {
        let begun = Instant::now();
        self.exchange.call(request, response).await.map_err(|error| {
            let name = self.name.clone();
            match error.kind() {
                ErrorKind::TimedOut => IndexError::NoAnswer { name, seconds: begun.elapsed().as_secs() },
                _ => IndexError::ServerLost { name },
            }
        })
    }
}
