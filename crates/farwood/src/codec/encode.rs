//! The traits of types that an index stores.

use super::part::{push_escaped, take, take_escaped};
use super::type_name::TypeName;
use crate::inline_bytes::InlineBytes;
use crate::kind::Kind;
use crate::unfit::Unfit;
use crate::width::Width;

/// The argument of a call for a key or value of type `T`: `T` itself, its borrowed form, or a reference to one of them.
///
/// | `T` | accepted |
/// |---|---|
/// | `u64` | `7`, `&7` |
/// | `String` | `"a"`, `&string`, `string` |
/// | `Vec<u8>` | `b"a"`, `&bytes[..]`, `&vec`, `vec` |
/// | `(u64, String)` | `(7, "a")`, `&(7, string)` |
///
/// [`Codec`] has an example for a type of your own.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not accepted for a key or value of type `{T}`",
    note = "give a `{T}`, its borrowed form, or a reference to one of them"
)]
pub trait Encode<T> {
    /// The encoded bytes.
    type Encoded<'a>: AsRef<[u8]>
    where
        Self: 'a;

    /// Encodes the key or value with a length that `width` permits.
    ///
    /// # Errors
    /// [`Unfit`] if that is impossible.
    fn encode(&self, width: Width) -> Result<Self::Encoded<'_>, Unfit>;

    /// Appends the encoding as a component of a tuple: no encoding is a prefix of another. The default is the encoding
    /// itself if all have one length; otherwise the encoding with 0xFF after each 0, and two zeros at the end.
    ///
    /// # Errors
    /// [`Unfit`] if `T` has no such value.
    #[inline]
    fn encode_part(&self, parts: &mut InlineBytes) -> Result<(), Unfit>
    where
        T: Codec,
    {
        if let Some(bytes) = T::WIDTH {
            parts.push(self.encode(Width::Exactly(bytes))?.as_ref());
        } else {
            push_escaped(parts, self.encode(Width::UpTo(usize::MAX))?.as_ref());
            parts.push(&[0, 0]);
        }
        Ok(())
    }
}

impl<T, A: Encode<T> + ?Sized> Encode<T> for &A {
    type Encoded<'a>
        = A::Encoded<'a>
    where
        Self: 'a;

    #[inline]
    fn encode(&self, width: Width) -> Result<Self::Encoded<'_>, Unfit> {
        (**self).encode(width)
    }

    #[inline]
    fn encode_part(&self, parts: &mut InlineBytes) -> Result<(), Unfit>
    where
        T: Codec,
    {
        (**self).encode_part(parts)
    }
}

/// A type that an index can store.
///
/// For a type with one field, [`key_type!`](crate::key_type) and [`value_type!`](crate::value_type) implement it. Other
/// types implement it, and [`Key`] or [`Value`], with a [`Kind::Other`] of 128 or more:
///
/// ```
/// use farwood::types::{Codec, Encode, Kind, TypeName, Unfit, Width};
/// use farwood::Key;
///
/// /// A version of a package. Its order is that of the numbers.
/// #[derive(Debug, PartialEq)]
/// struct Version([u16; 4]);
///
/// impl Encode<Version> for Version {
///     type Encoded<'a> = [u8; 8];
///     fn encode(&self, _: Width) -> Result<[u8; 8], Unfit> {
///         let word = self.0.iter().fold(0, |word, &number| word << 16 | u64::from(number));
///         Ok(word.to_be_bytes())
///     }
/// }
/// impl Codec for Version {
///     const KIND: Kind = Kind::Other(128);
///     const NAME: TypeName = TypeName::new("version");
///     const WIDTH: Option<usize> = Some(8);
///     fn decode(bytes: &[u8]) -> Result<Self, Unfit> {
///         let word = u64::decode(bytes)?;
///         Ok(Self([48, 32, 16, 0].map(|bits| (word >> bits) as u16)))
///     }
/// }
/// impl Key for Version {}
/// # use farwood::{BTree, Pool, PoolOptions};
/// # let url = format!("shm://doc-codec-{}", std::process::id());
/// # Pool::create(&url, &PoolOptions::new().memory_bytes(64 << 20))?;
/// # let pool = Pool::open(&url)?;
///
/// let releases = pool.create_index::<Version, u64>("releases", &BTree::new())?;
/// releases.put(Version([1, 10, 0, 0]), 2026)?;
/// releases.put(Version([1, 9, 0, 0]), 2025)?;
/// let first = releases.iter().next().transpose()?;
/// assert_eq!(first, Some((Version([1, 9, 0, 0]), 2025)));
/// # drop((releases, pool));
/// # Pool::remove(&url)?;
/// # Ok::<(), farwood::Error>(())
/// ```
///
/// A kind of the library is refused when the program is compiled:
///
/// ```compile_fail,E0080
/// # use farwood::types::{Codec, Encode, Kind, TypeName, Unfit, Width};
/// # use farwood::{BTree, Key, Pool};
/// # struct Own(u64);
/// # impl Encode<Own> for Own {
/// #     type Encoded<'a> = [u8; 8];
/// #     fn encode(&self, _: Width) -> Result<[u8; 8], Unfit> { Ok(self.0.to_be_bytes()) }
/// # }
/// impl Codec for Own {
///     const KIND: Kind = Kind::Other(2);
///     // ..
/// #     const NAME: TypeName = TypeName::new("own");
/// #     const WIDTH: Option<usize> = Some(8);
/// #     fn decode(bytes: &[u8]) -> Result<Self, Unfit> { u64::decode(bytes).map(Self) }
/// }
/// # impl Key for Own {}
/// # fn main() {
/// Pool::open("shm://p").unwrap().create_index::<Own, u64>("i", &BTree::new()).unwrap();
/// # }
/// ```
pub trait Codec: Encode<Self> + Sized + Send + Sync + 'static {
    /// The kind that the index records, by which the command reads and shows keys and values.
    const KIND: Kind;
    /// The name that the index records, so that it cannot be opened with another type by mistake. It never changes.
    const NAME: TypeName;
    /// The length in bytes; `None` if it is chosen when an index is created. A key of less than 8 bytes is padded with
    /// zeros in an index of keys of one length.
    const WIDTH: Option<usize>;

    /// Decodes the bytes.
    ///
    /// # Errors
    /// [`Unfit`] if they are not valid for this type.
    fn decode(bytes: &[u8]) -> Result<Self, Unfit>;

    /// Decodes a component of a tuple, see [`Encode::encode_part`], and removes it from the front of `parts`.
    ///
    /// # Errors
    /// [`Unfit`] if the bytes are not valid for this type.
    fn decode_part(parts: &mut &[u8]) -> Result<Self, Unfit> {
        match Self::WIDTH {
            Some(bytes) => Self::decode(take(parts, bytes)?),
            None => Self::decode(&take_escaped(parts)?),
        }
    }
}

/// A type for keys: the order of its encoded bytes is the order of the index.
pub trait Key: Codec {}

/// A type for values.
pub trait Value: Codec {}
