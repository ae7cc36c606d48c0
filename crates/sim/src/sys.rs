//! What the processor can do and safe Rust cannot ask for: fetching memory before it is needed.

/// Begins to fetch these bytes into the near caches. They stay what they are, and nothing waits for them.
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

/// Nothing: the hint is known for one kind of processor only.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
pub(crate) fn prefetch(_: &[u8]) {}

/// Bytes of a line of the processor's cache.
#[cfg(target_arch = "x86_64")]
const LINE_BYTES: usize = 64;
