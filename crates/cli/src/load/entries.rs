//! Loading keys and values.
//!
//! An empty index is bulk-loaded if its entries fit into the memory for sorting. Otherwise the command puts the entries
//! one by one. In both cases the last of several entries with the same key wins.

use super::args::Args;
use super::bulk::{self, may_have_lost};
use super::columns::Header;
use super::file_kind::{FileKind, Target};
use super::input::{self, Reader};
use super::json_rows::EntryMembers;
use super::options;
use super::rows::{self, EntryColumns, Row, Rows};
use super::sorter::Sorter;
use super::table::Table;
use super::trouble::{BadRecords, Place, Trouble};
use crate::failure::shown;
use crate::{Context, Failure, Format, Outcome, Untyped, read, size};
use farwood::error::ErrorKind;
use farwood::types::{Kind, Width};
use indicatif::ProgressBar;
use serde_json::json;
use std::time::Instant;

/// The counts of a load.
#[derive(Default)]
struct Tally {
    /// Lines that became entries.
    loaded: u64,
    /// Loaded lines whose key existed before, in the file or in the index.
    replaced: u64,
    bulk: bool,
}

impl Tally {
    /// The number of loaded entries, for error messages.
    fn loaded(&self) -> String {
        match self.loaded {
            1 => "1 entry is loaded".to_owned(),
            loaded => format!("{loaded} entries are loaded"),
        }
    }

    /// Adds to an error of the pool how to continue the load.
    fn resumable(&self, failure: Failure) -> Failure {
        if !matches!(failure, Failure::Farwood(_)) || self.loaded == 0 {
            return failure;
        }
        let (text, loaded) = (failure.text(), self.loaded());
        let text = if may_have_lost(&failure) {
            format!(
                "{text}; {loaded}, unless the pool has lost their memory: if it still exists, load the file again, \
                 which overwrites them"
            )
        } else {
            format!(
                "{text}; {loaded} and remain in the index: to continue, load the file again, which overwrites them"
            )
        };
        Failure::Other { text, exit_code: failure.exit_code() }
    }
}

/// A load in progress.
struct Load<'a> {
    args: &'a Args,
    index: &'a Untyped,
    format: FileKind,
    tally: Tally,
    bad: BadRecords<'a>,
}

/// Key and value, as bytes.
type Entry = (Vec<u8>, Vec<u8>);

pub(super) fn run(index: &Untyped, args: &Args, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    let start = Instant::now();
    let refuse = |why: String| Failure::Usage(format!("load {}: {}: {why}", args.url, shown(&args.file)));
    let format = args.format.of(&args.file, Target::Entries).map_err(refuse)?;
    options::check_entries(args, format, index, context).map_err(refuse)?;
    check_values(args, format, index)?;
    let (reader, progress) = input::open(&args.file, context)?;
    let mut load = Load { args, index, format, tally: Tally::default(), bad: BadRecords::new(args) };
    let done = load.rows(reader).and_then(|mut rows| load.all(&mut *rows, &progress));
    progress.finish_and_clear();
    done.map_err(|failure| load.tally.resumable(failure))?;
    load.report(start.elapsed().as_secs_f64(), context)
}

/// Refuses options that would make every line bad.
fn check_values(args: &Args, format: FileKind, index: &Untyped) -> Result<(), Failure> {
    let [_, kind] = index.kinds();
    if let Some(value) = &args.value {
        return read(index, "load", "value", value).map(drop);
    }
    let numbers = kind.is_number() || kind == Kind::Text || index.value_width() == Width::Exactly(0);
    if format == FileKind::Text && !numbers {
        return Err(Failure::Usage(format!(
            "load {}: the values of this index are byte strings, and a text file has line numbers as values; give \
             --value",
            args.url
        )));
    }
    Ok(())
}

impl Load<'_> {
    /// The rows of the file.
    fn rows(&self, reader: Reader) -> Result<Box<Rows>, Failure> {
        let failed = |trouble| self.bad.failure(trouble, "no entry is loaded");
        let text = input::text(reader).map_err(failed)?;
        if self.format == FileKind::Jsonl {
            let members = EntryMembers::of(self.args);
            return Ok(Box::new(rows::lines(text, move |line, object| members.row(line, object))));
        }
        let Some(delimiter) = self.format.delimiter() else { return Ok(Box::new(rows::text(text))) };
        let mut table = Table::new(text, delimiter);
        let header = self.args.header.then(|| Header::read(&mut table)).transpose().map_err(failed)?;
        let rows = rows::table(table, header.as_ref(), &EntryColumns::of(self.args));
        Ok(Box::new(rows.map_err(|why| failed(Trouble::rest(Place::File, why)))?))
    }

    fn all(&mut self, rows: &mut Rows, progress: &ProgressBar) -> Result<(), Failure> {
        let empty = self.index.range(..).limit(1).into_iter().next().transpose()?.is_none();
        if !empty || self.args.sort_memory == 0 {
            return self.one_by_one(rows);
        }
        let mut sorter = Sorter::default();
        while sorter.bytes() < self.args.sort_memory {
            match self.next(rows)? {
                Some((key, value)) => sorter.push(&key, &value),
                None => return self.bulk(sorter, progress),
            }
        }
        for (key, value) in sorter.in_order_of_arrival() {
            self.put(key, value)?;
        }
        self.one_by_one(rows)
    }

    /// The next good row, as bytes.
    fn next(&mut self, rows: &mut Rows) -> Result<Option<Entry>, Failure> {
        for row in rows {
            let trouble = match row {
                Ok(row) => match self.encode(&row) {
                    Ok(entry) => return Ok(Some(entry)),
                    Err(why) => Trouble::record(Place::Line(row.line), why),
                },
                Err(trouble) => trouble,
            };
            let trouble = match trouble {
                // Only the user knows whether the first line holds column names.
                Trouble::Record { place: Place::Line(1), why } if self.may_have_header() => Trouble::record(
                    Place::Line(1),
                    format!("{why}; if this line holds the column names, give --header"),
                ),
                trouble => trouble,
            };
            self.bad.add(trouble, &self.tally.loaded())?;
        }
        Ok(None)
    }

    /// Whether the first line may hold column names that the command line does not mention.
    fn may_have_header(&self) -> bool {
        self.format.delimiter().is_some() && !self.args.header
    }

    fn encode(&self, row: &Row) -> Result<Entry, String> {
        let [key_kind, value_kind] = self.index.kinds();
        let key =
            encode(key_kind, &row.key, self.index.key_width()).map_err(|why| format!("the key {why}"))?;
        let width = self.index.value_width();
        let value = match (&self.args.value, &row.value) {
            (Some(words), _) | (None, Some(words)) => encode(value_kind, words, width),
            (None, None) if width == Width::Exactly(0) => Ok(Vec::new()),
            (None, None) => encode(value_kind, &row.line.to_string(), width),
        };
        Ok((key, value.map_err(|why| format!("the value {why}"))?))
    }

    fn one_by_one(&mut self, rows: &mut Rows) -> Result<(), Failure> {
        while let Some((key, value)) = self.next(rows)? {
            self.put(&key, &value)?;
        }
        Ok(())
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        let existed = self.index.put(key, value)?;
        self.tally.loaded += 1;
        self.tally.replaced += u64::from(existed);
        Ok(())
    }

    fn bulk(&mut self, mut sorter: Sorter, progress: &ProgressBar) -> Result<(), Failure> {
        progress.set_message("sorting");
        let arrived = sorter.count() as u64;
        sorter.sort();
        input::writing(progress, arrived);
        match self
            .index
            .bulk_load()
            .fill(self.args.fill)
            .progress(|written| progress.set_position(written))
            .run(sorter.in_order())
        {
            Ok(loaded) => {
                self.tally = Tally { loaded: arrived, replaced: arrived - loaded, bulk: true };
                Ok(())
            }
            // Another process has inserted an entry.
            Err(error) if error.kind() == ErrorKind::Exists => {
                for (key, value) in sorter.in_order() {
                    self.put(key, value)?;
                }
                Ok(())
            }
            Err(error) => Err(bulk::failure(error, &self.args.url)),
        }
    }

    fn report(&self, seconds: f64, context: &mut Context<'_>) -> Result<Outcome, Failure> {
        let (tally, bad, args) = (&self.tally, &self.bad, self.args);
        if context.format == Format::Json {
            context.json(&json!({
                "index": args.url.to_string(),
                "format": self.format.to_string(),
                "loaded": tally.loaded,
                "replaced": tally.replaced,
                "skipped": bad.count(),
                "first_bad": bad.first(),
                "bulk": tally.bulk,
                "seconds": seconds,
            }))?;
        } else {
            let how = if tally.bulk { "in bulk" } else { "one by one" };
            writeln!(
                context.messages,
                "loaded {} into {} from {} {how}: {} replaced, {}, {seconds:.1} s",
                size::count(tally.loaded, "entry", "entries"),
                args.url,
                self.format,
                tally.replaced,
                bad.summary()
            )?;
        }
        if !tally.bulk {
            options::report_fill(context)?;
        }
        if tally.loaded > 0 || bad.count() == 0 {
            return Ok(Outcome::Done);
        }
        let (file, first) = (shown(&args.file), bad.first_line().unwrap_or_default());
        writeln!(context.messages, "load {}: every line of {file} is bad; the first is {first}", args.url)?;
        Ok(Outcome::Negative)
    }
}

/// A key or value as bytes.
fn encode(kind: Kind, words: &str, width: Width) -> Result<Vec<u8>, String> {
    kind.read(words, width).map_err(|why| why.to_string())
}
