//! The encoding of a program's types as byte strings. `docs/library.md` describes it byte for byte.
//!
//! | type | in the index | order | length |
//! |---|---|---|---|
//! | `u8` to `u128` | big-endian | numeric | 1 to 16 |
//! | `i8` to `i128` | big-endian, the sign bit flipped | numeric | 1 to 16 |
//! | `f32`, `f64` | big-endian; the sign bit flipped, or all bits of negative numbers | of `total_cmp` | 4, 8 |
//! | `bool` | 0 or 1 | `false` first | 1 |
//! | `()` | nothing | | 0 |
//! | `[u8; N]` | as it is | bytewise | N |
//! | `Vec<u8>` ([`Bytes`]) | as it is | bytewise | the length chosen at creation, or any |
//! | `String` ([`Text`]) | UTF-8, padded with zeros | by code points | at most the length chosen at creation, or any |
//! | `Duration` | seconds in 8 bytes, nanoseconds in 4 | of time | 12 |
//! | `SystemTime` | seconds since 1970 as `i64`, nanoseconds in 4 bytes | of time | 12 |
//! | `Option<T>` | 0, or 1 and the value | `None` first | 1 more than of `T` |
//! | tuples of 1 to 6 types | the components, each with its end | by components | the sum, if all are fixed |
//! | `Serde<T>` (feature `serde`) | postcard; for values only | | any |
//! | `Plain<T>` (feature `zerocopy`) | the bytes of `T`; for values only | | of `T` |

mod bytes;
mod encode;
mod key_range;
mod newtype;
mod number;
mod option;
mod part;
#[cfg(feature = "zerocopy")]
mod plain;
mod prefix;
#[cfg(feature = "serde")]
mod serde;
mod short;
mod text;
mod time;
mod tuple;
mod type_name;
mod view;

pub use bytes::Bytes;
pub use encode::{Codec, Encode, Key, Value};
pub use key_range::KeyRange;
#[cfg(feature = "zerocopy")]
pub use plain::Plain;
pub(crate) use prefix::prefix_of;
pub use prefix::{Prefix, PrefixPart, StartsWith};
#[cfg(feature = "serde")]
pub use serde::Serde;
pub(crate) use short::KEY_BYTES_MIN;
pub use text::Text;
pub use type_name::TypeName;
pub use view::View;

#[cfg(test)]
mod tests;
