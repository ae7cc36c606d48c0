//! Options that do not apply to the format of the file or to the index.

use super::args::Args;
use super::file_kind::FileKind;
use super::ids::IdSource;
use super::{ORDERED, SPATIAL};
use crate::{Context, Untyped};
use std::io;

/// Refuses options that a load of keys would ignore.
pub(super) fn check_entries(
    args: &Args,
    format: FileKind,
    index: &Untyped,
    context: &Context<'_>,
) -> Result<(), String> {
    if let Some(option) = context.first_given(&SPATIAL) {
        return Err(format!(
            "{option} applies to spatial indexes, and this index has keys; omit it (--key-column and --value-column \
             select the columns of keys and values)"
        ));
    }
    if format == FileKind::Text
        && let Some(option) = context.first_given(&["header", "key_column", "value_column"])
    {
        return Err(format!(
            "{option} applies to files with columns or JSON objects, and this file is read as text, with one key per \
             line; give --format csv, tsv or jsonl, or omit {option}"
        ));
    }
    if format == FileKind::Jsonl && context.is_given("header") {
        return Err(
            "--header applies to TSV and CSV, and the members of JSON objects have names; omit it".to_owned()
        );
    }
    if context.is_given("value") && context.is_given("value_column") {
        return Err("--value and --value-column are two sources of the values; omit one of them".to_owned());
    }
    check_fill(args, index, context)
}

/// Refuses a fill factor that no node would have.
fn check_fill(args: &Args, index: &Untyped, context: &Context<'_>) -> Result<(), String> {
    if !context.is_given("fill") {
        return Ok(());
    }
    if args.sort_memory == 0 {
        return Err(
            "--fill applies to bulk loads, and --sort-memory 0 disables them; omit one of them".to_owned()
        );
    }
    if index.stats().layout.nodes.is_none() {
        return Err(
            "--fill applies to nodes of one size, and the nodes of this index grow; omit it".to_owned()
        );
    }
    Ok(())
}

/// Refuses options of keys.
pub(super) fn check_no_keys(context: &Context<'_>) -> Result<(), String> {
    if let Some(option) = context.first_given(&ORDERED) {
        return Err(format!(
            "{option} applies to keys, and this is a spatial index; omit it (--columns selects the columns of points \
             and rectangles)"
        ));
    }
    Ok(())
}

/// Refuses options that a load of rectangles would ignore.
pub(super) fn check_rectangles(args: &Args, format: FileKind, context: &Context<'_>) -> Result<(), String> {
    if format.delimiter().is_none()
        && let Some(option) = context.first_given(&["header", "columns", "wkt", "corners"])
    {
        return Err(format!("{option} applies to TSV and CSV, and this file is read as {format}; omit it"));
    }
    if args.wkt.is_some()
        && let Some(option) = context.first_given(&["columns", "corners"])
    {
        return Err(format!("--wkt and {option} are two sources of the bounds; omit one of them"));
    }
    if args.layer.is_some() && format != FileKind::Geopackage {
        return Err(format!("--layer applies to GeoPackages, and this file is read as {format}; omit it"));
    }
    check_ids(args, format, context)
}

/// Refuses options of numbers that the file does not have.
fn check_ids(args: &Args, format: FileKind, context: &Context<'_>) -> Result<(), String> {
    if args.id_column.is_some() {
        if args.ids == IdSource::Position {
            return Err(
                "--id-column and --ids position are two sources of the numbers; omit one of them".to_owned()
            );
        }
        return match format {
            FileKind::Flatgeobuf | FileKind::Geopackage | FileKind::Geoparquet | FileKind::Shapefile => Ok(()),
            _ if args.wkt.is_some() => Ok(()),
            FileKind::Csv | FileKind::Tsv => Err(
                "--id-column applies to files with --wkt; --columns selects the column of the number as the last one"
                    .to_owned(),
            ),
            FileKind::Geojson | FileKind::GeojsonSeq => Err(format!(
                "--id-column applies to files with columns, and this file is read as {format}; omit it: a GeoJSON \
                 feature has its id in its member `id`"
            )),
            _ => Err(format!(
                "--id-column applies to files with columns, and this file is read as {format}; omit it"
            )),
        };
    }
    let has_none = match format {
        FileKind::Flatgeobuf | FileKind::Geoparquet | FileKind::Shapefile => {
            Some("name the column of the ids with --id-column")
        }
        _ if args.wkt.is_some() => Some("name the column of the ids with --id-column"),
        _ => None,
    };
    match has_none {
        Some(why) if args.ids == IdSource::File && context.is_given("ids") => Err(why.to_owned()),
        _ => Ok(()),
    }
}

/// Reports that the fill factor was not used, because another process or an earlier load filled the index before.
pub(super) fn report_fill(context: &mut Context<'_>) -> io::Result<()> {
    if context.is_given("fill") {
        writeln!(
            context.messages,
            "--fill has no effect on this load: it applies to bulk loads of an empty index"
        )?;
    }
    Ok(())
}
