//! Numbers of a JSON text that are not 0 and become 0 in 64 bits, such as `1e-400`. The parser would read them as 0, so
//! they are changed into strings before it, which are refused as coordinates.

use crate::search::underflows;
use std::io::{self, BufRead, Read};

/// Largest number of bytes of a number. The rest of a longer number is removed, and the number is a string.
const NUMBER_BYTES_MAX: usize = 1024;
/// A number without an exponent becomes 0 only if it has more digits than this.
const ZEROS_MIN: usize = 300;

/// A JSON text that is read, with the numbers that become 0 as strings.
pub(super) struct UnderflowFilter<R> {
    reader: R,
    filter: Filter,
    /// The text that was filtered and is not read yet begins at `read`.
    filtered: Vec<u8>,
    read: usize,
}

impl<R> UnderflowFilter<R> {
    pub(super) fn new(reader: R) -> Self {
        Self { reader, filter: Filter::default(), filtered: Vec::new(), read: 0 }
    }
}

impl<R: BufRead> Read for UnderflowFilter<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        while self.read == self.filtered.len() {
            self.filtered.clear();
            self.read = 0;
            let text = self.reader.fill_buf()?;
            let taken = text.len();
            if taken == 0 {
                self.filter.end_number(&mut self.filtered);
                if self.filtered.is_empty() {
                    return Ok(0);
                }
                break;
            }
            self.filter.add(text, &mut self.filtered);
            self.reader.consume(taken);
        }
        let rest = &self.filtered[self.read..];
        let count = rest.len().min(bytes.len());
        bytes[..count].copy_from_slice(&rest[..count]);
        self.read += count;
        Ok(count)
    }
}

/// A whole JSON text, with the numbers that become 0 as strings.
pub(super) fn filtered(text: &[u8]) -> Vec<u8> {
    let (mut filter, mut filtered) = (Filter::default(), Vec::with_capacity(text.len()));
    filter.add(text, &mut filtered);
    filter.end_number(&mut filtered);
    filtered
}

/// As [`filtered`], of a text.
pub(super) fn filtered_text(text: &str) -> String {
    String::from_utf8_lossy(&filtered(text.as_bytes())).into_owned()
}

/// The position in the JSON text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Position {
    #[default]
    Outside,
    InString,
    /// After a backslash.
    InEscape,
}

#[derive(Debug, Default)]
struct Filter {
    position: Position,
    /// The number that has begun; empty between numbers.
    number: Vec<u8>,
    /// Whether the number is longer than [`NUMBER_BYTES_MAX`].
    is_cut: bool,
}

impl Filter {
    fn add(&mut self, text: &[u8], filtered: &mut Vec<u8>) {
        for &byte in text {
            self.position = match (self.position, byte) {
                (Position::InString, b'\\') => Position::InEscape,
                (Position::InString, b'"') => Position::Outside,
                (Position::InString | Position::InEscape, _) => Position::InString,
                (Position::Outside, b'"') => {
                    self.end_number(filtered);
                    Position::InString
                }
                (Position::Outside, _) if self.takes(byte) => continue,
                (Position::Outside, _) => {
                    self.end_number(filtered);
                    Position::Outside
                }
            };
            filtered.push(byte);
        }
    }

    /// Adds a byte to the number if it can be a part of one.
    fn takes(&mut self, byte: u8) -> bool {
        let is_part = match byte {
            b'0'..=b'9' | b'-' => true,
            b'+' | b'.' | b'e' | b'E' => !self.number.is_empty(),
            _ => false,
        };
        if is_part && self.number.len() == NUMBER_BYTES_MAX {
            self.is_cut = true;
        } else if is_part {
            self.number.push(byte);
        }
        is_part
    }

    fn end_number(&mut self, filtered: &mut Vec<u8>) {
        if self.number.is_empty() {
            return;
        }
        let may_be_small =
            self.number.len() > ZEROS_MIN || self.number.iter().any(|byte| matches!(byte, b'e' | b'E'));
        let is_small = may_be_small && std::str::from_utf8(&self.number).is_ok_and(underflows);
        let quote: &[u8] = if is_small || self.is_cut { b"\"" } else { b"" };
        filtered.extend_from_slice(quote);
        filtered.append(&mut self.number);
        filtered.extend_from_slice(quote);
        self.is_cut = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filtered(text: &str, buffer_bytes: usize) -> String {
        let reader = io::BufReader::with_capacity(buffer_bytes, text.as_bytes());
        io::read_to_string(UnderflowFilter::new(reader)).unwrap()
    }

    #[test]
    fn numbers_that_become_0_are_strings() {
        let zeros = "0".repeat(400);
        for (text, expected) in [
            ("[1e-400,-2.5E-999]", "[\"1e-400\",\"-2.5E-999\"]".to_owned()),
            ("{\"a\":1e-400}", "{\"a\":\"1e-400\"}".to_owned()),
            ("1e-400", "\"1e-400\"".to_owned()),
            (&format!("[0.{zeros}1, 2]"), format!("[\"0.{zeros}1\", 2]")),
        ] {
            for buffer_bytes in [1, 3, 1000] {
                assert_eq!(filtered(text, buffer_bytes), expected, "{text}");
            }
        }
    }

    #[test]
    fn everything_else_is_unchanged() {
        for text in [
            "[0e-400,-0.0,1e-300,5e-324,1e400,true,false]",
            "{\"1e-400\":\"\\\"1e-400,\",\"b\":\"\\\\\"}",
            "tree-",
        ] {
            assert_eq!(filtered(text, 2), text);
        }
    }

    #[test]
    fn a_number_of_any_length_takes_bounded_memory() {
        let text = format!("[0.{}1]", "0".repeat(100_000));
        assert_eq!(filtered(&text, 100).len(), NUMBER_BYTES_MAX + 4);
    }
}
