//! The integration tests of the transports, in one binary.

mod cuts;
mod dependent_writes;
mod locks_and_failures;
mod snapshots;
mod tcp_node;
mod tcp_pool;
mod tcp_tls;
