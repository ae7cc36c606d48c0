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
use farwood::{Error, IndexError};

pub(crate) fn run(args: &Args, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    match open_any(&args.url, context).map_err(|failure| absent(failure, args, context))? {
        Opened::Spatial(index) => rectangles::run(&index, args, context),
        Opened::Ordered(index) => entries::run(&index, args, context),
    }
}

/// The failure to open the index: if there is none and the file has rectangles, the remedy creates a spatial one.
fn absent(failure: Failure, args: &Args, context: &Context<'_>) -> Failure {
    let Failure::Farwood(Error::Index { source: IndexError::NoSuchIndex(name), .. }) = &failure else {
        return failure;
    };
    let has_rectangles = args.format.shows_rectangles(&args.file)
        || context.first_given(&["columns", "wkt", "id_column", "layer", "corners"]).is_some();
    if !has_rectangles {
        return failure;
    }
    let text = format!(
        "load {url}: the pool has no index '{name}'; `farwood create {url} --index catfish` creates one for \
         rectangles, and with --ids number or --ids text one for records",
        url = args.url
    );
    Failure::Other { text, exit_code: failure.exit_code() }
}
