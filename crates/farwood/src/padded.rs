//! Byte strings padded with zeros.

/// The longest byte string that [`Padded`] stores without a heap allocation.
const INLINE_BYTES: usize = 64;

/// A byte string padded with zeros. Up to 64 bytes are stored without a heap allocation.
#[derive(Clone, Debug)]
pub struct Padded(PaddedBytes);

#[derive(Clone, Debug)]
enum PaddedBytes {
    Inline { bytes: [u8; INLINE_BYTES], width: u8 },
    Heap(Box<[u8]>),
}

impl Padded {
    /// Pads `bytes`, at most `width`, with zeros up to `width`.
    #[inline]
    pub fn new(bytes: &[u8], width: usize) -> Self {
        if width <= INLINE_BYTES {
            let mut inline = [0; INLINE_BYTES];
            inline[..bytes.len()].copy_from_slice(bytes);
            return Self(PaddedBytes::Inline { bytes: inline, width: width as u8 });
        }
        let mut heap = vec![0; width].into_boxed_slice();
        heap[..bytes.len()].copy_from_slice(bytes);
        Self(PaddedBytes::Heap(heap))
    }
}

impl AsRef<[u8]> for Padded {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        match &self.0 {
            PaddedBytes::Inline { bytes, width } => &bytes[..usize::from(*width)],
            PaddedBytes::Heap(bytes) => bytes,
        }
    }
}
