//! Encoded keys and values in a buffer of their own.

use crate::unfit::Unfit;
use crate::width::Width;

/// The longest byte string that [`InlineBytes`] stores without a heap allocation.
const INLINE_BYTES: usize = 64;

/// An encoded key or value. Up to 64 bytes are stored without a heap allocation.
#[derive(Clone, Debug)]
pub struct InlineBytes(Storage);

#[derive(Clone, Debug)]
enum Storage {
    /// Bytes from `length` on are zero.
    Inline {
        bytes: [u8; INLINE_BYTES],
        length: u8,
    },
    Heap(Vec<u8>),
}

impl InlineBytes {
    /// No bytes.
    #[inline]
    pub const fn empty() -> Self {
        Self(Storage::Inline { bytes: [0; INLINE_BYTES], length: 0 })
    }

    /// Pads `bytes`, at most `width`, with zeros up to `width`.
    #[inline]
    pub fn padded(bytes: &[u8], width: usize) -> Self {
        if width <= INLINE_BYTES {
            let mut inline = [0; INLINE_BYTES];
            inline[..bytes.len()].copy_from_slice(bytes);
            return Self(Storage::Inline { bytes: inline, length: width as u8 });
        }
        let mut heap = vec![0; width];
        heap[..bytes.len()].copy_from_slice(bytes);
        Self(Storage::Heap(heap))
    }

    /// A copy of `bytes`.
    #[inline]
    pub fn copy(bytes: &[u8]) -> Self {
        Self::padded(bytes, bytes.len())
    }

    /// Appends bytes.
    #[inline]
    pub fn push(&mut self, added: &[u8]) {
        match &mut self.0 {
            Storage::Inline { bytes, length } if usize::from(*length) + added.len() <= INLINE_BYTES => {
                let start = usize::from(*length);
                bytes[start..start + added.len()].copy_from_slice(added);
                *length += added.len() as u8;
            }
            Storage::Inline { bytes, length } => {
                let mut heap = Vec::with_capacity(2 * INLINE_BYTES + added.len());
                heap.extend_from_slice(&bytes[..usize::from(*length)]);
                heap.extend_from_slice(added);
                self.0 = Storage::Heap(heap);
            }
            Storage::Heap(bytes) => bytes.extend_from_slice(added),
        }
    }

    /// Checks the length, and pads an encoding for an index of one length.
    #[inline]
    pub(crate) fn fit(mut self, width: Width) -> Result<Self, Unfit> {
        let found = self.as_ref().len();
        if found > width.most() {
            return Err(Unfit::TooLong { most: width.most(), found });
        }
        if let Width::Exactly(length) = width {
            self.pad(length);
        }
        Ok(self)
    }

    /// Appends zeros up to a length of `width`.
    pub fn pad(&mut self, width: usize) {
        match &mut self.0 {
            Storage::Inline { length, .. } if width <= INLINE_BYTES => *length = (*length).max(width as u8),
            Storage::Inline { .. } => *self = Self::padded(self.as_ref(), width),
            Storage::Heap(bytes) => bytes.resize(bytes.len().max(width), 0),
        }
    }
}

impl AsRef<[u8]> for InlineBytes {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        match &self.0 {
            Storage::Inline { bytes, length } => &bytes[..usize::from(*length)],
            Storage::Heap(bytes) => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_appended_and_padded_on_both_sides_of_the_inline_length() {
        for first in [0, 1, 63, 64, 65, 200] {
            for second in [0, 1, 63, 64, 65, 200] {
                for width in [0, 10, 64, 65, 128, 500] {
                    let (front, rear) = (vec![1; first], vec![2; second]);
                    let mut bytes = InlineBytes::empty();
                    bytes.push(&front);
                    bytes.push(&rear);
                    bytes.pad(width);
                    let mut expected = [front, rear].concat();
                    expected.resize(expected.len().max(width), 0);
                    assert_eq!(bytes.as_ref(), expected);
                }
            }
        }
    }
}
