//! Optional keys and values: 0, or 1 and the value.

use super::encode::{Codec, Encode, Key, Value};
use super::part::{check_padding, take};
use super::type_name::TypeName;
use crate::inline_bytes::InlineBytes;
use crate::kind::Kind;
use crate::unfit::Unfit;
use crate::width::Width;

/// The byte of `None`.
const NONE: u8 = 0;
/// The byte before a value.
const SOME: u8 = 1;

impl<T: Codec, A: Encode<T>> Encode<Option<T>> for Option<A> {
    type Encoded<'a>
        = InlineBytes
    where
        Self: 'a;

    #[inline]
    fn encode(&self, width: Width) -> Result<InlineBytes, Unfit> {
        let mut bytes = InlineBytes::empty();
        let most = width.most().checked_sub(1).ok_or(Unfit::TooLong { most: 0, found: 1 })?;
        let rest = match (T::WIDTH, width) {
            (Some(own), _) => Width::Exactly(own),
            (None, Width::Exactly(_)) => Width::Exactly(most),
            (None, Width::UpTo(_)) => Width::UpTo(most),
        };
        match self {
            None => bytes.push(&[NONE]),
            Some(value) => {
                bytes.push(&[SOME]);
                bytes.push(value.encode(rest)?.as_ref());
            }
        }
        if let Some(own) = T::WIDTH {
            bytes.pad(1 + own);
        }
        bytes.fit(width)
    }

    #[inline]
    fn encode_part(&self, parts: &mut InlineBytes) -> Result<(), Unfit> {
        match self {
            None => {
                let end = parts.as_ref().len() + 1 + T::WIDTH.unwrap_or(0);
                parts.push(&[NONE]);
                parts.pad(end);
                Ok(())
            }
            Some(value) => {
                parts.push(&[SOME]);
                value.encode_part(parts)
            }
        }
    }
}

impl<T: Codec> Codec for Option<T> {
    const KIND: Kind = Kind::Structured;
    const NAME: TypeName = TypeName::option(&T::NAME);
    const WIDTH: Option<usize> = match T::WIDTH {
        Some(own) => Some(1 + own),
        None => None,
    };

    fn decode(bytes: &[u8]) -> Result<Self, Unfit> {
        match bytes.split_first() {
            Some((&NONE, rest)) => check_padding(rest).map(|()| None),
            Some((&SOME, rest)) => {
                let own = T::WIDTH.unwrap_or(rest.len());
                let (value, padding) = rest.split_at_checked(own).ok_or(MALFORMED)?;
                check_padding(padding)?;
                T::decode(value).map(Some)
            }
            _ => Err(MALFORMED),
        }
    }

    fn decode_part(parts: &mut &[u8]) -> Result<Self, Unfit> {
        match take(parts, 1)? {
            [SOME] => T::decode_part(parts).map(Some),
            [NONE] => check_padding(take(parts, T::WIDTH.unwrap_or(0))?).map(|()| None),
            _ => Err(MALFORMED),
        }
    }
}

const MALFORMED: Unfit = Unfit::Malformed { expected: "optional value" };

impl<T: Key> Key for Option<T> {}
impl<T: Value> Value for Option<T> {}
