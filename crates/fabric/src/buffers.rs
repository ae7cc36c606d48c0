//! The client's pool of local buffers, the destinations of READs.
//!
//! A buffer is owned by the pool, by the doorbell in flight, or by the [`Fetched`](crate::Fetched) copy. After a
//! cancelled operation the fabric therefore never writes into freed memory. After warm-up the pool allocates nothing.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;

/// Size classes: powers of two words.
const CLASSES: usize = 32;
/// Idle buffers kept per class, as many as a scan uses; more are freed.
const IDLE_MAX: usize = 64;
/// Bytes of idle buffers kept per class, even if these are more than [`IDLE_MAX`] buffers.
const IDLE_BYTES: usize = 64 << 10;

/// A pool of 8-byte-aligned buffers.
#[derive(Clone, Default)]
pub struct Buffers(Rc<[RefCell<Idle>; CLASSES]>);

/// Idle buffers of one size class.
type Idle = Vec<Box<[u64]>>;

impl Buffers {
    /// Takes a buffer of `bytes` bytes with arbitrary contents.
    #[inline]
    pub fn take(&self, bytes: usize) -> Buffer {
        let words = bytes.div_ceil(8);
        let class = words.next_power_of_two().trailing_zeros() as usize;
        let idle = self.0[class].borrow_mut().pop();
        let words = idle.unwrap_or_else(|| allocate(class));
        Buffer { words, bytes, pool: Some(self.clone()) }
    }
}

/// Allocates a buffer of a class.
#[cold]
#[inline(never)]
fn allocate(class: usize) -> Box<[u64]> {
    vec![0; 1 << class].into_boxed_slice()
}

/// A local copy of far memory, 8-byte aligned, which returns to its pool when dropped. The default is an empty buffer
/// without a pool.
#[derive(Default)]
pub struct Buffer {
    words: Box<[u64]>,
    bytes: usize,
    pool: Option<Buffers>,
}

impl Buffer {
    /// The whole words of the buffer: `len / 8`, rounded up.
    #[inline]
    pub fn words_mut(&mut self) -> &mut [u64] {
        &mut self.words[..self.bytes.div_ceil(8)]
    }
}

impl Deref for Buffer {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        &zerocopy::IntoBytes::as_bytes(&*self.words)[..self.bytes]
    }
}

impl DerefMut for Buffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut zerocopy::IntoBytes::as_mut_bytes(&mut *self.words)[..self.bytes]
    }
}

impl Drop for Buffer {
    #[inline]
    fn drop(&mut self) {
        let Some(pool) = &self.pool else { return };
        let words = std::mem::take(&mut self.words);
        let mut idle = pool.0[words.len().trailing_zeros() as usize].borrow_mut();
        if idle.len() < IDLE_MAX.max(IDLE_BYTES / size_of_val(&*words).max(1)) {
            idle.push(words);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_buffer_is_reused() {
        let pool = Buffers::default();
        let first = pool.take(1000);
        let address = first.as_ptr();
        assert_eq!((first.len(), address.align_offset(8)), (1000, 0));
        drop(first);
        let second = pool.take(600);
        assert_eq!((second.len(), second.as_ptr()), (600, address));
    }

    #[test]
    fn the_pool_keeps_a_bounded_number_of_idle_buffers() {
        let pool = Buffers::default();
        for (bytes, class, kept) in [(64, 3, IDLE_BYTES / 64), (4096, 9, IDLE_MAX)] {
            let many: Vec<_> = (0..kept + 10).map(|_| pool.take(bytes)).collect();
            drop(many);
            assert_eq!(pool.0[class].borrow().len(), kept);
        }
    }
}
