//! `farwood load`: loads an index from a file, or from stdin. Input that cannot be parsed is an error that names its
//! line or feature number; with `--skip-bad` it is counted. The load drops, renumbers, converts and ignores nothing
//! silently, and refuses options that do not apply.
//!
//! Readers of formats (`rows`, `json_rows`, `rectangle_rows`, `geojson`, `flatgeobuf`, `shapefile`, `geopackage`,
//! `geoparquet`) have bounded memory, whatever the size of the file. `entries` and `rectangles` keep what they load: up
//! to `--sort-memory`, and all rectangles.

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
mod json_rows;
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
use farwood::error::IndexError;
use farwood::{Access, Error};

/// Options that only a load into a spatial index has.
const SPATIAL: [&str; 6] = ["columns", "wkt", "id_column", "layer", "corners", "ids"];

/// Options that only a load into an index of keys has.
const ORDERED: [&str; 4] = ["key_column", "value_column", "value", "sort_memory"];

pub(crate) fn run(args: &Args, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    match open_any(&args.url, Access::ReadWrite, context).map_err(|failure| absent(failure, args, context))? {
        Opened::Spatial(index) => rectangles::run(&index, args, context),
        Opened::Ordered(index) => entries::run(&index, args, context),
    }
}

/// The failure to open the index: if there is none, the remedy creates one of the kind that the file and the options
/// show, or names both kinds.
fn absent(failure: Failure, args: &Args, context: &Context<'_>) -> Failure {
    let Failure::Farwood(Error::Index { source: IndexError::NoSuchIndex(name), .. }) = &failure else {
        return failure;
    };
    let url = args.url.to_shell_word();
    let ordered = format!(
        "`farwood create {url}` creates one for keys that are numbers, and with --index smart --keys text one for keys \
         that are texts"
    );
    let spatial = format!(
        "`farwood create {url} --index catfish` creates one for rectangles, and with --ids number or --ids text one \
         for records"
    );
    let remedy = if args.format.shows_rectangles(&args.file) || context.first_given(&SPATIAL).is_some() {
        spatial
    } else if args.format.shows_keys(&args.file) || context.first_given(&ORDERED).is_some() {
        ordered
    } else {
        format!("{ordered}; {spatial}")
    };
    let text = format!("load {}: the pool has no index '{name}'; {remedy}", args.url);
    Failure::Other { text, exit_code: failure.exit_code() }
}
