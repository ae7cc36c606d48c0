//! A memory node's host memory: zeroed bytes that cost nothing until they are written.
//!
//! It asks for huge pages: verbs touch its bytes at random, and with small pages the processor looks a page up for
//! almost each of them.

use memmap2::MmapMut;
use std::ops::{Deref, DerefMut};

/// Bytes of a memory node.
#[derive(Debug)]
pub(crate) struct HostMemory(MmapMut);

impl HostMemory {
    /// So many zeros.
    ///
    /// # Panics
    /// Where the machine has no room for them.
    pub(crate) fn new(bytes: usize) -> Self {
        let map = MmapMut::map_anon(bytes)
            .unwrap_or_else(|error| panic!("no room for a memory node of {bytes} bytes: {error}"));
        // Where there are none it is slower, and that is all.
        #[cfg(target_os = "linux")]
        let _ = map.advise(memmap2::Advice::HugePage);
        Self(map)
    }
}

impl Deref for HostMemory {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for HostMemory {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}
