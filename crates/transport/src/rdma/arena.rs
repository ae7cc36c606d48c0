//! Registered memory of a compute node's thread: where answers land, and what WRITEs are sent from.
//!
//! A card writes into it whenever an answer comes, so nobody has a reference into it: bytes are copied in before a
//! request leaves and out when its completion is there. A copy of 1 KiB is some 30 ns, of the microseconds of a round
//! trip (`docs/decisions/0035-verbs.md` says why not in place).

use super::abi::sys::numbers::LOCAL_WRITE;
use super::sys::{Domain, Region, Span};
use crate::shm::Mapping;
use std::fs::File;
use std::io;
use std::sync::Arc;

/// Size classes: powers of two, from [`PIECE_BYTES_MIN`] on.
const CLASSES: usize = 32;
/// A line, so that no two pieces share one.
const PIECE_BYTES_MIN: u64 = 64;
/// Memory that is registered at once, unless a piece is larger: small enough for a limit on locked memory of 8 MiB.
const SLAB_BYTES: u64 = 256 << 10;

/// A piece of the arena, taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    slab: u32,
    class: u8,
    offset: u64,
}

#[derive(Debug)]
struct Slab {
    // Before its memory: the registration ends first.
    region: Region,
    mapping: Arc<Mapping>,
}

/// Registered memory, by the piece.
#[derive(Debug)]
pub(super) struct Arena {
    domain: Arc<Domain>,
    slabs: Vec<Slab>,
    free: [Vec<Piece>; CLASSES],
    /// Where the last slab of the usual size goes on.
    next: Option<(u32, u64)>,
}

impl Arena {
    /// Without memory yet.
    pub(super) fn new(domain: Arc<Domain>) -> Self {
        Self { domain, slabs: Vec::new(), free: [const { Vec::new() }; CLASSES], next: None }
    }

    /// Takes a piece of at least `bytes` bytes.
    pub(super) fn take(&mut self, bytes: usize) -> io::Result<Piece> {
        let size = (bytes as u64).max(PIECE_BYTES_MIN).next_power_of_two();
        let class = (size / PIECE_BYTES_MIN).trailing_zeros() as u8;
        match self.free[usize::from(class)].pop() {
            Some(piece) => Ok(piece),
            None => self.carve(class, size),
        }
    }

    #[cold]
    fn carve(&mut self, class: u8, size: u64) -> io::Result<Piece> {
        if size > SLAB_BYTES {
            let slab = self.register(size)?;
            return Ok(Piece { slab, class, offset: 0 });
        }
        let (slab, offset) = match self.next {
            Some((slab, offset)) if offset + size <= SLAB_BYTES => (slab, offset),
            _ => (self.register(SLAB_BYTES)?, 0),
        };
        self.next = Some((slab, offset + size));
        Ok(Piece { slab, class, offset })
    }

    fn register(&mut self, bytes: u64) -> io::Result<u32> {
        let file: File = rustix::fs::memfd_create("farwood-rdma", rustix::fs::MemfdFlags::CLOEXEC)?.into();
        file.set_len(bytes)?;
        let mapping = Arc::new(Mapping::new(&file, bytes)?);
        let region = Region::of_host(&self.domain, &mapping, 0, bytes, LOCAL_WRITE)?;
        self.slabs.push(Slab { region, mapping });
        Ok(self.slabs.len() as u32 - 1)
    }

    /// Gives a piece back that no request names any more.
    pub(super) fn give(&mut self, piece: Piece) {
        self.free[usize::from(piece.class)].push(piece);
    }

    /// The first bytes of a piece, for a request.
    #[inline]
    pub(super) fn span(&self, piece: Piece, bytes: usize) -> Span {
        self.slabs[piece.slab as usize].region.span(piece.offset, bytes)
    }

    /// Copies bytes into a piece that is large enough.
    #[inline]
    pub(super) fn fill(&self, piece: Piece, bytes: &[u8]) {
        let mapping = &self.slabs[piece.slab as usize].mapping;
        mapping.write_up(piece.offset, bytes).expect("a piece is taken as large as what it is filled with");
    }

    /// Copies whole words out of a piece that has as many.
    #[inline]
    pub(super) fn copy_out(&self, piece: Piece, words: &mut [u64]) {
        let mapping = &self.slabs[piece.slab as usize].mapping;
        mapping.read_down(piece.offset, words).expect("a piece is taken as large as what is fetched into it");
    }
}
