//! Numbers of bytes in messages.

use std::fmt;

/// A number of bytes in the largest unit that divides it: "8 MiB", "1000 B".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteCount(pub u64);

impl fmt::Display for ByteCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
        let divides = |(_, bytes): &(&str, u64)| self.0 > 0 && self.0.is_multiple_of(*bytes);
        let (unit, bytes) = units.into_iter().find(divides).unwrap_or(("B", 1));
        write!(f, "{} {unit}", self.0 / bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown_exactly() {
        for (bytes, text) in [
            (0, "0 B"),
            (1000, "1000 B"),
            (1 << 10, "1 KiB"),
            (9 << 20, "9 MiB"),
            ((1 << 20) + 1, "1048577 B"),
            (3 << 40, "3 TiB"),
        ] {
            assert_eq!(ByteCount(bytes).to_string(), text);
        }
    }
}
