//! The place of an attached pool, for URLs in errors.

use crate::url::Url;
use farwood_transport::any::PoolLocation;
use std::fmt;

/// The scheme of an anonymous pool. No pool can be opened by such a URL.
pub(crate) const ANONYMOUS: &str = "anonymous";

/// The place of an attached pool. Displays as its URL.
#[derive(Clone)]
pub(crate) enum AttachedPlace {
    /// The pool can be opened by its URL.
    Located(PoolLocation),
    /// The number of an anonymous pool, unique in this process.
    Anonymous(u64),
}

impl AttachedPlace {
    /// The location by which the pool can be opened.
    pub(crate) fn location(&self) -> Option<&PoolLocation> {
        match self {
            Self::Located(location) => Some(location),
            Self::Anonymous(_) => None,
        }
    }

    /// The URL of the index `name`.
    pub(crate) fn index_url(&self, name: &str) -> String {
        match self {
            Self::Located(location) => Url::of_index(location, name).to_string(),
            Self::Anonymous(_) => format!("{self}/{name}"),
        }
    }
}

impl fmt::Display for AttachedPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Located(location) => write!(f, "{location}"),
            Self::Anonymous(number) => write!(f, "{ANONYMOUS}://{number}"),
        }
    }
}
