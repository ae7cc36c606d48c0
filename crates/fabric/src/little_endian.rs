//! Little-endian numbers in bytes.

/// The number in the eight bytes from `at` on.
///
/// # Panics
/// If `bytes` ends before.
#[inline]
pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(number)
}

/// The number in the four bytes from `at` on.
///
/// # Panics
/// If `bytes` ends before.
#[inline]
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut number = [0; 4];
    number.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(number)
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
