//! A memory node's host memory: zeroed pages that take no memory until they are written.
//!
//! The mapping requests huge pages, because verbs access it at random and almost every access would miss the TLB with
//! small pages.

use memmap2::MmapMut;
use std::ops::{Deref, DerefMut};

/// Bytes of a memory node.
#[derive(Debug)]
pub(crate) struct HostMemory(MmapMut);

impl HostMemory {
    /// Maps `bytes` zeroed bytes.
    ///
    /// # Panics
    /// If the machine has too little memory.
    pub(crate) fn new(bytes: usize) -> Self {
        let map = MmapMut::map_anon(bytes)
            .unwrap_or_else(|error| panic!("cannot map a memory node of {bytes} bytes: {error}"));
        // Without huge pages the simulator is slower, not wrong.
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
