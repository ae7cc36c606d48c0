//! Little-endian numbers in bytes.

/// The number in the eight bytes from `at` on.
///
/// # Panics
/// If `bytes` ends before.
#[inline]
pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].as_chunks().0[0])
}

/// The number in the four bytes from `at` on.
///
/// # Panics
/// If `bytes` ends before.
#[inline]
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].as_chunks().0[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_at_any_position() {
        let bytes = [9, 1, 2, 3, 4, 5, 6, 7, 8, 9];
        assert_eq!(u64_at(&bytes, 1), 0x0807_0605_0403_0201);
        assert_eq!(u32_at(&bytes, 6), 0x0908_0706);
    }
}
