//! `farwood restore`: creates the indexes of a dump, or the pool of an image.

use super::{Context, Failure, Format, Outcome, size};
use crate::backup::{Figures, image_json, image_text, is_stream, not_opened, progress_of, signals};
use crate::create::{AskedShape, octal, refuse_other_shape, warn_of_shortage};
use crate::failure::shown;
use farwood::backup::{
    BackupContents, BackupError, BackupReader, BackupSummary, IndexHeader, Restore, RestoredPool,
    RestoredStructure, check_image,
};
use farwood::error::{ErrorKind, FabricError, IndexError};
use farwood::{BTree, Error, Hashed, Pool, PoolOptions, Radix, Url};
use indicatif::ProgressBar;
use serde_json::json;
use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::path::PathBuf;
use std::time::Instant;

const EXAMPLES: &str = "\
Examples:
  farwood restore demo.farwood shm://demo                        all indexes, into a pool that exists
  farwood restore demo.farwood shm://new --memory 2GiB           creates the pool
  farwood restore demo.farwood shm://demo --index words          this one of the indexes
  farwood restore demo.farwood shm://demo/old --index words      under another name
  farwood restore demo.farwood shm://demo --structure radix      as radix trees
  farwood restore demo.farwood shm://demo --structure btree --key-bytes 64
  farwood restore demo.farwood --list                            check the file, and show its contents
  ssh backup cat demo.farwood | farwood restore - tcp://10.0.0.5:7470";

/// Create the indexes of a dump, or the pool of `farwood save`
///
/// The file of `farwood dump` has indexes: they are created in a pool, with the options that they had or with another
/// structure, and loaded. The pool may be on another fabric than that of the dump. No index is replaced. After an
/// error, the pool has none of the indexes. The file of `farwood save` has the memory of a pool: it becomes a new pool
/// in shared memory, which processes can open when it is complete.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The file; `-` is stdin
    file: PathBuf,
    /// The pool; with /INDEX: the name of the restored index
    #[arg(required_unless_present = "list")]
    url: Option<Url>,
    /// Check every block of the file, and show its contents, instead of restoring them
    #[arg(long, conflicts_with = "url")]
    list: bool,
    /// Restore this index of a dump, or list only this one; repeat the option for several [default: all]
    #[arg(long, value_name = "NAME", help_heading = "Dump")]
    index: Vec<String>,
    /// The structure of restored indexes of keys: btree = sherman, radix = smart or hashed = sphinx, with their default
    /// options [default: structure and options of the dump]. Keys of a radix or hashed index that are texts or byte
    /// strings need --key-bytes to become a btree
    #[arg(long, value_name = "KIND", value_enum, help_heading = "Dump")]
    structure: Option<Structure>,
    /// --structure btree only: length of a key in bytes, 8 to 1024; for text, the longest key
    #[arg(long, value_name = "N", help_heading = "Dump")]
    key_bytes: Option<usize>,
    /// --structure btree only: length of a value in bytes, 0 to 4096; for text, the longest value [default: that of the
    /// dump; if values have any length there, they have any length]
    #[arg(long, value_name = "N", help_heading = "Dump")]
    value_bytes: Option<usize>,
    /// Create the pool of a dump if it does not exist, with this memory in each memory node, a multiple of 8 MiB
    #[arg(long, value_name = "SIZE", value_parser = size::parse, help_heading = "Dump")]
    memory: Option<u64>,
    /// Number of memory nodes of a pool that --memory creates
    #[arg(long, value_name = "N", value_parser = size::memory_nodes, default_value = "1", requires = "memory",
          help_heading = "Dump")]
    nodes: u16,
    /// Share the created pool with the users of this group, by name or number [default: that of an image]
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
    /// Give the files of the created pool these permissions, as `farwood create --mode` [default: those of an image;
    /// 0600, or 0660 with --group]
    #[arg(long, value_name = "MODE", value_parser = octal)]
    mode: Option<u32>,
}

/// The structure of an index of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Structure {
    /// A B-link tree for keys of one length
    #[value(alias = "sherman")]
    Btree,
    /// A radix tree for keys of any length
    #[value(alias = "smart")]
    Radix,
    /// A radix tree with hash tables, for keys of any length
    #[value(alias = "sphinx")]
    Hashed,
}

/// Options that apply to a dump only.
const DUMP_OPTIONS: [&str; 6] = ["index", "structure", "key_bytes", "value_bytes", "memory", "nodes"];

/// Options of the files of a pool that the command creates.
const RIGHTS_OPTIONS: [&str; 2] = ["group", "mode"];

type Input = Box<dyn Read>;

pub(crate) fn run(args: &Args, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    check(args, context)?;
    let (input, contents, bar) = open(args, context)?;
    let done = match (contents, &args.url) {
        (BackupContents::Image, None) => list_image(args, input, context),
        (BackupContents::Image, Some(url)) => restore_image(args, url, input, &bar, context),
        (_, None) => list_dump(args, input, &bar, context),
        (_, Some(url)) => restore_dump(args, url, input, &bar, context),
    };
    bar.finish_and_clear();
    done
}

/// Refuses options that have no effect.
fn check(args: &Args, context: &Context<'_>) -> Result<(), Failure> {
    let file = shown(&args.file);
    let sizes = context.first_given(&["key_bytes", "value_bytes"]);
    if let Some(option) = sizes.filter(|_| args.structure != Some(Structure::Btree)) {
        return Err(Failure::Usage(format!(
            "restore {file}: {option} is an option of --structure btree; add it, or omit {option}"
        )));
    }
    let others = DUMP_OPTIONS.into_iter().filter(|option| *option != "index").chain(RIGHTS_OPTIONS);
    match context.first_given(&others.collect::<Vec<_>>()).filter(|_| args.list) {
        Some(option) => Err(Failure::Usage(format!(
            "restore {file}: --list shows the file, and restores nothing; omit {option}"
        ))),
        None => Ok(()),
    }
}

/// Opens the file, and reads the first bytes, which show its contents.
fn open(args: &Args, context: &Context<'_>) -> Result<(Input, BackupContents, ProgressBar), Failure> {
    let failed = |source| Failure::file("restore", "open", &args.file, source);
    let (mut input, bytes): (Input, _) = if is_stream(&args.file) {
        (Box::new(io::stdin()), None)
    } else {
        let file = File::open(&args.file).map_err(failed)?;
        let data = file.metadata().map_err(failed)?;
        (Box::new(file), data.is_file().then_some(data.len()))
    };
    let mut start = Vec::new();
    let read = input.by_ref().take(BackupContents::START_BYTES as u64).read_to_end(&mut start);
    read.map_err(|source| Failure::file("restore", "read", &args.file, source))?;
    // The reader of a dump describes a file that is none.
    let contents = BackupContents::of_start(&start).unwrap_or(BackupContents::Dump);
    let bar = progress_of(context, bytes);
    let input = BufReader::with_capacity(1 << 20, Cursor::new(start).chain(input));
    Ok((Box::new(input), contents, bar))
}

/// The failure of the library, with the name of the file.
fn failed(args: &Args, error: Error) -> Failure {
    match error {
        Error::Backup { operation, source, .. } => {
            let path = if is_stream(&args.file) { PathBuf::from("stdin") } else { args.file.clone() };
            Error::Backup { operation, path: Some(path), source }.into()
        }
        error => error.into(),
    }
}

fn unreadable(args: &Args, source: BackupError) -> Failure {
    failed(args, Error::Backup { operation: "restore", path: None, source })
}

fn list_dump(
    args: &Args,
    input: Input,
    bar: &ProgressBar,
    context: &mut Context<'_>,
) -> Result<Outcome, Failure> {
    let read = || {
        let mut dump = BackupReader::new(input)?;
        let has = &dump.header().indexes;
        if let Some(name) = args.index.iter().find(|name| !has.contains(name)) {
            return Err(BackupError::NoSuchIndex { name: name.clone(), has: has.clone() });
        }
        let mut indexes = Vec::new();
        while let Some(mut index) = dump.next_index()? {
            let count = index.skip()?;
            bar.set_position(index.bytes());
            if args.index.is_empty() || args.index.contains(&index.header().name) {
                indexes.push((index.header().clone(), count));
            }
        }
        Ok((dump.header().clone(), indexes, dump.bytes()))
    };
    let (header, indexes, bytes) = read().map_err(|error| unreadable(args, error))?;
    bar.finish_and_clear();
    if context.format == Format::Json {
        let index = |(header, entries): &(IndexHeader, u64)| json!({ "header": header, "entries": entries });
        let indexes: Vec<_> = indexes.iter().map(index).collect();
        context.json(&json!({ "contents": "dump", "header": header, "indexes": indexes, "bytes": bytes }))?;
        return Ok(Outcome::Done);
    }
    writeln!(
        context.out,
        "dump of {} by Farwood {}: {}, {}; every block is intact",
        header.source,
        header.farwood,
        size::count(header.indexes.len() as u64, "index", "indexes"),
        size::show(bytes)
    )?;
    for (index, entries) in &indexes {
        writeln!(context.out, "{}\t{}", index.name, describe(index, *entries))?;
    }
    Ok(Outcome::Done)
}

/// An index of a dump on one line.
fn describe(index: &IndexHeader, entries: u64) -> String {
    let system = &index.system;
    match (&index.types, &index.ids) {
        (Some(types), _) => {
            let bytes = |bytes: Option<usize>| {
                bytes.map_or("of any length".to_owned(), |bytes| format!("of {bytes} B"))
            };
            format!(
                "{system}: {}; {} keys {}, {} values {}",
                size::count(entries, "entry", "entries"),
                types.keys.kind(),
                bytes(types.keys.bytes),
                types.values.kind(),
                bytes(types.values.bytes)
            )
        }
        (None, Some(ids)) if ids != "repeated" => {
            format!("{system}: {}; {ids} ids", size::count(entries, "record", "records"))
        }
        _ => format!("{system}: {}", size::count(entries, "rectangle", "rectangles")),
    }
}

fn list_image(args: &Args, input: Input, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    refuse_dump_options(args, context)?;
    let begun = Instant::now();
    let (header, figures) = check_image(input).map_err(|error| unreadable(args, error))?;
    let seconds = begun.elapsed().as_secs_f64();
    if context.format == Format::Json {
        let contents = image_json(&figures, seconds);
        context.json(&json!({ "contents": "image", "header": header, "figures": contents }))?;
        return Ok(Outcome::Done);
    }
    writeln!(
        context.out,
        "image of {} by Farwood {}: {} with {} each; {}; every block is intact",
        header.source,
        header.farwood,
        size::count(header.nodes.into(), "memory node", "memory nodes"),
        size::show(header.memory_bytes.unwrap_or(header.host_bytes)),
        image_text(&figures, seconds)
    )?;
    Ok(Outcome::Done)
}

/// Refuses options that do not apply to the image of a pool.
fn refuse_dump_options(args: &Args, context: &Context<'_>) -> Result<(), Failure> {
    let Some(option) = context.first_given(&DUMP_OPTIONS) else { return Ok(()) };
    Err(Failure::Usage(format!(
        "restore {}: {option} applies to a dump, and this is the image of a pool, whose indexes and memory are \
         restored as they were; omit {option}",
        shown(&args.file)
    )))
}

fn restore_image(
    args: &Args,
    url: &Url,
    input: Input,
    bar: &ProgressBar,
    context: &mut Context<'_>,
) -> Result<Outcome, Failure> {
    let begun = Instant::now();
    let file = shown(&args.file);
    refuse_dump_options(args, context)?;
    if url.index().is_some() {
        return Err(Failure::Usage(format!(
            "restore {file}: this is the image of a pool, which is restored as a whole; write {}",
            url.pool_url()
        )));
    }
    let mut restored =
        RestoredPool::at(url).interrupt(signals()?).progress(|at| bar.set_position(at.file_bytes));
    if let Some(group) = &args.group {
        restored = restored.group(group);
    }
    if let Some(mode) = args.mode {
        restored = restored.mode(mode);
    }
    let figures = restored.from_reader(input).map_err(|error| failed(args, error))?;
    let seconds = begun.elapsed().as_secs_f64();
    match context.format {
        Format::Json => {
            context
                .json(&json!({ "restored": url.to_string(), "contents": image_json(&figures, seconds) }))?;
        }
        Format::Text => {
            writeln!(context.messages, "restored {url} from {file}: {}", image_text(&figures, seconds))?;
        }
    }
    Ok(Outcome::Done)
}

fn restore_dump(
    args: &Args,
    url: &Url,
    input: Input,
    bar: &ProgressBar,
    context: &mut Context<'_>,
) -> Result<Outcome, Failure> {
    let begun = Instant::now();
    let new_name = new_name(args, url, context)?;
    // A file that is no dump changes no pool.
    let backup = BackupReader::new(input).map_err(|error| unreadable(args, error))?;
    let (pool, made) = open_pool(args, &url.pool_url(), context)?;
    let mut restore = Restore::into(&pool).interrupt(signals()?).progress(|at| {
        bar.set_position(at.bytes);
        bar.set_message(format!("{}: {}", at.index, size::count(at.entries, "entry", "entries")));
    });
    for index in &args.index {
        restore = restore.index(index);
    }
    if let Some((index, name)) = new_name {
        restore = restore.rename(index, name);
    }
    if let Some(structure) = structure(args) {
        restore = restore.structure(structure);
    }
    let restored = restore.from_backup(backup).map_err(|error| match args.memory.filter(|_| made) {
        Some(memory) if is_full(&error) => too_small(args, url, memory),
        _ => failed(args, error),
    });
    // Another process may use the pool by now.
    let is_unused = pool.indexes().is_ok_and(|indexes| indexes.is_empty());
    drop(pool);
    let summary = restored.map_err(|failure| {
        if made && is_unused && Pool::remove(url.pool_url()).is_err() {
            let text = format!("{}; the pool {} was created and stays", failure.text(), url.pool_url());
            return Failure::Other { text, exit_code: failure.exit_code() };
        }
        failure
    })?;
    report(args, url, Figures { summary: &summary, seconds: begun.elapsed().as_secs_f64() }, context)
}

/// Whether indexes have all memory of a pool.
fn is_full(error: &Error) -> bool {
    matches!(
        error,
        Error::Fabric { source: FabricError::PoolFull { .. }, .. }
            | Error::Index { source: IndexError::Fabric(FabricError::PoolFull { .. }), .. }
    )
}

/// The failure of a restore into a new pool that is too small.
fn too_small(args: &Args, url: &Url, memory: u64) -> Failure {
    let text = format!(
        "restore {}: the indexes do not fit into {}, which this command creates with --memory {}: give more memory, or \
         more --nodes",
        shown(&args.file),
        url.pool_url(),
        size::show(memory)
    );
    Failure::Other { text, exit_code: 5 }
}

/// The index of the dump that gets the name in the URL, and that name.
fn new_name<'a>(
    args: &'a Args,
    url: &'a Url,
    context: &Context<'_>,
) -> Result<Option<(&'a String, &'a str)>, Failure> {
    let file = shown(&args.file);
    if let Some(option) = context.first_given(&RIGHTS_OPTIONS).filter(|_| args.memory.is_none()) {
        return Err(Failure::Usage(format!(
            "restore {file}: {option} applies to a pool that --memory creates; add it, or omit {option}"
        )));
    }
    match (url.index(), args.index.as_slice()) {
        (None, _) => Ok(None),
        (Some(name), [index]) => Ok(Some((index, name))),
        (Some(_), _) => Err(Failure::Usage(format!(
            "restore {file}: {url} names one index; choose the index of the dump with --index NAME, or write {}",
            url.pool_url()
        ))),
    }
}

/// The pool, and whether this command has created it.
fn open_pool(args: &Args, url: &Url, context: &mut Context<'_>) -> Result<(Pool, bool), Failure> {
    match (Pool::open(url), args.memory) {
        (Err(error), Some(memory)) if error.kind() == ErrorKind::NotFound => {
            let options = PoolOptions::new().memory_bytes(memory).nodes(args.nodes);
            let options = args.mode.into_iter().fold(options, PoolOptions::mode);
            Pool::create(url, &args.group.iter().fold(options, PoolOptions::group))?;
            warn_of_shortage(url, memory.saturating_mul(args.nodes.into()), context)?;
            Ok((Pool::open(url)?, true))
        }
        (Err(error), _) => Err(not_opened("restore", url, error, "add --memory SIZE to create it")),
        (Ok(pool), _) => {
            let command = format!("restore {} into {url}", shown(&args.file));
            let asked = AskedShape {
                memory_bytes: args.memory,
                memory_max_bytes: None,
                nodes: args.nodes,
                device_bytes: None,
            };
            refuse_other_shape(&command, &pool, asked, context)?;
            Ok((pool, false))
        }
    }
}

fn structure(args: &Args) -> Option<RestoredStructure> {
    Some(match args.structure? {
        Structure::Radix => Radix::new().into(),
        Structure::Hashed => Hashed::new().into(),
        Structure::Btree => {
            let options = args.key_bytes.into_iter().fold(BTree::new(), BTree::key_bytes);
            args.value_bytes.into_iter().fold(options, BTree::value_bytes).into()
        }
    })
}

fn report(
    args: &Args,
    url: &Url,
    figures: Figures<'_>,
    context: &mut Context<'_>,
) -> Result<Outcome, Failure> {
    let (file, renamed) = (shown(&args.file), args.index.first().filter(|_| url.index().is_some()));
    match (context.format, renamed) {
        (Format::Json, _) => {
            let restored: Vec<_> = names(url, figures.summary).collect();
            let contents = figures.json();
            context.json(&json!({ "restored": restored, "renamed_from": renamed, "contents": contents }))?;
        }
        (Format::Text, Some(index)) => {
            writeln!(context.messages, "restored {index} of {file} as {url}: {figures}")?;
        }
        (Format::Text, None) => {
            let names: Vec<_> = figures.summary.indexes.iter().map(|index| index.name.as_str()).collect();
            let names = if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) };
            writeln!(context.messages, "restored {file} into {}{names}: {figures}", url.pool_url())?;
        }
    }
    Ok(Outcome::Done)
}

/// The URLs of the restored indexes.
fn names<'a>(url: &'a Url, summary: &'a BackupSummary) -> impl Iterator<Item = String> + 'a {
    summary.indexes.iter().map(|index| url.pool_url().index_url(&index.name).to_string())
}
