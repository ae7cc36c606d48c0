//! Keys, one step at a time: a byte, or the end.

use crate::error::IndexError;

/// Longest key, bytes: what a leaf's header can say, less what is never needed.
pub const KEY_BYTES_MAX: usize = 4096;

/// How a key goes on from an inner node. The end comes before every byte, as a key comes before those that it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// The key ends here.
    End,
    /// The key goes on with this byte: a partial key of 8 bits.
    Byte(u8),
}

/// How `key` goes on behind its first `depth` bytes.
#[inline]
pub fn step_at(key: &[u8], depth: usize) -> Step {
    key.get(depth).map_or(Step::End, |&byte| Step::Byte(byte))
}

/// Refuses a key that is too long.
///
/// # Errors
/// [`IndexError::BadSizes`].
pub(crate) fn check_key(key: &[u8]) -> Result<(), IndexError> {
    if key.len() <= KEY_BYTES_MAX {
        return Ok(());
    }
    Err(IndexError::BadSizes(format!("a key has at most {KEY_BYTES_MAX} bytes; this one has {}", key.len())))
}

/// How many bytes two keys have in common at their beginnings.
#[inline]
pub fn common_prefix(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_comes_before_those_that_it_begins() {
        assert_eq!((step_at(b"ab", 1), step_at(b"ab", 2)), (Step::Byte(b'b'), Step::End));
        assert!(Step::End < Step::Byte(0));
        assert_eq!(
            (common_prefix(b"abc", b"abd"), common_prefix(b"ab", b"abc"), common_prefix(b"", b"a")),
            (2, 2, 0)
        );
    }
}
