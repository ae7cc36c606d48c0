//! The pools that the library offers to tests of other programs.

use crate::alone::is_alone;
use farwood::error::ErrorKind;
use farwood::node::{MemoryNode, NodeSpec};
use farwood::testing::ScratchPool;
use farwood::{BTree, Pool};

const MEMORY_BYTES: u64 = 64 << 20;

#[test]
fn a_scratch_pool_is_removed_by_a_panic() {
    let (send, receive) = std::sync::mpsc::channel();
    let test = move || {
        let scratch = ScratchPool::new(MEMORY_BYTES).unwrap();
        let pool = scratch.open().unwrap();
        pool.create_index::<u64, u64>("numbers", &BTree::new()).unwrap().put(1, 2).unwrap();
        send.send(scratch.url().to_owned()).unwrap();
        panic!("the test fails");
    };
    std::thread::spawn(test).join().unwrap_err();
    let url = receive.recv().unwrap();
    assert_eq!(Pool::open(&url).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn scratch_pools_have_different_names() {
    let [a, b] = [(); 2].map(|()| ScratchPool::new(16 << 20).unwrap());
    assert_ne!(a.url(), b.url());
    a.open().unwrap().create_index::<u64, u64>("numbers", &BTree::new()).unwrap();
    assert!(b.open().unwrap().indexes().unwrap().is_empty());
}

/// The attachment has the files open, and does not search for them again.
#[test]
fn statistics_do_not_depend_on_the_names_of_files() {
    if !is_alone("testing::statistics_do_not_depend_on_the_names_of_files") {
        return;
    }
    let scratch = ScratchPool::new(16 << 20).unwrap();
    let pool = scratch.open().unwrap();
    let directory = std::env::var_os("FARWOOD_SHM_DIR").unwrap();
    for entry in std::fs::read_dir(directory).unwrap().map(Result::unwrap) {
        std::fs::rename(entry.path(), entry.path().with_extension("moved")).unwrap();
    }
    assert_eq!(scratch.open().unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(pool.stats().unwrap().clients.len(), 1);
}

#[test]
fn a_memory_node_in_this_process_reports_its_statistics() {
    let node = MemoryNode::start(&NodeSpec::new("127.0.0.1:0".parse().unwrap(), MEMORY_BYTES)).unwrap();
    let pool = Pool::open(format!("tcp://{}", node.address()).as_str()).unwrap();
    let index = pool.create_index::<u64, u64>("numbers", &BTree::new()).unwrap();
    index.put(1, 2).unwrap();
    let stats = pool.stats().unwrap();
    assert_eq!((stats.nodes.len(), stats.indexes.len(), stats.clients.len()), (1, 1, 1));
    assert!(stats.nodes[0].report.is_some());
    let index_use = pool.index_use("numbers").unwrap();
    assert_eq!(index_use.chunks, stats.indexes[0].chunks);
    let url = pool.url();
    drop((index, pool, node));
    assert_eq!(Pool::find(&url).unwrap_err().kind(), ErrorKind::Unreachable);
}
