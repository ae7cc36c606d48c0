//! The token and the certificates of a compute node.

use super::address::PoolAddress;
use super::options::AddressOptions;
use crate::error::TcpError;
use crate::stream::{ClientTls, Identity, Token};
use std::path::PathBuf;

/// The credentials that a compute node presents to memory nodes, and the authorities that it trusts.
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    /// The token, for memory nodes that require one.
    pub token: Option<Token>,
    /// The certificates, for memory nodes that speak TLS.
    pub tls: Option<ClientTls>,
}

impl Credentials {
    /// Returns the credentials that an address names, or those of the environment: `FARWOOD_TOKEN_FILE`,
    /// `FARWOOD_TLS_CA`, `FARWOOD_TLS_CERT`, `FARWOOD_TLS_KEY`, `FARWOOD_TLS_NAME`.
    ///
    /// # Errors
    /// [`TcpError::Token`], [`TcpError::Tls`].
    pub fn find(address: &PoolAddress) -> Result<Self, TcpError> {
        address.access().or_environment().credentials()
    }
}

impl From<Token> for Credentials {
    fn from(token: Token) -> Self {
        Self { token: Some(token), tls: None }
    }
}

impl AddressOptions {
    fn credentials(&self) -> Result<Credentials, TcpError> {
        let [token, ca, cert, key, name, ..] = &*self.values;
        let token = token.as_deref().map(|file| Token::from_file(file.as_ref())).transpose()?;
        let identity = match (cert, key) {
            (Some(cert), Some(key)) => Some(Identity { cert: cert.as_ref(), key: key.as_ref() }),
            (None, None) => None,
            (Some(path), None) => {
                return Err(tls("tls-cert", path, "a certificate needs its key: give tls-key as well"));
            }
            (None, Some(path)) => {
                return Err(tls("tls-key", path, "a key needs its certificate: give tls-cert as well"));
            }
        };
        if let (None, Some(name)) = (ca, name) {
            let why = "a name of certificates also needs trusted authorities: give tls-ca, or omit tls-name";
            return Err(tls("tls-name", name, why));
        }
        let tls = match (ca, identity) {
            (Some(ca), identity) => Some(ClientTls::from_files(ca.as_ref(), identity, name.clone())?),
            (None, None) => None,
            (None, Some(identity)) => {
                let why = "a client certificate also needs trusted authorities: give tls-ca".to_owned();
                return Err(TcpError::Tls { option: "tls-cert", path: identity.cert.to_owned(), why });
            }
        };
        Ok(Credentials { token, tls })
    }
}

fn tls(option: &'static str, path: &str, why: &str) -> TcpError {
    TcpError::Tls { option, path: PathBuf::from(path), why: why.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_needs_its_key_and_an_authority() {
        let refused =
            |text: &str| text.parse::<AddressOptions>().unwrap().credentials().unwrap_err().to_string();
        assert!(refused("tls-ca=a&tls-cert=b").contains("tls-key"));
        assert!(refused("tls-cert=a&tls-key=b").contains("give tls-ca"));
        assert!(refused("tls-ca=/nonexistent/ca").contains("/nonexistent/ca"));
        assert!(refused("tls-name=a").contains("give tls-ca"));
        assert!(
            refused("tls-ca=/nonexistent/ca&tls-name=bad name").contains("'bad name' is not a valid name")
        );
    }
}
