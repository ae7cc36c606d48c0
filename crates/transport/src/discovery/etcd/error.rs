//! Errors of discovery through etcd.

/// Errors of discovery through etcd.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EtcdError {
    /// The text names no pool in etcd.
    #[error("'{text}' names no pool in etcd: {why}; write HOST:PORT/POOL")]
    BadAddress {
        /// The text.
        text: String,
        /// The reason why it is invalid.
        why: String,
    },
    /// No etcd server answers, or the answer is not that of etcd.
    #[error(
        "etcd does not answer: {why}; check that the address is its client port; if it speaks https, name its \
         authority in etcd-ca"
    )]
    NoAnswer {
        /// The reason, for each server.
        why: String,
    },
    /// A file that gives access to etcd cannot be used.
    #[error("{file}: {why}")]
    Access {
        /// The file.
        file: String,
        /// The reason, and the remedy.
        why: String,
    },
    /// etcd requires a user, or refuses this one.
    #[error(
        "etcd refuses access: {why}; name a file with USER:PASSWORD in etcd-user-file (or FARWOOD_ETCD_USER_FILE)"
    )]
    Refused {
        /// The reason.
        why: String,
    },
    /// Some memory nodes have not registered.
    #[error(
        "the pool '{pool}' is incomplete in etcd: {found}; start its memory nodes with `farwood serve --etcd {at}`"
    )]
    Incomplete {
        /// The pool.
        pool: String,
        /// The memory nodes that are missing.
        found: String,
        /// The address in etcd.
        at: String,
    },
    /// Another memory node has this number.
    #[error(
        "etcd lists memory node {node} of the pool at {other} already; give another --node, or stop that one"
    )]
    Taken {
        /// The number.
        node: u16,
        /// The address of the other one.
        other: String,
    },
}
