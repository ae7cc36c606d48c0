//! Streams of bytes between a compute node and a memory node: sockets, TLS and tokens, the same on both sides.

mod cipher;
mod socket;
mod tls;
mod token;

pub(crate) use cipher::{Cipher, Stream};
pub(crate) use socket::{connect, keep_alive};
pub use tls::{ClientTls, Identity, ServerTls};
pub use token::Token;
