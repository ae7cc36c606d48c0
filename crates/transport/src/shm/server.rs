//! The server role of a shared-memory node, and its own view of its memory.

use super::immediates::ImmediateRing;
use super::segment::Segment;
use crate::fork::ForkCount;
use crate::runtime::{poll_until, sleep};
use farwood_fabric::{Address, FabricError, LINE_BYTES, LINE_WORDS, Memory, NodeId, Server, ServerMemory};
use std::future::Future;
use std::sync::Arc;

/// A memory node's own view of its memory.
#[derive(Clone)]
pub struct ShmMemory {
    pub(super) segment: Arc<Segment>,
    pub(super) node: NodeId,
    pub(super) host_bytes: u64,
    /// The process that opened the pool.
    pub(super) forks: ForkCount,
}

impl ShmMemory {
    #[inline]
    fn checked(&self, offset: u64, bytes: u64) -> Result<(), FabricError> {
        self.forks.check()?;
        if offset.is_multiple_of(8) && offset.saturating_add(bytes) <= self.host_bytes {
            return Ok(());
        }
        Err(self.refused(offset, bytes))
    }

    #[cold]
    fn refused(&self, offset: u64, bytes: u64) -> FabricError {
        let somewhere = || Address::new(self.node, Memory::Host, 8).expect("offset 8 is an address");
        let at = Address::new(self.node, Memory::Host, offset).unwrap_or_else(somewhere);
        if offset.is_multiple_of(8) {
            FabricError::OutOfRange { at, bytes: bytes as usize }
        } else {
            FabricError::Misaligned { at }
        }
    }
}

impl ServerMemory for ShmMemory {
    #[expect(clippy::inline_always, reason = "servers load words in the inner loops of searches")]
    #[inline(always)]
    fn load(&self, offset: u64) -> Result<u64, FabricError> {
        self.checked(offset, 8)?;
        Ok(self.segment.mapping().load(offset).expect("the offset was checked"))
    }

    fn store(&self, offset: u64, word: u64) -> Result<(), FabricError> {
        self.checked(offset, 8)?;
        self.segment.mapping().write_up(offset, &word.to_ne_bytes()).expect("the offset was checked");
        Ok(())
    }

    fn store_line(&self, offset: u64, words: &[u64; LINE_WORDS]) -> Result<(), FabricError> {
        self.checked(offset, LINE_BYTES as u64)?;
        let bytes = words.map(u64::to_ne_bytes);
        self.segment.mapping().write_up(offset, bytes.as_flattened()).expect("the offset was checked");
        Ok(())
    }

    #[expect(clippy::inline_always, reason = "servers load words in the inner loops of searches")]
    #[inline(always)]
    fn load_line(&self, offset: u64) -> Result<[u64; LINE_WORDS], FabricError> {
        self.checked(offset, LINE_BYTES as u64)?;
        Ok(self.segment.mapping().load_line(offset).expect("the offset was checked"))
    }

    #[inline]
    fn load_lines(&self, offset: u64, lines: &mut [[u8; LINE_BYTES]]) -> Result<(), FabricError> {
        self.checked(offset, size_of_val(lines) as u64)?;
        self.segment.mapping().load_lines(offset, lines).expect("the offset was checked");
        Ok(())
    }

    #[inline]
    fn fetch_ahead(&self, offset: u64, bytes: u64) {
        self.segment.mapping().prefetch(offset, bytes);
    }
}

/// The server role of one memory node.
pub struct ShmServer {
    pub(super) memory: ShmMemory,
}

impl Server for ShmServer {
    type Local = ShmMemory;

    fn local(&self) -> &ShmMemory {
        &self.memory
    }

    async fn receive(&self) -> Result<u32, FabricError> {
        let receive = || match self.memory.forks.check() {
            Ok(()) => ImmediateRing::of(self.memory.segment.mapping()).receive().map(Ok),
            Err(error) => Some(Err(error)),
        };
        poll_until(receive).await
    }

    async fn compute(&self, _: u64) {}

    fn busy_wait(&self, nanoseconds: u64) -> impl Future<Output = ()> {
        sleep(nanoseconds)
    }
}

impl std::fmt::Debug for ShmMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ShmMemory").field("node", &self.node).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for ShmServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ShmServer").field("node", &self.memory.node).finish_non_exhaustive()
    }
}
