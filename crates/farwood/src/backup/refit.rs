//! Keys and values of a backup in the lengths of another index.
//!
//! A B-link tree has keys of one length, and pads shorter ones with zeros; a radix tree stores them as they are. The
//! restore removes padding where the type determines the length without it: types of a fixed length, and texts.
//! Otherwise the padding cannot be told from the contents.

use super::header::ColumnHeader;
use crate::codec::{KEY_BYTES_MIN, TypeName};
use crate::inline_bytes::InlineBytes;
use crate::kind::{Kind, unpad};
use crate::width::Width;

/// The change that the keys or the values need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refit {
    /// The length without padding, if it is known.
    own: Own,
    to: Width,
}

/// The part of the bytes that is not padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Own {
    /// All bytes.
    All,
    /// This many.
    Fixed(usize),
    /// Those before the zeros at the end.
    Text,
    /// An unknown number: zeros at the end may be padding.
    Unknown,
}

impl Refit {
    /// The change of the column `from` to the width `to`; an error if it is ambiguous.
    pub(super) fn new(what: &str, from: &ColumnHeader, to: Width) -> Result<Self, String> {
        let own = own_of(from);
        // Byte arrays of less than 8 bytes are padded to 8, and byte strings of 8 are not.
        let may_be_short = own == Own::All && from.bytes == Some(KEY_BYTES_MIN);
        if may_be_short && matches!(to, Width::UpTo(_)) && what == "key" {
            return Err(format!(
                "its keys are byte strings of {KEY_BYTES_MIN} bytes, to which shorter arrays are padded; restore it to \
                 a B-link tree, or copy it with a program that knows the keys (`farwood::backup::BackupReader`)"
            ));
        }
        if own == Own::Unknown && matches!(to, Width::UpTo(_)) && from.bytes.is_some() && what == "key" {
            return Err(format!(
                "its keys are padded to {} bytes, and their type does not show where the padding begins; restore it to \
                 a B-link tree, or copy it with a program that decodes the keys (`farwood::backup::BackupReader`)",
                from.bytes.unwrap_or_default()
            ));
        }
        Ok(Self { own, to })
    }

    /// The bytes in the new length, or the reason why they do not fit.
    pub(super) fn apply(&self, bytes: &[u8]) -> Result<InlineBytes, String> {
        let own = match self.own {
            Own::Fixed(length) if bytes.len() > length => &bytes[..length],
            Own::Text => unpad(bytes),
            Own::All | Own::Fixed(_) | Own::Unknown => bytes,
        };
        match self.to {
            Width::Exactly(length) if own.len() < length && self.own != Own::All => {
                Ok(InlineBytes::padded(own, length))
            }
            width => {
                width.check(own.len()).map(|()| InlineBytes::copy(own)).map_err(|unfit| unfit.to_string())
            }
        }
    }
}

fn own_of(column: &ColumnHeader) -> Own {
    match column.kind() {
        Kind::Text => Own::Text,
        Kind::Bytes => Own::All,
        _ => own_bytes(column).map_or(Own::Unknown, Own::Fixed),
    }
}

/// The length of all values of the type, without padding, if the type determines it.
pub(super) fn own_bytes(column: &ColumnHeader) -> Option<usize> {
    let named = || column.type_hash.and_then(|hash| TypeName::of_hash(hash, None).bytes());
    column.kind().width().or_else(named)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Codec;

    fn column<T: Codec>(bytes: Option<usize>) -> ColumnHeader {
        ColumnHeader { kind: T::KIND.number(), bytes, type_hash: Some(T::NAME.hash()) }
    }

    fn refit(column: &ColumnHeader, to: Width, bytes: &[u8]) -> Result<Vec<u8>, String> {
        Refit::new("key", column, to)?.apply(bytes).map(|bytes| bytes.as_ref().to_vec())
    }

    #[test]
    fn padding_is_added_and_removed_where_the_type_shows_it() {
        let small = column::<u32>(Some(8));
        assert_eq!(refit(&small, Width::UpTo(4096), &[0, 0, 1, 0, 0, 0, 0, 0]), Ok(vec![0, 0, 1, 0]));
        assert_eq!(
            refit(&column::<u32>(None), Width::Exactly(8), &[0, 0, 1, 0]),
            Ok(vec![0, 0, 1, 0, 0, 0, 0, 0])
        );
        assert_eq!(refit(&column::<bool>(Some(8)), Width::UpTo(9), &[1, 0, 0, 0, 0, 0, 0, 0]), Ok(vec![1]));
        let text = column::<String>(Some(8));
        assert_eq!(refit(&text, Width::UpTo(4096), b"oak\0\0\0\0\0"), Ok(b"oak".to_vec()));
        assert_eq!(refit(&text, Width::Exactly(12), b"oak\0\0\0\0\0"), Ok(b"oak\0\0\0\0\0\0\0\0\0".to_vec()));
        assert!(refit(&column::<String>(None), Width::Exactly(8), b"far too long").is_err());
    }

    #[test]
    fn byte_strings_are_neither_padded_nor_cut() {
        let bytes = column::<Vec<u8>>(Some(9));
        assert_eq!(refit(&bytes, Width::UpTo(4096), &[0; 9]), Ok(vec![0; 9]));
        let bytes = column::<Vec<u8>>(Some(8));
        assert!(refit(&bytes, Width::UpTo(4096), &[0; 8]).is_err_and(|why| why.contains("shorter arrays")));
        assert!(refit(&bytes, Width::Exactly(9), &[0; 8]).is_err());
        assert!(refit(&column::<Vec<u8>>(None), Width::Exactly(8), &[1]).is_err());
    }

    #[test]
    fn padded_keys_whose_type_is_unknown_are_refused_by_radix_trees_only() {
        let tuple = column::<(u32, String)>(Some(20));
        let (key, value) =
            (Refit::new("key", &tuple, Width::UpTo(9)), Refit::new("value", &tuple, Width::UpTo(99)));
        assert!(key.is_err_and(|why| why.contains("padded to 20 bytes")) && value.is_ok());
        assert_eq!(refit(&tuple, Width::Exactly(24), &[7; 20]).unwrap()[20..], [0; 4]);
        assert_eq!(refit(&column::<(u32, String)>(None), Width::UpTo(99), &[7; 20]), Ok(vec![7; 20]));
    }
}
