//! Errors of discovery through etcd.

/// What goes wrong with etcd.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EtcdError {
    /// That is no pool in etcd.
    #[error("'{text}' names no pool in etcd: {why}; write HOST:PORT/POOL")]
    BadAddress {
        /// What was given.
        text: String,
        /// What is wrong with it.
        why: String,
    },
    /// No etcd answers, or not as it should.
    #[error("etcd does not answer: {why}; is its client port right, and reached by http?")]
    NoAnswer {
        /// Why, for each server.
        why: String,
    },
    /// Some memory nodes have not registered.
    #[error(
        "the pool '{pool}' is not complete in etcd: {found}; start its memory nodes with `farwood serve --etcd {at}`"
    )]
    Incomplete {
        /// The pool.
        pool: String,
        /// What there is of it.
        found: String,
        /// Its address in etcd.
        at: String,
    },
    /// The number is another memory node's.
    #[error(
        "memory node {node} of the pool is at {other} already, as etcd says; give another --node, or stop that one"
    )]
    Taken {
        /// The number.
        node: u16,
        /// Where the other one is.
        other: String,
    },
}
