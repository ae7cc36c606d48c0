//! Numbers as keys and values: big-endian, so that the order of the bytes is the order of the numbers.

#[allow(unsafe_code)]
mod sys;

pub use sys::*;

use farwood::types::{Codec, Encode, Width};

/// The bytes of a number in an index.
const BYTES: usize = 8;

/// The bytes of a number, as the library encodes it.
pub(crate) fn encoded<T: Encode<T>>(number: &T) -> [u8; BYTES] {
    let bytes = number.encode(Width::Exactly(BYTES)).ok().and_then(|bytes| bytes.as_ref().try_into().ok());
    bytes.unwrap_or_else(|| unreachable!("a number of 64 bits has 8 bytes"))
}

/// The number of encoded bytes; 0 if they are missing.
fn decoded<T: Codec + Default>(bytes: &[u8]) -> T {
    T::decode(bytes).unwrap_or_default()
}
