//! The server role: a memory node that runs logic of its own (spatial servers do; trees do not).
//!
//! The fabric knows only memory and immediates; rings and messages are built on them. Server logic is async and
//! generic, and lives with its index; threads and cores come from whoever runs it.

use crate::error::FabricError;
use std::future::Future;

/// Words of a line: what a processor fetches at once.
pub const LINE_WORDS: usize = 8;

/// The server's own registered memory: reached without a round trip, in words, because clients' verbs reach it
/// at the same time.
pub trait LocalMemory {
    /// The word at byte `offset` of host memory. Ordered as an acquire load.
    fn load(&self, offset: u64) -> Result<u64, FabricError>;
    /// Replaces the word at byte `offset`. Ordered as a release store.
    fn store(&self, offset: u64, word: u64) -> Result<(), FabricError>;

    /// The eight words from byte `offset` on, each as [`load`](Self::load) has it; in no order.
    #[inline]
    fn load_line(&self, offset: u64) -> Result<[u64; LINE_WORDS], FabricError> {
        let mut line = [0; LINE_WORDS];
        for (at, word) in line.iter_mut().enumerate() {
            *word = self.load(offset + 8 * at as u64)?;
        }
        Ok(line)
    }

    /// Hints that `bytes` from `offset` on will be loaded soon.
    #[inline]
    fn fetch_ahead(&self, offset: u64, bytes: u64) {
        let _ = (offset, bytes);
    }
}

/// One memory node's server.
pub trait Server {
    /// Its memory.
    type Local: LocalMemory;

    /// Its memory.
    fn local(&self) -> &Self::Local;

    /// The next immediate that a client's `write_imm` delivered, in order of delivery; waits for one.
    ///
    /// Immediates whose queue is full make their sender wait, they are never lost.
    fn receive(&self) -> impl Future<Output = Result<u32, FabricError>>;

    /// Accounts for `nanoseconds` of CPU work: virtual time in the laboratory, nothing elsewhere.
    fn compute(&self, nanoseconds: u64) -> impl Future<Output = ()>;

    /// Lets `nanoseconds` pass as a thread does that looks for something again and again: in the laboratory it keeps
    /// a core busy meanwhile; elsewhere as [`Fabric::sleep`](crate::Fabric::sleep).
    fn look_on(&self, nanoseconds: u64) -> impl Future<Output = ()>;
}
