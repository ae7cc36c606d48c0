//! Loading rectangles: the whole file is read first, and then bulk-loaded into an empty index, or inserted in batches.

use super::args::Args;
use super::bulk;
use super::file_kind::FileKind;
use super::found::Found;
use super::input;
use super::signature::SIGNATURE_BYTES;
use super::{feature_formats, flatgeobuf, geojson, options, rectangle_rows, shapefile};
use crate::failure::shown;
use crate::{Context, Failure, Format, Outcome, size};
use farwood::Error;
use farwood::error::IndexError;
use farwood::internal::printable;
use farwood::spatial::{CHANGES_MAX, Item, Record, Spatial};
use indicatif::ProgressBar;
use serde_json::json;
use std::io::{self, BufRead, Cursor, Read as _};
use std::time::Instant;

/// The method by which the rectangles were loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LoadMethod {
    Bulk,
    Batches,
}

pub(super) fn run(index: &Spatial, args: &Args, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    let start = Instant::now();
    let refuse = |why: String| Failure::Usage(format!("load {}: {}: {why}", args.url, shown(&args.file)));
    options::check_no_keys(context).map_err(refuse)?;
    let (mut reader, progress) = input::open(&args.file, context)?;
    let start_bytes =
        first_bytes(&mut reader).map_err(|source| Failure::file("load", "read", &args.file, source))?;
    let format = args.format.of_start(&args.file, &start_bytes).map_err(refuse)?;
    options::check_rectangles(args, format, context).map_err(refuse)?;
    let reader = Cursor::new(start_bytes).chain(reader);
    let mut found = Found::new(args, index);
    read(args, format, reader, &mut found)?;
    progress.set_message("writing");
    // A server that receives requests through rings accepts no bulk load.
    let loaded = found.count() as u64;
    let records = std::mem::take(&mut found.records);
    let mut replaced = 0;
    let method = if !found.wants_contents() {
        if index.takes_bulk()? && load_at_once(index, args, &found.items)? {
            LoadMethod::Bulk
        } else {
            insert_in_batches(index, &found.items, &progress)?;
            LoadMethod::Batches
        }
    } else if index.is_empty()? && !index.is_served()? {
        index.bulk_load_records(records, args.fill)?;
        LoadMethod::Bulk
    } else {
        replaced = put_in_batches(index, records, &progress)?;
        LoadMethod::Batches
    };
    progress.finish_and_clear();
    report(args, (format, loaded, replaced), &found, method, start, context)?;
    report_notes(args, format, replaced, &found, context)?;
    if method == LoadMethod::Batches {
        options::report_fill(context)?;
    }
    let nothing_good = loaded == 0 && found.bad.count() > 0;
    Ok(if nothing_good { Outcome::Negative } else { Outcome::Done })
}

/// The bytes that show the format, or all bytes of a shorter file.
fn first_bytes(reader: &mut impl io::Read) -> io::Result<Vec<u8>> {
    let mut start = Vec::new();
    reader.take(SIGNATURE_BYTES as u64).read_to_end(&mut start)?;
    Ok(start)
}

fn read(args: &Args, format: FileKind, reader: impl BufRead, found: &mut Found<'_>) -> Result<(), Failure> {
    match format {
        FileKind::Flatgeobuf => return flatgeobuf::read(args, reader, found),
        FileKind::Shapefile => return shapefile::read(args, reader, found),
        FileKind::Geopackage | FileKind::Geoparquet => return feature_formats::read(args, format, found),
        _ => {}
    }
    let text = input::text(reader).map_err(|trouble| found.failure(trouble))?;
    match format {
        FileKind::Geojson => geojson::read(text, found),
        FileKind::GeojsonSeq => geojson::read_sequence(text, found),
        FileKind::Tsv => rectangle_rows::read(args, text, b'\t', found),
        _ => rectangle_rows::read(args, text, b',', found),
    }
}

/// Bulk-loads the rectangles into an empty index. Returns `false` if the index is not empty or a server has it open.
fn load_at_once(index: &Spatial, args: &Args, items: &[Item]) -> Result<bool, Failure> {
    match index.bulk_load(items, args.fill) {
        Ok(()) => Ok(true),
        Err(Error::Index { source: IndexError::NotEmpty | IndexError::Served { .. }, .. }) => Ok(false),
        Err(error) => Err(bulk::failure(error, &args.url)),
    }
}

/// Inserts the rectangles in batches, and shows their number.
fn insert_in_batches(index: &Spatial, items: &[Item], progress: &ProgressBar) -> Result<(), Failure> {
    let mut inserted = 0;
    let done = index.change(|editor| {
        items.chunks(CHANGES_MAX).try_for_each(|batch| {
            let done = editor.insert_many(batch);
            inserted = editor.changes();
            progress.set_message(format!("{inserted} inserted"));
            done
        })
    });
    done.map_err(|error| {
        let failure = Failure::from(error);
        if inserted == 0 {
            return failure;
        }
        let were = size::count(inserted, "rectangle was inserted", "rectangles were inserted");
        let text = failure.text();
        let text = if bulk::may_have_lost(&failure) {
            format!(
                "{text}; {were}, the first ones of the file, unless the pool has lost their memory. Loading the file \
                 again inserts those twice that still exist"
            )
        } else {
            format!(
                "{text}; {were} and remain in the index: the first ones of the file. Loading the file again would \
                 insert them twice"
            )
        };
        Failure::Other { text, exit_code: failure.exit_code() }
    })
}

/// Puts the records in batches, and shows their number; yields how many replaced others.
fn put_in_batches(index: &Spatial, records: Vec<Record>, progress: &ProgressBar) -> Result<u64, Failure> {
    let (mut replaced, mut put) = (0, 0);
    let mut records = records.into_iter().peekable();
    let done = index.change(|editor| {
        while records.peek().is_some() {
            let found = editor.put_many(records.by_ref().take(CHANGES_MAX))?;
            replaced += found.iter().filter(|found| **found).count() as u64;
            put = editor.changes();
            progress.set_message(format!("{put} stored"));
        }
        Ok(())
    });
    done.map(|()| replaced).map_err(|error| {
        let failure = Failure::from(error);
        if put == 0 {
            return failure;
        }
        let were = size::count(put, "record was stored", "records were stored");
        let text = format!(
            "{}; the first {were}. Loading the file again stores them again, and replaces them",
            failure.text()
        );
        Failure::Other { text, exit_code: failure.exit_code() }
    })
}

fn report(
    args: &Args,
    (format, loaded, replaced): (FileKind, u64, u64),
    found: &Found<'_>,
    method: LoadMethod,
    start: Instant,
    context: &mut Context<'_>,
) -> Result<(), Failure> {
    let seconds = start.elapsed().as_secs_f64();
    if context.format == Format::Json {
        context.json(&json!({
            "index": args.url.to_string(), "format": format.to_string(), "loaded": loaded,
            "replaced": replaced, "left_out": found.left_out,
            "skipped": found.bad.count(), "first_bad": found.bad.first(), "bulk": method == LoadMethod::Bulk,
            "seconds": seconds,
        }))?;
        return Ok(());
    }
    let how = match method {
        LoadMethod::Bulk => "in bulk",
        LoadMethod::Batches => "in batches",
    };
    writeln!(
        context.messages,
        "loaded {} into {} from {format} {how}: {}, {seconds:.1} s",
        if found.wants_contents() {
            format!("{} ({replaced} replaced)", size::count(loaded, "record", "records"))
        } else {
            size::count(loaded, "rectangle", "rectangles")
        },
        args.url,
        found.bad.summary()
    )?;
    if !found.left_out.is_empty() {
        let names: Vec<_> = found.left_out.iter().map(|name| printable(name)).collect();
        let names = names.join(", ");
        writeln!(context.messages, "these columns are not loaded, because of their types: {names}")?;
    }
    Ok(())
}

/// Reports what the counts do not show.
fn report_notes(
    args: &Args,
    format: FileKind,
    replaced: u64,
    found: &Found<'_>,
    context: &mut Context<'_>,
) -> io::Result<()> {
    for note in &found.notes {
        writeln!(context.messages, "{note}")?;
    }
    if replaced == 0 || !found.lacks_ids() {
        return Ok(());
    }
    let why = match format {
        FileKind::Geojson | FileKind::GeojsonSeq => "the features have no member `id`",
        FileKind::Csv | FileKind::Tsv if args.wkt.is_none() => {
            "--columns selects a column of ids as its last one"
        }
        FileKind::Shapefile => "--id-column NAME selects a column of ids in the .dbf file",
        _ => "--id-column NAME selects a column of ids",
    };
    let were = size::count(replaced, "record with such an id was", "records with these ids were");
    writeln!(context.messages, "the ids are the positions in the file, and {were} replaced; {why}")
}
