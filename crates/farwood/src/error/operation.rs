//! The names of the operations, and which of them change something.

use super::Error;

/// Whether an operation changes a pool or an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OperationClass {
    /// It reads.
    Read,
    /// It makes one change, wholly or not at all, unless an error of the fabric interrupts it.
    Change,
    /// It makes several changes, of which an error keeps the earlier ones.
    Steps,
}

/// The class of each operation.
const CLASSES: [(&str, OperationClass); 49] = [
    ("get", OperationClass::Read),
    ("get many", OperationClass::Read),
    ("scan", OperationClass::Read),
    ("snapshot", OperationClass::Read),
    ("count", OperationClass::Read),
    ("search", OperationClass::Read),
    ("nearest", OperationClass::Read),
    ("join", OperationClass::Read),
    ("scrub", OperationClass::Read),
    ("check", OperationClass::Read),
    ("parse", OperationClass::Read),
    ("dump", OperationClass::Read),
    ("save", OperationClass::Read),
    ("restore", OperationClass::Change),
    ("grow", OperationClass::Steps),
    ("open", OperationClass::Read),
    ("open an index of", OperationClass::Read),
    ("list the indexes of", OperationClass::Read),
    ("examine", OperationClass::Read),
    ("examine the server", OperationClass::Read),
    ("put", OperationClass::Change),
    ("insert", OperationClass::Change),
    ("update", OperationClass::Change),
    ("remove", OperationClass::Change),
    ("swap", OperationClass::Change),
    ("take", OperationClass::Change),
    ("compare exchange", OperationClass::Change),
    ("fetch update", OperationClass::Change),
    ("fetch add", OperationClass::Change),
    ("start async calls of", OperationClass::Read),
    ("delete", OperationClass::Change),
    ("move", OperationClass::Change),
    ("change", OperationClass::Change),
    ("bulk load", OperationClass::Change),
    ("create", OperationClass::Change),
    ("create an index in", OperationClass::Change),
    ("drop", OperationClass::Change),
    ("drop an index of", OperationClass::Change),
    // A suspended future, which may be one of a change.
    ("use a session", OperationClass::Change),
    ("run a memory node", OperationClass::Change),
    ("register a memory node", OperationClass::Change),
    ("put many", OperationClass::Steps),
    ("remove many", OperationClass::Steps),
    ("serve", OperationClass::Steps),
    ("sweep", OperationClass::Steps),
    (REST_OF[0].1, OperationClass::Steps),
    (REST_OF[1].1, OperationClass::Steps),
    (REST_OF[2].1, OperationClass::Steps),
    (REST_OF[3].1, OperationClass::Steps),
];

/// The operations of several batches, and their names after the first batch.
const REST_OF: [(&str, &str); 4] = [
    ("put", "put the rest of"),
    ("insert", "insert the rest of"),
    ("remove", "remove the rest of"),
    ("change", "change the rest of"),
];

/// The name of an operation of several batches, of which the first one is committed.
#[cfg(feature = "spatial")]
pub(crate) fn rest_of(operation: &'static str) -> &'static str {
    let rest = REST_OF.iter().find(|(whole, _)| *whole == operation);
    rest.map_or(operation, |(_, rest)| rest)
}

/// The name of the operation in the message of the command, which knows what is in the index, and which looks up a
/// single key as a batch, too.
pub(super) fn whole_of(operation: &'static str) -> &'static str {
    let whole = REST_OF.iter().find(|(_, rest)| *rest == operation);
    whole.map_or_else(|| operation.strip_suffix(" many").unwrap_or(operation), |(whole, _)| whole)
}

fn classified(operation: &str) -> Option<OperationClass> {
    CLASSES.iter().find(|(name, _)| *name == operation).map(|(_, class)| *class)
}

/// The class of an operation. A name of another crate may stand for any operation.
pub(super) fn class_of(operation: &str) -> OperationClass {
    classified(operation).unwrap_or(OperationClass::Steps)
}

impl Error {
    /// The name of the operation that failed, as in the message.
    pub fn operation(&self) -> &'static str {
        match self {
            Self::Url { .. } | Self::Feature { .. } => "parse",
            Self::Type { .. } => "open",
            #[cfg(feature = "rdma")]
            Self::NoReader { .. } => "open",
            Self::Options { .. } => "create",
            Self::OpenHere { .. } => "drop",
            Self::Attached { .. } | Self::Unusable { .. } => "remove",
            Self::Pool { operation, .. }
            | Self::Served { operation, .. }
            | Self::Fabric { operation, .. }
            | Self::Index { operation, .. }
            | Self::Unfit { operation, .. }
            | Self::Argument { operation, .. }
            | Self::TimedOut { operation, .. }
            | Self::Thread { operation, .. }
            | Self::System { operation, .. } => operation,
            #[cfg(feature = "tcp")]
            Self::Tcp { operation, .. } => operation,
            #[cfg(feature = "rdma")]
            Self::Rdma { operation, .. } => operation,
            #[cfg(feature = "etcd")]
            Self::Etcd { operation, .. } => operation,
            #[cfg(feature = "geometry")]
            Self::Geometry { operation, .. } => operation,
            #[cfg(feature = "backup")]
            Self::Backup { operation, .. } => operation,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::Path;

    /// The texts that precede the name of an operation in the sources of this crate.
    const PREFIXES: [&str; 25] = [
        "operation: \"",
        "OPERATION: &'static str = \"",
        "failed(\"",
        "client(\"",
        "server(\"",
        "permit(\"",
        "check_process(\"",
        "check_writer(\"",
        "check_bounds(\"",
        "check_records(\"",
        ".run(\"",
        "unfit(\"",
        "decode(\"",
        "prepared(\"",
        "change(\"",
        "change_one(\"",
        "change_many(\"",
        "key::<K, _>(\"",
        "value::<V, _>(\"",
        "Conditional::new(\"",
        "OPERATION: &str = \"",
        "operation = \"",
        "pool, \"",
        "ask(\"",
        "run_here(\"",
    ];

    fn add_names(folder: &Path, names: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                add_names(&path, names);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]\nmod tests").next().unwrap();
            for prefix in PREFIXES {
                names.extend(
                    code.split(prefix).skip(1).filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())),
                );
            }
        }
    }

    #[test]
    fn every_operation_of_the_crate_has_a_class() {
        let mut names = BTreeSet::new();
        add_names(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut names);
        assert!(names.len() > 25, "the sources name more operations than {names:?}");
        for name in &names {
            assert!(classified(name).is_some(), "give the operation \"{name}\" a class in CLASSES");
        }
        let derived = REST_OF.map(|(_, rest)| rest).into_iter().chain(["parse"]);
        names.extend(derived.map(str::to_owned));
        for (name, _) in CLASSES {
            assert!(names.contains(name), "no operation has the name \"{name}\"");
        }
    }

    #[test]
    fn an_operation_of_batches_has_another_name_after_the_first() {
        assert_eq!(rest_of("put"), "put the rest of");
        assert_eq!(whole_of(rest_of("put")), "put");
        assert_eq!(whole_of("get"), "get");
    }
}
