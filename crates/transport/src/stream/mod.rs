//! Streams of bytes between a compute node and a memory node: sockets, TLS and tokens, the same on both sides.

mod cipher;
mod secret_file;
mod socket;
mod timed;
mod tls;
mod token;

pub(crate) use cipher::{Cipher, Stream};
#[cfg(feature = "etcd")]
pub(crate) use secret_file::read as read_secret;
pub use secret_file::secret_warning;
pub(crate) use socket::{connect, is_out_of_descriptors, keep_alive};
pub(crate) use timed::{receive_exact, send_all};
pub use tls::{ClientTls, Identity, ServerTls};
pub(crate) use token::nonce;
pub use token::{AcceptedTokens, NONCE_BYTES, Nonce, Nonces, Proof, Prover, Token};
