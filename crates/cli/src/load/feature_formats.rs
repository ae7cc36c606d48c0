//! Formats that only builds with a feature of Cargo read, from files that are not pipes.

use super::args::Args;
use super::file_kind::FileKind;
use super::found::Found;
use crate::Failure;
use crate::failure::shown;
use std::path::Path;

/// Reads a GeoPackage or a GeoParquet file.
pub(super) fn read(args: &Args, format: FileKind, found: &mut Found<'_>) -> Result<(), Failure> {
    let refuse = |why: String| Failure::Usage(format!("load {}: {}: {why}", args.url, shown(&args.file)));
    if args.file == Path::new("-") {
        return Err(refuse(format!("{format} files are not read from stdin; give the name of the file")));
    }
    match format {
        #[cfg(feature = "geopackage")]
        FileKind::Geopackage => super::geopackage::read(args, found),
        #[cfg(feature = "geoparquet")]
        FileKind::Geoparquet => super::geoparquet::read(args, found),
        _ => {
            let _ = found;
            Err(refuse(format!(
                "this build does not read {format}; build farwood with the feature: `cargo build --release --features \
                 {format}`"
            )))
        }
    }
}
