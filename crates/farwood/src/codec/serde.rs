//! Values of types that `serde` serialises, in the format of postcard.

use super::encode::{Codec, Encode, Value};
use super::part::check_padding;
use super::type_name::TypeName;
use crate::inline_bytes::InlineBytes;
use crate::kind::Kind;
use crate::unfit::Unfit;
use crate::width::Width;
use ::serde::{Serialize, de::DeserializeOwned};
use postcard::ser_flavors::Flavor;

/// A value of a type that `serde` serialises, stored in the format of `postcard`. It is not a key, because postcard
/// does not keep the order.
///
/// The index records that its values are in this format, and not their type. [`value_type!`](crate::value_type) gives a
/// type with a field of type `Serde<T>` a name of its own. Postcard stores fields by position: add a field at the end
/// of a stored type only if the index is loaded again, or store an `enum` with a variant for each version.
///
/// ```
/// # use farwood::types::Serde;
/// # use farwood::{BTree, Pool, PoolOptions};
/// #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
/// struct Profile {
///     name: String,
///     tags: Vec<String>,
/// }
/// # let url = format!("shm://doc-serde-{}", std::process::id());
/// # Pool::create(&url, &PoolOptions::new().memory_bytes(64 << 20))?;
/// # let pool = Pool::open(&url)?;
///
/// let options = BTree::new().any_length_values();
/// let profiles = pool.create_index::<u64, Serde<Profile>>("profiles", &options)?;
/// let ada = Profile { name: "Ada".to_owned(), tags: vec!["engines".to_owned()] };
/// profiles.put(7, Serde(&ada))?;
/// assert_eq!(profiles.get(7)?, Some(Serde(ada)));
/// # drop((profiles, pool));
/// # Pool::remove(&url)?;
/// # Ok::<(), farwood::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Serde<T>(pub T);

/// Appends the serialised bytes to the encoded value.
struct Appended(InlineBytes);

impl Flavor for Appended {
    type Output = InlineBytes;

    #[inline]
    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.0.push(&[byte]);
        Ok(())
    }

    #[inline]
    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        self.0.push(bytes);
        Ok(())
    }

    fn finalize(self) -> postcard::Result<InlineBytes> {
        Ok(self.0)
    }
}

fn encode<T: Serialize>(value: &T, width: Width) -> Result<InlineBytes, Unfit> {
    let bytes = postcard::serialize_with_flavor(value, Appended(InlineBytes::empty()))
        .map_err(|error| Unfit::Unserialised { why: error.to_string() })?;
    bytes.fit(width)
}

impl<T: Serialize> Encode<Self> for Serde<T> {
    type Encoded<'a>
        = InlineBytes
    where
        Self: 'a;

    fn encode(&self, width: Width) -> Result<InlineBytes, Unfit> {
        encode(&self.0, width)
    }
}

impl<T: Serialize> Encode<Serde<T>> for Serde<&T> {
    type Encoded<'a>
        = InlineBytes
    where
        Self: 'a;

    fn encode(&self, width: Width) -> Result<InlineBytes, Unfit> {
        encode(self.0, width)
    }
}

impl<T: Serialize + DeserializeOwned + Send + Sync + 'static> Codec for Serde<T> {
    const KIND: Kind = Kind::Structured;
    const NAME: TypeName = TypeName::new("postcard");
    const WIDTH: Option<usize> = None;

    fn decode(bytes: &[u8]) -> Result<Self, Unfit> {
        let (value, padding) = postcard::take_from_bytes(bytes)
            .map_err(|error| Unfit::Unserialised { why: error.to_string() })?;
        check_padding(padding)?;
        Ok(Self(value))
    }
}

impl<T: Serialize + DeserializeOwned + Send + Sync + 'static> Value for Serde<T> {}
