//! TLS 1.3 for both sides, from PEM files: the certificates that each side presents and trusts.

use super::cipher::Cipher;
use super::secret_file;
use crate::error::TcpError;
use crate::small_file;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use rustls::version::TLS13;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

/// A certificate with its private key.
#[derive(Clone, Copy, Debug)]
pub struct Identity<'a> {
    /// PEM file of the certificate, and of the intermediate certificates.
    pub cert: &'a Path,
    /// PEM file of its private key.
    pub key: &'a Path,
}

type Chain = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

impl Identity<'_> {
    fn read(&self) -> Result<Chain, TcpError> {
        let certificates = certificates(CERT, self.cert)?;
        let refuse = |why: String| refuse("tls-key", self.key, &why);
        let bytes = secret_file::read(self.key).map_err(refuse)?;
        let key = PrivateKeyDer::from_pem_slice(&bytes).map_err(|error| {
            refuse(format!("it has no private key in PEM form ({error}); name the key of the certificate"))
        })?;
        Ok((certificates, key))
    }

    /// Returns the error of a certificate that does not match its key.
    fn refuse(&self, error: &rustls::Error) -> TcpError {
        let why =
            format!("it does not match the key in {} ({error}); name the key of it", self.key.display());
        refuse(CERT, self.cert, &why)
    }
}

const CERT: &str = "tls-cert";
const CA: &str = "tls-ca";
const CLIENT_CA: &str = "client-ca";

fn refuse(option: &'static str, path: &Path, why: &str) -> TcpError {
    TcpError::Tls { option, path: path.to_owned(), why: why.to_owned() }
}

fn certificates(option: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, TcpError> {
    let bytes = small_file::read(path)
        .map_err(|error| refuse(option, path, &format!("{error}; name a file that this user can read")))?;
    let read = CertificateDer::pem_slice_iter(&bytes).collect::<Result<Vec<_>, _>>();
    let all = read.map_err(|error| {
        refuse(option, path, &format!("its PEM form is damaged ({error}); name a file with a certificate"))
    })?;
    if all.is_empty() {
        return Err(refuse(option, path, "it contains no certificate in PEM form; name a file that does"));
    }
    Ok(all)
}

fn authorities(option: &'static str, path: &Path) -> Result<RootCertStore, TcpError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(option, path)? {
        roots.add(certificate).map_err(|error| {
            let why = format!("a certificate in it is not that of an authority ({error}); name another file");
            refuse(option, path, &why)
        })?;
    }
    Ok(roots)
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// The TLS configuration of a memory node. Clones share it.
#[derive(Clone, Debug)]
pub struct ServerTls {
    config: Arc<RwLock<Arc<ServerConfig>>>,
    requires_certificates: bool,
}

impl ServerTls {
    /// A memory node that presents `identity`. With `client_ca`, a PEM file of authorities, it accepts only
    /// clients with a certificate of one of them.
    ///
    /// # Errors
    /// [`TcpError::Tls`].
    pub fn from_files(identity: Identity<'_>, client_ca: Option<&Path>) -> Result<Self, TcpError> {
        let config = Arc::new(RwLock::new(Self::config(identity, client_ca)?));
        Ok(Self { config, requires_certificates: client_ca.is_some() })
    }

    /// Uses these files from the next connection on. If that fails, the present configuration remains.
    ///
    /// # Errors
    /// [`TcpError::Tls`].
    pub fn reload(&self, identity: Identity<'_>, client_ca: Option<&Path>) -> Result<(), TcpError> {
        let config = Self::config(identity, client_ca)?;
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = config;
        Ok(())
    }

    fn config(identity: Identity<'_>, client_ca: Option<&Path>) -> Result<Arc<ServerConfig>, TcpError> {
        let (chain, key) = identity.read()?;
        let config = ServerConfig::builder_with_provider(provider()).with_protocol_versions(&[&TLS13]);
        let config = config.map_err(|error| identity.refuse(&error))?;
        let config = match client_ca {
            None => config.with_no_client_auth(),
            Some(path) => {
                let roots = Arc::new(authorities(CLIENT_CA, path)?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider()).build();
                let refuse = |error: VerifierBuilderError| {
                    refuse(
                        CLIENT_CA,
                        path,
                        &format!("its authorities cannot be used: {error}; name another file"),
                    )
                };
                config.with_client_cert_verifier(verifier.map_err(refuse)?)
            }
        };
        let mut config = config.with_single_cert(chain, key).map_err(|error| identity.refuse(&error))?;
        // The server must not send unsolicited bytes, because a compute node treats unread bytes as the end of a
        // connection.
        config.send_tls13_tickets = 0;
        Ok(Arc::new(config))
    }

    /// Returns whether it requires client certificates.
    pub fn requires_certificates(&self) -> bool {
        self.requires_certificates
    }

    /// Returns the TLS layer of a new connection.
    pub(crate) fn cipher(&self) -> Result<Cipher, rustls::Error> {
        let config = Arc::clone(&self.config.read().unwrap_or_else(PoisonError::into_inner));
        Ok(Cipher::tls(ServerConnection::new(config)?.into()))
    }
}

/// The TLS configuration of a compute node.
#[derive(Clone, Debug)]
pub struct ClientTls {
    config: Arc<ClientConfig>,
    name: Option<String>,
}

impl ClientTls {
    /// A compute node that trusts memory nodes with certificates of the authorities in the PEM file `ca`, and
    /// presents `identity` to those that require one. Their certificates must be for `name`, or for the host
    /// in their address.
    ///
    /// # Errors
    /// [`TcpError::Tls`].
    pub fn from_files(
        ca: &Path,
        identity: Option<Identity<'_>>,
        name: Option<String>,
    ) -> Result<Self, TcpError> {
        if let Some(name) = &name {
            server_name(name).map_err(|why| refuse(CA, ca, &format!("{why}; correct tls-name")))?;
        }
        let config = ClientConfig::builder_with_provider(provider()).with_protocol_versions(&[&TLS13]);
        let config = config.map_err(|error| refuse(CA, ca, &error.to_string()))?;
        let config = config.with_root_certificates(authorities(CA, ca)?);
        let config = match identity {
            None => config.with_no_client_auth(),
            Some(identity) => {
                let (chain, key) = identity.read()?;
                config.with_client_auth_cert(chain, key).map_err(|error| identity.refuse(&error))?
            }
        };
        Ok(Self { config: Arc::new(config), name })
    }

    /// Returns the TLS layer of a connection to `host`.
    pub(crate) fn cipher(&self, host: &str) -> Result<Cipher, String> {
        let server = server_name(self.name.as_deref().unwrap_or(host))?;
        let connection = ClientConnection::new(Arc::clone(&self.config), server);
        Ok(Cipher::tls(connection.map_err(|error| error.to_string())?.into()))
    }
}

fn server_name(name: &str) -> Result<ServerName<'static>, String> {
    ServerName::try_from(name.to_owned())
        .map_err(|_| format!("'{name}' is not a valid name of a certificate"))
}
