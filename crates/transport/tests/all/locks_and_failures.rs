//! Device memory, which has locks, at `always`: a killed memory node keeps it, and one whose machine failed does not.

use crate::cuts::{Failure, copy_files};
use farwood_fabric::{FabricError, Memory, NodeId, Remote, Swapped, cas};
use farwood_testkit::harness::{read_word, write_word};
use farwood_transport::runtime::block_on;
use farwood_transport::tcp::{Credentials, Durability, MemoryNode, NodeFile, NodeSpec, PoolAddress, TcpPool};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

const HOST_BYTES: u64 = 32 << 20;

fn start(path: &Path, listen: SocketAddr) -> MemoryNode {
    let file = Some(NodeFile { durability: Durability::Always, ..NodeFile::new(path) });
    MemoryNode::start(&NodeSpec { file, ..NodeSpec::new(listen, HOST_BYTES) }).unwrap()
}

fn open(node: &MemoryNode) -> TcpPool {
    let address: PoolAddress = node.address().to_string().parse().unwrap();
    TcpPool::open(&address, Credentials::default()).unwrap()
}

fn word(memory: Memory, offset: u64) -> Remote<u64> {
    Remote::new(NodeId(0), memory, offset).unwrap()
}

fn lock() -> Remote<u64> {
    word(Memory::Device, 8 * 100)
}

/// A word of a chunk without tables.
fn data() -> Remote<u64> {
    word(Memory::Host, 20 << 20)
}

/// Takes the lock and writes a word, restarts the memory node on its files as the failure leaves them, and yields the
/// lock, the word, and the answer of a post of the client of before.
fn after(failure: Failure) -> (u64, u64, Result<u64, FabricError>) {
    let folder = tempfile::tempdir().unwrap();
    let (first, copy) = (folder.path().join("first/node"), folder.path().join("copy/node"));
    std::fs::create_dir(first.parent().unwrap()).unwrap();
    let node = start(&first, (Ipv4Addr::LOCALHOST, 0).into());
    let pool = open(&node);
    let client = pool.client();
    assert_eq!(block_on(client.post(cas(lock(), 0, 7))).unwrap(), Swapped::Won);
    block_on(write_word(&client, data(), 11)).unwrap();
    copy_files(&first, &copy, failure);
    let address = node.address();
    drop(node);
    let node = start(&copy, address);
    // The first post finds that the connection has ended.
    block_on(read_word(&client, data())).unwrap_err();
    let before = block_on(read_word(&client, data()));
    let again = open(&node);
    let found = |at| block_on(read_word(&again.client(), at)).unwrap();
    (found(lock()), found(data()), before)
}

#[test]
fn a_killed_memory_node_keeps_locks_and_clients() {
    let (lock, word, before) = after(Failure::OfProcess);
    assert_eq!((lock, word, before.unwrap()), (7, 11, 11));
}

#[test]
fn a_failed_machine_frees_locks_and_ends_clients() {
    let (lock, word, before) = after(Failure::OfMachine);
    assert_eq!((lock, word), (0, 11));
    before.unwrap_err();
}
