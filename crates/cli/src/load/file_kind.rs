//! The format of a file: given on the command line, or shown by its first bytes, or chosen by the extension.

use super::signature;
use std::fmt;
use std::path::Path;

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum FileKind {
    /// By the first bytes of the file, or by its extension
    Auto,
    /// One key per line
    Text,
    /// Columns separated by tabs, without quotes
    Tsv,
    /// Columns separated by commas, with optional quotes
    Csv,
    /// JSON objects with a key and a value, one per line, as `farwood scan --json` prints them
    Jsonl,
    /// A GeoJSON text: a collection of features, a feature or a geometry, into a spatial index
    Geojson,
    /// GeoJSON texts, one per line or after record separators (RFC 8142), into a spatial index
    GeojsonSeq,
    /// FlatGeobuf, into a spatial index
    Flatgeobuf,
    /// A Shapefile (.shp), with the attributes of its .dbf file if the index has records, into a spatial index
    Shapefile,
    /// A layer of a GeoPackage, into a spatial index
    Geopackage,
    /// Rows of GeoParquet, into a spatial index
    Geoparquet,
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Text => "text",
            Self::Tsv => "tsv",
            Self::Csv => "csv",
            Self::Jsonl => "jsonl",
            Self::Geojson => "geojson",
            Self::GeojsonSeq => "geojson-seq",
            Self::Flatgeobuf => "flatgeobuf",
            Self::Shapefile => "shapefile",
            Self::Geopackage => "geopackage",
            Self::Geoparquet => "geoparquet",
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
            (Self::Text | Self::Tsv | Self::Csv | Self::Jsonl, Target::Entries) => Ok(format),
            (_, Target::Entries) => Err(format!(
                "{format} files need a spatial index, and this index has keys; create one with `farwood create URL \
                 --index catfish`"
            )),
            (Self::Text, Target::Rectangles) => {
                Err("a text file has one key per line, and this is a spatial index; give another --format"
                    .to_owned())
            }
            (Self::Jsonl, Target::Rectangles) => Err("the objects of a jsonl file are keys and values, and this is a \
                                                      spatial index; for GeoJSON texts, give --format geojson-seq"
                .to_owned()),
            (format, _) => Ok(format),
        }
    }

    /// The format of a file for a spatial index that begins with `start`, where `self` is the value of `--format`.
    ///
    /// # Errors
    /// The reason why the index cannot be loaded from the file.
    pub(super) fn of_start(self, file: &Path, start: &[u8]) -> Result<Self, String> {
        match (signature::format(start)?, self) {
            // It begins as the main file does.
            (Some(Self::Shapefile), _) if extension(file).as_deref() == Some("shx") => {
                Err(OF_INDEX.to_owned())
            }
            (Some(shown), Self::Auto) => Ok(shown),
            (Some(shown), given) if shown != given => Err(format!(
                "the file begins as {shown} files do, and --format is {given}; give --format {shown}, or omit it"
            )),
            (Some(shown), _) => Ok(shown),
            (None, given) => match given.of(file, Target::Rectangles)? {
                Self::Shapefile | Self::Geopackage | Self::Geoparquet if start.is_empty() => {
                    Err("the file is empty; copy, download or export the file again".to_owned())
                }
                format @ (Self::Shapefile | Self::Geopackage | Self::Geoparquet) => {
                    Err(format!("the file is not in {format} format: it does not begin as such files do"))
                }
                format => Ok(format),
            },
        }
    }

    /// Whether the name of the file shows that only a spatial index can be loaded from it, where `self` is the value of
    /// `--format`.
    pub(super) fn shows_rectangles(self, file: &Path) -> bool {
        let format = if self == Self::Auto { by_extension(file, Target::Rectangles) } else { Ok(self) };
        format.is_ok_and(|format| !matches!(format, Self::Text | Self::Tsv | Self::Csv | Self::Jsonl))
    }

    /// Whether the name of the file shows that an index of keys is loaded from it, where `self` is the value of
    /// `--format`.
    pub(super) fn shows_keys(self, file: &Path) -> bool {
        self == Self::Text || self == Self::Auto && extension(file).as_deref() == Some("txt")
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

/// The refusal of the index of a Shapefile.
const OF_INDEX: &str =
    "an .shx file is the index of a Shapefile, whose geometries are in its .shp file; load that file";

/// The extension of a file name, in lower case.
fn extension(file: &Path) -> Option<String> {
    file.extension().map(|extension| extension.to_string_lossy().to_lowercase())
}

/// The format for the extension of a file name. An unknown extension is an error: its contents would be misread.
fn by_extension(file: &Path, target: Target) -> Result<FileKind, String> {
    let default = match target {
        Target::Entries => FileKind::Text,
        Target::Rectangles => FileKind::Csv,
    };
    let Some(extension) = extension(file) else { return Ok(default) };
    match extension.as_str() {
        "txt" => Ok(default),
        "tsv" => Ok(FileKind::Tsv),
        "csv" => Ok(FileKind::Csv),
        "geojson" => FileKind::Geojson.of(file, target),
        "geojsonl" | "geojsons" => FileKind::GeojsonSeq.of(file, target),
        "fgb" => FileKind::Flatgeobuf.of(file, target),
        "shp" => FileKind::Shapefile.of(file, target),
        "gpkg" => FileKind::Geopackage.of(file, target),
        "parquet" | "geoparquet" => FileKind::Geoparquet.of(file, target),
        // Other data may have these extensions as well.
        "json" if target == Target::Rectangles => Ok(FileKind::Geojson),
        "ndjson" | "jsonl" => Ok(match target {
            Target::Entries => FileKind::Jsonl,
            Target::Rectangles => FileKind::GeojsonSeq,
        }),
        "shx" if target == Target::Rectangles => Err(OF_INDEX.to_owned()),
        "dbf" | "prj" | "cpg" if target == Target::Rectangles => {
            Err("the geometries of a Shapefile are in its .shp file; load that file".to_owned())
        }
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
            ("a.ndjson", Some(FileKind::Jsonl), Some(FileKind::GeojsonSeq)),
            ("a.fgb", None, Some(FileKind::Flatgeobuf)),
            ("a.parquet", None, Some(FileKind::Geoparquet)),
            ("a.SHP", None, Some(FileKind::Shapefile)),
            ("a.gpkg", None, Some(FileKind::Geopackage)),
            ("a.dbf", None, None),
            ("a.feather", None, None),
            ("a.csv.gz", None, None),
        ] {
            assert_eq!(of(name, Target::Entries).ok(), entries, "{name}");
            assert_eq!(of(name, Target::Rectangles).ok(), rectangles, "{name}");
        }
        assert!(FileKind::Geoparquet.of(Path::new("a.parquet"), Target::Entries).is_err());
        assert!(FileKind::Text.of(Path::new("a.csv"), Target::Rectangles).is_err());
        assert!(
            FileKind::Jsonl.of(Path::new("a.csv"), Target::Rectangles).unwrap_err().contains("geojson-seq")
        );
        assert_eq!(FileKind::Text.of(Path::new("a.csv"), Target::Entries), Ok(FileKind::Text));
    }

    #[test]
    fn first_bytes_decide_and_contradictions_are_refused() {
        let of = |given: FileKind, name: &str, start: &[u8]| given.of_start(Path::new(name), start);
        let (sqlite, text) = (&b"SQLite format 3\0"[..], &b"1,2\n"[..]);
        for name in ["a.gpkg", "a.db", "a.csv", "-"] {
            assert_eq!(of(FileKind::Auto, name, sqlite), Ok(FileKind::Geopackage), "{name}");
        }
        assert_eq!(of(FileKind::Auto, "a.csv", text), Ok(FileKind::Csv));
        assert_eq!(of(FileKind::Geopackage, "a.csv", sqlite), Ok(FileKind::Geopackage));
        assert!(of(FileKind::Csv, "a.csv", sqlite).unwrap_err().contains("give --format geopackage"));
        assert!(of(FileKind::Shapefile, "a.gpkg", sqlite).unwrap_err().contains("--format is shapefile"));
        assert!(of(FileKind::Auto, "a.gpkg", text).unwrap_err().contains("not in geopackage format"));
        assert!(of(FileKind::Geoparquet, "a", text).unwrap_err().contains("not in geoparquet format"));
        assert!(of(FileKind::Auto, "a.shp", b"").unwrap_err().contains("the file is empty; copy"));
        for given in [FileKind::Auto, FileKind::Shapefile] {
            assert!(of(given, "a.SHX", b"\0\0\x27\x0A").unwrap_err().contains("the index of a Shapefile"));
        }
        assert!(of(FileKind::Auto, "a.csv", b"\x1F\x8B\x08").unwrap_err().contains("compressed (gzip)"));
    }
}
