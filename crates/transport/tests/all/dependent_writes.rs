//! Chains of dependent writes over the memory nodes of a pool, for tests of cuts: each write is posted after the answer
//! of the one before.

use farwood_fabric::{Memory, NodeId, Remote};
use farwood_testkit::harness::{raw_address, read_word, write_word};
use farwood_transport::runtime::block_on;
use farwood_transport::tcp::TcpPool;
use std::sync::atomic::{AtomicBool, Ordering};

/// Memory nodes of the pools.
pub(crate) const NODES: u16 = 3;
/// An offset beyond all tables.
const DATA_OFFSET: u64 = 9 << 20;

/// A word of a memory node.
pub(crate) fn word(node: u16, number: u16) -> Remote<u64> {
    raw_address(NodeId(node), Memory::Host, DATA_OFFSET + 64 * u64::from(number)).part(0)
}

/// Writes increasing numbers to word `number` of each memory node, from memory node `number` on: each after the answer
/// of the one before.
pub(crate) fn write_in_turn(pool: &TcpPool, number: u16, stopping: &Stopping) {
    let client = pool.client();
    for value in 1.. {
        if stopping.is_set() {
            return;
        }
        for turn in 0..NODES {
            block_on(write_word(&client, word((number + turn) % NODES, number), value)).unwrap();
        }
    }
}

/// Copies the last word of writer 0 to another memory node, as it reads it there.
pub(crate) fn follow(pool: &TcpPool, stopping: &Stopping) {
    let client = pool.client();
    while !stopping.is_set() {
        let value = block_on(read_word(&client, word(NODES - 1, 0))).unwrap();
        block_on(write_word(&client, word(0, 9), value)).unwrap();
    }
}

/// Ends the writers, also after a failed assertion.
#[derive(Default)]
pub(crate) struct Stopping(AtomicBool);

impl Stopping {
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Sets the flag when the result is dropped.
    pub(crate) fn at_end(&self) -> StopAtEnd<'_> {
        StopAtEnd(self)
    }
}

/// Sets the flag at the end of a test.
pub(crate) struct StopAtEnd<'s>(&'s Stopping);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}
