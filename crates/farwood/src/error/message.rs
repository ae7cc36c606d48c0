//! The texts of an error: `Display` for programs, and the message of the command `farwood` with its remedies.

use super::operation::whole_of;
use super::{Effect, Error};
use crate::shell_word::shell_word;
use farwood_fabric::FabricError;
use farwood_index::IndexError;
use farwood_transport::shm::ShmError;
use std::fmt;

impl fmt::Display for Error {
    /// Formats the operation, its object and the cause. [`help`](Error::help) is the remedy.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.subject(self.operation()), self.description())
    }
}

impl Error {
    /// The message of the command `farwood`: operation, object and cause, and the remedy as a command.
    #[doc(hidden)]
    pub fn message_of_command(&self) -> String {
        format!("{}: {}", self.subject(whole_of(self.operation())), self.description_with_commands())
    }

    /// The operation and its object.
    fn subject(&self, operation: &str) -> String {
        match self {
            Self::Url { url, .. } | Self::Feature { url, .. } => format!("'{url}'"),
            Self::Pool { .. } => operation.to_owned(),
            #[cfg(feature = "tcp")]
            Self::Tcp { .. } => operation.to_owned(),
            #[cfg(feature = "rdma")]
            Self::Rdma { .. } => operation.to_owned(),
            #[cfg(feature = "etcd")]
            Self::Etcd { .. } => operation.to_owned(),
            #[cfg(feature = "rdma")]
            Self::NoReader { pool } => format!("{operation} {pool}"),
            Self::Served { pool, .. } | Self::Fabric { pool, .. } | Self::Thread { pool, .. } => {
                format!("{operation} {pool}")
            }
            Self::Index { url, .. }
            | Self::Type { url, .. }
            | Self::Unfit { url, .. }
            | Self::Argument { url, .. }
            | Self::Options { url, .. }
            | Self::TimedOut { url, .. }
            | Self::OpenHere { url } => format!("{operation} {url}"),
            #[cfg(feature = "geometry")]
            Self::Geometry { url, .. } => format!("{operation} {url}"),
            #[cfg(feature = "backup")]
            Self::Backup { path: Some(path), .. } => format!("{operation} {}", path.display()),
            #[cfg(feature = "backup")]
            Self::Backup { path: None, .. } => operation.to_owned(),
            Self::Attached { pool, .. } | Self::Unusable { pool, .. } => format!("{operation} shm://{pool}"),
            Self::System { path, .. } => format!("cannot {operation} {}", path.display()),
        }
    }

    /// The cause, without the remedy unless the cause's reason contains one.
    fn description(&self) -> String {
        match self {
            Self::Url { why, .. } | Self::Options { why, .. } => why.clone(),
            Self::Feature { feature, .. } => {
                format!("this program was built without the feature `{feature}` of the crate farwood")
            }
            Self::Pool { source, .. } | Self::Unusable { source, .. } => source.description(),
            #[cfg(feature = "tcp")]
            Self::Tcp { source, .. } => source.description(),
            #[cfg(feature = "rdma")]
            Self::Rdma { source, .. } => source.description(),
            #[cfg(feature = "etcd")]
            Self::Etcd { source, .. } => source.description(),
            #[cfg(feature = "rdma")]
            Self::NoReader { .. } => {
                "no pool over RDMA can be opened for reading only, because a device executes every verb"
                    .to_owned()
            }
            Self::Served { .. } => "a pool over TCP consists of its running memory nodes".to_owned(),
            Self::Fabric { source, .. } => source.description(),
            Self::Index { source, .. } => source.description(),
            Self::Type { what, expected, found, .. } => {
                format!("its {what} have the type {found}, not {expected}")
            }
            Self::Unfit { what, why, .. } => format!("the {what} {why}"),
            Self::Argument { what, value, remedy, .. } => format!("the {what} is {value}; {remedy}"),
            #[cfg(feature = "geometry")]
            Self::Geometry { id, why, .. } => format!("the record {id} {why}"),
            #[cfg(feature = "backup")]
            Self::Backup { source, .. } => source.to_string(),
            Self::OpenHere { .. } => "this process has it open".to_owned(),
            Self::Attached { processes, .. } => {
                format!("processes are attached to it ({})", list(processes))
            }
            Self::TimedOut { after, .. } => format!("the call did not end within {after:?}"),
            Self::Thread { source, .. } => format!("no thread can be started: {source}"),
            Self::System { source, .. } => source.to_string(),
        }
    }

    fn description_with_commands(&self) -> String {
        let description = self.description();
        match self {
            Self::Url { .. }
            | Self::Feature { .. }
            | Self::Options { .. }
            | Self::Unfit { .. }
            | Self::Argument { .. }
            | Self::Thread { .. }
            | Self::System { .. } => description,
            Self::TimedOut { .. } => format!("{description}; {}", after_timeout(self.effect())),
            #[cfg(feature = "geometry")]
            Self::Geometry { .. } => description,
            #[cfg(feature = "backup")]
            Self::Backup { source, .. } => match source.help() {
                Some(remedy) => format!("{description}; {remedy}"),
                None => description,
            },
            Self::Pool { source, .. } => source.to_string(),
            #[cfg(feature = "tcp")]
            Self::Tcp { source, .. } => source.to_string(),
            #[cfg(feature = "rdma")]
            Self::Rdma { source, .. } => source.to_string(),
            #[cfg(feature = "etcd")]
            Self::Etcd { source, .. } => source.to_string(),
            #[cfg(feature = "rdma")]
            Self::NoReader { .. } => {
                format!("{description}; open it without --read-only, or serve it over TCP")
            }
            Self::Served { operation, .. } => format!("{description}; {}", remedy_of_served(operation)),
            Self::Fabric { pool, source, .. } => format!("{source}{}", more_memory(pool, source)),
            Self::Index { url, source, .. } => {
                format!("{}{}", source.cause(), more_memory_of_index(url, source))
            }
            Self::Type { url, .. } => format!(
                "{description}; open it with the types with which it was created (`farwood stat {}` shows them)",
                shell_word(url)
            ),
            Self::OpenHere { .. } => format!("{description}; drop all its handles first"),
            Self::Attached { pool, .. } => format!(
                "{description}; end them, or use `farwood drop shm://{pool} --force`: their operations then fail"
            ),
            Self::Unusable { pool, source } => format!("{source}{}", by_force(pool, source)),
        }
    }
}

/// The action that creates or removes a pool of running memory nodes.
fn remedy_of_served(operation: &str) -> &'static str {
    match operation {
        "create" => {
            "start each of them with `farwood serve`; creating the first index (`farwood create` with the URL of an \
             index) makes them a pool"
        }
        "save" => {
            "they keep their memory with `farwood serve --file`; `farwood dump` with this URL copies the indexes"
        }
        "restore" => {
            "the image of a pool becomes a pool in shared memory (shm://NAME), from which `farwood dump` and `farwood \
             restore` move the indexes to memory nodes"
        }
        _ => {
            "stop each of them with SIGTERM, and remove the file of its --file; `farwood drop` with the URL of an \
             index removes an index"
        }
    }
}

/// The effect of a call that has exceeded its time limit, and the remedy.
fn after_timeout(effect: Effect) -> &'static str {
    match effect {
        Effect::None => "nothing was changed; repeat the command, or give it more time (--timeout)",
        Effect::Unknown => "the change may have been made or not; read the key before you repeat the command",
    }
}

/// The option that gives a full pool more memory.
fn more_memory(url: &str, error: &FabricError) -> &'static str {
    match error {
        FabricError::PoolFull { .. } if url.starts_with("rdma://") => {
            " (`farwood serve --memory`, for each memory node)"
        }
        FabricError::PoolFull { .. } if !url.is_empty() => " (`farwood grow`)",
        _ => "",
    }
}

fn more_memory_of_index(url: &str, error: &IndexError) -> &'static str {
    match error {
        IndexError::Fabric(error) => more_memory(url, error),
        _ => "",
    }
}

/// The command that removes a damaged pool, unless the text of the damage names it.
fn by_force(pool: &str, damage: &ShmError) -> String {
    match damage {
        ShmError::SegmentLost { .. } | ShmError::JournalLost { .. } | ShmError::Unsaved { .. } => {
            String::new()
        }
        _ => format!("; to remove the pool nevertheless, use `farwood drop shm://{pool} --force`"),
    }
}

fn list(processes: &[u64]) -> String {
    let names: Vec<_> = processes.iter().map(|process| format!("process {process}")).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::error::Error as _;
    use std::path::PathBuf;

    fn of_index(operation: &'static str, url: &str, source: IndexError) -> Error {
        Error::Index { operation, url: url.to_owned(), source }
    }

    fn full() -> IndexError {
        IndexError::Fabric(FabricError::PoolFull { chunks: 2, chunk_bytes: 8 << 20 })
    }

    /// The text that a program prints which adds the text of each source.
    fn chain(error: &Error) -> String {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            text = format!("{text}: {cause}");
            source = cause.source();
        }
        text
    }

    #[test]
    fn a_chain_of_sources_contains_each_cause_once() {
        let system = || std::io::Error::other("the disk is on fire");
        let files = ShmError::Io { operation: "open", path: PathBuf::from("/f"), error: system() };
        for error in [
            Error::System { operation: "examine", path: PathBuf::from("/f"), source: system() },
            Error::Pool { operation: "open", source: files },
            of_index("put", "shm://p/i", full()),
        ] {
            let text = chain(&error);
            let cause = error.description();
            assert_eq!(text.matches(&cause).count(), 1, "{text}");
        }
    }

    #[test]
    fn debug_shows_the_structure() {
        let text = format!("{:?}", of_index("put", "shm://p/i", full()));
        assert!(text.starts_with("Index { operation: \"put\"") && text.contains("PoolFull {"), "{text}");
    }

    #[test]
    fn the_text_of_the_library_names_no_command() {
        let pool = "p".to_owned();
        for error in [
            of_index("open", "shm://p/i", IndexError::NoSuchIndex("i".to_owned())),
            of_index("put", "shm://p/i", full()),
            Error::Pool { operation: "open", source: ShmError::NotFound { pool, path: PathBuf::from("/f") } },
            Error::Attached { pool: "p".to_owned(), processes: vec![7] },
            Error::Served { operation: "create", pool: "tcp://x:1".to_owned() },
        ] {
            assert!(!error.to_string().contains("farwood "), "{error}");
            assert!(error.message_of_command().contains("`farwood "), "{}", error.message_of_command());
            assert!(error.message_of_command().starts_with(&error.to_string()), "{error}");
        }
    }

    #[test]
    fn a_full_pool_names_the_command_that_enlarges_it() {
        let text = |url: &str| of_index("put", url, full()).message_of_command();
        for url in ["shm://p/i", "tcp://a:1/i", "etcd://a:1/p/i"] {
            assert!(text(url).ends_with("(`farwood grow`)"), "{url}: {}", text(url));
        }
        assert!(text("rdma://a:1/i").contains("`farwood serve --memory`"));
    }

    #[test]
    fn an_error_names_one_operation() {
        let damaged = IndexError::Damaged { operation: "serve", at: "x".to_owned(), what: "torn".to_owned() };
        let held = IndexError::LockHeld { operation: "scan", holder: None, waited_ms: 7 };
        let exhausted = IndexError::Exhausted { operation: "split", tries: 9 };
        for (source, start) in [
            (damaged, "put shm://p/i: the node at x is damaged: torn"),
            (held, "put shm://p/i: waited 7 ms"),
            (exhausted, "put shm://p/i: gave up after 9 tries"),
        ] {
            let error = of_index("put", "shm://p/i", source);
            assert!(error.to_string().starts_with(start), "{error}");
            assert!(error.message_of_command().starts_with(start), "{error}");
        }
    }

    #[test]
    fn the_message_of_a_timeout_states_the_effect() {
        let text = |operation: &'static str| {
            let after = std::time::Duration::from_millis(1500);
            Error::TimedOut { operation, url: "shm://p/i".to_owned(), after }.message_of_command()
        };
        assert!(
            text("get").starts_with("get shm://p/i: the call did not end within 1.5s; nothing was changed")
        );
        assert!(text("put").contains("may have been made or not; read the key"), "{}", text("put"));
    }

    #[test]
    fn the_command_does_not_name_the_rest_of_a_batch() {
        let error = of_index("put the rest of", "shm://p/i", full());
        assert!(error.to_string().starts_with("put the rest of shm://p/i: the pool is full"), "{error}");
        assert!(error.message_of_command().starts_with("put shm://p/i: the pool is full"));
    }
}
