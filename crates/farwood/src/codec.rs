//! The encoding of a program's types as byte strings.
//!
//! | type | in the index | order | length |
//! |---|---|---|---|
//! | `u64` | big-endian | numeric | 8 |
//! | `[u8; N]` | as it is | bytewise | N |
//! | `Vec<u8>` ([`Bytes`]) | as it is | bytewise | the length chosen at creation, or any |
//! | `String` ([`Text`]) | UTF-8, padded with zeros | by code points | at most the length chosen at creation, or any |

use crate::kind::{Kind, check_text, unpad};
use crate::padded::Padded;
use crate::unfit::Unfit;
use crate::width::Width;

/// Byte strings of one length, chosen when the index is created, or of any length.
pub type Bytes = Vec<u8>;
/// UTF-8 text without NUL, up to a length chosen when the index is created, or of any length.
pub type Text = String;

/// A type that an index can store.
///
/// Implement it, and [`Key`] or [`Value`], for your own types, with a [`Kind::Other`] of 128 or more.
pub trait Codec: Sized + 'static {
    /// The borrowed form that calls take: `u64`, `[u8]`, `str`.
    type View: ?Sized;
    /// The encoded bytes.
    type Encoded<'a>: AsRef<[u8]>;
    /// The type that the index records, so that it cannot be opened with another type by mistake.
    const KIND: Kind;
    /// The length in bytes; `None` if it is chosen when an index is created.
    const WIDTH: Option<usize>;

    /// Encodes `view` with a length that `width` permits.
    ///
    /// # Errors
    /// [`Unfit`] if that is impossible.
    fn encode(view: &Self::View, width: Width) -> Result<Self::Encoded<'_>, Unfit>;

    /// Decodes the bytes.
    ///
    /// # Errors
    /// [`Unfit`] if they are not valid for this type.
    fn decode(bytes: &[u8]) -> Result<Self, Unfit>;
}

/// A type for keys: the order of its encoded bytes is the order of the index.
pub trait Key: Codec {}

/// A type for values.
pub trait Value: Codec {}

impl Codec for u64 {
    type View = u64;
    type Encoded<'a> = [u8; 8];
    const KIND: Kind = Kind::U64;
    const WIDTH: Option<usize> = Some(8);

    #[inline]
    fn encode(view: &u64, _width: Width) -> Result<[u8; 8], Unfit> {
        Ok(view.to_be_bytes())
    }

    #[inline]
    fn decode(bytes: &[u8]) -> Result<Self, Unfit> {
        let bytes = bytes.try_into().map_err(|_| Unfit::Length { expected: 8, found: bytes.len() })?;
        Ok(Self::from_be_bytes(bytes))
    }
}

impl<const N: usize> Codec for [u8; N] {
    type View = [u8; N];
    type Encoded<'a> = &'a [u8; N];
    const KIND: Kind = Kind::Bytes;
    const WIDTH: Option<usize> = Some(N);

    #[inline]
    fn encode(view: &[u8; N], _width: Width) -> Result<&[u8; N], Unfit> {
        Ok(view)
    }

    #[inline]
    fn decode(bytes: &[u8]) -> Result<Self, Unfit> {
        bytes.try_into().map_err(|_| Unfit::Length { expected: N, found: bytes.len() })
    }
}

impl Codec for Vec<u8> {
    type View = [u8];
    type Encoded<'a> = &'a [u8];
    const KIND: Kind = Kind::Bytes;
    const WIDTH: Option<usize> = None;

    #[inline]
    fn encode(view: &[u8], width: Width) -> Result<&[u8], Unfit> {
        width.check(view.len())?;
        Ok(view)
    }

    fn decode(bytes: &[u8]) -> Result<Self, Unfit> {
        Ok(bytes.to_vec())
    }
}

impl Codec for String {
    type View = str;
    type Encoded<'a> = Padded;
    const KIND: Kind = Kind::Text;
    const WIDTH: Option<usize> = None;

    #[inline]
    fn encode(view: &str, width: Width) -> Result<Padded, Unfit> {
        check_text(view, width.most())?;
        let bytes = match width {
            Width::Exactly(bytes) => bytes,
            Width::UpTo(_) => view.len(),
        };
        Ok(Padded::new(view.as_bytes(), bytes))
    }

    fn decode(bytes: &[u8]) -> Result<Self, Unfit> {
        let text = std::str::from_utf8(unpad(bytes)).map_err(|_| Unfit::NoText)?;
        Ok(text.to_owned())
    }
}

impl Key for u64 {}
impl Value for u64 {}
impl<const N: usize> Key for [u8; N] {}
impl<const N: usize> Value for [u8; N] {}
impl Key for Vec<u8> {}
impl Value for Vec<u8> {}
impl Key for String {}
impl Value for String {}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes<T: Codec>(view: &T::View, width: usize) -> Vec<u8> {
        T::encode(view, Width::Exactly(width)).unwrap_or_else(|unfit| panic!("{unfit}")).as_ref().to_vec()
    }

    #[test]
    fn the_order_of_bytes_is_the_order_of_numbers() {
        let numbers = [0u64, 1, 255, 256, u64::MAX / 2, u64::MAX];
        assert!(numbers.windows(2).all(|pair| bytes::<u64>(&pair[0], 8) < bytes::<u64>(&pair[1], 8)));
    }

    #[test]
    fn the_order_of_bytes_is_the_order_of_texts() {
        let texts = ["", "a", "a!", "aa", "b", "z", "é", "日本"];
        assert!(texts.windows(2).all(|pair| bytes::<String>(pair[0], 16) < bytes::<String>(pair[1], 16)));
    }

    #[test]
    fn values_are_read_back() {
        assert_eq!(u64::decode(&bytes::<u64>(&7, 8)), Ok(7));
        assert_eq!(<[u8; 3]>::decode(&bytes::<[u8; 3]>(&[1, 2, 3], 3)), Ok([1, 2, 3]));
        for width in [5, 64, 65, 900] {
            assert_eq!(String::decode(&bytes::<String>("hello", width)).as_deref(), Ok("hello"), "{width}");
        }
    }

    #[test]
    fn values_of_any_length_are_not_padded() {
        for text in
            ["", "a", "a longer text than the others in this test, of more than sixty-four bytes in all"]
        {
            let bytes = String::encode(text, Width::UpTo(100)).unwrap();
            assert_eq!(bytes.as_ref(), text.as_bytes());
        }
        assert_eq!(Vec::<u8>::encode(&[1, 0], Width::UpTo(100)), Ok(&[1, 0][..]));
    }

    #[test]
    fn values_that_do_not_fit_are_refused() {
        assert!(matches!(
            Vec::<u8>::encode(&[1, 2], Width::Exactly(3)),
            Err(Unfit::Length { expected: 3, found: 2 })
        ));
        assert!(matches!(
            String::encode("too long", Width::Exactly(7)),
            Err(Unfit::TooLong { most: 7, found: 8 })
        ));
        assert!(matches!(String::encode("a\0", Width::UpTo(7)), Err(Unfit::Nul { at: 1 })));
        assert_eq!(String::decode(&[0xff, 0, 0]), Err(Unfit::NoText));
        assert!(matches!(Vec::<u8>::encode(&[1, 2], Width::UpTo(1)), Err(Unfit::TooLong { .. })));
        assert!(u64::decode(&[1, 2, 3]).is_err());
    }
}
