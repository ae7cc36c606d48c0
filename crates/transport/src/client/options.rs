//! What a compute node shows to memory nodes, and where it is found: in a pool's address, or in the environment.

use std::fmt;
use std::num::NonZeroU16;
use std::str::FromStr;

/// Where a compute node's token and certificates are, and through which device, and how many queue pairs of each
/// thread, it reaches a pool over RDMA. Part of a pool's address: `host:port?tls-ca=FILE&token-file=FILE`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Access {
    pub(super) said: [Option<String>; KEYS.len()],
    /// That is all: what the environment says is for others.
    alone: bool,
}

/// The parameters of an address, in the order in which they are shown.
const KEYS: [&str; 7] = ["token-file", "tls-ca", "tls-cert", "tls-key", "tls-name", DEVICE, QUEUE_PAIRS];
const DEVICE: &str = "device";
const QUEUE_PAIRS: &str = "queue-pairs";
/// Says that the environment says nothing to this address: behind the others.
const ALONE: &str = "environment=no";
/// What says the same in the environment, for all addresses that do not say it.
const VARIABLES: [&str; KEYS.len()] = [
    "FARWOOD_TOKEN_FILE",
    "FARWOOD_TLS_CA",
    "FARWOOD_TLS_CERT",
    "FARWOOD_TLS_KEY",
    "FARWOOD_TLS_NAME",
    "FARWOOD_RDMA_DEVICE",
    "FARWOOD_RDMA_QUEUE_PAIRS",
];
/// Queue pairs of a thread at each memory node, at most: a memory node takes some thousand connections.
const QUEUE_PAIRS_MAX: u16 = 64;

impl FromStr for Access {
    /// In words.
    type Err = String;

    /// Reads `key=value&key=value`.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut access = Self::default();
        for pair in text.split('&') {
            if pair == ALONE {
                access.alone = true;
                continue;
            }
            let (key, value) =
                pair.split_once('=').ok_or_else(|| format!("'{pair}' has no value: write KEY=VALUE"))?;
            let at = KEYS.iter().position(|known| *known == key);
            let at = at.ok_or_else(|| {
                format!("there is no parameter '{key}', only {} and {ALONE}", KEYS.join(", "))
            })?;
            if key == QUEUE_PAIRS {
                queue_pairs(value)?;
            }
            if value.is_empty() || access.said[at].replace(value.to_owned()).is_some() {
                return Err(format!("'{key}' is empty, or there twice"));
            }
        }
        Ok(access)
    }
}

impl Access {
    /// The same, where nothing is said as the environment says.
    pub(super) fn or_environment(&self) -> Self {
        let mut all = self.clone();
        let variables = VARIABLES.iter().filter(|_| !self.alone);
        for (value, variable) in all.said.iter_mut().zip(variables) {
            let other = || std::env::var(variable).ok().filter(|value| !value.is_empty());
            *value = value.take().or_else(other);
        }
        all
    }

    /// The RDMA device that this says, or else `FARWOOD_RDMA_DEVICE`: `DEVICE[,PORT[,GID]][,mtu=BYTES]`.
    pub(crate) fn device(&self) -> Option<String> {
        self.or_environment().said[5].take()
    }

    /// How many queue pairs a thread has at each memory node: what this says, or else `FARWOOD_RDMA_QUEUE_PAIRS`, or
    /// else one.
    ///
    /// # Errors
    /// In words, where the environment says no such number.
    pub fn queue_pairs(&self) -> Result<NonZeroU16, String> {
        self.or_environment().said[6].as_deref().map_or(Ok(NonZeroU16::MIN), queue_pairs)
    }

    /// What this says that only pools over RDMA have.
    pub fn for_rdma_only(&self) -> Option<&'static str> {
        self.said.iter().zip(KEYS).skip(5).find_map(|(value, key)| value.is_some().then_some(key))
    }
}

fn queue_pairs(text: &str) -> Result<NonZeroU16, String> {
    let number = text.parse().ok().filter(|number: &NonZeroU16| number.get() <= QUEUE_PAIRS_MAX);
    number.ok_or_else(|| format!("'{text}' is no number of {QUEUE_PAIRS}: give 1 to {QUEUE_PAIRS_MAX}"))
}

const _: () =
    assert!(matches!(KEYS[5].as_bytes(), b"device") && matches!(KEYS[6].as_bytes(), b"queue-pairs"));

impl fmt::Display for Access {
    /// With the question mark, if there is anything.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let said = self.said.iter().zip(KEYS).filter_map(|(value, key)| Some((key, value.as_ref()?)));
        let mut before = '?';
        for (key, value) in said {
            write!(f, "{before}{key}={value}")?;
            before = '&';
        }
        if self.alone { write!(f, "{before}{ALONE}") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read_back_in_their_order() {
        let text = "tls-ca=/etc/ca.pem&token-file=/run/token";
        let access = text.parse::<Access>().unwrap();
        assert_eq!(access.to_string(), "?token-file=/run/token&tls-ca=/etc/ca.pem");
        assert_eq!(Access::default().to_string(), "");
        for text in ["?environment=no", "?tls-ca=/c&environment=no"] {
            assert_eq!(text[1..].parse::<Access>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_no_parameter_is_refused_with_the_right_words() {
        for (text, words) in [
            ("", "no value"),
            ("token-file", "no value"),
            ("token-file=", "empty"),
            ("password=x", "tls-ca"),
            ("tls-ca=a&tls-ca=b", "twice"),
            ("queue-pairs=0", "1 to 64"),
            ("queue-pairs=65", "1 to 64"),
            ("queue-pairs=many", "1 to 64"),
            ("environment=yes", "environment=no"),
        ] {
            let why = text.parse::<Access>().unwrap_err();
            assert!(why.contains(words), "{text}: {why}");
        }
    }

    #[test]
    fn only_what_is_for_rdma_is_for_rdma() {
        let only = |text: &str| text.parse::<Access>().unwrap().for_rdma_only();
        assert_eq!(only("device=mlx5_0&queue-pairs=2"), Some("device"));
        assert_eq!((only("queue-pairs=2"), only("token-file=/t")), (Some("queue-pairs"), None));
        assert_eq!("queue-pairs=2".parse::<Access>().unwrap().queue_pairs().unwrap().get(), 2);
    }
}
