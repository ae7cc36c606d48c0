//! The first part of a key, for scans.

use super::encode::{Codec, Encode, Key};
use super::part::push_escaped;
use crate::inline_bytes::InlineBytes;
use crate::unfit::Unfit;
use crate::width::Width;

/// The argument of [`Index::scan_prefix`](crate::Index::scan_prefix) for keys of type `K`: the first characters of a
/// text, the first bytes of a byte string, or the first components of a tuple, of which the last may be [`StartsWith`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a prefix of keys of type `{K}`",
    note = "give a text, a byte string, or a tuple of the first components: `(7,)` is a prefix of a `(u64, String)`"
)]
pub trait Prefix<K> {
    /// Appends the bytes with which the encoded keys begin.
    ///
    /// # Errors
    /// [`Unfit`] if no key has them.
    fn encode_prefix(&self, prefix: &mut InlineBytes) -> Result<(), Unfit>;
}

impl<K, P: Prefix<K> + ?Sized> Prefix<K> for &P {
    fn encode_prefix(&self, prefix: &mut InlineBytes) -> Result<(), Unfit> {
        (**self).encode_prefix(prefix)
    }
}

macro_rules! strings {
    ($key:ty: $($given:ty),+) => {
        $(impl Prefix<$key> for $given {
            fn encode_prefix(&self, prefix: &mut InlineBytes) -> Result<(), Unfit> {
                prefix.push(self.as_ref());
                Ok(())
            }
        })+
    };
}

strings!(String: str, String);
strings!(Vec<u8>: [u8], Vec<u8>);

impl<const M: usize> Prefix<Vec<u8>> for [u8; M] {
    fn encode_prefix(&self, prefix: &mut InlineBytes) -> Result<(), Unfit> {
        prefix.push(self);
        Ok(())
    }
}

impl<const N: usize> Prefix<[u8; N]> for [u8] {
    fn encode_prefix(&self, prefix: &mut InlineBytes) -> Result<(), Unfit> {
        prefix.push(self);
        Ok(())
    }
}

impl<const N: usize, const M: usize> Prefix<[u8; N]> for [u8; M] {
    fn encode_prefix(&self, prefix: &mut InlineBytes) -> Result<(), Unfit> {
        prefix.push(self);
        Ok(())
    }
}

/// The last component of a tuple that is a [`Prefix`]: a whole component, or [`StartsWith`].
pub trait PrefixPart<T> {
    /// Appends the bytes with which the encoded component begins.
    ///
    /// # Errors
    /// [`Unfit`] if no component has them.
    fn encode_prefix_part(&self, prefix: &mut InlineBytes) -> Result<(), Unfit>;
}

impl<T: Codec, A: Encode<T>> PrefixPart<T> for A {
    fn encode_prefix_part(&self, prefix: &mut InlineBytes) -> Result<(), Unfit> {
        self.encode_part(prefix)
    }
}

/// A text or byte string with which the last given component of a [`Prefix`] begins: `(7, StartsWith("left-"))` is a
/// prefix of `(7, "left-pad")`, and `(7, "left-")` is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartsWith<A>(pub A);

impl<A: Encode<String> + AsRef<str>> PrefixPart<String> for StartsWith<A> {
    fn encode_prefix_part(&self, prefix: &mut InlineBytes) -> Result<(), Unfit> {
        push_escaped(prefix, self.0.as_ref().as_bytes());
        Ok(())
    }
}

impl<A: Encode<Vec<u8>>> PrefixPart<Vec<u8>> for StartsWith<A> {
    fn encode_prefix_part(&self, prefix: &mut InlineBytes) -> Result<(), Unfit> {
        push_escaped(prefix, self.0.encode(Width::UpTo(usize::MAX))?.as_ref());
        Ok(())
    }
}

/// The bytes with which keys of type `K` begin.
pub(crate) fn prefix_of<K: Key>(prefix: &impl Prefix<K>) -> Result<InlineBytes, Unfit> {
    let mut bytes = InlineBytes::empty();
    prefix.encode_prefix(&mut bytes)?;
    Ok(bytes)
}
