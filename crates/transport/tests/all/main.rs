//! The integration tests of the transports, in one binary.

mod tcp_node;
mod tcp_pool;
mod tcp_tls;
