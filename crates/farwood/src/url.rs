//! URLs of pools and indexes: `shm://POOL` and `shm://POOL/INDEX`; `tcp://HOST:PORT,…` and `tcp://HOST:PORT,…/INDEX`,
//! or `rdma://`, with optional parameters: `tcp://HOST:PORT/INDEX?tls-ca=FILE&token-file=FILE`. The URL of a spatial
//! index may have parameters of searches: `shm://POOL/INDEX?search=auto&window=8&threshold=0.95&rule=prose`.

use crate::attached_place::ANONYMOUS;
use crate::error::Error;
use crate::shell_word::shell_word;
#[cfg(feature = "spatial")]
use crate::spatial::SearchOptions;
use farwood_index::check_index_name;
use farwood_transport::any::PoolLocation;
#[cfg(feature = "etcd")]
use farwood_transport::etcd::EtcdError;
use farwood_transport::shm::ShmError;
#[cfg(feature = "tcp")]
use farwood_transport::tcp::{AddressOptions, PoolAddress, TcpError, secret_warning};
use std::fmt;
#[cfg(feature = "tcp")]
use std::path::Path;
use std::str::FromStr;

/// The forms of a URL.
const FORMS: &str = "write shm://NAME or tcp://HOST:PORT for a pool, followed by /INDEX for an index";

/// The URL of a pool, or of an index in it.
///
/// ```
/// let url: farwood::Url = "shm://demo/words".parse()?;
/// assert_eq!((url.pool().as_str(), url.index()), ("demo", Some("words")));
/// assert_eq!(url.pool_url().to_string(), "shm://demo");
/// let url: farwood::Url = "tcp://host-a:7470,host-b:7470/words".parse()?;
/// assert_eq!(url.pool_url().to_string(), "tcp://host-a:7470,host-b:7470");
/// assert!("rdma://host-a:7470?device=mlx5_0,1,3".parse::<farwood::Url>().is_ok());
/// # Ok::<(), farwood::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Url {
    pool: PoolLocation,
    index: Option<String>,
    /// The parameters of searches, in their form in the URL.
    search: Vec<String>,
}

impl Url {
    /// The name of the pool, or the addresses of its memory nodes.
    pub fn pool(&self) -> String {
        match &self.pool {
            PoolLocation::Shm(name) => name.to_string(),
            #[cfg(feature = "tcp")]
            PoolLocation::Tcp(address) => address.hosts(),
            #[cfg(feature = "rdma")]
            PoolLocation::Rdma(address) => address.hosts(),
            #[cfg(feature = "etcd")]
            PoolLocation::Etcd(address) => address.place(),
        }
    }

    /// The name of the index, if the URL has one.
    pub fn index(&self) -> Option<&str> {
        self.index.as_deref()
    }

    /// The URL of the pool.
    #[must_use]
    pub fn pool_url(&self) -> Self {
        Self { pool: self.pool.clone(), index: None, search: Vec::new() }
    }

    /// The URL of the index `name` in the same pool.
    #[must_use]
    pub fn index_url(&self, name: &str) -> Self {
        Self { pool: self.pool.clone(), index: Some(name.to_owned()), search: Vec::new() }
    }

    /// The options of searches, for [`Spatial::with_search`](crate::spatial::Spatial::with_search).
    #[cfg(feature = "spatial")]
    pub fn search_options(&self) -> SearchOptions {
        let mut options = SearchOptions::default();
        for parameter in &self.search {
            // Each parameter was checked when the URL was read.
            let (key, value) = parameter.split_once('=').unwrap_or_default();
            let _ = options.set(key, value);
        }
        options
    }

    /// The first parameter of searches, which only a spatial index has.
    #[doc(hidden)]
    pub fn search_parameter(&self) -> Option<&str> {
        self.search.first().map(String::as_str)
    }

    /// The URL quoted for a shell: in quotes if it has parameters.
    pub fn to_shell_word(&self) -> String {
        shell_word(&self.to_string())
    }

    /// The URL of the index `name` in the pool at `place`.
    pub(crate) fn of_index(place: &PoolLocation, name: &str) -> Self {
        Self { pool: place.clone(), index: Some(name.to_owned()), search: Vec::new() }
    }

    /// The same URL with the token in `file`, unless the URL names a token. No effect in shared memory.
    #[cfg(feature = "tcp")]
    #[must_use]
    pub fn or_token_file(self, file: &Path) -> Self {
        self.map_access(|access| access.or_token_file(file))
    }

    /// The same URL without the fallback to the environment. No effect in shared memory.
    #[cfg(feature = "tcp")]
    #[must_use]
    pub fn ignoring_environment(self) -> Self {
        self.map_access(AddressOptions::ignoring_environment)
    }

    /// Warnings about the token and the private key of the URL or the environment, if all users of this machine can
    /// read them. A memory node warns about its own files in the same way.
    #[cfg(feature = "tcp")]
    pub fn secret_warnings(&self) -> Vec<String> {
        let access = match &self.pool {
            PoolLocation::Shm(_) => return Vec::new(),
            PoolLocation::Tcp(address) => address.access(),
            #[cfg(feature = "rdma")]
            PoolLocation::Rdma(address) => address.access(),
            #[cfg(feature = "etcd")]
            PoolLocation::Etcd(address) => address.access(),
        };
        access.secret_files().iter().filter_map(|path| secret_warning(path)).collect()
    }

    #[cfg(feature = "tcp")]
    fn map_access(self, change: impl FnOnce(AddressOptions) -> AddressOptions) -> Self {
        let pool = match self.pool {
            PoolLocation::Shm(name) => PoolLocation::Shm(name),
            PoolLocation::Tcp(address) => {
                let access = change(address.access().clone());
                PoolLocation::Tcp(address.with_access(access))
            }
            #[cfg(feature = "rdma")]
            PoolLocation::Rdma(address) => {
                let access = change(address.access().clone());
                PoolLocation::Rdma(address.with_access(access))
            }
            #[cfg(feature = "etcd")]
            PoolLocation::Etcd(address) => {
                let access = change(address.access().clone());
                PoolLocation::Etcd(address.with_access(access))
            }
        };
        Self { pool, ..self }
    }

    /// The location of the pool.
    #[cfg(feature = "rdma")]
    pub(crate) fn place(&self) -> &PoolLocation {
        &self.pool
    }

    /// The location of the pool; an error if the URL names an index.
    pub(crate) fn expect_pool(self) -> Result<PoolLocation, Error> {
        match &self.index {
            None => Ok(self.pool),
            Some(index) => {
                let why = format!("this URL names the index '{index}'; give the URL of its pool");
                Err(Error::Url { url: self.to_string(), why })
            }
        }
    }
}

impl FromStr for Url {
    type Err = Error;

    fn from_str(url: &str) -> Result<Self, Error> {
        let refuse = |why: &str| Err(Error::Url { url: url.to_owned(), why: why.to_owned() });
        let Some((scheme, rest)) = url.split_once("://") else {
            return refuse(&format!("this is not a URL; {FORMS}"));
        };
        if scheme == "sim" {
            return refuse(
                "the simulator has pools only while `farwood bench --fabric sim` or `farwood reproduce` runs; use \
                 shm:// for a pool on this machine",
            );
        }
        if scheme == ANONYMOUS {
            return refuse(
                "an anonymous pool is not found by a URL; clone its `Pool`, or create a pool with a name (shm://NAME)",
            );
        }
        if scheme == "etcds" {
            return refuse("for etcd over https, write etcd:// and name its authority (?etcd-ca=FILE)");
        }
        if !["shm", "tcp", "rdma", "etcd"].contains(&scheme) {
            return refuse(&format!("unknown scheme {scheme}://; {FORMS}"));
        }
        let (rest, parameters) = match rest.split_once('?') {
            Some((rest, parameters)) => (rest, Some(parameters)),
            None => (rest, None),
        };
        let (search, access) =
            parameters_of_search(parameters).map_err(|why| Error::Url { url: url.to_owned(), why })?;
        if access.is_some() && scheme == "shm" {
            return refuse("a pool in shared memory has no parameters; omit them");
        }
        // An etcd URL has the server and the name of the pool.
        let pool_end = rest.find('/').filter(|_| scheme == "etcd").map_or(0, |slash| slash + 1);
        let split = rest[pool_end..].split_once('/');
        let (pool, index) = match split.map(|(name, index)| (&rest[..pool_end + name.len()], index)) {
            None => (rest, None),
            Some((_, "")) => {
                return refuse("the name of the index is missing after the '/'; add it, or omit the '/'");
            }
            Some((_, index)) if index.contains('/') => {
                return refuse("the name of an index must not contain '/'; give one name after the pool");
            }
            Some((pool, index)) => {
                check_index_name(index)
                    .map_err(|why| Error::Url { url: url.to_owned(), why: why.to_string() })?;
                (pool, Some(index.to_owned()))
            }
        };
        if let (Some(parameter), None) = (search.first(), &index) {
            return refuse(&format!(
                "the parameter '{parameter}' is for a spatial index; add /INDEX, or omit it"
            ));
        }
        let address = access.map_or_else(|| pool.to_owned(), |access| format!("{pool}?{access}"));
        Ok(Self { pool: place(url, scheme, &address)?, index, search })
    }
}

/// Whether a parameter is one of searches.
fn is_of_search(parameter: &str) -> Result<bool, String> {
    #[cfg(feature = "spatial")]
    if let Some((key, value)) = parameter.split_once('=') {
        return SearchOptions::default().set(key, value);
    }
    let _ = parameter;
    Ok(false)
}

/// Splits the parameters of a URL into those of searches and the others.
fn parameters_of_search(parameters: Option<&str>) -> Result<(Vec<String>, Option<String>), String> {
    let Some(parameters) = parameters else { return Ok((Vec::new(), None)) };
    let (mut search, mut others) = (Vec::new(), Vec::new());
    for parameter in parameters.split('&') {
        let key = parameter.split_once('=').map_or(parameter, |(key, _)| key);
        if !is_of_search(parameter)? {
            others.push(parameter.to_owned());
        } else if search.iter().any(|other: &String| other.split('=').next() == Some(key)) {
            return Err(format!("the parameter '{key}' is given twice; give it once"));
        } else {
            search.push(parameter.to_owned());
        }
    }
    let others = (search.is_empty() || !others.is_empty()).then(|| others.join("&"));
    Ok((search, others))
}

/// Reads the address of a pool.
fn place(url: &str, scheme: &str, address: &str) -> Result<PoolLocation, Error> {
    match scheme {
        "shm" => {
            let refuse = |why: ShmError| Error::Url { url: url.to_owned(), why: why.to_string() };
            Ok(PoolLocation::Shm(address.parse().map_err(refuse)?))
        }
        #[cfg(feature = "tcp")]
        "tcp" => {
            let address = pool_address(url, address)?;
            match address.access().for_rdma_only() {
                Some(key) => {
                    let why = format!("the parameter '{key}' is for pools over rdma://; omit it");
                    Err(Error::Url { url: url.to_owned(), why })
                }
                None => Ok(PoolLocation::Tcp(address)),
            }
        }
        #[cfg(feature = "rdma")]
        "rdma" => Ok(PoolLocation::Rdma(pool_address(url, address)?)),
        #[cfg(feature = "etcd")]
        "etcd" => {
            let refuse = |why: EtcdError| Error::Url { url: url.to_owned(), why: why.to_string() };
            Ok(PoolLocation::Etcd(address.parse().map_err(refuse)?))
        }
        _ => Err(Error::Feature { url: url.to_owned(), feature: scheme.to_owned() }),
    }
}

#[cfg(feature = "tcp")]
fn pool_address(url: &str, address: &str) -> Result<PoolAddress, Error> {
    address.parse().map_err(|source| {
        let why = match source {
            TcpError::BadAddress { why, .. } => why,
            other => other.to_string(),
        };
        Error::Url { url: url.to_owned(), why }
    })
}

impl TryFrom<&str> for Url {
    type Error = Error;

    fn try_from(url: &str) -> Result<Self, Error> {
        url.parse()
    }
}

impl TryFrom<String> for Url {
    type Error = Error;

    fn try_from(url: String) -> Result<Self, Error> {
        url.parse()
    }
}

impl TryFrom<&String> for Url {
    type Error = Error;

    fn try_from(url: &String) -> Result<Self, Error> {
        url.parse()
    }
}

impl From<&Url> for Url {
    fn from(url: &Url) -> Self {
        url.clone()
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(index) = &self.index else { return write!(f, "{}", self.pool) };
        let mut parameters = String::new();
        match &self.pool {
            PoolLocation::Shm(name) => write!(f, "shm://{name}/{index}")?,
            #[cfg(feature = "tcp")]
            PoolLocation::Tcp(address) => {
                write!(f, "tcp://{}/{index}", address.hosts())?;
                parameters = address.access().to_string();
            }
            #[cfg(feature = "rdma")]
            PoolLocation::Rdma(address) => {
                write!(f, "rdma://{}/{index}", address.hosts())?;
                parameters = address.access().to_string();
            }
            #[cfg(feature = "etcd")]
            PoolLocation::Etcd(address) => {
                write!(f, "etcd://{}/{index}", address.place())?;
                parameters = address.access().to_string();
            }
        }
        for parameter in &self.search {
            parameters.push(if parameters.is_empty() { '?' } else { '&' });
            parameters.push_str(parameter);
        }
        f.write_str(&parameters)
    }
}

#[cfg(all(test, feature = "rdma", feature = "etcd"))]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_back() {
        for text in [
            "shm://demo",
            "shm://demo/words",
            "shm://a.b-c/x.y",
            "tcp://a:1",
            "tcp://a:1,[::1]:2/words",
            "tcp://a:1?tls-ca=/etc/ca.pem",
            "etcd://a:2379,b:2379/p",
            "etcd://a:2379/p/words?tls-ca=/etc/ca.pem",
            "tcp://a:1/words?token-file=/run/token&tls-ca=/etc/ca.pem",
            "rdma://a:1,b:1/words",
            "rdma://a:1/words?device=mlx5_0,1,3&queue-pairs=2",
            "shm://demo/places?search=message",
            "tcp://a:1/places?tls-ca=/etc/ca.pem&search=auto&window=16&threshold=0.9&rule=printed",
        ] {
            assert_eq!(text.parse::<Url>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn an_index_comes_before_the_parameters_and_the_url_is_quoted_for_a_shell() {
        let url: Url = "tcp://a:1,b:2?token-file=/t/x&tls-ca=/c".parse().unwrap();
        let index = url.index_url("words");
        assert_eq!(index.to_string(), "tcp://a:1,b:2/words?token-file=/t/x&tls-ca=/c");
        assert_eq!(Url::of_index(url.place(), "words"), index);
        assert_eq!((index.pool_url(), index.index()), (url, Some("words")));
        assert_eq!(index.to_shell_word(), format!("'{index}'"));
        assert_eq!("tcp://a:1/words".parse::<Url>().unwrap().to_shell_word(), "tcp://a:1/words");
    }

    #[test]
    fn each_invalid_url_is_refused_with_its_reason() {
        for (text, words) in [
            ("demo", "not a URL"),
            ("http://demo", "http://"),
            ("tcp://host", "no port"),
            ("tcp://", "no port"),
            ("tcp://host:1/", "missing"),
            ("rdma://host", "no port"),
            ("tcp://a:1?device=mlx5_0", "rdma://"),
            ("tcp://a:1?queue-pairs=2", "rdma://"),
            ("rdma://a:1?queue-pairs=0", "1 to 64"),
            ("etcds://a:1/p", "?etcd-ca=FILE"),
            ("tcp://a:1?etcd-ca=/c", "etcd://"),
            ("sim://x", "bench --fabric sim"),
            ("shm://demo/e mails", "'e mails' cannot name an index"),
            ("tcp://a:1/i?x=/y", "'tcp://a:1/i?x=/y': there is no parameter 'x'; give one of token-file"),
            ("shm://", "empty"),
            ("shm://.x", "dot"),
            ("shm://demo/", "missing"),
            ("shm://demo/a/b", "'/'"),
            ("etcd://a:2379", "name is missing"),
            ("etcd://a:2379/p/", "missing"),
            ("etcd://a:2379/p/i/j", "'/'"),
            ("shm://demo?tls-ca=/x", "no parameters"),
            ("shm://demo/places?search=messages", "no search mode 'messages'"),
            ("shm://demo/places?window=0", "window=0: give a number of searches"),
            ("shm://demo/places?threshold=95", "threshold=95: give a utilisation, 0 to 1"),
            ("shm://demo?search=reads", "is for a spatial index"),
            ("shm://demo/places?search=reads&window=2&search=auto", "'search' is given twice"),
            ("tcp://a:1?x=/y", "no parameter 'x'"),
        ] {
            let error = text.parse::<Url>().unwrap_err();
            assert!(error.to_string().contains(words), "{text}: {error}");
            assert_eq!(error.exit_code(), 2, "{text}");
        }
    }

    #[test]
    fn a_pool_is_not_an_index() {
        let url: Url = "shm://demo/words".parse().unwrap();
        assert!(url.expect_pool().unwrap_err().to_string().contains("the URL of its pool"));
    }
}
