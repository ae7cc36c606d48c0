//! `farwood put`, `farwood get` and `farwood del`: one entry.

use super::source::Sources;
use super::{Context, Failure, Format, Opened, Outcome, Untyped, item, open_any, read};
use crate::failure::shown;
use farwood::{Error, Kind, Url};
use serde_json::json;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// Bytes of the longest value of any index.
const VALUE_BYTES_MAX: usize = 16 << 20;

/// Store a value under a key
///
/// The types of the index determine how key and value are written: decimal numbers, text, or hexadecimal digits. In a
/// spatial index, give a rectangle's id and its edges X1,Y1,X2,Y2, or X,Y for a point. If the ids of the index are
/// unique, the record with the id is replaced; it may have a geometry, whose bounds are then the edges, and attributes.
///
/// A record has one rectangle. If its geometry lies on both sides of the antimeridian, the rectangle reaches around the
/// globe, and every window of `search --bbox` that meets its latitudes finds the record. Searches with --geometry,
/// --relation, --within-distance or --nearest compare the geometry, and do not find the record where it is not.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  farwood put shm://demo/numbers 7 42\n  \
    farwood put shm://demo/words --if-absent zebra 1\n  farwood put shm://demo/bytes 00ff00ff00ff00ff 0a\n  \
    farwood put shm://demo/pages home --value-file home.html\n  \
    farwood put shm://demo/places 75 2.2,48.8,2.5,48.9\n  \
    farwood put shm://demo/parks 'Stanley Park' --geometry 'POINT(-123.14 49.3)' --attributes '{\"ha\":405}'")]
#[command(group = clap::ArgGroup::new("condition").args(["if_absent", "if_present"]))]
pub(crate) struct PutArgs {
    /// shm://POOL/INDEX
    pub(super) url: Url,
    /// The key
    #[arg(allow_hyphen_values = true)]
    pub(super) key: String,
    /// The value
    #[arg(allow_hyphen_values = true, required_unless_present_any = ["value_file", "geometry"])]
    pub(super) value: Option<String>,
    /// Read the value from this file, byte for byte; - for stdin
    #[arg(long, value_name = "FILE", conflicts_with = "value")]
    value_file: Option<PathBuf>,
    /// In a spatial index of unique ids: the geometry as WKT, such as 'POINT(1 2)', or GeoJSON
    #[arg(long, value_name = "WKT")]
    pub(super) geometry: Option<String>,
    /// In a spatial index of unique ids: attributes, a JSON object
    #[arg(long, value_name = "JSON")]
    pub(super) attributes: Option<String>,
    /// Store only if the key does not exist; exit code 1 if it does
    #[arg(long)]
    pub(super) if_absent: bool,
    /// Store only if the key exists; exit code 1 if it does not
    #[arg(long)]
    pub(super) if_present: bool,
}

/// Print the value of a key
///
/// If the key does not exist, the command prints nothing on stdout and exits with code 1; with --json, the value is
/// null. In a spatial index of unique ids, the command prints the edges of the record, then a tab and the attributes if
/// it has any; with --json the record as a
/// feature of GeoJSON.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  farwood get shm://demo/numbers 7\n  farwood get shm://demo/words zebra --json\n  \
    farwood get shm://demo/pages home --raw > home.html\n  \
    farwood get shm://demo/parks 'Stanley Park' --json"
)]
pub(crate) struct GetArgs {
    /// shm://POOL/INDEX
    pub(super) url: Url,
    /// The key
    #[arg(allow_hyphen_values = true)]
    pub(super) key: String,
    /// Print the bytes of the value unchanged, without a newline
    #[arg(long, conflicts_with_all = ["json", "json_strings"])]
    pub(super) raw: bool,
}

/// Remove a key
///
/// Exit code 1 if the key does not exist. In a spatial index, give a rectangle's number and its edges; the id alone if
/// the ids of the index are unique.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  farwood del shm://demo/numbers 7\n  farwood del shm://demo/words zebra\n  \
    farwood del shm://demo/places 75 2.2,48.8,2.5,48.9"
)]
pub(crate) struct DelArgs {
    /// shm://POOL/INDEX
    pub(super) url: Url,
    /// The key
    #[arg(allow_hyphen_values = true)]
    pub(super) key: String,
    /// The edges of the rectangle, as `farwood search` prints them
    #[arg(allow_hyphen_values = true)]
    pub(super) edges: Option<String>,
}

/// Options that end a command with help or the version, and that data may look like.
const HELP: [&str; 4] = ["-h", "--help", "-V", "--version"];

/// Refuses a request for help after the URL of `put`, `get` or `del`: it may be a key or a value, and the command would
/// end successfully without an effect.
pub(crate) fn refuse_help_as_data(sources: &Sources<'_>, error: &clap::Error) -> Option<Failure> {
    let command = sources.subcommand()?.get_name();
    if error.exit_code() != 0 || !["put", "get", "del"].contains(&command) {
        return None;
    }
    let texts: Vec<_> = sources.arguments.iter().map(|argument| argument.to_string_lossy()).collect();
    let (at, url) = texts.iter().enumerate().find(|(_, text)| text.contains("://"))?;
    let data = texts[at..].iter().find(|text| HELP.contains(&&***text))?;
    Some(Failure::Usage(format!(
        "{command} {url}: is '{data}' data? Write -- before the key if it is: `farwood {command} {url} -- ...`; \
         `farwood {command} --help` prints the help"
    )))
}

/// The key on the command line, as bytes.
fn key_of(index: &Untyped, words: &str, operation: &'static str) -> Result<Vec<u8>, Failure> {
    read(index, operation, "key", words)
}

/// The contents of a file, or of stdin, up to the first byte that no value has space for: the file may have no end.
fn bytes_of(path: &Path) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let most = VALUE_BYTES_MAX as u64 + 1;
    let read = if path == Path::new("-") {
        io::stdin().lock().take(most).read_to_end(&mut bytes)
    } else {
        fs::File::open(path).and_then(|file| file.take(most).read_to_end(&mut bytes))
    };
    read.map_err(|source| Failure::file("put: --value-file", "read", path, source))?;
    Ok(bytes)
}

/// The value in a file: the bytes, or a text as on the command line.
fn value_in(index: &Untyped, path: &Path) -> Result<Vec<u8>, Failure> {
    let bytes = bytes_of(path)?;
    let kind = index.kinds()[1];
    if kind != Kind::Text {
        let unfit = |why| Error::Unfit { operation: "put", url: index.url(), what: "value", why };
        kind.check(&bytes).map_err(unfit)?;
        return Ok(bytes);
    }
    let text = String::from_utf8(bytes).map_err(|_| {
        let file = if path == Path::new("-") { "stdin".to_owned() } else { shown(path) };
        Failure::Usage(format!(
            "put {}: --value-file: {file} is not UTF-8 text, and the values of this index are texts; convert the file \
             to UTF-8, or create an index for bytes (--values hex)",
            index.url()
        ))
    })?;
    read(index, "put", "value", &text)
}

pub(crate) fn put(args: &PutArgs, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    let index = match open_any(&args.url, context)? {
        Opened::Spatial(index) => return item::put(&index, args, context),
        Opened::Ordered(index) => index,
    };
    if let Some(given) = context.first_given(&["geometry", "attributes"]) {
        let text = format!("put {}: {given} applies to spatial indexes of unique ids; omit it", args.url);
        return Err(Failure::Usage(text));
    }
    let key = key_of(&index, &args.key, "put")?;
    let value = match (&args.value, &args.value_file) {
        (Some(words), _) => read(&index, "put", "value", words)?,
        (None, Some(path)) => value_in(&index, path)?,
        (None, None) => unreachable!("clap requires a value or a file"),
    };
    let (stored, existed) = if args.if_absent {
        let stored = index.insert(&key, &value)?;
        (stored, !stored)
    } else if args.if_present {
        let existed = index.update(&key, &value)?;
        (existed, existed)
    } else {
        (true, index.put(&key, &value)?)
    };
    if context.format == Format::Json {
        context.json(&json!({ "stored": stored, "existed": existed }))?;
    } else if !stored {
        let why = if existed { "exists already" } else { "does not exist" };
        writeln!(context.messages, "put {}: the key '{}' {why}; nothing was stored", args.url, args.key)?;
    } else if context.progress {
        let what = if existed { "replaced the value of" } else { "added" };
        writeln!(context.messages, "put {}: {what} the key '{}'", args.url, args.key)?;
    }
    Ok(if stored { Outcome::Done } else { Outcome::Negative })
}

pub(crate) fn get(args: &GetArgs, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    if let (true, Some(given)) = (args.raw, context.first_given(&["json", "json_strings"])) {
        return Err(Failure::Usage(format!(
            "get {}: --raw and {given} conflict; remove one of them",
            args.url
        )));
    }
    let index = match open_any(&args.url, context)? {
        Opened::Spatial(index) => return item::get(&index, args, context),
        Opened::Ordered(index) => index,
    };
    let key = key_of(&index, &args.key, "get")?;
    let [key_kind, value_kind] = index.kinds();
    let Some(value) = index.get(&key)? else {
        if context.format == Format::Json {
            context.json(&json!({ "key": context.numbers.entry(key_kind, &key), "value": null }))?;
        }
        writeln!(context.messages, "get {}: the key '{}' does not exist", args.url, args.key)?;
        return Ok(Outcome::Negative);
    };
    match context.format {
        _ if args.raw => context.out.write_all(&value)?,
        Format::Text => writeln!(context.out, "{}", value_kind.show(&value))?,
        Format::Json => {
            let numbers = context.numbers;
            let (key, value) = (numbers.entry(key_kind, &key), numbers.entry(value_kind, &value));
            context.json(&json!({ "key": key, "value": value }))?;
        }
    }
    Ok(Outcome::Done)
}

pub(crate) fn del(args: &DelArgs, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    let index = match open_any(&args.url, context)? {
        Opened::Spatial(index) => return item::del(&index, args, context),
        Opened::Ordered(index) => index,
    };
    if let Some(edges) = &args.edges {
        let text = format!("del {}: give only a key, not '{edges}'; this index holds keys", args.url);
        return Err(Failure::Usage(text));
    }
    let key = key_of(&index, &args.key, "del")?;
    let existed = index.remove(&key)?;
    if context.format == Format::Json {
        context.json(&json!({ "existed": existed }))?;
    } else if !existed {
        writeln!(context.messages, "del {}: the key '{}' does not exist", args.url, args.key)?;
    }
    Ok(if existed { Outcome::Done } else { Outcome::Negative })
}
