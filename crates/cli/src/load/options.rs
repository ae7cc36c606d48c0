//! Options that do not apply to the format of the file or to the index.

use super::args::Args;
use super::file_kind::FileKind;
use super::ids::IdSource;
use crate::{Context, Untyped};
use std::io;

/// Refuses options that a load of keys would ignore.
pub(super) fn check_entries(
    args: &Args,
    format: FileKind,
    index: &Untyped,
    context: &Context<'_>,
) -> Result<(), String> {
    if let Some(option) = context.first_given(&["columns", "corners", "ids"]) {
        return Err(format!(
            "{option} applies to rectangles, and this index has keys; omit it (--key-column and --value-column select \
             the columns of keys and values)"
        ));
    }
    if format == FileKind::Text
        && let Some(option) = context.first_given(&["header", "key_column", "value_column"])
    {
        return Err(format!(
            "{option} applies to TSV and CSV, and this file is read as text, with one key per line; give --format csv \
             or --format tsv, or omit {option}"
        ));
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

/// Refuses options that a load of rectangles would ignore.
pub(super) fn check_rectangles(args: &Args, format: FileKind, context: &Context<'_>) -> Result<(), String> {
    if let Some(option) = context.first_given(&["key_column", "value_column", "value", "sort_memory"]) {
        return Err(format!(
            "{option} applies to keys, and this index holds rectangles; omit it (--columns selects the columns of \
             rectangles)"
        ));
    }
    if format.delimiter().is_none()
        && let Some(option) = context.first_given(&["header", "columns", "corners"])
    {
        return Err(format!("{option} applies to TSV and CSV, and this file is read as {format}; omit it"));
    }
    if format == FileKind::Flatgeobuf && args.ids == IdSource::File && context.is_given("ids") {
        return Err("features of FlatGeobuf have no ids; omit --ids file".to_owned());
    }
    Ok(())
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
