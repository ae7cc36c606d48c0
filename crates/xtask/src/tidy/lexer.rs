//! Separates Rust code from comments and literals, so that a rule for code ignores words in strings.
//!
//! It handles line comments and nested block comments, strings with escapes, raw strings, byte and C strings, and
//! distinguishes characters from lifetimes.

/// The kind of a byte of Rust text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextKind {
    /// Code.
    Code,
    /// A comment or doc comment, with its slashes.
    Comment,
    /// A string or character literal, with its quotes.
    Literal,
}

/// Replaces every byte of `text` that is not of `kind` by a space. Line breaks stay.
pub(super) fn only(kind: TextKind, text: &str) -> String {
    let kinds = kinds(text.as_bytes());
    let masked =
        text.bytes().zip(kinds).map(|(byte, of)| if of == kind || byte == b'\n' { byte } else { b' ' });
    String::from_utf8(masked.collect()).expect("characters are kept or blanked completely")
}

/// The kind of every byte.
fn kinds(text: &[u8]) -> Vec<TextKind> {
    let mut kinds = Vec::with_capacity(text.len());
    while kinds.len() < text.len() {
        let at = kinds.len();
        let (kind, length) = piece(&text[at..]);
        assert!(length > 0, "a piece of Rust text has bytes");
        kinds.resize((at + length).min(text.len()), kind);
    }
    kinds
}

/// The kind and length of the piece that `rest` starts with.
fn piece(rest: &[u8]) -> (TextKind, usize) {
    match rest {
        [b'/', b'/', ..] => (TextKind::Comment, position(rest, b"\n").unwrap_or(rest.len())),
        [b'/', b'*', ..] => (TextKind::Comment, block_comment(rest)),
        [b'"', ..] => (TextKind::Literal, 1 + quoted(&rest[1..], b'"')),
        [b'\'', ..] => quote(rest),
        [first, ..] if is_word(*first) => word(rest),
        _ => (TextKind::Code, 1),
    }
}

/// An identifier, number or keyword, or a raw string that begins with its prefix.
fn word(rest: &[u8]) -> (TextKind, usize) {
    let length = rest.iter().position(|byte| !is_word(*byte)).unwrap_or(rest.len());
    let after = &rest[length..];
    let hashes = after.iter().take_while(|byte| **byte == b'#').count();
    let raw = matches!(&rest[..length], b"r" | b"br" | b"cr") && after.get(hashes) == Some(&b'"');
    if !raw {
        return (TextKind::Code, length);
    }
    let start = length + hashes + 1;
    let mut end = vec![b'"'];
    end.resize(1 + hashes, b'#');
    let body = position(&rest[start..], &end).map_or(rest.len() - start, |at| at + end.len());
    (TextKind::Literal, start + body)
}

/// A character literal, or the apostrophe of a lifetime.
fn quote(rest: &[u8]) -> (TextKind, usize) {
    let character = match rest.get(1) {
        Some(b'\\') => return (TextKind::Literal, 1 + quoted(&rest[1..], b'\'')),
        Some(first) => {
            1 + rest[2..].iter().take_while(|byte| *first >= 0x80 && is_continuation(**byte)).count()
        }
        None => 0,
    };
    let is_literal = rest.get(1 + character) == Some(&b'\'');
    if is_literal { (TextKind::Literal, character + 2) } else { (TextKind::Code, 1) }
}

/// Number of bytes up to and including the closing `quote`, with escapes.
fn quoted(rest: &[u8], quote: u8) -> usize {
    let mut at = 0;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// Length of a block comment; they nest.
fn block_comment(rest: &[u8]) -> usize {
    let (mut at, mut depth) = (0, 0);
    while at < rest.len() {
        match &rest[at..] {
            [b'/', b'*', ..] => (at, depth) = (at + 2, depth + 1),
            [b'*', b'/', ..] => (at, depth) = (at + 2, depth - 1),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at.min(rest.len())
}

fn position(text: &[u8], sought: &[u8]) -> Option<usize> {
    text.windows(sought.len()).position(|window| window == sought)
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

fn is_continuation(byte: u8) -> bool {
    byte & 0xC0 == 0x80
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> String {
        let code = only(TextKind::Code, text);
        assert_eq!(code.len(), text.len(), "bytes keep their positions");
        code.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn comments_are_not_code() {
        assert_eq!(code("a // b \" {\nc /* d /* e */ f */ g"), "a c g");
        assert_eq!(code("a /* never closed"), "a");
    }

    #[test]
    fn strings_are_not_code() {
        assert_eq!(code(r#"a "b \" // c" d"#), "a d");
        assert_eq!(code(r##"a r#"b "c" {"# d br"e\" f"##), "a d f");
        assert_eq!(code("a \"never closed { \\"), "a");
    }

    #[test]
    fn characters_are_literals_and_lifetimes_are_code() {
        assert_eq!(code(r"a '{' b '\'' c '\u{7d}' d"), "a b c d");
        assert_eq!(code("a 'é' fn f<'a>(x: &'a str)"), "a fn f<'a>(x: &'a str)");
        assert_eq!(code("b'\"' r#fn '"), "b r#fn '");
    }

    #[test]
    fn comments_alone_can_be_kept() {
        assert_eq!(only(TextKind::Comment, "a // é\nb").trim(), "// é");
    }
}
