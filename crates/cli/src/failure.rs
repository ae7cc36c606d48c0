//! How a command ends.

use farwood::{RdmaError, TcpError, Url};
use std::io::{self, Write};
use std::path::PathBuf;

/// A command that did what it was asked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Exit code 0.
    Done,
    /// The answer is no: the key is not there, the check found problems. Exit code 1.
    Negative,
}

impl Outcome {
    /// The process's exit code.
    pub(crate) fn exit_code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Negative => 1,
        }
    }
}

/// Why a command did not do what it was asked to.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The library's error.
    #[error(transparent)]
    Farwood(#[from] farwood::Error),
    /// A benchmark's error.
    #[error(transparent)]
    Bench(#[from] farwood_bench::Error),
    /// The command line, as clap says it. Help and version are among these.
    #[error(transparent)]
    CommandLine(#[from] clap::Error),
    /// The command line, the configuration or the input makes no sense.
    #[error("{0}")]
    Usage(String),
    /// A file cannot be read or written.
    #[error("cannot {operation} {}: {source}", path.display())]
    File {
        /// What was tried.
        operation: &'static str,
        /// On which file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// Stdout or stderr cannot be written.
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
    /// Something else, with its own exit code.
    #[error("{text}")]
    Other {
        /// What and why, and what to do.
        text: String,
        /// Exit code.
        exit_code: u8,
    },
}

/// Completes the commands that a remedy names, so that they can be copied.
fn with_url(text: &str, url: &str) -> String {
    let Ok(url) = url.parse::<Url>() else { return text.to_owned() };
    let pool = url.pool_url().to_shell_word();
    let index = url.index_url(url.index().unwrap_or("INDEX")).to_shell_word();
    text.replace("`farwood stat`", &format!("`farwood stat {pool}`"))
        .replace("`farwood create`", &format!("`farwood create {index}`"))
        .replace("`farwood drop` it", &format!("`farwood drop {index}`"))
        .replace("`farwood check`", &format!("`farwood check {index}`"))
}

impl Failure {
    /// The process's exit code.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Farwood(error) => error.exit_code(),
            Self::Bench(farwood_bench::Error::Read { .. }) | Self::File { .. } => 10,
            Self::Bench(_) | Self::Usage(_) => 2,
            Self::CommandLine(error) => u8::try_from(error.exit_code()).unwrap_or(2),
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => 0,
            Self::Output(_) => 10,
            Self::Other { exit_code, .. } => *exit_code,
        }
    }

    /// What went wrong, and what to do.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Farwood(
                farwood::Error::Index { url, .. }
                | farwood::Error::Fabric { pool: url, .. }
                | farwood::Error::Tcp { source: TcpError::NoPool { pool: url }, .. }
                | farwood::Error::Rdma { source: RdmaError::Pool(TcpError::NoPool { pool: url }), .. },
            ) => with_url(&self.to_string(), url),
            other => other.to_string(),
        }
    }

    /// Tells the user.
    pub(crate) fn report(&self, words: &mut dyn Write) -> io::Result<()> {
        match self {
            // Help goes to stdout and errors to stderr, in color where there is any.
            Self::CommandLine(error) => error.print(),
            // Whoever reads has read enough.
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            other => writeln!(words, "farwood: {}", other.text()),
        }
    }
}
