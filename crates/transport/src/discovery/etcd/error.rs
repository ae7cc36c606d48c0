//! Errors of discovery through etcd.

use crate::remedy;
use std::borrow::Cow;

/// Errors of discovery through etcd.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EtcdError {
    /// The text names no pool in etcd.
    #[error("'{text}' names no pool in etcd: {why}{}", self.suffix())]
    BadAddress {
        /// The text.
        text: String,
        /// The reason why it is invalid.
        why: String,
    },
    /// No etcd server answers, or the answer is not that of etcd.
    #[error("etcd does not answer: {why}{}", self.suffix())]
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
    #[error("etcd refuses access: {why}{}", self.suffix())]
    Refused {
        /// The reason.
        why: String,
    },
    /// Some memory nodes have not registered.
    #[error("the pool '{pool}' is incomplete in etcd: {found}{}", self.suffix())]
    Incomplete {
        /// The pool.
        pool: String,
        /// The memory nodes that are missing.
        found: String,
        /// The address in etcd.
        at: String,
    },
    /// Another memory node has this number.
    #[error("etcd lists memory node {node} of the pool at {other} already{}", self.suffix())]
    Taken {
        /// The number.
        node: u16,
        /// The address of the other one.
        other: String,
    },
}

impl EtcdError {
    /// The text without the remedy.
    pub fn description(&self) -> String {
        remedy::without(self, &self.suffix())
    }

    /// The remedy at the end of the text, for a user of the command `farwood`.
    pub fn remedy(&self) -> Option<Cow<'static, str>> {
        let remedy = match self {
            Self::BadAddress { .. } => "write HOST:PORT/POOL",
            Self::NoAnswer { .. } => {
                "check that the address is its client port; if it speaks https, name its authority in etcd-ca"
            }
            Self::Refused { .. } => {
                "name a file with USER:PASSWORD in etcd-user-file (or FARWOOD_ETCD_USER_FILE)"
            }
            Self::Incomplete { at, .. } => {
                return Some(format!("start its memory nodes with `farwood serve --etcd {at}`").into());
            }
            Self::Taken { .. } => "give another --node, or stop that one",
            // The reason contains the remedy.
            Self::Access { .. } => return None,
        };
        Some(remedy.into())
    }

    fn suffix(&self) -> String {
        remedy::suffix(self.remedy())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_the_description_and_the_remedy() {
        let (pool, why) = ("demo".to_owned(), "timeout".to_owned());
        for error in [
            EtcdError::BadAddress { text: pool.clone(), why: why.clone() },
            EtcdError::NoAnswer { why: why.clone() },
            EtcdError::Access { file: "/f".to_owned(), why: why.clone() },
            EtcdError::Refused { why },
            EtcdError::Incomplete { pool, found: "node 1".to_owned(), at: "localhost:2379/demo".to_owned() },
            EtcdError::Taken { node: 1, other: "10.0.0.1:7000".to_owned() },
        ] {
            remedy::assert_in_text(&error, &error.description(), error.remedy());
        }
    }
}
