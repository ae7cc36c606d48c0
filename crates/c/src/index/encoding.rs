//! The bytes of keys and values, as the index stores them and as the caller sees them.

use farwood::types::{Kind, Unfit, Width};
use std::borrow::Cow;

/// The type of the keys or values of an index.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Encoding {
    /// The kind.
    pub(crate) kind: Kind,
    /// The permitted length.
    pub(crate) width: Width,
}

impl Encoding {
    /// The encoding of a kind with this length.
    pub(crate) const fn new(kind: Kind, width: Width) -> Self {
        Self { kind, width }
    }

    /// The bytes that the index stores. Texts and truth values of an index with one length are padded with zeros.
    #[inline]
    pub(crate) fn encode<'a>(&self, given: &'a [u8]) -> Result<Cow<'a, [u8]>, Unfit> {
        if self.kind != Kind::Bytes {
            self.kind.check(given)?;
        }
        if let Width::Exactly(length) = self.width
            && matches!(self.kind, Kind::Text | Kind::Bool)
            && given.len() < length
        {
            let mut padded = given.to_vec();
            padded.resize(length, 0);
            return Ok(padded.into());
        }
        self.width.check(given.len())?;
        Ok(given.into())
    }

    /// The bytes that the caller sees: without padding.
    #[inline]
    pub(crate) fn shown<'a>(&self, stored: &'a [u8]) -> &'a [u8] {
        match (self.kind, self.width) {
            (Kind::Text, Width::Exactly(_)) => {
                let end = stored.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
                &stored[..end]
            }
            (Kind::Bool, _) => &stored[..stored.len().min(1)],
            _ => stored,
        }
    }
}

/// The name of a kind in the header.
pub(super) const fn name_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Bytes => "FW_BYTES",
        Kind::U64 => "FW_U64",
        Kind::Text => "FW_TEXT",
        Kind::I64 => "FW_I64",
        Kind::F64 => "FW_F64",
        Kind::Bool => "FW_BOOL",
        Kind::Structured => "FW_STRUCTURED",
        _ => "another type",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_padded_and_shown_without_padding() {
        let text = Encoding::new(Kind::Text, Width::Exactly(8));
        let stored = text.encode(b"ant").unwrap();
        assert_eq!(&*stored, b"ant\0\0\0\0\0");
        assert_eq!(text.shown(&stored), b"ant");
        assert!(text.encode(b"a\0t").is_err() && text.encode(b"\xff").is_err());
        assert!(text.encode(b"longer than").is_err());
    }

    #[test]
    fn numbers_have_eight_bytes_in_every_structure() {
        let number = Encoding::new(Kind::U64, Width::UpTo(4096));
        assert!(number.encode(&[0; 7]).is_err() && number.encode(&[0; 8]).is_ok());
        let truth = Encoding::new(Kind::Bool, Width::Exactly(8));
        let stored = truth.encode(&[1]).unwrap();
        assert_eq!((stored.len(), truth.shown(&stored)), (8, &[1][..]));
        assert!(truth.encode(&[2]).is_err());
    }
}
