//! Escapes text from another machine for terminals and logs: the result is one line without control characters.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Returns `text` with escapes in place of characters that a terminal or a reader of logs interprets: control
/// characters, line separators, and marks of direction.
///
/// ```
/// use farwood_fabric::printable;
/// assert_eq!(printable("full: 8 MiB"), "full: 8 MiB");
/// assert_eq!(printable("a\n\u{1b}[2J"), "a\\n\\u{1b}[2J");
/// ```
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_interpreted) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        if is_interpreted(character) {
            write!(shown, "{}", character.escape_default()).expect("writing to a string cannot fail");
        } else {
            shown.push(character);
        }
    }
    Cow::Owned(shown)
}

fn is_interpreted(character: char) -> bool {
    let has_direction = matches!(character, '\u{061C}' | '\u{200E}' | '\u{200F}' | '\u{2066}'..='\u{2069}');
    let ends_lines = matches!(character, '\u{2028}'..='\u{202E}');
    character.is_control() || has_direction || ends_lines || character == '\u{FEFF}'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_of_terminals_and_line_ends_are_shown() {
        for (text, shown) in [
            ("\u{1b}]0;x\u{7}", "\\u{1b}]0;x\\u{7}"),
            ("a\r\nb\tc", "a\\r\\nb\\tc"),
            ("\u{9b}2J\u{7f}", "\\u{9b}2J\\u{7f}"),
            ("\u{202e}gnp.exe", "\\u{202e}gnp.exe"),
            ("größer 'x' \\", "größer 'x' \\"),
        ] {
            assert_eq!(printable(text), shown);
            assert!(!printable(text).contains(char::is_control));
        }
    }
}
