//! Stderr, as the commands write it: no text that they quote, of a file or of another machine, controls the terminal.

use farwood::internal::printable;
use std::io::{self, Write};

/// A writer that escapes control characters, except line feeds.
pub(crate) struct Messages<W>(pub(crate) W);

impl<W: Write> Write for Messages<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for line in String::from_utf8_lossy(bytes).split_inclusive('\n') {
            match line.strip_suffix('\n') {
                Some(text) => self.0.write_all(format!("{}\n", printable(text)).as_bytes())?,
                None => self.0.write_all(printable(line).as_bytes())?,
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_and_lines_remain() {
        let mut messages = Messages(Vec::new());
        writeln!(messages, "one\x1b[31m \u{9b}\r\ntwo ü").unwrap();
        assert_eq!(String::from_utf8(messages.0).unwrap(), "one\\u{1b}[31m \\u{9b}\\r\ntwo ü\n");
    }
}
