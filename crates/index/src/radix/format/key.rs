//! Keys as sequences of steps: bytes, then the end.

use crate::error::IndexError;

/// Longest key, bytes. A leaf's header could hold 65,535.
pub const KEY_BYTES_MAX: usize = 4096;

/// Next step of a key below an inner node. The end sorts before every byte, as a key sorts before its extensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// The key ends here.
    End,
    /// The next byte of the key: a partial key of 8 bits.
    Byte(u8),
}

/// The step of `key` after its first `depth` bytes.
#[inline]
pub fn step_at(key: &[u8], depth: usize) -> Step {
    key.get(depth).map_or(Step::End, |&byte| Step::Byte(byte))
}

/// Refuses a key that is longer than [`KEY_BYTES_MAX`].
///
/// # Errors
/// [`IndexError::BadSizes`].
pub(crate) fn check_key(key: &[u8]) -> Result<(), IndexError> {
    if key.len() <= KEY_BYTES_MAX {
        return Ok(());
    }
    Err(IndexError::BadSizes(format!("a key has at most {KEY_BYTES_MAX} bytes; this one has {}", key.len())))
}

/// Length of the longest common prefix of two keys.
#[inline]
pub fn common_prefix(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_sorts_before_its_extensions() {
        assert_eq!((step_at(b"ab", 1), step_at(b"ab", 2)), (Step::Byte(b'b'), Step::End));
        assert!(Step::End < Step::Byte(0));
        assert_eq!(
            (common_prefix(b"abc", b"abd"), common_prefix(b"ab", b"abc"), common_prefix(b"", b"a")),
            (2, 2, 0)
        );
    }
}
