//! Values that are read without a copy.

use super::encode::{Codec, Value};
use crate::kind::unpad;
use crate::unfit::Unfit;

/// A value that [`Index::get_with`](crate::Index::get_with) shows in the buffer into which it was read.
pub trait View: Value {
    /// The borrowed form.
    type View<'v>;

    /// The borrowed form of an encoded value.
    ///
    /// # Errors
    /// [`Unfit`] if the bytes are not valid for this type.
    fn view(bytes: &[u8]) -> Result<Self::View<'_>, Unfit>;
}

impl View for String {
    type View<'v> = &'v str;

    fn view(bytes: &[u8]) -> Result<&str, Unfit> {
        std::str::from_utf8(unpad(bytes)).map_err(|_| Unfit::NoText)
    }
}

impl View for Vec<u8> {
    type View<'v> = &'v [u8];

    fn view(bytes: &[u8]) -> Result<&[u8], Unfit> {
        Ok(bytes)
    }
}

impl<const N: usize> View for [u8; N] {
    type View<'v> = &'v [u8; N];

    fn view(bytes: &[u8]) -> Result<&[u8; N], Unfit> {
        bytes.try_into().map_err(|_| Unfit::Length { expected: N, found: bytes.len() })
    }
}

/// Small values are decoded.
macro_rules! decoded {
    ($($value:ty),+) => {
        $(impl View for $value {
            type View<'v> = $value;

            fn view(bytes: &[u8]) -> Result<$value, Unfit> {
                <$value>::decode(bytes)
            }
        })+
    };
}

decoded!(u8, u16, u32, u64, u128, i8, i16, i32, i64, i128, f32, f64, bool);
