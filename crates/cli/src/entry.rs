//! `farwood put`, `farwood get` and `farwood del`: entries by their keys.

use super::access::AccessArgs;
use super::source::Sources;
use super::timeout::TimeoutArgs;
use super::{Context, Failure, Format, Opened, Outcome, Untyped, item, read};
use crate::failure::shown;
use farwood::types::Kind;
use farwood::{Access, Error, Url};
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
///
/// If the condition of --if, --if-absent or --if-present is not met, the command stores nothing, prints the present
/// value on stdout if the key exists, and exits with code 1. The check and the change are one atomic step.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  farwood put shm://demo/numbers 7 42\n  \
    farwood put shm://demo/words --if-absent zebra 1\n  farwood put shm://demo/words zebra 2 --if 1\n  \
    farwood put shm://demo/bytes 00ff00ff00ff00ff 0a\n  \
    farwood put shm://demo/pages home --value-file home.html\n  \
    farwood put shm://demo/places 75 2.2,48.8,2.5,48.9\n  \
    farwood put shm://demo/parks 'Stanley Park' --geometry 'POINT(-123.14 49.3)' --attributes '{\"ha\":405}'")]
#[command(group = clap::ArgGroup::new("condition").args(["if", "if_absent", "if_present"]))]
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
    /// Store only if the key has exactly this value; exit code 1 if it has not
    #[arg(long = "if", id = "if", value_name = "VALUE", allow_hyphen_values = true)]
    pub(super) if_value: Option<String>,
    /// Store only if the key does not exist; exit code 1 if it does
    #[arg(long)]
    pub(super) if_absent: bool,
    /// Store only if the key exists; exit code 1 if it does not
    #[arg(long)]
    pub(super) if_present: bool,
    #[command(flatten)]
    pub(super) timeout: TimeoutArgs,
}

/// Print the values of keys
///
/// For one key, the command prints its value. For several keys, it prints one entry per line as `farwood scan` does:
/// key, tab, value; their lookups share round trips. With --json, it prints one object {"key", "value"} per line. For a
/// key that does not exist, the command prints nothing on stdout, or null as the value with --json, and exits with code
/// 1.
///
/// In a spatial index of unique ids, the command prints the edges of the record, then a tab and the attributes if it
/// has any. For several ids, each line begins with the id and a tab. With --json, the command prints the record as a
/// feature of GeoJSON.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  farwood get shm://demo/numbers 7\n  farwood get shm://demo/numbers 7 8 9\n  \
    farwood get shm://demo/words zebra --json\n  \
    farwood get shm://demo/pages home --raw > home.html\n  \
    farwood get shm://demo/parks 'Stanley Park' --json"
)]
pub(crate) struct GetArgs {
    /// shm://POOL/INDEX
    pub(super) url: Url,
    /// The key
    #[arg(allow_hyphen_values = true)]
    pub(super) key: String,
    /// More keys. Write -- before the first key if one of these begins with - and is not a number
    #[arg(value_name = "KEY", allow_negative_numbers = true)]
    pub(super) more: Vec<String>,
    /// Print the bytes of the value of one key unchanged, without a newline. As a setting, it applies to commands with
    /// one key
    #[arg(long, conflicts_with_all = ["json", "json_strings"])]
    pub(super) raw: bool,
    #[command(flatten)]
    pub(super) access: AccessArgs,
    #[command(flatten)]
    pub(super) timeout: TimeoutArgs,
}

impl GetArgs {
    /// Whether the value is printed unchanged.
    pub(super) fn is_raw(&self) -> bool {
        self.raw && self.more.is_empty()
    }

    /// The keys in their order.
    pub(super) fn keys(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.key).chain(&self.more)
    }
}

/// Remove a key
///
/// Exit code 1 if the key does not exist. In a spatial index, give a rectangle's number and its edges; the id alone if
/// the ids of the index are unique.
///
/// If the key has another value than that of --if, the command removes nothing, prints the present value on stdout and
/// exits with code 1. The check and the removal are one atomic step.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  farwood del shm://demo/numbers 7\n  farwood del shm://demo/words zebra --if 2\n  \
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
    /// Remove the key only if it has exactly this value; exit code 1 if it has not
    #[arg(long = "if", id = "if", value_name = "VALUE", allow_hyphen_values = true)]
    pub(super) if_value: Option<String>,
    #[command(flatten)]
    pub(super) timeout: TimeoutArgs,
}

/// Options that end a command with help or the version, and that data may look like.
const HELP: [&str; 4] = ["-h", "--help", "-V", "--version"];

/// Refuses a request for help after the URL of `put`, `get`, `del` or `incr`: it may be a key or a value, and the
/// command would end successfully without an effect.
pub(crate) fn refuse_help_as_data(sources: &Sources<'_>, error: &clap::Error) -> Option<Failure> {
    let command = sources.subcommand()?.get_name();
    if error.exit_code() != 0 || !["put", "get", "del", "incr"].contains(&command) {
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

/// The condition of `put`.
enum Condition {
    Always,
    IfAbsent,
    IfPresent,
    IfValue(Vec<u8>),
}

/// The result of a command with a condition.
enum Conditional {
    /// It changed the key, which existed before or not.
    Done { existed: bool },
    /// It changed nothing. The present value, if the key exists.
    Refused { current: Option<Vec<u8>> },
}

impl Conditional {
    /// The result of a compare-exchange with this expected value.
    fn of(exchanged: Result<(), Option<Vec<u8>>>, expected: Option<&Vec<u8>>) -> Self {
        match exchanged {
            Ok(()) => Self::Done { existed: expected.is_some() },
            Err(current) => Self::Refused { current },
        }
    }

    fn existed(&self) -> bool {
        match self {
            Self::Done { existed } => *existed,
            Self::Refused { current } => current.is_some(),
        }
    }

    /// Prints a JSON object, in which `done` says whether the key was changed, or the present value of a key that was
    /// not changed.
    fn print(&self, done: &str, index: &Untyped, context: &mut Context<'_>) -> io::Result<()> {
        let kind = index.kinds()[1];
        match (context.format, self) {
            (Format::Json, Self::Done { existed }) => {
                context.json(&json!({ done: true, "existed": existed }))
            }
            (Format::Json, Self::Refused { current }) => {
                let shown = current.as_ref().map(|value| context.numbers.entry(kind, value));
                context.json(&json!({ done: false, "existed": current.is_some(), "current": shown }))
            }
            (Format::Text, Self::Refused { current: Some(value) }) => {
                writeln!(context.out, "{}", kind.show(value))
            }
            (Format::Text, _) => Ok(()),
        }
    }

    fn outcome(&self) -> Outcome {
        match self {
            Self::Done { .. } => Outcome::Done,
            Self::Refused { .. } => Outcome::Negative,
        }
    }
}

/// The value of `--if`, as bytes.
fn expected(
    index: &Untyped,
    operation: &'static str,
    words: Option<&String>,
) -> Result<Option<Vec<u8>>, Failure> {
    words.map(|words| read(index, operation, "value of --if", words)).transpose()
}

fn condition(index: &Untyped, args: &PutArgs) -> Result<Condition, Failure> {
    let expected = expected(index, "put", args.if_value.as_ref())?;
    Ok(match expected {
        Some(expected) => Condition::IfValue(expected),
        None if args.if_absent => Condition::IfAbsent,
        None if args.if_present => Condition::IfPresent,
        None => Condition::Always,
    })
}

/// Stores an entry if the condition is met.
fn store(
    index: &Untyped,
    key: &Vec<u8>,
    value: &Vec<u8>,
    condition: &Condition,
) -> farwood::Result<Conditional> {
    let exchange = |expected: Option<&Vec<u8>>| {
        Ok(Conditional::of(index.compare_exchange(key, expected, Some(value))?, expected))
    };
    match condition {
        Condition::Always => Ok(Conditional::Done { existed: index.put(key, value)? }),
        Condition::IfAbsent => exchange(None),
        Condition::IfPresent if index.update(key, value)? => Ok(Conditional::Done { existed: true }),
        Condition::IfPresent => Ok(Conditional::Refused { current: None }),
        Condition::IfValue(expected) => exchange(Some(expected)),
    }
}

pub(crate) fn put(args: &PutArgs, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    let index = match args.timeout.open("put", &args.url, Access::ReadWrite, context)? {
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
    let condition = condition(&index, args)?;
    let stored = store(&index, &key, &value, &condition)?;
    stored.print("stored", &index, context)?;
    if let Conditional::Refused { current } = &stored {
        let why = match (current, condition) {
            (None, _) => "does not exist",
            (Some(_), Condition::IfAbsent) => "exists already",
            (Some(_), _) => "has another value",
        };
        writeln!(context.messages, "put {}: the key '{}' {why}; nothing was stored", args.url, args.key)?;
    } else if context.progress && context.format == Format::Text {
        let what = if stored.existed() { "replaced the value of" } else { "added" };
        writeln!(context.messages, "put {}: {what} the key '{}'", args.url, args.key)?;
    }
    Ok(stored.outcome())
}

/// Refuses `--raw` with an option that contradicts it, or with several keys.
fn check_raw(args: &GetArgs, context: &Context<'_>) -> Result<(), Failure> {
    if !args.raw {
        return Ok(());
    }
    if let Some(given) = context.first_given(&["json", "json_strings"]) {
        return Err(Failure::Usage(format!(
            "get {}: --raw and {given} conflict; remove one of them",
            args.url
        )));
    }
    if !args.more.is_empty() && context.is_given("raw") {
        return Err(Failure::Usage(format!(
            "get {}: --raw prints the bytes of one value, without an end; give one key",
            args.url
        )));
    }
    Ok(())
}

pub(crate) fn get(args: &GetArgs, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    check_raw(args, context)?;
    let index = match args.timeout.open("get", &args.url, args.access.access(), context)? {
        Opened::Spatial(index) => return item::get(&index, args, context),
        Opened::Ordered(index) => index,
    };
    let keys = args.keys().map(|words| key_of(&index, words, "get")).collect::<Result<Vec<_>, _>>()?;
    let [key_kind, value_kind] = index.kinds();
    let mut outcome = Outcome::Done;
    for ((words, key), value) in args.keys().zip(&keys).zip(index.get_many(&keys)?) {
        match value {
            Some(value) if args.is_raw() => context.out.write_all(&value)?,
            Some(value) if args.more.is_empty() && context.format == Format::Text => {
                writeln!(context.out, "{}", value_kind.show(&value))?;
            }
            Some(value) => context.entry(&index, key, &value)?,
            None => {
                if context.format == Format::Json {
                    context.json(&json!({ "key": context.numbers.entry(key_kind, key), "value": null }))?;
                }
                writeln!(context.messages, "get {}: the key '{words}' does not exist", args.url)?;
                outcome = Outcome::Negative;
            }
        }
    }
    Ok(outcome)
}

pub(crate) fn del(args: &DelArgs, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    let index = match args.timeout.open("del", &args.url, Access::ReadWrite, context)? {
        Opened::Spatial(index) => return item::del(&index, args, context),
        Opened::Ordered(index) => index,
    };
    if let Some(edges) = &args.edges {
        let text = format!("del {}: give only a key, not '{edges}'; this index holds keys", args.url);
        return Err(Failure::Usage(text));
    }
    let key = key_of(&index, &args.key, "del")?;
    let removed = match expected(&index, "del", args.if_value.as_ref())? {
        Some(expected) => {
            let exchanged = index.compare_exchange(&key, Some(&expected), None)?;
            Conditional::of(exchanged, Some(&expected))
        }
        None if index.remove(&key)? => Conditional::Done { existed: true },
        None => Conditional::Refused { current: None },
    };
    removed.print("removed", &index, context)?;
    if let Conditional::Refused { current } = &removed {
        let why = if current.is_some() { "has another value; it was not removed" } else { "does not exist" };
        writeln!(context.messages, "del {}: the key '{}' {why}", args.url, args.key)?;
    }
    Ok(removed.outcome())
}
