//! Registered memory of a compute node's thread: the device writes answers into it and reads the bytes of WRITEs from
//! it.
//!
//! A device writes into it at any time, so no reference into it exists: bytes are copied in before a request is posted,
//! and out after its completion. A copy of 1 KiB takes about 30 ns of the microseconds of a round trip
//! (`docs/decisions/0035-verbs.md` gives the reason for the copies).

use super::abi::sys::numbers::LOCAL_WRITE;
use super::sys::{Domain, Region, Span};
use crate::shm::Mapping;
use std::fs::File;
use std::io;
use std::sync::Arc;

/// Size classes: powers of two, from [`BUFFER_BYTES_MIN`].
const CLASSES: usize = 32;
/// A cache line, so that no two buffers share one.
const BUFFER_BYTES_MIN: u64 = 64;
/// Memory registered at once, unless a buffer is larger: small enough for a limit on locked memory of 8 MiB.
const SLAB_BYTES: u64 = 256 << 10;

/// An allocated buffer of the arena.
#[derive(Clone, Copy, Debug)]
pub(super) struct Buffer {
    slab: u32,
    class: u8,
    offset: u64,
}

#[derive(Debug)]
struct Slab {
    // Declared before its memory, so that the registration ends first.
    region: Region,
    mapping: Arc<Mapping>,
}

/// Registered memory in buffers.
#[derive(Debug)]
pub(super) struct Arena {
    domain: Arc<Domain>,
    slabs: Vec<Slab>,
    free: [Vec<Buffer>; CLASSES],
    /// The unused rest of the last slab of the usual size.
    next: Option<(u32, u64)>,
}

impl Arena {
    /// An arena without memory yet.
    pub(super) fn new(domain: Arc<Domain>) -> Self {
        Self { domain, slabs: Vec::new(), free: [const { Vec::new() }; CLASSES], next: None }
    }

    /// Allocates a buffer of at least `bytes` bytes.
    pub(super) fn take(&mut self, bytes: usize) -> io::Result<Buffer> {
        let size = (bytes as u64).max(BUFFER_BYTES_MIN).next_power_of_two();
        let class = (size / BUFFER_BYTES_MIN).trailing_zeros() as u8;
        match self.free[usize::from(class)].pop() {
            Some(buffer) => Ok(buffer),
            None => self.carve(class, size),
        }
    }

    #[cold]
    fn carve(&mut self, class: u8, size: u64) -> io::Result<Buffer> {
        if size > SLAB_BYTES {
            let slab = self.register(size)?;
            return Ok(Buffer { slab, class, offset: 0 });
        }
        let (slab, offset) = match self.next {
            Some((slab, offset)) if offset + size <= SLAB_BYTES => (slab, offset),
            _ => (self.register(SLAB_BYTES)?, 0),
        };
        self.next = Some((slab, offset + size));
        Ok(Buffer { slab, class, offset })
    }

    fn register(&mut self, bytes: u64) -> io::Result<u32> {
        let file: File = rustix::fs::memfd_create("farwood-rdma", rustix::fs::MemfdFlags::CLOEXEC)?.into();
        file.set_len(bytes)?;
        let mapping = Arc::new(Mapping::new(&file, bytes)?);
        let region = Region::of_host(&self.domain, &mapping, 0, bytes, LOCAL_WRITE)?;
        self.slabs.push(Slab { region, mapping });
        Ok(self.slabs.len() as u32 - 1)
    }

    /// Frees a buffer that no request refers to.
    pub(super) fn release(&mut self, buffer: Buffer) {
        self.free[usize::from(buffer.class)].push(buffer);
    }

    /// Returns the first bytes of a buffer, for a request.
    #[inline]
    pub(super) fn span(&self, buffer: Buffer, bytes: usize) -> Span {
        self.slabs[buffer.slab as usize].region.span(buffer.offset, bytes)
    }

    /// Copies bytes into a buffer, which is large enough.
    #[inline]
    pub(super) fn fill(&self, buffer: Buffer, bytes: &[u8]) {
        let mapping = &self.slabs[buffer.slab as usize].mapping;
        mapping.write_up(buffer.offset, bytes).expect("a buffer has at least the size of its contents");
    }

    /// Copies whole words out of a buffer.
    #[inline]
    pub(super) fn copy_out(&self, buffer: Buffer, words: &mut [u64]) {
        let mapping = &self.slabs[buffer.slab as usize].mapping;
        mapping.read_down(buffer.offset, words).expect("a buffer has at least the size of its answer");
    }
}
