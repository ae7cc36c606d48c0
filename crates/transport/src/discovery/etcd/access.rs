//! Access to an etcd: https with its authorities, a client certificate, a user.

use super::error::EtcdError;
use crate::client::AddressOptions;
use crate::small_file;
use crate::stream::read_secret;
use std::path::Path;
use std::sync::Arc;
use ureq::tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, parse_pem};

/// A user of etcd and the password.
#[derive(Clone)]
pub(super) struct EtcdUser {
    pub(super) name: String,
    pub(super) password: String,
}

impl std::fmt::Debug for EtcdUser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EtcdUser").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The configuration by which a process accesses an etcd.
#[derive(Clone, Debug)]
pub(super) struct EtcdAccess {
    /// The configuration of https; `None`: http.
    pub(super) tls: Option<TlsConfig>,
    pub(super) user: Option<EtcdUser>,
}

impl EtcdAccess {
    /// Reads the files that the parameters, or the environment, name.
    pub(super) fn find(options: &AddressOptions) -> Result<Self, EtcdError> {
        let files = options.etcd_files();
        let refuse = |file: &str, why: &str| EtcdError::Access { file: file.to_owned(), why: why.to_owned() };
        let client_cert = match (&files.cert, &files.key) {
            (Some(cert), Some(key)) => Some(client_cert(cert, key)?),
            (None, None) => None,
            (Some(file), None) | (None, Some(file)) => {
                return Err(refuse(file, "a certificate needs its key: give both etcd-cert and etcd-key"));
            }
        };
        let tls = match (&files.ca, client_cert) {
            (Some(ca), client_cert) => Some(
                TlsConfig::builder()
                    .root_certs(RootCerts::new_with_certs(&certificates(ca, public)?))
                    .client_cert(client_cert)
                    .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
                    .build(),
            ),
            (None, None) => None,
            (None, Some(_)) => {
                let file = files.cert.as_deref().unwrap_or_default();
                return Err(refuse(
                    file,
                    "a client certificate also needs trusted authorities: give etcd-ca",
                ));
            }
        };
        let user = files.user_file.as_deref().map(user).transpose()?;
        match (&tls, &files.user_file) {
            (None, Some(file)) => Err(refuse(
                file,
                "the password would be sent unencrypted; name the authority of etcd in etcd-ca",
            )),
            _ => Ok(Self { tls, user }),
        }
    }
}

/// Reads a file that is not secret.
fn public(path: &Path) -> Result<Vec<u8>, String> {
    small_file::read(path).map_err(|error| error.to_string())
}

type Reader = fn(&Path) -> Result<Vec<u8>, String>;

fn items(file: &str, read: Reader) -> Result<Vec<PemItem<'static>>, EtcdError> {
    let refuse = |why: String| EtcdError::Access { file: file.to_owned(), why };
    let bytes = read(file.as_ref()).map_err(refuse)?;
    parse_pem(&bytes).collect::<Result<_, _>>().map_err(|error| refuse(error.to_string()))
}

fn certificates(file: &str, read: Reader) -> Result<Vec<Certificate<'static>>, EtcdError> {
    let certificate = |item| match item {
        PemItem::Certificate(certificate) => Some(certificate),
        _ => None,
    };
    let all: Vec<_> = items(file, read)?.into_iter().filter_map(certificate).collect();
    if all.is_empty() {
        return Err(EtcdError::Access {
            file: file.to_owned(),
            why: "it contains no certificate".to_owned(),
        });
    }
    Ok(all)
}

fn client_cert(cert: &str, key: &str) -> Result<ClientCert, EtcdError> {
    let private = |item| match item {
        PemItem::PrivateKey(key) => Some(key),
        _ => None,
    };
    let found: Option<PrivateKey<'static>> = items(key, read_secret)?.into_iter().find_map(private);
    let found = found.ok_or_else(|| EtcdError::Access {
        file: key.to_owned(),
        why: "no private key in PEM form".to_owned(),
    })?;
    Ok(ClientCert::new_with_certs(&certificates(cert, public)?, found))
}

fn user(file: &str) -> Result<EtcdUser, EtcdError> {
    let refuse = |why: String| EtcdError::Access { file: file.to_owned(), why };
    let bytes = read_secret(file.as_ref()).map_err(refuse)?;
    let text = String::from_utf8_lossy(&bytes);
    let parts = text.lines().next().and_then(|line| line.trim_end().split_once(':'));
    let (name, password) = parts.ok_or_else(|| refuse("its first line must be USER:PASSWORD".to_owned()))?;
    Ok(EtcdUser { name: name.to_owned(), password: password.to_owned() })
}
