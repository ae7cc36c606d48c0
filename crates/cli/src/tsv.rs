//! Fields of TSV: the escapes of PostgreSQL's COPY, so that any text stays one field on one line, and a terminal
//! interprets nothing in it.
//!
//! ```text
//! \\ backslash   \t tab   \n line feed   \r carriage return   \b backspace   \f form feed   \v vertical tab
//! \xHH any other byte of a control character
//! ```

use std::borrow::Cow;
use std::fmt::Write as _;

/// The escapes of one letter, and their bytes.
const LETTERS: [(u8, u8); 7] =
    [(b'\\', b'\\'), (b't', b'\t'), (b'n', b'\n'), (b'r', b'\r'), (b'b', 8), (b'f', 12), (b'v', 11)];

/// Returns `text` as a field.
pub(crate) fn escape(text: &str) -> Cow<'_, str> {
    let needs = |character: char| character.is_control() || character == '\\';
    if !text.contains(needs) {
        return Cow::Borrowed(text);
    }
    let mut field = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        match LETTERS.iter().find(|(_, byte)| char::from(*byte) == character) {
            Some((letter, _)) => field.extend(['\\', char::from(*letter)]),
            None if needs(character) => {
                let mut bytes = [0; 4];
                for byte in character.encode_utf8(&mut bytes).bytes() {
                    write!(field, "\\x{byte:02X}").expect("writing to a string cannot fail");
                }
            }
            None => field.push(character),
        }
    }
    Cow::Owned(field)
}

/// Returns the text of a field, or why it is not one.
pub(crate) fn unescape(field: &str) -> Result<Cow<'_, str>, String> {
    if !field.contains('\\') {
        return Ok(Cow::Borrowed(field));
    }
    let (mut text, mut rest) = (Vec::with_capacity(field.len()), field.as_bytes());
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        if byte != b'\\' {
            text.push(byte);
            continue;
        }
        let letter = rest.first().and_then(|letter| LETTERS.iter().find(|(known, _)| known == letter));
        if let Some((_, byte)) = letter {
            text.push(*byte);
            rest = &rest[1..];
        } else {
            let digits = rest.strip_prefix(b"x").and_then(|rest| rest.get(..2));
            text.push(digits.and_then(from_hex).ok_or_else(|| unknown(rest))?);
            rest = &rest[3..];
        }
    }
    String::from_utf8(text).map(Cow::Owned).map_err(|_| "its escapes are not UTF-8 text".to_owned())
}

fn from_hex(digits: &[u8]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    Some((digit(digits[0])? << 4 | digit(digits[1])?) as u8)
}

/// The reason for refusing an escape that begins with `rest` after its backslash.
fn unknown(rest: &[u8]) -> String {
    let letter = String::from_utf8_lossy(rest).chars().next().map(String::from).unwrap_or_default();
    format!("\\{letter} is not an escape; double the backslashes of the text, as in PostgreSQL's COPY")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_round_trip_on_one_line() {
        for (text, field) in [
            ("plain 'text' ü", "plain 'text' ü"),
            ("1\nb\t2\r", "1\\nb\\t2\\r"),
            ("C:\\new", "C:\\\\new"),
            ("\u{1b}[2J\u{7}\u{8}\u{b}\u{c}", "\\x1B[2J\\x07\\b\\v\\f"),
            ("\u{9b}\u{0}\u{7f}", "\\xC2\\x9B\\x00\\x7F"),
            ("", ""),
        ] {
            assert_eq!(escape(text), field);
            assert_eq!(unescape(field).unwrap(), text);
        }
    }

    #[test]
    fn text_that_is_not_a_field_is_refused() {
        for field in ["C:\\Users", "end\\", "\\N", "\\x1", "\\xg0", "\\."] {
            assert!(unescape(field).unwrap_err().contains("PostgreSQL"), "{field}");
        }
        assert!(unescape("\\xFF").unwrap_err().contains("UTF-8"));
    }
}
