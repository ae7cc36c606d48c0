//! The types of keys and values, as recorded in an index.

use crate::codec::{Codec, Encode, TypeName};
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
    /// Signed numbers of 64 bits.
    I64,
    /// Floating-point numbers of 64 bits. The command shows every NaN as `NaN`.
    F64,
    /// `true` and `false`.
    Bool,
    /// Another type of the library, such as a tuple. The command shows hexadecimal digits.
    Structured,
    /// A type defined by the program, 128 or more; see [`Codec::KIND`](crate::types::Codec::KIND). Smaller numbers
    /// belong to the library: an index of such a number was created by a later version.
    Other(u8),
}

impl Kind {
    /// The number in the parameters of the index.
    pub const fn number(self) -> u8 {
        match self {
            Self::Bytes => 0,
            Self::U64 => 1,
            Self::Text => 2,
            Self::I64 => 3,
            Self::F64 => 4,
            Self::Bool => 5,
            Self::Structured => 6,
            Self::Other(number) => number,
        }
    }

    /// The kind whose number in the parameters of an index is `number`.
    pub const fn from_number(number: u8) -> Self {
        match number {
            0 => Self::Bytes,
            1 => Self::U64,
            2 => Self::Text,
            3 => Self::I64,
            4 => Self::F64,
            5 => Self::Bool,
            6 => Self::Structured,
            other => Self::Other(other),
        }
    }

    /// The length of this type in bytes, if it is fixed.
    pub const fn width(self) -> Option<usize> {
        match self {
            Self::U64 | Self::I64 | Self::F64 => Some(8),
            Self::Bool => Some(1),
            _ => None,
        }
    }

    /// Whether an index can be created with this kind: a number of [`Other`](Self::Other) below 128 belongs to the
    /// library.
    pub const fn is_creatable(self) -> bool {
        !matches!(self, Self::Other(..128))
    }

    /// Whether keys and values are shown as numbers.
    pub const fn is_number(self) -> bool {
        matches!(self, Self::U64 | Self::I64 | Self::F64)
    }

    /// The name of the library's type of this kind, if there is only one.
    pub(crate) const fn type_name(self) -> Option<&'static TypeName> {
        match self {
            Self::Bytes => Some(&<Vec<u8> as Codec>::NAME),
            Self::U64 => Some(&<u64 as Codec>::NAME),
            Self::Text => Some(&<String as Codec>::NAME),
            Self::I64 => Some(&<i64 as Codec>::NAME),
            Self::F64 => Some(&<f64 as Codec>::NAME),
            Self::Bool => Some(&<bool as Codec>::NAME),
            Self::Structured | Self::Other(_) => None,
        }
    }

    /// Parses `words` as a decimal number, a text, `true` or `false`, or hexadecimal digits, depending on the kind, and
    /// encodes it with the length that `width` permits.
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
            Self::I64 => match words.parse::<i64>() {
                Ok(number) if number.to_string() == words => encoded(&number, width),
                _ => Err(unreadable(
                    "number from -9223372036854775808 to 9223372036854775807, without a plus sign or leading zeros"
                        .to_owned(),
                )),
            },
            Self::F64 => match words.parse::<f64>() {
                Ok(number) => encoded(&number, width),
                Err(_) => Err(unreadable("number".to_owned())),
            },
            Self::Bool => match words.parse::<bool>() {
                Ok(value) => encoded(&value, width),
                Err(_) => Err(unreadable("truth value; give true or false".to_owned())),
            },
            Self::Text => Ok(Encode::<String>::encode(words, width)?.as_ref().to_vec()),
            Self::Bytes | Self::Structured | Self::Other(_) => match (read_hex(words), width) {
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
            Self::U64 | Self::I64 | Self::F64 => Width::Exactly(8).check(bytes.len()),
            Self::Bool => bool::decode(bytes).map(|_| ()),
            Self::Text => {
                let text = std::str::from_utf8(bytes).map_err(|_| Unfit::NoText)?;
                check_text(text, usize::MAX)
            }
            Self::Bytes | Self::Structured | Self::Other(_) => Ok(()),
        }
    }

    /// Formats the bytes, as [`read`](Self::read) parses them.
    pub fn show(self, bytes: &[u8]) -> String {
        let shown = match self {
            Self::U64 => u64::decode(bytes).map(|number| number.to_string()),
            Self::I64 => i64::decode(bytes).map(|number| number.to_string()),
            Self::F64 => f64::decode(bytes).map(|number| number.to_string()),
            Self::Bool => bool::decode(bytes).map(|value| value.to_string()),
            Self::Text => Ok(String::from_utf8_lossy(unpad(bytes)).into_owned()),
            Self::Bytes | Self::Structured | Self::Other(_) => Ok(write_hex(bytes)),
        };
        shown.unwrap_or_else(|_| write_hex(bytes))
    }
}

fn encoded<T: Codec>(value: &T, width: Width) -> Result<Vec<u8>, Unfit> {
    Ok(value.encode(width)?.as_ref().to_vec())
}

/// The type of keys or values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Type {
    /// The meaning of the bytes.
    pub kind: Kind,
    /// The number of bytes; `None` if it varies.
    pub bytes: Option<usize>,
    /// The name of the type; `None` if the index does not record it.
    pub name: Option<&'static TypeName>,
}

impl std::fmt::Display for Type {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.name {
            Some(name) if name.is_unknown() => write!(f, "{name} ({})", self.kind)?,
            Some(name) if self.kind.type_name() != Some(name) => match self.kind {
                Kind::Structured | Kind::Other(_) => write!(f, "{name}")?,
                kind => write!(f, "'{name}' ({kind})")?,
            },
            _ => write!(f, "{}", self.kind)?,
        }
        match self.bytes.filter(|_| self.kind.width().is_none()) {
            Some(bytes) => write!(f, " of {bytes} bytes"),
            None => Ok(()),
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

pub(crate) fn write_hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from_digit(u32::from(value), 16).unwrap_or('?');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

pub(crate) fn read_hex(digits: &str) -> Option<Vec<u8>> {
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
            Self::I64 => f.write_str("i64"),
            Self::F64 => f.write_str("f64"),
            Self::Bool => f.write_str("bool"),
            Self::Structured => f.write_str("structured"),
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
            "i64" => Ok(Self::I64),
            "f64" => Ok(Self::F64),
            "bool" => Ok(Self::Bool),
            _ => Err("the type must be u64, i64, f64, bool, text or hex".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_back() {
        for (kind, words, width) in [
            (Kind::U64, "42", 8),
            (Kind::I64, "-42", 8),
            (Kind::F64, "-0.5", 8),
            (Kind::F64, "inf", 8),
            (Kind::F64, "NaN", 8),
            (Kind::Bool, "true", 1),
            (Kind::Bool, "false", 8),
            (Kind::Text, "été", 9),
            (Kind::Text, "", 8),
            (Kind::Bytes, "00ff10", 3),
            (Kind::Structured, "00ff10", 3),
        ] {
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
            (Kind::I64, "9223372036854775808", 8),
            (Kind::I64, "-01", 8),
            (Kind::F64, "one", 8),
            (Kind::Bool, "yes", 1),
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
        for kind in [Kind::Bytes, Kind::U64, Kind::Text, Kind::I64, Kind::F64, Kind::Bool] {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
    }

    #[test]
    fn a_type_is_shown_by_its_name_where_the_kind_does_not_say_it() {
        static USER_ID: TypeName = TypeName::new("user id");
        static VERSION: TypeName = TypeName::new("version");
        let shown = |kind, bytes, name| Type { kind, bytes, name }.to_string();
        assert_eq!(shown(Kind::U64, Some(8), None), "u64");
        assert_eq!(shown(Kind::Text, Some(16), Some(&String::NAME)), "text of 16 bytes");
        assert_eq!(shown(Kind::U64, Some(8), Some(&USER_ID)), "'user id' (u64)");
        assert_eq!(
            shown(Kind::Structured, None, Some(&<(u64, Option<String>)>::NAME)),
            "(u64, option of text)"
        );
        assert_eq!(shown(Kind::Other(128), Some(8), Some(&VERSION)), "version of 8 bytes");
        let unknown = TypeName::of_hash(1, None);
        assert_eq!(shown(Kind::Other(128), Some(8), Some(unknown)), "custom (kind 128) of 8 bytes");
    }
}
