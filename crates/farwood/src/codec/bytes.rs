//! Byte strings.

use super::encode::{Codec, Encode, Key, Value};
use super::part::take_escaped;
use super::short::{KEY_BYTES_MIN, ShortBytes, unpad_short};
use super::type_name::TypeName;
use crate::kind::Kind;
use crate::unfit::Unfit;
use crate::width::Width;

/// Byte strings of one length, chosen when the index is created, or of any length.
pub type Bytes = Vec<u8>;

/// The name of all byte strings: those of a fixed length are among those of a chosen length.
const NAME: TypeName = TypeName::new("bytes");

/// The bytes of an array.
#[derive(Clone, Copy, Debug)]
pub enum ArrayBytes<'a> {
    /// The array itself.
    Whole(&'a [u8]),
    /// An array of less than 8 bytes, as a key of 8 bytes.
    Padded(ShortBytes),
}

impl AsRef<[u8]> for ArrayBytes<'_> {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Whole(bytes) => bytes,
            Self::Padded(bytes) => bytes.as_ref(),
        }
    }
}

impl<const N: usize> Encode<Self> for [u8; N] {
    type Encoded<'a> = ArrayBytes<'a>;

    #[inline]
    fn encode(&self, width: Width) -> Result<ArrayBytes<'_>, Unfit> {
        if N < KEY_BYTES_MIN && width == Width::Exactly(KEY_BYTES_MIN) {
            return Ok(ArrayBytes::Padded(ShortBytes::new(*self, width)));
        }
        Ok(ArrayBytes::Whole(self))
    }
}

impl<const N: usize> Codec for [u8; N] {
    const KIND: Kind = Kind::Bytes;
    const NAME: TypeName = NAME;
    const WIDTH: Option<usize> = Some(N);

    #[inline]
    fn decode(bytes: &[u8]) -> Result<Self, Unfit> {
        unpad_short(bytes)
    }
}

impl Encode<Vec<u8>> for [u8] {
    type Encoded<'a> = &'a [u8];

    #[inline]
    fn encode(&self, width: Width) -> Result<&[u8], Unfit> {
        width.check(self.len())?;
        Ok(self)
    }
}

/// Implements the trait for types that are byte strings when borrowed.
macro_rules! owned {
    ($($owned:ty),+) => {
        $(impl Encode<Vec<u8>> for $owned {
            type Encoded<'a> = &'a [u8];

            #[inline]
            fn encode(&self, width: Width) -> Result<&[u8], Unfit> {
                <[u8] as Encode<Vec<u8>>>::encode(self, width)
            }
        })+
    };
}

owned!(Vec<u8>, Box<[u8]>);

impl<const N: usize> Encode<Vec<u8>> for [u8; N] {
    type Encoded<'a> = &'a [u8];

    #[inline]
    fn encode(&self, width: Width) -> Result<&[u8], Unfit> {
        <[u8] as Encode<Vec<u8>>>::encode(self, width)
    }
}

impl Codec for Vec<u8> {
    const KIND: Kind = Kind::Bytes;
    const NAME: TypeName = NAME;
    const WIDTH: Option<usize> = None;

    fn decode(bytes: &[u8]) -> Result<Self, Unfit> {
        Ok(bytes.to_vec())
    }

    fn decode_part(parts: &mut &[u8]) -> Result<Self, Unfit> {
        take_escaped(parts)
    }
}

impl<const N: usize> Key for [u8; N] {}
impl<const N: usize> Value for [u8; N] {}
impl Key for Vec<u8> {}
impl Value for Vec<u8> {}
