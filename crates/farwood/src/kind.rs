//! The types of keys and values, as recorded in an index.

use crate::unfit::Unfit;
use crate::width::Width;
use std::fmt;
use std::str::FromStr;

/// The type of the keys or values of an index, one byte of its parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// Byte strings. The command shows them as hexadecimal digits.
    #[default]
    Bytes,
    /// Unsigned numbers of 64 bits, big-endian, so that their order is the order of their bytes.
    U64,
    /// UTF-8 text, padded with zeros.
    Text,
    /// A type defined by the program, 128 or more; see [`Codec::KIND`](crate::Codec::KIND).
    Other(u8),
}

impl Kind {
    /// The number in the parameters of the index.
    pub const fn number(self) -> u8 {
        match self {
            Self::Bytes => 0,
            Self::U64 => 1,
            Self::Text => 2,
            Self::Other(number) => number,
        }
    }

    /// The kind whose number in the parameters of an index is `number`.
    pub const fn from_number(number: u8) -> Self {
        match number {
            0 => Self::Bytes,
            1 => Self::U64,
            2 => Self::Text,
            other => Self::Other(other),
        }
    }

    /// The length of this type in bytes, if it is fixed.
    pub const fn width(self) -> Option<usize> {
        match self {
            Self::U64 => Some(8),
            _ => None,
        }
    }

    /// Parses `words` as a decimal number, a text or hexadecimal digits, depending on the kind, and encodes it with the
    /// length that `width` permits.
    ///
    /// # Errors
    /// [`Unfit`] if the text cannot be parsed or does not fit.
    pub fn read(self, words: &str, width: Width) -> Result<Vec<u8>, Unfit> {
        let unreadable = |expected: String| Unfit::Unreadable { text: words.to_owned(), expected };
        match self {
            Self::U64 => match words.parse::<u64>() {
                Ok(number) if number.to_string() == words => Ok(number.to_be_bytes().to_vec()),
                Ok(number) => Err(Unfit::Respelled { text: words.to_owned(), number }),
                Err(_) => Err(unreadable("number from 0 to 18446744073709551615".to_owned())),
            },
            Self::Text => {
                check_text(words, width.most())?;
                let mut bytes = words.as_bytes().to_vec();
                if let Width::Exactly(length) = width {
                    bytes.resize(length, 0);
                }
                Ok(bytes)
            }
            Self::Bytes | Self::Other(_) => match (read_hex(words), width) {
                (Some(bytes), _) if width.check(bytes.len()).is_ok() => Ok(bytes),
                (_, Width::Exactly(bytes)) => Err(unreadable(format!(
                    "byte string of {bytes} bytes; give {} hexadecimal digits",
                    2 * bytes
                ))),
                (_, Width::UpTo(most)) => {
                    Err(unreadable(format!("byte string; give at most {most} pairs of hexadecimal digits")))
                }
            },
        }
    }

    /// Checks that the bytes are valid for this type.
    ///
    /// # Errors
    /// [`Unfit`] if they are not.
    pub fn check(self, bytes: &[u8]) -> Result<(), Unfit> {
        match self {
            Self::U64 => Width::Exactly(8).check(bytes.len()),
            Self::Text => {
                let text = std::str::from_utf8(bytes).map_err(|_| Unfit::NoText)?;
                check_text(text, usize::MAX)
            }
            Self::Bytes | Self::Other(_) => Ok(()),
        }
    }

    /// Formats the bytes, as [`read`](Self::read) parses them.
    pub fn show(self, bytes: &[u8]) -> String {
        match (self, <[u8; 8]>::try_from(bytes)) {
            (Self::U64, Ok(bytes)) => u64::from_be_bytes(bytes).to_string(),
            (Self::Text, _) => String::from_utf8_lossy(unpad(bytes)).into_owned(),
            _ => write_hex(bytes),
        }
    }
}

/// The type of keys or values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Type {
    /// The meaning of the bytes.
    pub kind: Kind,
    /// The number of bytes; `None` if it varies.
    pub bytes: Option<usize>,
}

impl std::fmt::Display for Type {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.bytes.filter(|_| self.kind.width().is_none()) {
            Some(bytes) => write!(f, "{} of {bytes} bytes", self.kind),
            None => write!(f, "{}", self.kind),
        }
    }
}

/// Checks that a text has at most `width` bytes and contains no NUL, because NULs pad texts.
pub(crate) fn check_text(text: &str, width: usize) -> Result<(), Unfit> {
    if text.len() > width {
        return Err(Unfit::TooLong { most: width, found: text.len() });
    }
    match text.bytes().position(|byte| byte == 0) {
        Some(at) => Err(Unfit::Nul { at }),
        None => Ok(()),
    }
}

/// Removes the padding zeros of a text.
pub(crate) fn unpad(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    &bytes[..end]
}

fn write_hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from_digit(u32::from(value), 16).unwrap_or('?');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

fn read_hex(digits: &str) -> Option<Vec<u8>> {
    let value = |digit: u8| char::from(digit).to_digit(16).map(|value| value as u8);
    let digits = digits.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    digits.chunks_exact(2).map(|pair| Some(value(pair[0])? << 4 | value(pair[1])?)).collect()
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes => f.write_str("hex"),
            Self::U64 => f.write_str("u64"),
            Self::Text => f.write_str("text"),
            Self::Other(number) => write!(f, "kind {number}"),
        }
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "hex" => Ok(Self::Bytes),
            "u64" => Ok(Self::U64),
            "text" => Ok(Self::Text),
            _ => Err("the type must be u64, text or hex".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_back() {
        for (kind, words, width) in
            [(Kind::U64, "42", 8), (Kind::Text, "été", 9), (Kind::Text, "", 8), (Kind::Bytes, "00ff10", 3)]
        {
            let bytes = kind.read(words, Width::Exactly(width)).unwrap();
            assert_eq!(bytes.len(), width);
            assert_eq!(kind.show(&bytes), words);
        }
    }

    #[test]
    fn words_that_do_not_fit_are_refused() {
        for (kind, words, width) in [
            (Kind::U64, "-1", 8),
            (Kind::U64, "18446744073709551616", 8),
            (Kind::Text, "too long", 7),
            (Kind::Text, "a\0b", 8),
            (Kind::Bytes, "0g", 1),
            (Kind::Bytes, "000", 1),
            (Kind::Bytes, "0000", 1),
        ] {
            assert!(kind.read(words, Width::Exactly(width)).is_err(), "{kind} {words:?}");
        }
    }

    #[test]
    fn kinds_are_numbers_and_names() {
        for number in 0..=255 {
            assert_eq!(Kind::from_number(number).number(), number);
        }
        for kind in [Kind::Bytes, Kind::U64, Kind::Text] {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
    }
}
