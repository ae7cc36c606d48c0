//! `farwood load`: loads an index from a file, or from stdin. Input that cannot be parsed is an error that names its
//! line or feature number; with `--skip-bad` it is counted. The load drops, renumbers, converts and ignores nothing
//! silently, and refuses options that do not apply.
//!
//! Readers of formats (`rows`, `rectangle_rows`, `geojson`, `flatgeobuf`, `shapefile`, `geopackage`, `geoparquet`) have
//! bounded memory, whatever the size of the file. `entries` and `rectangles` keep what they load: up to
//! `--sort-memory`, and all rectangles.

mod args;
mod bulk;
mod column_value;
mod columns;
mod dbf;
mod entries;
mod feature_formats;
mod file_kind;
mod flatgeobuf;
mod found;
mod geojson;
mod geometry;
#[cfg(feature = "geopackage")]
mod geopackage;
#[cfg(feature = "geoparquet")]
mod geoparquet;
mod ids;
mod input;
mod lines;
mod options;
mod rectangle_rows;
mod rectangles;
mod rows;
mod shape;
mod shapefile;
mod signature;
mod sorter;
mod table;
mod trouble;
#[cfg(any(feature = "geoparquet", feature = "geopackage"))]
mod wkb;
mod wkt;

pub(crate) use self::args::Args;

use super::{Context, Failure, Opened, Outcome, open_any};

pub(crate) fn run(args: &Args, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    match open_any(&args.url, context)? {
        Opened::Spatial(index) => rectangles::run(&index, args, context),
        Opened::Ordered(index) => entries::run(&index, args, context),
    }
}
