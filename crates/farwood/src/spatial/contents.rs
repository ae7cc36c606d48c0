//! The payload that the command and other languages store with a rectangle: a geometry, and attributes.
//!
//! ```text
//! + 0  1  1, the version of this format      + 1  3  zero      + 4  4  bytes of the geometry
//! + 8     geometry: well-known binary        then     attributes: JSON, UTF-8
//! ```

use std::fmt;

/// Bytes before the geometry.
const HEAD_BYTES: usize = 8;
const VERSION: u8 = 1;

/// A geometry and attributes, as a payload.
///
/// ```
/// use farwood::spatial::Contents;
///
/// let contents = Contents { geometry: vec![1, 2, 3], attributes: r#"{"name":"Oak"}"#.to_owned() };
/// assert_eq!(Contents::decode(&contents.encode())?, contents);
/// # Ok::<(), farwood::spatial::InvalidContents>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// The geometry as well-known binary; empty: none is known, and the record stands for its rectangle.
    pub geometry: Vec<u8>,
    /// A JSON object; empty: there is none.
    pub attributes: String,
}

/// A payload that is not that of [`Contents`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidContents(String);

impl fmt::Display for InvalidContents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the payload is not a geometry with attributes: {}", self.0)
    }
}

impl std::error::Error for InvalidContents {}

impl Contents {
    /// The payload. Contents without geometry and attributes have an empty one.
    pub fn encode(&self) -> Vec<u8> {
        let Self { geometry, attributes } = self;
        if geometry.is_empty() && attributes.is_empty() {
            return Vec::new();
        }
        let mut payload = Vec::with_capacity(HEAD_BYTES + geometry.len() + attributes.len());
        payload.extend([VERSION, 0, 0, 0]);
        payload.extend((geometry.len() as u32).to_le_bytes());
        payload.extend(geometry);
        payload.extend(attributes.as_bytes());
        payload
    }

    /// Decodes a payload. The geometry and the attributes are not examined.
    ///
    /// # Errors
    /// [`InvalidContents`].
    pub fn decode(payload: &[u8]) -> Result<Self, InvalidContents> {
        let (geometry, attributes) = parts(payload)?;
        let attributes = std::str::from_utf8(attributes);
        let attributes =
            attributes.map_err(|_| InvalidContents("its attributes are not UTF-8".to_owned()))?;
        Ok(Self { geometry: geometry.to_vec(), attributes: attributes.to_owned() })
    }
}

/// The bytes of the geometry and of the attributes in a payload.
pub(super) fn parts(payload: &[u8]) -> Result<(&[u8], &[u8]), InvalidContents> {
    if payload.is_empty() {
        return Ok((&[], &[]));
    }
    let invalid = |what: &str| InvalidContents(what.to_owned());
    let (&[VERSION, 0, 0, 0, bytes @ ..], rest) =
        payload.split_first_chunk::<HEAD_BYTES>().ok_or_else(|| invalid("it is too short"))?
    else {
        return Err(invalid("it has another version"));
    };
    let bytes = u32::from_le_bytes(bytes) as usize;
    rest.split_at_checked(bytes).ok_or_else(|| invalid("it is shorter than its geometry"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_are_read_back_and_other_payloads_are_refused() {
        for (geometry, attributes) in [("", ""), ("ab", ""), ("", "{}"), ("abc", r#"{"a":1}"#)] {
            let contents =
                Contents { geometry: geometry.as_bytes().to_vec(), attributes: attributes.to_owned() };
            let payload = contents.encode();
            assert_eq!(Contents::decode(&payload), Ok(contents));
            for cut in 1..payload.len().min(HEAD_BYTES) {
                assert!(Contents::decode(&payload[..cut]).is_err());
            }
        }
        assert!(Contents::decode(&[2, 0, 0, 0, 0, 0, 0, 0]).is_err());
        assert!(Contents::decode(&[1, 0, 0, 0, 9, 0, 0, 0, 1]).is_err());
        assert!(Contents::decode(&[1, 0, 0, 0, 0, 0, 0, 0, 0xff]).is_err());
    }
}
