//! Records that end with one byte, such as lines, in bounded memory.

use std::io::{self, BufRead};

/// Largest record in bytes: a value of 16 MiB as hexadecimal digits, its key, and quotes.
pub(super) const RECORD_BYTES_MAX: usize = 33 << 20;

/// The records of a file.
pub(super) struct Lines<R> {
    reader: R,
    /// The last byte of each record.
    end: u8,
    bytes_max: usize,
    /// Whether the rest of a record that is too long is still to be skipped.
    is_cut: bool,
}

/// The result of reading one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Appended {
    /// A record. Only the last one of the file may lack the last byte.
    Whole,
    /// A record that exceeds the limit; the next record is next.
    TooLong,
    /// The file has ended.
    End,
}

impl<R: BufRead> Lines<R> {
    /// The lines of a file.
    pub(super) fn new(reader: R) -> Self {
        Self::ending_with(reader, b'\n')
    }

    /// The records of a file that end with `end`.
    pub(super) fn ending_with(reader: R, end: u8) -> Self {
        Self { reader, end, bytes_max: RECORD_BYTES_MAX, is_cut: false }
    }

    /// Appends the next record to `record`, including its last byte. The rest of a record that is too long is skipped
    /// by the next call: it may have no end.
    pub(super) fn append(&mut self, record: &mut Vec<u8>) -> io::Result<Appended> {
        if std::mem::take(&mut self.is_cut) {
            self.reader.skip_until(self.end)?;
        }
        let most = self.bytes_max.saturating_sub(record.len()).max(1);
        let bytes = io::Read::take(&mut self.reader, most as u64).read_until(self.end, record)?;
        if bytes == 0 {
            return Ok(Appended::End);
        }
        if bytes < most || record.ends_with(&[self.end]) {
            return Ok(Appended::Whole);
        }
        self.is_cut = true;
        Ok(Appended::TooLong)
    }
}

/// Removes the line feed, and the carriage return before it.
pub(super) fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Whether a carriage return is not followed by a line feed. `text` is a line, or the last line of a file.
pub(super) fn has_lone_return(text: &[u8]) -> bool {
    let line = text.strip_suffix(b"\r\n").unwrap_or(text);
    line.contains(&b'\r')
}

/// The reason for refusing a record that is too long.
pub(super) fn too_long() -> String {
    format!("it is longer than {} MiB", RECORD_BYTES_MAX >> 20)
}

/// The reason for refusing carriage returns within a line.
pub(super) const LONE_RETURN: &str =
    "it contains a carriage return that is not followed by a line feed; convert the line ends to line feeds";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_is_too_long_is_skipped_in_bounded_memory() {
        let mut lines = Lines::new(&b"ant\nbumblebee\ncat"[..]);
        lines.bytes_max = 6;
        let mut next = || {
            let mut line = Vec::new();
            let appended = lines.append(&mut line).unwrap();
            (appended, String::from_utf8(line).unwrap())
        };
        assert_eq!(next(), (Appended::Whole, "ant\n".to_owned()));
        assert_eq!(next(), (Appended::TooLong, "bumble".to_owned()));
        assert_eq!(next(), (Appended::Whole, "cat".to_owned()));
        assert_eq!(next(), (Appended::End, String::new()));
    }

    #[test]
    fn a_record_without_an_end_is_reported() {
        let mut lines = Lines::new(io::BufReader::new(io::repeat(b'x')));
        lines.bytes_max = 100;
        assert_eq!(lines.append(&mut Vec::new()).unwrap(), Appended::TooLong);
    }
}
