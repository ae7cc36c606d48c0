//! The server role: a memory node that runs code of its index. Spatial servers do, ordered indexes do not.
//!
//! The fabric provides memory and immediates; the index builds rings and messages on them. Server code is
//! asynchronous, generic over the fabric, and part of its index. The runtime provides threads and cores.

use crate::error::FabricError;
use std::future::Future;

/// Words of a cache line.
pub const LINE_WORDS: usize = 8;
/// Bytes of a cache line.
pub const LINE_BYTES: usize = 8 * LINE_WORDS;

/// The server's own registered memory, accessed without round trips. Accesses are whole words, because clients' verbs
/// access it concurrently.
pub trait ServerMemory {
    /// Loads the word at byte `offset` of host memory, with acquire ordering.
    fn load(&self, offset: u64) -> Result<u64, FabricError>;
    /// Stores the word at byte `offset`, with release ordering.
    fn store(&self, offset: u64, word: u64) -> Result<(), FabricError>;

    /// Loads the eight words from byte `offset` on, each as [`load`](Self::load), in no order.
    #[inline]
    fn load_line(&self, offset: u64) -> Result<[u64; LINE_WORDS], FabricError> {
        let mut line = [0; LINE_WORDS];
        for (at, word) in line.iter_mut().enumerate() {
            *word = self.load(offset + 8 * at as u64)?;
        }
        Ok(line)
    }

    /// Copies lines from byte `offset` on, as [`load_line`](Self::load_line) does, to their little-endian bytes.
    #[inline]
    fn load_lines(&self, offset: u64, lines: &mut [[u8; LINE_BYTES]]) -> Result<(), FabricError> {
        for (at, line) in lines.iter_mut().enumerate() {
            *line = line_bytes(self.load_line(offset + (LINE_BYTES * at) as u64)?);
        }
        Ok(())
    }

    /// Stores eight words from byte `offset` on, each as [`store`](Self::store), in ascending order.
    #[inline]
    fn store_line(&self, offset: u64, words: &[u64; LINE_WORDS]) -> Result<(), FabricError> {
        for (at, word) in words.iter().enumerate() {
            self.store(offset + 8 * at as u64, *word)?;
        }
        Ok(())
    }

    /// Executes `work` on this memory. A type for several kinds of memory passes the memory of its kind, so that the
    /// accesses of `work` need not distinguish the kinds.
    fn execute<W: MemoryWork>(&self, work: W) -> W::Done
    where
        Self: Sized,
    {
        work.run(self)
    }

    /// Prefetches `bytes` bytes from `offset` on.
    #[inline]
    fn fetch_ahead(&self, offset: u64, bytes: u64) {
        let _ = (offset, bytes);
    }
}

/// Work on the memory of a server.
pub trait MemoryWork {
    /// The result.
    type Done;

    /// Executes the work.
    fn run<M: ServerMemory>(self, memory: &M) -> Self::Done;
}

/// The little-endian bytes of a line.
#[inline]
#[must_use]
pub fn line_bytes(words: [u64; LINE_WORDS]) -> [u8; LINE_BYTES] {
    let mut bytes = [0; LINE_BYTES];
    bytes.copy_from_slice(words.map(u64::to_le_bytes).as_flattened());
    bytes
}

/// One memory node's server.
pub trait Server {
    /// The type that accesses the memory of the server's memory node.
    type Local: ServerMemory;

    /// Returns the memory of the server's memory node.
    fn local(&self) -> &Self::Local;

    /// Waits for the next immediate of a client's `write_imm`, in order of delivery.
    ///
    /// A full queue blocks the sender; no immediate is lost.
    fn receive(&self) -> impl Future<Output = Result<u32, FabricError>>;

    /// Waits until all changes of the memory so far are as durable as the memory node promises for an answer. The
    /// answer of a request that has made or seen changes leaves afterwards, unless it is written into the memory
    /// itself. Immediate without a log.
    fn settle(&self) -> impl Future<Output = Result<(), FabricError>> {
        std::future::ready(Ok(()))
    }

    /// Accounts for `nanoseconds` of CPU work: virtual time in the simulator, no effect elsewhere.
    fn compute(&self, nanoseconds: u64) -> impl Future<Output = ()>;

    /// Waits `nanoseconds` as a polling thread does: in the simulator the wait occupies a core; elsewhere it is
    /// [`Fabric::sleep`](crate::Fabric::sleep).
    fn busy_wait(&self, nanoseconds: u64) -> impl Future<Output = ()>;
}
