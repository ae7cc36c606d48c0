//! Values of types whose bytes are their contents.

use super::encode::{Codec, Encode, Value};
use super::type_name::TypeName;
use super::view::View;
use crate::kind::Kind;
use crate::unfit::Unfit;
use crate::width::Width;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A value of a type whose bytes are its contents, as `zerocopy` derives it: a `repr(C)` struct of numbers without
/// padding, say. It is not a key, because the bytes of little-endian numbers are not in their order.
///
/// The bytes are those of this machine: machines of another byte order read other numbers, unless the fields have the
/// types of `zerocopy::byteorder`. The index records that its values are such bytes, and their length, and not their
/// type. [`value_type!`](crate::value_type) gives a type with a field of type `Plain<T>` a name of its own.
///
/// ```
/// # use farwood::types::Plain;
/// # use farwood::{BTree, Pool, PoolOptions};
/// use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};
///
/// #[derive(Debug, PartialEq, FromBytes, IntoBytes, Immutable, KnownLayout)]
/// #[repr(C)]
/// struct Quote {
///     bid: u32,
///     ask: u32,
/// }
/// # let url = format!("shm://doc-plain-{}", std::process::id());
/// # Pool::create(&url, &PoolOptions::new().memory_bytes(64 << 20))?;
/// # let pool = Pool::open(&url)?;
///
/// let quotes = pool.create_index::<u64, Plain<Quote>>("quotes", &BTree::new())?;
/// let quote = Quote { bid: 1999, ask: 2001 };
/// quotes.put(7, Plain(&quote))?;
/// assert_eq!(quotes.get(7)?, Some(Plain(quote)));
/// # drop((quotes, pool));
/// # Pool::remove(&url)?;
/// # Ok::<(), farwood::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Plain<T>(pub T);

impl<T: IntoBytes + Immutable> Encode<Self> for Plain<T> {
    type Encoded<'a>
        = &'a [u8]
    where
        Self: 'a;

    #[inline]
    fn encode(&self, _width: Width) -> Result<&[u8], Unfit> {
        Ok(self.0.as_bytes())
    }
}

impl<T: IntoBytes + Immutable> Encode<Plain<T>> for Plain<&T> {
    type Encoded<'a>
        = &'a [u8]
    where
        Self: 'a;

    #[inline]
    fn encode(&self, _width: Width) -> Result<&[u8], Unfit> {
        Ok(self.0.as_bytes())
    }
}

impl<T: FromBytes + IntoBytes + Immutable + KnownLayout + Send + Sync + 'static> Codec for Plain<T> {
    const KIND: Kind = Kind::Structured;
    const NAME: TypeName = TypeName::new("plain");
    const WIDTH: Option<usize> = Some(size_of::<T>());

    #[inline]
    fn decode(bytes: &[u8]) -> Result<Self, Unfit> {
        let wrong = || Unfit::Length { expected: size_of::<T>(), found: bytes.len() };
        T::read_from_bytes(bytes).map(Self).map_err(|_| wrong())
    }
}

impl<T: FromBytes + IntoBytes + Immutable + KnownLayout + Send + Sync + 'static> Value for Plain<T> {}

/// A type without alignment, such as a struct of numbers of `zerocopy::byteorder`, can be read where its bytes are.
impl<T> View for Plain<T>
where
    T: FromBytes + IntoBytes + Immutable + KnownLayout + Unaligned + Send + Sync + 'static,
{
    type View<'v> = &'v T;

    #[inline]
    fn view(bytes: &[u8]) -> Result<&T, Unfit> {
        T::ref_from_bytes(bytes).map_err(|_| Unfit::Length { expected: size_of::<T>(), found: bytes.len() })
    }
}
