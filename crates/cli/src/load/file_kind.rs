//! The format of a file: given on the command line, or chosen by the extension.

use std::fmt;
use std::path::Path;

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum FileKind {
    /// By the extension of the file
    Auto,
    /// One key per line
    Text,
    /// Columns separated by tabs, without quotes
    Tsv,
    /// Columns separated by commas, with optional quotes
    Csv,
    /// A GeoJSON text: a collection of features, a feature or a geometry, into a spatial index
    Geojson,
    /// GeoJSON texts, one per line or after record separators (RFC 8142), into a spatial index
    GeojsonSeq,
    /// Features, into a spatial index
    Flatgeobuf,
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Text => "text",
            Self::Tsv => "tsv",
            Self::Csv => "csv",
            Self::Geojson => "geojson",
            Self::GeojsonSeq => "geojson-seq",
            Self::Flatgeobuf => "flatgeobuf",
        })
    }
}

/// The type of the index that is loaded: it determines the possible file formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// Keys with values.
    Entries,
    /// Rectangles.
    Rectangles,
}

impl FileKind {
    /// The format of `file`, where `self` is the value of `--format`.
    ///
    /// # Errors
    /// The reason why the index cannot be loaded from the file.
    pub(super) fn of(self, file: &Path, target: Target) -> Result<Self, String> {
        let format = if self == Self::Auto { by_extension(file, target)? } else { self };
        match (format, target) {
            (Self::Geojson | Self::GeojsonSeq | Self::Flatgeobuf, Target::Entries) => Err(format!(
                "{format} files need a spatial index, and this index has keys; create one with `farwood create URL \
                 --index catfish`"
            )),
            (Self::Text, Target::Rectangles) => Err(
                "a text file has one key per line, and this index holds rectangles; give another --format"
                    .to_owned(),
            ),
            (format, _) => Ok(format),
        }
    }

    /// The separator of columns, if the format has columns.
    pub(super) fn delimiter(self) -> Option<u8> {
        match self {
            Self::Tsv => Some(b'\t'),
            Self::Csv => Some(b','),
            _ => None,
        }
    }
}

/// The format for the extension of a file name. An unknown extension is an error: its contents would be misread.
fn by_extension(file: &Path, target: Target) -> Result<FileKind, String> {
    let default = match target {
        Target::Entries => FileKind::Text,
        Target::Rectangles => FileKind::Csv,
    };
    let Some(extension) = file.extension() else { return Ok(default) };
    let extension = extension.to_string_lossy().to_lowercase();
    match extension.as_str() {
        "txt" => Ok(default),
        "tsv" => Ok(FileKind::Tsv),
        "csv" => Ok(FileKind::Csv),
        "json" | "geojson" if target == Target::Rectangles => Ok(FileKind::Geojson),
        "geojsonl" | "geojsons" | "ndjson" | "jsonl" if target == Target::Rectangles => {
            Ok(FileKind::GeojsonSeq)
        }
        "fgb" if target == Target::Rectangles => Ok(FileKind::Flatgeobuf),
        "geojson" | "geojsonl" | "geojsons" | "fgb" => FileKind::Geojson.of(file, target),
        "gz" | "bz2" | "xz" | "zst" | "zip" => Err(format!(
            "the extension .{extension} is that of a compressed file; decompress it, or pipe it to `farwood load URL -`"
        )),
        _ => Err(format!(
            "the extension .{extension} does not tell a format that this index can be loaded from; give --format \
             ({default}, ..) if the file has one of these formats"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_are_formats_in_any_case() {
        let of = |name: &str, target| FileKind::Auto.of(Path::new(name), target);
        for (name, entries, rectangles) in [
            ("-", Some(FileKind::Text), Some(FileKind::Csv)),
            ("words", Some(FileKind::Text), Some(FileKind::Csv)),
            ("a.TXT", Some(FileKind::Text), Some(FileKind::Csv)),
            ("a.Csv", Some(FileKind::Csv), Some(FileKind::Csv)),
            ("a.tsv", Some(FileKind::Tsv), Some(FileKind::Tsv)),
            ("a.JSON", None, Some(FileKind::Geojson)),
            ("a.ndjson", None, Some(FileKind::GeojsonSeq)),
            ("a.fgb", None, Some(FileKind::Flatgeobuf)),
            ("a.parquet", None, None),
            ("a.csv.gz", None, None),
        ] {
            assert_eq!(of(name, Target::Entries).ok(), entries, "{name}");
            assert_eq!(of(name, Target::Rectangles).ok(), rectangles, "{name}");
        }
        assert!(FileKind::Text.of(Path::new("a.csv"), Target::Rectangles).is_err());
        assert_eq!(FileKind::Text.of(Path::new("a.csv"), Target::Entries), Ok(FileKind::Text));
    }
}
