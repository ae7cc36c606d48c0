//! Prefetching, which safe Rust does not offer.

/// Starts to load `bytes` into the processor's caches, without waiting.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn prefetch(bytes: &[u8]) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    for line in bytes.chunks(LINE_BYTES) {
        // SAFETY: the instruction is part of SSE, which every x86-64 processor has. It is a hint: it changes no byte
        // and does not fault, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
    }
}

/// Does nothing: the hint is implemented for x86-64 only.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
pub(crate) fn prefetch(_: &[u8]) {}

/// Bytes of a cache line.
#[cfg(target_arch = "x86_64")]
const LINE_BYTES: usize = 64;
