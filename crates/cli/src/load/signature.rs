//! Formats that the first bytes of a file show.

use super::file_kind::FileKind;

/// Bytes that decide.
pub(super) const SIGNATURE_BYTES: usize = 16;

/// First bytes of formats for rectangles.
const FORMATS: [(&[u8], FileKind); 4] = [
    (b"PAR1", FileKind::Geoparquet),
    (b"SQLite format 3\0", FileKind::Geopackage),
    (&[0, 0, 0x27, 0x0A], FileKind::Shapefile),
    (b"fgb\x03fgb", FileKind::Flatgeobuf),
];

/// First bytes of compressed files.
const COMPRESSED: [(&[u8], &str); 5] = [
    (&[0x1F, 0x8B], "gzip"),
    (&[0x28, 0xB5, 0x2F, 0xFD], "zstd"),
    (&[0xFD, b'7', b'z', b'X', b'Z', 0], "xz"),
    (b"BZh91AY&SY", "bzip2"),
    (b"PK\x03\x04", "zip"),
];

/// The format that the first bytes of a file show; `None`: it may be a text.
///
/// # Errors
/// The file is compressed.
pub(super) fn format(start: &[u8]) -> Result<Option<FileKind>, String> {
    if let Some((_, name)) = COMPRESSED.iter().find(|(bytes, _)| start.starts_with(bytes)) {
        return Err(format!(
            "the file is compressed ({name}); decompress it, or pipe it to `farwood load URL -`"
        ));
    }
    Ok(FORMATS.iter().find(|(bytes, _)| start.starts_with(bytes)).map(|(_, format)| *format))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_bytes_show_a_format_or_a_text() {
        for (start, expected) in [
            (&b"SQLite format 3\0"[..], Some(FileKind::Geopackage)),
            (b"PAR1\x15\x04", Some(FileKind::Geoparquet)),
            (b"\0\0\x27\x0A\0", Some(FileKind::Shapefile)),
            (b"fgb\x03fgb\0", Some(FileKind::Flatgeobuf)),
            (b"x,y\n", None),
            (b"SQLite", None),
            (b"", None),
        ] {
            assert_eq!(format(start), Ok(expected), "{start:?}");
            assert!(start.len() <= SIGNATURE_BYTES);
        }
        for (bytes, name) in COMPRESSED {
            assert!(format(bytes).unwrap_err().contains(name));
        }
    }
}
