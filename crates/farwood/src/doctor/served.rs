//! Remedies for pools over TCP and RDMA that cannot be used.

use super::PoolReport;
use crate::error::Error;
use crate::shell_word::shell_word;
use crate::url::Url;
#[cfg(feature = "rdma")]
use farwood_transport::rdma::RdmaError;
use farwood_transport::tcp::TcpError;

impl PoolReport {
    /// The command or the action that resolves the error.
    pub(super) fn remedy(&self, error: &Error) -> String {
        #[cfg_attr(
            not(feature = "rdma"),
            expect(clippy::manual_let_else, reason = "it has another arm with `rdma`")
        )]
        let source = match error {
            Error::Tcp { source, .. } => source,
            #[cfg(feature = "rdma")]
            Error::Rdma { source: RdmaError::Pool(source), .. } => source,
            _ => return own_remedy(error),
        };
        match source {
            TcpError::NotThere { address, .. } => {
                format!(
                    "farwood serve --listen tcp://{address}, with the --file and the other options that it had"
                )
            }
            TcpError::NoPool { .. } => match self.url.parse::<Url>() {
                Ok(pool) => format!("farwood create {}", pool.index_url("INDEX").to_shell_word()),
                Err(_) => "farwood create".to_owned(),
            },
            TcpError::BadToken { .. } | TcpError::Token { .. } => {
                self.with("token-file", "FARWOOD_TOKEN_FILE")
            }
            TcpError::Untrusted { .. } | TcpError::Tls { .. } => self.with("tls-ca", "FARWOOD_TLS_CA"),
            _ => own_remedy(error),
        }
    }

    /// The same examination with another file: in the URL if it names one, because the URL has precedence over the
    /// environment.
    fn with(&self, parameter: &str, variable: &str) -> String {
        match self.url.split_once(&format!("{parameter}=")) {
            None => format!("{variable}=FILE farwood doctor {}", shell_word(&self.url)),
            Some((before, behind)) => {
                let behind = behind.find('&').map_or("", |end| &behind[end..]);
                format!("farwood doctor {}", shell_word(&format!("{before}{parameter}=FILE{behind}")))
            }
        }
    }
}

/// The remedy at the end of an error's text.
fn own_remedy(error: &Error) -> String {
    let text = error.message_of_command();
    text.split_once("; ").map_or("check its memory nodes and their logs", |(_, remedy)| remedy).to_owned()
}
