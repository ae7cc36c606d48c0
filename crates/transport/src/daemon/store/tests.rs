//! The state of the log for which answers wait at `always`.

use super::{FrameRecord, MemorySizes, NodeFile, Store, WriteFence};
use crate::daemon::log::{Durability, LogWaits, Origin};
use crate::wire::{WireOp, WireVerb};
use farwood_fabric::chunks::CHUNK_BYTES;
use farwood_fabric::{Memory, NodeId, Remote};

const SIZES: MemorySizes = MemorySizes { memory: 2 * CHUNK_BYTES, memory_max: 2 * CHUNK_BYTES, device: 4096 };

/// A word that no table has.
fn at(memory: Memory) -> u64 {
    let offset = if memory == Memory::Host { CHUNK_BYTES } else { 0 };
    Remote::<u64>::new(NodeId(0), memory, offset).unwrap().word()
}

/// The only memory node of a pool, in a folder that is removed at the end.
fn store() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let file = NodeFile { durability: Durability::Always, ..NodeFile::new(folder.path().join("node")) };
    let store = Store::in_file(&file, SIZES).unwrap();
    store.form(1, 0, 1).unwrap();
    (folder, store)
}

/// Executes the verbs of one frame.
fn execute(store: &Store, verbs: &[(Memory, WireOp<'_>)]) -> LogWaits {
    let (mut record, mut fence, mut out) = (FrameRecord::default(), WriteFence::default(), Vec::new());
    for (memory, op) in verbs {
        let verb = WireVerb { at: at(*memory), op: *op };
        store.execute(&verb, &mut fence, &mut record, &mut out).unwrap();
    }
    record.end(Origin { client: None, connection: 0, tag: 0 })
}

#[test]
fn changes_of_device_memory_alone_do_not_wait_for_the_disk() {
    let (_folder, store) = store();
    let (lock, read) = (WireOp::Cas { compare: 0, swap: 7 }, WireOp::Read(8));
    let write = WireOp::Write(&[1; 8], None);
    let first = execute(&store, &[(Memory::Device, lock), (Memory::Host, read)]);
    assert!(first.durable == 0 && first.written > 0, "{first:?}");
    let seen = execute(&store, &[(Memory::Device, read)]);
    assert_eq!(seen, first, "the kernel has what a READ has seen");
    let unlock = WireOp::Write(&[0; 8], None);
    let back = execute(&store, &[(Memory::Host, write), (Memory::Device, unlock)]);
    assert!(back.durable > first.written && back.written == 0, "{back:?}");
    let lock = WireOp::Cas { compare: 0, swap: 7 };
    let next = execute(&store, &[(Memory::Device, lock), (Memory::Host, read)]);
    assert_eq!(next.durable, back.durable, "the READ waits for the bytes that it has");
    assert!(next.written > back.durable, "{next:?}");
}

/// In a pool of several memory nodes, a lock of one also guards changes of others.
#[test]
fn locks_wait_for_the_disk_in_a_pool_of_several_memory_nodes() {
    let (_folder, store) = store();
    store.finish_forming().unwrap();
    let lock = |compare| WireOp::Cas { compare, swap: compare + 1 };
    assert_eq!(execute(&store, &[(Memory::Device, lock(0))]).durable, 0);
    store.extend(2).unwrap();
    let waits = execute(&store, &[(Memory::Device, lock(1))]);
    assert!(waits.durable > 0 && waits.written == 0, "{waits:?}");
    assert_eq!(execute(&store, &[(Memory::Device, WireOp::Read(8))]), waits);
}
