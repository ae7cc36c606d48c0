//! The remedies of errors in terms of the library.

use super::Error;
use farwood_fabric::FabricError;
use farwood_index::IndexError;
#[cfg(feature = "etcd")]
use farwood_transport::etcd::EtcdError;
#[cfg(feature = "rdma")]
use farwood_transport::rdma::RdmaError;
use farwood_transport::shm::ShmError;
#[cfg(feature = "tcp")]
use farwood_transport::tcp::TcpError;

impl Error {
    /// The remedy, with the functions of this library. `None`: the text of the error contains the remedy, or none is
    /// known.
    pub fn help(&self) -> Option<&'static str> {
        match self {
            Self::Feature { .. } => Some("build the program with that feature, or use another kind of pool"),
            Self::Pool { source, .. } => of_shm(source),
            Self::Unusable { source, .. } => {
                of_shm(source).or(Some("`Pool::remove_by_force` removes a pool in any state"))
            }
            #[cfg(feature = "tcp")]
            Self::Tcp { source, .. } => of_tcp(source),
            #[cfg(feature = "rdma")]
            Self::Rdma { source, .. } => of_rdma(source),
            #[cfg(feature = "etcd")]
            Self::Etcd { source, .. } => of_etcd(source),
            Self::Served { operation, .. } => Some(of_served(operation)),
            #[cfg(feature = "rdma")]
            Self::NoReader { .. } => Some("open the pool with `Pool::open`, or serve it over TCP"),
            Self::Fabric { source, .. } => of_fabric(source),
            Self::Index { source, .. } => of_index(source),
            Self::Type { .. } => {
                Some("open the index with the types with which it was created; `Pool::indexes` lists them")
            }
            Self::OpenHere { .. } => Some("drop all handles of the index in this process first"),
            Self::Attached { .. } => Some("end these processes, or call `Pool::remove_by_force`"),
            Self::TimedOut { .. } => Some(
                "give the call more time (`Index::with_timeout`), or repeat it; read the key before you repeat a \
                 change that is not idempotent",
            ),
            Self::Thread { .. } => Some("end other threads, or raise the limit of threads of the user"),
            // The reasons contain the remedies.
            Self::Url { .. }
            | Self::Unfit { .. }
            | Self::Argument { .. }
            | Self::Options { .. }
            | Self::System { .. } => None,
            #[cfg(feature = "geometry")]
            Self::Geometry { .. } => None,
            #[cfg(feature = "backup")]
            Self::Backup { source, .. } => source.help(),
        }
    }
}

fn of_served(operation: &str) -> &'static str {
    match operation {
        "create" => {
            "start each memory node (`MemoryNode::start`); `Pool::open` makes new memory nodes a pool"
        }
        "save" => "memory nodes keep their memory in files (`NodeFile`); `backup::Dump` copies the indexes",
        "restore" => {
            "an image becomes a pool in shared memory; `backup::Dump` and `Restore` move its indexes to memory nodes"
        }
        _ => "stop each memory node (`MemoryNode::stop`); `Pool::drop_index` removes an index",
    }
}

fn of_shm(error: &ShmError) -> Option<&'static str> {
    Some(match error {
        ShmError::NotFound { .. } => "create the pool with `Pool::create`",
        ShmError::SegmentLost { .. } => {
            "put the file back, or call `Pool::remove_by_force` and create the pool again"
        }
        ShmError::Unsaved { .. } => {
            "call `Pool::remove_by_force` and restore a backup; or, if its processes had ended before an orderly \
             shutdown, call `SavedPool::accept_unclean` and check each index (`farwood check`)"
        }
        ShmError::JournalLost { .. } => "call `Pool::remove_by_force`, and create the pool again",
        ShmError::NotAFile { .. } => "remove the object at that path",
        ShmError::Exists { .. } => {
            "choose another name, open the pool with `Pool::open`, or remove it with `Pool::remove`"
        }
        ShmError::BeingCreated { .. } => "try again",
        ShmError::Permission { .. } => {
            "ask the owner for access (`PoolOptions::group` and `PoolOptions::mode` share a pool), open a pool that \
             you may only read with `Pool::open_read_only`, or choose another name or directory \
             (FARWOOD_SHM_DIR)"
        }
        ShmError::ReadOnly { .. } => {
            "mount the file system read-write, or name a directory on another one (FARWOOD_SHM_DIR)"
        }
        ShmError::ForeignOwner { .. } => {
            "run as the owner, share the pool with a group (`PoolOptions::group`, FARWOOD_SHM_GROUP), or trust the \
             owner (FARWOOD_SHM_OWNER)"
        }
        ShmError::UntrustedGroup { .. } => {
            "if you trust the members of the group, name it in FARWOOD_SHM_GROUP"
        }
        ShmError::UnknownUser { .. } => "give the name or the number of a user of this machine",
        ShmError::UnknownGroup { .. } => "give the name or the number of a group of this machine",
        ShmError::WideMode { .. } => "if you trust the content of the file, change its mode to 0600",
        ShmError::TooSmall { .. } => "call `doctor::examine`, which reports damaged pools",
        ShmError::NoSpace { .. } => {
            "make the pool smaller (`PoolOptions::memory_bytes`), free memory, or enlarge the file system"
        }
        ShmError::BadName { .. } => "use 1 to 64 of A-Z a-z 0-9 . _ - and no dot at the start",
        ShmError::Io { .. } => {
            "check the directory of segments (FARWOOD_SHM_DIR) and the limits of this process"
        }
        ShmError::Pool { error, .. } => return of_fabric(error),
        // The reason contains the remedy, or the variant is newer than this function.
        _ => return None,
    })
}

#[cfg(feature = "tcp")]
fn of_tcp(error: &TcpError) -> Option<&'static str> {
    Some(match error {
        TcpError::Listen { .. } => "listen on another address, or end the process that listens there",
        TcpError::Memory { .. } => {
            "give the memory node less memory (`NodeSpec::host_bytes`), or raise the limit"
        }
        TcpError::Token { .. } => {
            "write a line of 16 to 1024 characters to the file, or two of them during a rotation"
        }
        TcpError::File { fault, .. } => return fault.remedy(),
        TcpError::Unclean { .. } => {
            "accept the file with `NodeFile`, and call `Index::check` or `Spatial::check` for each index, or remove it"
        }
        TcpError::NotThere { .. } => "check the address, and start the memory node there",
        TcpError::ReadOnlyToken { .. } => {
            "open the pool with `Pool::open_read_only`, or name the file of the token for reading and writing in the \
             URL (`?token-file=FILE`)"
        }
        TcpError::SnapshotDenied { .. } => {
            "name the file of the token for reading and writing in the URL (`?token-file=FILE`), or dump each index by \
             itself (without `Dump::consistent`)"
        }
        TcpError::BadToken { .. } | TcpError::Unproven { .. } => {
            "name the file of the token that the memory node requires in the URL (`?token-file=FILE`)"
        }
        TcpError::Untrusted { .. } => {
            "name the authority of the memory node in the URL (`?tls-ca=FILE`), and a certificate if it requires one; \
             omit both if it does not use TLS"
        }
        TcpError::NoPool { .. } => "name all memory nodes, and call `Pool::open`, which makes them a pool",
        TcpError::Pool { error, .. } => return of_fabric(error),
        // The reason contains the remedy, or the variant is newer than this function.
        _ => return None,
    })
}

#[cfg(feature = "rdma")]
fn of_rdma(error: &RdmaError) -> Option<&'static str> {
    Some(match error {
        RdmaError::NoLibrary(_) => "install rdma-core, and load the kernel module ib_uverbs",
        RdmaError::NoDevices => "install an RDMA device, or create one by software (Soft-RoCE)",
        RdmaError::NoDevice { .. } => "name one of the devices of this machine",
        RdmaError::BadDevice { .. } => {
            "write DEVICE, DEVICE,PORT or DEVICE,PORT,GID, optionally with ,mtu=BYTES or ,masked-cas"
        }
        RdmaError::Pool(error) => return of_tcp(error),
        // The reason contains the remedy, or the variant is newer than this function.
        _ => return None,
    })
}

#[cfg(feature = "etcd")]
fn of_etcd(error: &EtcdError) -> Option<&'static str> {
    Some(match error {
        EtcdError::BadAddress { .. } => "write HOST:PORT/POOL",
        EtcdError::NoAnswer { .. } => {
            "check that the address is the client port of etcd; if it speaks https, name its authority in etcd-ca"
        }
        EtcdError::Refused { .. } => "name a file with USER:PASSWORD in etcd-user-file",
        EtcdError::Incomplete { .. } => "start the missing memory nodes, and register them with `Registrant`",
        EtcdError::Taken { .. } => "register the memory node with another number, or stop the other one",
        // The reason contains the remedy, or the variant is newer than this function.
        _ => return None,
    })
}

fn of_fabric(error: &FabricError) -> Option<&'static str> {
    Some(match error {
        FabricError::OutOfRange { .. } | FabricError::Misaligned { .. } => {
            "call `Index::check` or `Spatial::check`, which lists the damage"
        }
        FabricError::NodeLost { .. } => "try again when the memory node answers",
        FabricError::CannotPost { .. } => "raise the limit, or free the resource",
        FabricError::Revoked(_) => "open the pool again with `Pool::open`, and the index from that pool",
        FabricError::ReadOnly => {
            "open the pool with `Pool::open`, with the token for reading and writing if its memory nodes require one"
        }
        FabricError::Forked => "open the pool in this process with `Pool::open`",
        FabricError::MemoryLost { .. } => {
            "open the pool again with `Pool::open`, after `Pool::create` if its files were removed"
        }
        FabricError::Missing(_) => "use a pool whose fabric has the capability",
        FabricError::PoolFull { .. } => {
            "drop an index with `Pool::drop_index`, or give the pool more memory with `Pool::grow_memory`"
        }
        FabricError::NoMemory { .. } => "free memory on the machine of the memory node",
        FabricError::NoClientSlot { .. } => {
            "drop handles of the pool in other processes; `Pool::sweep_clients` frees the slots of crashed ones"
        }
        FabricError::NoDirectoryEntry { .. } => "drop an index with `Pool::drop_index`",
        FabricError::NotAPool { .. } => "open a pool of this version of Farwood, or create one",
        FabricError::Damaged { .. } | FabricError::DirectoryBusy(None) => {
            "save what can still be read, and create the pool again"
        }
        FabricError::DirectoryBusy(Some(_)) => "try again, or end that client",
        // The type is non-exhaustive.
        _ => return None,
    })
}

fn of_index(error: &IndexError) -> Option<&'static str> {
    Some(match error {
        IndexError::Fabric(error) => return of_fabric(error),
        IndexError::Unsafe { remedy, .. } => remedy,
        IndexError::SameHash => "change one of the ids",
        IndexError::Damaged { .. } => {
            "call `Index::check` or `Spatial::check`, which lists all damage, and load the index again"
        }
        IndexError::LockHeld { .. } => {
            "resume or end the process of the client; `Pool::stats` names the processes of all clients"
        }
        IndexError::Exhausted { .. } => "try again",
        IndexError::Unfinished { .. } => {
            "try again after a process that may write (`Pool::open`) has read the same entries"
        }
        IndexError::NoSuchIndex(_) => {
            "`Pool::indexes` lists the indexes; `Pool::create_index` and `Pool::create_spatial` create one"
        }
        IndexError::IndexExists(_) => "open it, choose another name, or drop it with `Pool::drop_index`",
        IndexError::InUse { .. } => "drop the handles of the index in that client, or end it",
        IndexError::NotEmpty => {
            "put the entries one by one, or drop the index with `Pool::drop_index` and create it again"
        }
        IndexError::NotServed { .. } => {
            "serve the index with `Spatial::serve`, or search it with `SearchMode::Reads`"
        }
        IndexError::NoConnection { .. } => "resume the process of the server if it is stopped, or end it",
        IndexError::NoAnswer { .. } => {
            "resume the process of the server if it is stopped, or end it; then search the index to see whether the \
             request was executed"
        }
        IndexError::ServerLost { .. } => "search the index to see whether the request was executed",
        IndexError::BeingChanged { .. } => "try again, or end that client",
        IndexError::NoAccess { .. } => "name the file of the server's token in the URL (`?token-file=FILE`)",
        IndexError::Crowded { .. } => "end a client, or serve with more `ServeOptions::connections`",
        IndexError::Elsewhere { .. } => "call `Spatial::serve` on that memory node",
        IndexError::Served { .. } => "send the changes to the server, or end it first",
        // The reason contains the remedy, or the variant is newer than this function.
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    #[test]
    fn the_remedy_names_functions_of_the_library() {
        let path = PathBuf::from("/f");
        for (error, function) in [
            (
                Error::Index {
                    operation: "open",
                    url: "shm://demo/words".to_owned(),
                    source: IndexError::NoSuchIndex("words".to_owned()),
                },
                "Pool::create_index",
            ),
            (
                Error::Pool { operation: "open", source: ShmError::NotFound { pool: "p".to_owned(), path } },
                "Pool::create",
            ),
            (Error::Attached { pool: "p".to_owned(), processes: vec![7] }, "Pool::remove_by_force"),
        ] {
            let remedy = error.help().unwrap();
            assert!(remedy.contains(function) && !remedy.contains("`farwood "), "{remedy}");
        }
    }

    #[test]
    fn the_text_of_an_invalid_argument_contains_the_permitted_range() {
        let error = Error::Argument {
            operation: "bulk load",
            url: "shm://p/i".to_owned(),
            what: "fill factor",
            value: "7".to_owned(),
            remedy: "give 0.5 to 1".to_owned(),
        };
        assert_eq!(error.to_string(), "bulk load shm://p/i: the fill factor is 7; give 0.5 to 1");
        assert_eq!(error.help(), None);
    }
}
