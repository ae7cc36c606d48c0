//! Texts.

use super::encode::{Codec, Encode, Key, Value};
use super::part::{push_escaped, take_escaped};
use super::type_name::TypeName;
use crate::inline_bytes::InlineBytes;
use crate::kind::{Kind, check_text, unpad};
use crate::unfit::Unfit;
use crate::width::Width;

/// UTF-8 text without NUL, up to a length chosen when the index is created, or of any length.
pub type Text = String;

impl Encode<String> for str {
    type Encoded<'a> = InlineBytes;

    #[inline]
    fn encode(&self, width: Width) -> Result<InlineBytes, Unfit> {
        check_text(self, width.most())?;
        let bytes = match width {
            Width::Exactly(bytes) => bytes,
            Width::UpTo(_) => self.len(),
        };
        Ok(InlineBytes::padded(self.as_bytes(), bytes))
    }

    /// A text in a tuple may contain NUL, because the tuple contains the end of the text.
    #[inline]
    fn encode_part(&self, parts: &mut InlineBytes) -> Result<(), Unfit> {
        push_escaped(parts, self.as_bytes());
        parts.push(&[0, 0]);
        Ok(())
    }
}

/// Implements the trait for types that are texts when borrowed.
macro_rules! owned {
    ($($owned:ty),+) => {
        $(impl Encode<String> for $owned {
            type Encoded<'a> = InlineBytes;

            #[inline]
            fn encode(&self, width: Width) -> Result<InlineBytes, Unfit> {
                <str as Encode<String>>::encode(self, width)
            }

            #[inline]
            fn encode_part(&self, parts: &mut InlineBytes) -> Result<(), Unfit> {
                <str as Encode<String>>::encode_part(self, parts)
            }
        })+
    };
}

owned!(String, Box<str>);

impl Codec for String {
    const KIND: Kind = Kind::Text;
    const NAME: TypeName = TypeName::new("text");
    const WIDTH: Option<usize> = None;

    fn decode(bytes: &[u8]) -> Result<Self, Unfit> {
        let text = std::str::from_utf8(unpad(bytes)).map_err(|_| Unfit::NoText)?;
        Ok(text.to_owned())
    }

    fn decode_part(parts: &mut &[u8]) -> Result<Self, Unfit> {
        Self::from_utf8(take_escaped(parts)?).map_err(|_| Unfit::NoText)
    }
}

impl Key for String {}
impl Value for String {}
