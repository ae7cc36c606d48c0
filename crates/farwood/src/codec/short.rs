//! Types of less than 8 bytes, which are padded with zeros as keys of a Sherman index.

use crate::unfit::Unfit;
use crate::width::Width;
use farwood_index::sherman::layout::KEY_BYTES;

/// The length of the shortest keys of an index of keys of one length.
pub(crate) const KEY_BYTES_MIN: usize = KEY_BYTES.start;

/// At most 8 bytes.
#[derive(Clone, Copy, Debug)]
pub struct ShortBytes {
    bytes: [u8; KEY_BYTES_MIN],
    length: u8,
}

impl ShortBytes {
    /// The bytes of a type of `N` bytes, padded if `width` demands it.
    #[inline]
    pub(super) fn new<const N: usize>(own: [u8; N], width: Width) -> Self {
        let mut bytes = [0; KEY_BYTES_MIN];
        bytes[..N].copy_from_slice(&own);
        let length = if width == Width::Exactly(KEY_BYTES_MIN) { KEY_BYTES_MIN } else { N };
        Self { bytes, length: length as u8 }
    }
}

impl AsRef<[u8]> for ShortBytes {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

/// The bytes of a type of `N` bytes, without padding.
#[inline]
pub(super) fn unpad_short<const N: usize>(bytes: &[u8]) -> Result<[u8; N], Unfit> {
    let own = match bytes.split_first_chunk() {
        Some((own, [])) => Some(own),
        Some((own, padding)) if bytes.len() == KEY_BYTES_MIN && padding.iter().all(|&byte| byte == 0) => {
            Some(own)
        }
        _ => None,
    };
    own.copied().ok_or(Unfit::Length { expected: N, found: bytes.len() })
}
