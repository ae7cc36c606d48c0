//! The outcome of a command.

use super::parser_error;
use super::source::Sources;
use farwood::Url;
use farwood::error::{RdmaError, TcpError};
use farwood::internal::printable;
use std::io::{self, Write};
use std::path::Path;

/// A command that completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Exit code 0.
    Done,
    /// A negative answer: the key does not exist, or the check found problems. Exit code 1.
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

/// The reason why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The library's error.
    #[error("{}", _0.message_of_command())]
    Farwood(#[from] farwood::Error),
    /// A benchmark's error.
    #[error(transparent)]
    Bench(#[from] farwood_bench::Error),
    /// An error of clap, including the requests for help and version.
    #[error(transparent)]
    CommandLine(#[from] clap::Error),
    /// The command line, the configuration or the input is wrong.
    #[error("{0}")]
    Usage(String),
    /// Stdout or stderr cannot be written.
    #[error("cannot write the output: {_0}; {}", remedy(_0))]
    Output(#[from] io::Error),
    /// Something else, with its own exit code.
    #[error("{text}")]
    Other {
        /// The message, with the remedy.
        text: String,
        /// Exit code.
        exit_code: u8,
    },
}

/// The action that lets an operation on a file succeed.
fn remedy(error: &io::Error) -> &'static str {
    use io::ErrorKind::{
        AlreadyExists, InvalidData, IsADirectory, NotADirectory, NotFound, PermissionDenied, QuotaExceeded,
        ReadOnlyFilesystem, StorageFull,
    };
    match error.kind() {
        NotFound => "name an existing file",
        IsADirectory => "name a file instead of the directory",
        AlreadyExists | NotADirectory => "name a path whose parents are directories",
        InvalidData => "convert the file to UTF-8",
        PermissionDenied => "name a file that this user may use, or change its permissions",
        ReadOnlyFilesystem => "name a path on a file system that can be written",
        StorageFull | QuotaExceeded => "free some space, or name a path on another file system",
        _ => "check the file and its file system",
    }
}

/// The name of a file on one line of a message.
pub(crate) fn shown(path: &Path) -> String {
    printable(&path.display().to_string()).into_owned()
}

/// Adds the URL to the commands in a remedy, so that the user can copy them.
fn with_url(text: &str, url: &str) -> String {
    let Ok(url) = url.parse::<Url>() else { return text.to_owned() };
    let pool = url.pool_url().to_shell_word();
    let index = url.index_url(url.index().unwrap_or("INDEX")).to_shell_word();
    text.replace("`farwood stat`", &format!("`farwood stat {pool}`"))
        .replace("`farwood create`", &format!("`farwood create {index}`"))
        .replace("`farwood drop` it", &format!("`farwood drop {index}`"))
        .replace("`farwood check`", &format!("`farwood check {index}`"))
}

/// The operations of the library that a command performs under its own name.
const OPERATIONS: [&str; 12] = [
    "bulk load",
    "put",
    "insert",
    "update",
    "remove",
    "compare exchange",
    "fetch update",
    "change",
    "nearest",
    "count",
    "examine",
    "sweep",
];

impl Failure {
    /// The failure with the name of the command in place of the library's operation.
    pub(crate) fn of_command(self, command: &str) -> Self {
        if !matches!(self, Self::Farwood(_) | Self::Other { .. }) {
            return self;
        }
        let text = self.text();
        let rest = OPERATIONS.iter().find_map(|operation| {
            text.strip_prefix(operation).filter(|rest| rest.starts_with(' ') || rest.starts_with(':'))
        });
        match rest {
            Some(rest) => Self::Other { text: format!("{command}{rest}"), exit_code: self.exit_code() },
            None => self,
        }
    }

    /// The failure of a wrong command line, with the sources of the options that it names.
    pub(crate) fn with_sources(self, sources: &Sources<'_>) -> Self {
        match self {
            Self::Usage(text) => Self::Usage(sources.with_sources(&text)),
            Self::Bench(error @ farwood_bench::Error::Parameter { .. }) => {
                Self::Usage(sources.with_sources(&error.to_string()))
            }
            other => other,
        }
    }

    /// A file that `command`, a command or an option, cannot read or write.
    pub(crate) fn file(command: &str, operation: &'static str, path: &Path, source: io::Error) -> Self {
        let path = if path == Path::new("-") { "stdin".to_owned() } else { shown(path) };
        let remedy = remedy(&source);
        let error = farwood::Error::System { operation, path: path.into(), source };
        Self::Other { text: format!("{command}: {error}; {remedy}"), exit_code: error.exit_code() }
    }

    /// The process's exit code.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Farwood(error) => error.exit_code(),
            Self::Bench(_) | Self::Usage(_) => 2,
            Self::CommandLine(error) => u8::try_from(error.exit_code()).unwrap_or(2),
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => 0,
            Self::Output(error) => farwood::Error::exit_code_of(error),
            Self::Other { exit_code, .. } => *exit_code,
        }
    }

    /// Whether its text is what the user asked for: help, or the version.
    pub(crate) fn is_answer(&self) -> bool {
        matches!(self, Self::CommandLine(error) if !error.use_stderr())
    }

    /// The message, with the remedy.
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

    /// Prints the message.
    pub(crate) fn report(&self, words: &mut dyn Write) -> io::Result<()> {
        match self {
            // Help goes to stdout, in color if the terminal supports it.
            Self::CommandLine(error) if self.is_answer() => {
                error.print()?;
                io::stdout().flush()
            }
            Self::CommandLine(error) => parser_error::print(error, words),
            // The reader of the output has stopped reading.
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            // It may quote a file or another machine.
            other => {
                let text = other.text();
                let lines: Vec<_> = text.lines().map(printable).collect();
                writeln!(words, "farwood: {}", lines.join("\n"))
            }
        }
    }
}
