//! The parameters of a pool's address: credentials, device, queue pairs. Environment variables supply parameters that
//! the address does not have.

use std::fmt;
use std::num::NonZeroU16;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The files of a compute node's token and certificates, the RDMA device, and the queue pairs per thread.
/// Part of a pool's address: `host:port?tls-ca=FILE&token-file=FILE`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct AddressOptions {
    pub(super) values: Box<[Option<String>; KEYS.len()]>,
    /// Whether the environment is ignored.
    ignores_environment: bool,
}

/// The files that give access to etcd.
#[cfg(feature = "etcd")]
#[derive(Clone, Debug)]
pub(crate) struct EtcdFiles {
    pub(crate) ca: Option<String>,
    pub(crate) cert: Option<String>,
    pub(crate) key: Option<String>,
    pub(crate) user_file: Option<String>,
}

/// The parameters of an address, in the order of display.
const KEYS: [&str; 11] = [
    "token-file",
    "tls-ca",
    "tls-cert",
    "tls-key",
    "tls-name",
    DEVICE,
    QUEUE_PAIRS,
    "etcd-ca",
    "etcd-cert",
    "etcd-key",
    "etcd-user-file",
];
/// The index of the first parameter for RDMA only, and that of the first for etcd only.
const RDMA_FIRST: usize = 5;
const ETCD_FIRST: usize = 7;
const DEVICE: &str = "device";
const QUEUE_PAIRS: &str = "queue-pairs";
/// The parameter that ignores the environment; last in the order of display.
const IGNORE_ENVIRONMENT: &str = "environment=no";
/// The variables that supply the parameters, in the same order.
const VARIABLES: [&str; KEYS.len()] = [
    "FARWOOD_TOKEN_FILE",
    "FARWOOD_TLS_CA",
    "FARWOOD_TLS_CERT",
    "FARWOOD_TLS_KEY",
    "FARWOOD_TLS_NAME",
    "FARWOOD_RDMA_DEVICE",
    "FARWOOD_RDMA_QUEUE_PAIRS",
    "FARWOOD_ETCD_CA",
    "FARWOOD_ETCD_CERT",
    "FARWOOD_ETCD_KEY",
    "FARWOOD_ETCD_USER_FILE",
];
/// Largest number of queue pairs of a thread to each memory node: a memory node accepts some thousands of connections.
const QUEUE_PAIRS_MAX: u16 = 64;

impl FromStr for AddressOptions {
    /// The reason.
    type Err = String;

    /// Reads `key=value&key=value`.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut access = Self::default();
        for pair in text.split('&') {
            if pair == IGNORE_ENVIRONMENT {
                access.ignores_environment = true;
                continue;
            }
            let (key, value) =
                pair.split_once('=').ok_or_else(|| format!("'{pair}' has no value; write KEY=VALUE"))?;
            let at = KEYS.iter().position(|known| *known == key);
            let at = at.ok_or_else(|| unknown(key))?;
            if key == QUEUE_PAIRS {
                queue_pairs(value)?;
            }
            if value.is_empty() || access.values[at].replace(value.to_owned()).is_some() {
                return Err(format!("'{key}' is empty, or given twice; give it once, with a value"));
            }
        }
        Ok(access)
    }
}

impl AddressOptions {
    /// Sets the file of the token, unless these parameters name one.
    #[must_use]
    pub fn or_token_file(mut self, file: &Path) -> Self {
        self.values[0].get_or_insert_with(|| file.display().to_string());
        self
    }

    /// Ignores the environment.
    #[must_use]
    pub fn ignoring_environment(mut self) -> Self {
        self.ignores_environment = true;
        self
    }

    /// Returns these parameters, completed from the environment.
    pub(super) fn or_environment(&self) -> Self {
        let mut all = self.clone();
        let variables = VARIABLES.iter().filter(|_| !self.ignores_environment);
        for (value, variable) in all.values.iter_mut().zip(variables) {
            let other = || std::env::var(variable).ok().filter(|value| !value.is_empty());
            *value = value.take().or_else(other);
        }
        all
    }

    /// Returns the files of secrets, of these parameters or the environment: the token and the private key.
    pub fn secret_files(&self) -> Vec<PathBuf> {
        let [token, _, _, key, ..] = *self.or_environment().values;
        [token, key].into_iter().flatten().map(PathBuf::from).collect()
    }

    /// Returns the RDMA device, or that of `FARWOOD_RDMA_DEVICE`: `DEVICE[,PORT[,GID]][,mtu=BYTES]`.
    pub(crate) fn device(&self) -> Option<String> {
        self.or_environment().values[5].take()
    }

    /// Returns the queue pairs of a thread at each memory node: this parameter, `FARWOOD_RDMA_QUEUE_PAIRS`,
    /// or one.
    ///
    /// # Errors
    /// The reason, if the environment's value is not such a number.
    pub fn queue_pairs(&self) -> Result<NonZeroU16, String> {
        self.or_environment().values[6].as_deref().map_or(Ok(NonZeroU16::MIN), queue_pairs)
    }

    /// Returns a parameter that applies to pools over RDMA only, if there is one.
    pub fn for_rdma_only(&self) -> Option<&'static str> {
        self.given(RDMA_FIRST..ETCD_FIRST)
    }

    /// Returns a parameter that applies to pools in etcd only, if there is one.
    pub(super) fn for_etcd_only(&self) -> Option<&'static str> {
        self.given(ETCD_FIRST..KEYS.len())
    }

    /// Returns a parameter that is set, of those at `range`.
    fn given(&self, range: Range<usize>) -> Option<&'static str> {
        range.into_iter().find(|at| self.values[*at].is_some()).map(|at| KEYS[at])
    }

    /// Returns the parameters for memory nodes, without those for etcd.
    #[cfg(feature = "etcd")]
    pub(crate) fn without_etcd(mut self) -> Self {
        self.values[ETCD_FIRST..].fill(None);
        self
    }

    /// Returns the files that give access to etcd.
    #[cfg(feature = "etcd")]
    pub(crate) fn etcd_files(&self) -> EtcdFiles {
        let [.., ca, cert, key, user_file] = *self.or_environment().values;
        EtcdFiles { ca, cert, key, user_file }
    }
}

/// Returns the reason for refusing a parameter.
fn unknown(key: &str) -> String {
    if IGNORE_ENVIRONMENT.split_once('=').is_some_and(|(known, _)| known == key) {
        return format!(
            "the only value of '{key}' is no; write {IGNORE_ENVIRONMENT} to ignore the environment, or omit '{key}' to \
             use it"
        );
    }
    format!("there is no parameter '{key}'; give one of {} or {IGNORE_ENVIRONMENT}", KEYS.join(", "))
}

fn queue_pairs(text: &str) -> Result<NonZeroU16, String> {
    let number = text.parse().ok().filter(|number: &NonZeroU16| number.get() <= QUEUE_PAIRS_MAX);
    number.ok_or_else(|| format!("'{text}' is not a valid {QUEUE_PAIRS}: give 1 to {QUEUE_PAIRS_MAX}"))
}

const _: () =
    assert!(matches!(KEYS[5].as_bytes(), b"device") && matches!(KEYS[6].as_bytes(), b"queue-pairs"));

impl fmt::Display for AddressOptions {
    /// Writes the parameters with the question mark before them, or nothing if there are none.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values = self.values.iter().zip(KEYS).filter_map(|(value, key)| Some((key, value.as_ref()?)));
        let mut before = '?';
        for (key, value) in values {
            write!(f, "{before}{key}={value}")?;
            before = '&';
        }
        if self.ignores_environment { write!(f, "{before}{IGNORE_ENVIRONMENT}") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_displayed_in_order() {
        let text = "tls-ca=/etc/ca.pem&token-file=/run/token";
        let access = text.parse::<AddressOptions>().unwrap();
        assert_eq!(access.to_string(), "?token-file=/run/token&tls-ca=/etc/ca.pem");
        assert_eq!(AddressOptions::default().to_string(), "");
        for text in ["?environment=no", "?tls-ca=/c&environment=no"] {
            assert_eq!(text[1..].parse::<AddressOptions>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn an_invalid_parameter_is_refused_with_its_reason() {
        for (text, words) in [
            ("", "no value"),
            ("token-file", "no value"),
            ("token-file=", "empty"),
            ("password=x", "tls-ca"),
            ("tls-ca=a&tls-ca=b", "twice"),
            ("queue-pairs=0", "1 to 64"),
            ("queue-pairs=65", "1 to 64"),
            ("queue-pairs=many", "1 to 64"),
            ("environment=yes", "the only value of 'environment' is no; write environment=no"),
        ] {
            let why = text.parse::<AddressOptions>().unwrap_err();
            assert!(why.contains(words), "{text}: {why}");
        }
    }

    #[test]
    fn parameters_of_rdma_are_recognised() {
        let only = |text: &str| text.parse::<AddressOptions>().unwrap().for_rdma_only();
        assert_eq!(only("device=mlx5_0&queue-pairs=2"), Some("device"));
        assert_eq!((only("queue-pairs=2"), only("token-file=/t")), (Some("queue-pairs"), None));
        assert_eq!(only("etcd-ca=/c"), None);
        assert_eq!("queue-pairs=2".parse::<AddressOptions>().unwrap().queue_pairs().unwrap().get(), 2);
    }
}
