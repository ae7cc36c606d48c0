//! `farwood load`: loads an index from a file, or from stdin.
//!
//! An empty index is bulk-loaded if its entries fit into the memory for sorting. Otherwise the command puts the entries
//! one by one. In both cases the last of several entries with the same key wins.

mod flatgeobuf;
mod geojson;
mod rectangles;
mod rows;

use self::rows::{Columns, Row, Trouble};
use super::{Context, Failure, Format, Opened, Outcome, Untyped, open_any, read, size};
use farwood::{Kind, Url, Width};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::time::Instant;

const EXAMPLES: &str = "\
Examples:
  farwood load shm://demo/words data/english-words.txt
  farwood load shm://demo/prices prices.csv --header --key-column id --value-column price
  zcat words.gz | farwood load shm://demo/words - --value 1
  farwood load shm://demo/places streets.geojson                         into a spatial index
  farwood load shm://demo/places buildings.fgb                           FlatGeobuf
  farwood load shm://demo/places boxes.csv --header                      x1,y1,x2,y2[,number] or x,y[,number]";

/// Load an index from a text, TSV, CSV, GeoJSON or FlatGeobuf file, or from stdin
///
/// A text file has one key per line; the value is the line number, or --value. A bad line stops the load with the line
/// number and the reason; with --skip-bad, the command counts and skips bad lines. Exit code 1 if every line is bad.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// shm://POOL/INDEX
    url: Url,
    /// The file, or `-` for stdin
    file: PathBuf,
    /// Format of the file. auto decides by the extension: .tsv or .csv (in any case); for a spatial index also .json,
    /// .geojson and .fgb. Other files, and stdin, are text, or CSV for a spatial index
    #[arg(long, value_enum, default_value_t = Layout::Auto)]
    format: Layout,
    /// The first line of a TSV or CSV file holds the column names
    #[arg(long)]
    header: bool,
    /// The column of the keys: its number, from 1, or its name in the header
    #[arg(long, value_name = "COLUMN", default_value = "1")]
    key_column: String,
    /// The column of the values: its number, from 1, or its name in the header
    #[arg(long, value_name = "COLUMN", default_value = "2")]
    value_column: String,
    /// The value of every key, instead of a column or the line number
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true)]
    value: Option<String>,
    /// Skip bad lines and report their number
    #[arg(long)]
    skip_bad: bool,
    /// Fill factor of the nodes in a bulk load, 0.5 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.8, value_parser = share)]
    fill: f64,
    /// Maximum memory for sorting the entries of a bulk load; 0 disables bulk loading
    #[arg(long, value_name = "SIZE", value_parser = size::parse, default_value = "1GiB")]
    sort_memory: u64,
}

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Layout {
    /// By the extension of the file
    Auto,
    /// One key per line
    Text,
    /// Columns separated by tabs, without quotes
    Tsv,
    /// Columns separated by commas, with optional quotes
    Csv,
    /// Features, into a spatial index
    Geojson,
    /// Features, into a spatial index
    Flatgeobuf,
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.5..=1.0).contains(&share) => Ok(share),
        _ => Err("give a number from 0.5 to 1".to_owned()),
    }
}

/// The counts of a load.
#[derive(Default)]
struct Tally {
    /// Lines that became entries.
    loaded: u64,
    /// Those whose key was there before, in the file or in the index.
    replaced: u64,
    /// Bad lines passed over.
    skipped: u64,
    /// The first of them, and what is wrong with it.
    first_bad: Option<String>,
    bulk: bool,
}

impl Tally {
    /// Whether there were lines, and none of them was good.
    fn nothing_good(&self) -> bool {
        self.loaded == 0 && self.skipped > 0
    }

    /// Adds to an error of the pool how to continue the load.
    fn resumable(&self, failure: Failure) -> Failure {
        if !matches!(failure, Failure::Farwood(_)) || self.loaded == 0 {
            return failure;
        }
        let loaded = size::count(self.loaded, "entry is loaded", "entries are loaded");
        let text = format!(
            "{}; {loaded} and remain in the index: to continue, load the file again, which overwrites them",
            failure.text()
        );
        Failure::Other { text, exit_code: failure.exit_code() }
    }
}

/// A load in progress.
struct Load<'a> {
    args: &'a Args,
    index: &'a Untyped,
    /// Whether the file has columns, whose names may be its first line.
    table: bool,
    tally: Tally,
}

/// Key and value, as bytes.
type Entry = (Vec<u8>, Vec<u8>);

pub(crate) fn run(args: &Args, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    let start = Instant::now();
    let index = match open_any(&args.url, context)? {
        Opened::Spatial(index) => return rectangles::run(&index, args, context),
        Opened::Ordered(index) => index,
    };
    let layout = layout_of(args)?;
    check_values(args, layout, &index)?;
    let (reader, progress) = open_file(&args.file, context)?;
    let mut rows = rows_of(args, layout, reader)?;
    let mut load = Load { args, index: &index, table: layout != Layout::Text, tally: Tally::default() };
    let done = load.all(&mut rows, &progress);
    progress.finish_and_clear();
    done.map_err(|failure| load.tally.resumable(failure))?;
    let nothing_good = load.tally.nothing_good();
    let (tally, seconds) = (load.tally, start.elapsed().as_secs_f64());
    if context.format == Format::Json {
        context.json(&json!({
            "loaded": tally.loaded,
            "replaced": tally.replaced,
            "skipped": tally.skipped,
            "bulk": tally.bulk,
            "seconds": seconds,
        }))?;
    } else {
        let how = if tally.bulk { "in bulk" } else { "one by one" };
        writeln!(
            context.messages,
            "loaded {} into {} {how}: {} replaced, {} skipped, {seconds:.1} s",
            size::count(tally.loaded, "entry", "entries"),
            args.url,
            tally.replaced,
            size::count(tally.skipped, "bad line", "bad lines")
        )?;
    }
    if !nothing_good {
        return Ok(Outcome::Done);
    }
    let (file, first) = (args.file.display(), tally.first_bad.unwrap_or_default());
    writeln!(context.messages, "load {}: every line of {file} is bad; the first is {first}", args.url)?;
    Ok(Outcome::Negative)
}

/// How a file for an index with keys is written.
fn layout_of(args: &Args) -> Result<Layout, Failure> {
    match (args.format, extension(&args.file).as_deref()) {
        (Layout::Auto, Some("tsv")) => Ok(Layout::Tsv),
        (Layout::Auto, Some("csv")) => Ok(Layout::Csv),
        (Layout::Auto, _) => Ok(Layout::Text),
        (Layout::Geojson | Layout::Flatgeobuf, _) => Err(Failure::Usage(format!(
            "load {}: GeoJSON and FlatGeobuf files need a spatial index, and this index has keys; create one with \
             `farwood create URL --index catfish`",
            args.url
        ))),
        (layout, _) => Ok(layout),
    }
}

/// The extension of a file name, in lower case.
fn extension(file: &Path) -> Option<String> {
    file.extension().and_then(|extension| extension.to_str()).map(str::to_lowercase)
}

/// Refuses options that would make every line bad.
fn check_values(args: &Args, layout: Layout, index: &Untyped) -> Result<(), Failure> {
    let [_, kind] = index.kinds();
    if let Some(value) = &args.value {
        return read(index, "load", "value", value).map(drop);
    }
    let numbers = matches!(kind, Kind::U64 | Kind::Text) || index.value_width() == Width::Exactly(0);
    if layout == Layout::Text && !numbers {
        return Err(Failure::Usage(format!(
            "load {}: the values of this index are byte strings, and a text file has line numbers as values; give \
             --value",
            args.url
        )));
    }
    Ok(())
}

fn open_file(path: &Path, context: &Context<'_>) -> Result<(Box<dyn BufRead>, ProgressBar), Failure> {
    const BUFFER_BYTES: usize = 1 << 20;
    let failed = |source| Failure::File { operation: "open", path: path.to_owned(), source };
    let (reader, bytes): (Box<dyn io::Read>, _) = if path == Path::new("-") {
        (Box::new(io::stdin()), None)
    } else {
        let file = File::open(path).map_err(failed)?;
        let data = file.metadata().map_err(failed)?;
        (Box::new(file), data.is_file().then_some(data.len()))
    };
    let progress = match (context.progress, bytes) {
        (false, _) => ProgressBar::hidden(),
        (true, Some(bytes)) => {
            ProgressBar::new(bytes).with_style(style("{bar:40} {bytes}/{total_bytes} {msg}"))
        }
        (true, None) => ProgressBar::new_spinner().with_style(style("{spinner} {bytes} {msg}")),
    };
    let reader = BufReader::with_capacity(BUFFER_BYTES, progress.wrap_read(reader));
    Ok((Box::new(reader), progress))
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

fn rows_of(args: &Args, layout: Layout, reader: Box<dyn BufRead>) -> Result<Box<rows::Rows>, Failure> {
    let delimiter = match layout {
        Layout::Tsv => b'\t',
        Layout::Csv => b',',
        Layout::Auto | Layout::Text | Layout::Geojson | Layout::Flatgeobuf => {
            return Ok(Box::new(rows::lines(reader)));
        }
    };
    let value = args.value.is_none().then_some(args.value_column.as_str());
    let columns = Columns { delimiter, header: args.header, key: &args.key_column, value };
    let table = rows::table(reader, &columns)
        .map_err(|why| Failure::Usage(format!("load {}: {}: {why}", args.url, args.file.display())))?;
    Ok(Box::new(table))
}

impl Load<'_> {
    fn all(&mut self, rows: &mut rows::Rows, progress: &ProgressBar) -> Result<(), Failure> {
        let empty = self.index.iter().limit(1).next().transpose()?.is_none();
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
    fn next(&mut self, rows: &mut rows::Rows) -> Result<Option<Entry>, Failure> {
        for row in rows {
            let line = match &row {
                Ok(row) => row.line,
                Err(Trouble::Line { line, .. }) => *line,
                Err(Trouble::Read(_)) => 0,
            };
            let why = match row {
                Ok(row) => match self.encode(&row) {
                    Ok(entry) => return Ok(Some(entry)),
                    Err(why) => why,
                },
                Err(Trouble::Line { why, .. }) => why,
                Err(Trouble::Read(source)) => {
                    return Err(Failure::File { operation: "read", path: self.args.file.clone(), source });
                }
            };
            // Only the user knows whether the first line holds column names.
            let hint = match line {
                1 if self.table && !self.args.header => {
                    "; if this line holds the column names, give --header"
                }
                _ => "",
            };
            if !self.args.skip_bad {
                let file = self.args.file.display();
                let loaded = match self.tally.loaded {
                    1 => "1 entry is".to_owned(),
                    loaded => format!("{loaded} entries are"),
                };
                return Err(Failure::Usage(format!(
                    "load {}: {file}:{line}: {why}{hint}; correct the line, or skip bad lines with --skip-bad \
                     ({loaded} loaded)",
                    self.args.url
                )));
            }
            self.tally.skipped += 1;
            self.tally.first_bad.get_or_insert_with(|| format!("line {line}: {why}{hint}"));
        }
        Ok(None)
    }

    fn encode(&self, row: &Row) -> Result<Entry, String> {
        let [key_kind, value_kind] = self.index.kinds();
        let key = key_kind.read(&row.key, self.index.key_width()).map_err(|why| format!("the key {why}"))?;
        let width = self.index.value_width();
        let value = match (&self.args.value, &row.value) {
            (Some(words), _) | (None, Some(words)) => value_kind.read(words, width),
            (None, None) if width == Width::Exactly(0) => Ok(Vec::new()),
            (None, None) => value_kind.read(&row.line.to_string(), width),
        };
        Ok((key, value.map_err(|why| format!("the value {why}"))?))
    }

    fn one_by_one(&mut self, rows: &mut rows::Rows) -> Result<(), Failure> {
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
        progress.set_message("writing");
        match self.index.bulk_load(sorter.in_order(), self.args.fill, |_| progress.tick()) {
            Ok(loaded) => {
                self.tally = Tally {
                    loaded: arrived,
                    replaced: arrived - loaded,
                    bulk: true,
                    ..std::mem::take(&mut self.tally)
                };
                Ok(())
            }
            // Another process has inserted an entry.
            Err(error) if error.exit_code() == 4 => {
                for (key, value) in sorter.in_order() {
                    self.put(key, value)?;
                }
                Ok(())
            }
            Err(error) if error.exit_code() == 5 => Err(Failure::Other {
                exit_code: 5,
                text: format!(
                    "{}; the index is still empty, and keeps the memory that it allocated: `farwood drop {}` frees it",
                    Failure::from(error).text(),
                    self.args.url.to_shell_word()
                ),
            }),
            Err(error) => Err(error.into()),
        }
    }
}

/// Entries to be sorted.
#[derive(Default)]
struct Sorter {
    bytes: Vec<u8>,
    /// Where the key of each entry ends, and its value.
    ends: Vec<(usize, usize)>,
    /// Numbers of entries by increasing key, each key once, its last entry.
    order: Vec<usize>,
}

impl Sorter {
    fn push(&mut self, key: &[u8], value: &[u8]) {
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.ends.push((key_end, self.bytes.len()));
    }

    fn count(&self) -> usize {
        self.ends.len()
    }

    fn bytes(&self) -> u64 {
        (self.bytes.len() + size_of_val(&*self.ends)) as u64
    }

    fn entry(&self, at: usize) -> (&[u8], &[u8]) {
        let start = if at == 0 { 0 } else { self.ends[at - 1].1 };
        let (key_end, end) = self.ends[at];
        (&self.bytes[start..key_end], &self.bytes[key_end..end])
    }

    fn sort(&mut self) {
        let mut order: Vec<usize> = (0..self.count()).collect();
        // Of equal keys the later entry comes first, and is the one that is kept.
        order.sort_unstable_by(|&a, &b| self.entry(a).0.cmp(self.entry(b).0).then(b.cmp(&a)));
        order.dedup_by(|later, kept| self.entry(*later).0 == self.entry(*kept).0);
        self.order = order;
    }

    fn in_order(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.order.iter().map(|&at| self.entry(at))
    }

    fn in_order_of_arrival(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        (0..self.count()).map(|at| self.entry(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_sorted_and_the_last_of_a_key_stays() {
        let mut sorter = Sorter::default();
        for (key, value) in [(3, 1), (1, 2), (3, 3), (2, 4), (1, 5)] {
            sorter.push(&[key], &[value]);
        }
        sorter.sort();
        let entries: Vec<_> = sorter.in_order().map(|(key, value)| (key[0], value[0])).collect();
        assert_eq!(entries, [(1, 5), (2, 4), (3, 3)]);
        // A byte of key, one of value, and where they end, two words.
        assert_eq!((sorter.count(), sorter.bytes()), (5, 5 * (2 + 16)));
    }

    #[test]
    fn a_share_is_a_share() {
        assert_eq!(share("0.8"), Ok(0.8));
        assert!(
            share("0.4").is_err() && share("1.1").is_err() && share("NaN").is_err() && share("x").is_err()
        );
    }
}
