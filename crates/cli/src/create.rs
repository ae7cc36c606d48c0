//! `farwood create`: a pool, or an index in it.

use super::lock_width::LockBits;
use super::smart_options::SmartOptions;
use super::sphinx_options::SphinxOptions;
use super::{Context, Failure, Format, Outcome, refuse_search_parameters, size, warn_of_locks};
use farwood::doctor;
use farwood::error::{ErrorKind, ShmError};
use farwood::papers::{Consistency, ShermanVariant, SmartVariant, SphinxVariant};
use farwood::spatial::{CoordinateSystem, IdKind, RTree};
use farwood::types::Kind;
use farwood::{BTree, Error, Hashed, Pool, PoolOptions, Radix, Url};
use indicatif::ProgressBar;
use serde_json::json;
use std::env;
use std::ffi::OsStr;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  farwood create shm://demo --memory 1GiB --nodes 2
  farwood create shm://jobs --group staff              members of the group need FARWOOD_SHM_GROUP=staff
  farwood create shm://jobs --mode 0644                everybody reads it: FARWOOD_SHM_OWNER=OWNER and --read-only
  farwood create shm://demo/numbers
  farwood create shm://demo/words --keys text --key-bytes 64
  farwood create shm://demo/packages --index smart --keys text      keys and values of any length
  farwood create shm://demo/art --index smart --variant art --node-sizes typed
  farwood create shm://demo/places --index catfish --crs degrees    rectangles of longitude and latitude
  farwood create shm://demo/parts --index catfish --crs planar      rectangles of a drawing
  farwood create shm://demo/parks --index catfish --ids text        places with names, geometries and attributes
  farwood create shm://scratch/t --memory 64MiB        also creates the pool if it does not exist
  farwood create tcp://127.0.0.1:7470/numbers          on a memory node that `farwood serve` runs";

/// Create a pool, or an index in a pool
///
/// `shm://NAME` creates a pool of memory nodes. `shm://NAME/INDEX` creates an index in it; if the pool does not exist
/// and --memory is given, the pool is created first. Pools over TCP consist of running memory nodes: see `farwood
/// serve`.
///
/// Memory: each memory node uses 8 MiB for its superblock. Each index uses 8 MiB for every process that inserts at the
/// same time, plus the memory of its entries: about 32 B for each entry with keys and values of 8 bytes at 80 % fill.
/// So 16 MiB is enough for one writing process and one index.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// shm://POOL, shm://POOL/INDEX or tcp://HOST:PORT/INDEX
    url: Url,

    /// Memory of each memory node, a multiple of 8 MiB [default: 1GiB]
    #[arg(long, value_name = "SIZE", value_parser = size::parse, help_heading = "Pool")]
    memory: Option<u64>,
    /// Number of memory nodes
    #[arg(long, value_name = "N", value_parser = size::memory_nodes, default_value = "1", help_heading = "Pool")]
    nodes: u16,
    /// Device memory of each memory node, which holds the locks
    #[arg(long, value_name = "SIZE", value_parser = size::parse, default_value = "256KiB", help_heading = "Pool")]
    device_memory: u64,
    /// Share the pool with the users of this group, by name or number: its files get mode 0660. Every process that uses
    /// the pool needs FARWOOD_SHM_GROUP=GROUP
    #[arg(long, value_name = "GROUP", help_heading = "Pool")]
    group: Option<String>,
    /// Give the files of the pool these permissions, in octal digits: 0600 and more, without execution and without
    /// writing by everybody [default: 0600, or 0660 with --group]. With 0640 or 0644, others read the pool: their
    /// commands need --read-only, and FARWOOD_SHM_OWNER=OWNER or FARWOOD_SHM_GROUP=GROUP
    #[arg(long, value_name = "MODE", value_parser = octal, help_heading = "Pool")]
    mode: Option<u32>,
    /// Memory to which `farwood grow` can raise each memory node [default: 16 times --memory]. Memory that is not used
    /// costs addresses only. A pool in huge pages, or with --reserve, does not grow
    #[arg(long, value_name = "SIZE", value_parser = size::parse, conflicts_with = "reserve", help_heading = "Pool")]
    memory_max: Option<u64>,
    /// Allocate all memory now, so that a later access cannot fail for lack of memory
    #[arg(long, help_heading = "Pool")]
    reserve: bool,

    /// The kind of index: sherman = btree (ordered, keys of one length), smart = radix or sphinx = hashed (ordered,
    /// keys of any length) or catfish = rtree (spatial, rectangles or records)
    #[arg(long, value_name = "KIND", value_enum, default_value_t = IndexKind::Sherman, help_heading = "Index")]
    index: IndexKind,
    /// The type of the keys: u64, i64, f64, bool, text or hex (byte strings). Texts and byte strings have at most 4096
    /// bytes in smart and sphinx, and at most --key-bytes in sherman
    #[arg(long, value_name = "KIND", default_value = "u64", help_heading = "Index")]
    keys: Kind,
    /// The type of the values: u64, i64, f64, bool, text or hex
    #[arg(long, value_name = "KIND", default_value = "u64", help_heading = "Index")]
    values: Kind,
    /// sherman only: length of a key in bytes, 8 to 1024; for text, the longest key [default: 8; required for text]
    #[arg(long, value_name = "N", help_heading = "Index")]
    key_bytes: Option<usize>,
    /// sherman only: length of a value in bytes, 0 to 4096; for text, the longest value [default: 8; required for
    /// text]. With --any-length: bytes that an entry reserves for its value and the value's length (4 bytes), 16 to
    /// 256 [default: 32]; longer values are stored outside the leaf
    #[arg(long, value_name = "N", help_heading = "Index")]
    value_bytes: Option<usize>,
    /// sherman only: values have any length up to 16 MiB, as they always have in smart and sphinx
    #[arg(long, help_heading = "Index")]
    any_length: bool,
    /// sherman: size of a node, a multiple of 64 bytes [default: 1KiB]; catfish: largest size of a node, 384 to 20544
    /// bytes, of which 320 hold 7 rectangles [default: 1984]
    #[arg(long, value_name = "SIZE", value_parser = size::parse, help_heading = "Index")]
    node_bytes: Option<u64>,
    /// catfish only: the coordinates of rectangles and geometries. degrees: longitudes from -180 to 180 and latitudes
    /// from -90 to 90; windows and features may cross the antimeridian. planar: any numbers, and nothing wraps around.
    /// Without this option the index does not state its coordinates: windows do not cross the antimeridian, and `load`
    /// divides features that are cut there
    #[arg(long, value_name = "COORDINATES", value_enum, help_heading = "Index")]
    crs: Option<Coordinates>,
    /// catfish only: the ids. repeated: numbers, and several rectangles may have the same; the index
    /// stores rectangles only. number, text: each id at most once; the index stores a record for each id, with a
    /// rectangle, a geometry and attributes, and finds, replaces and deletes it by the id
    #[arg(long, value_name = "KIND", value_enum, default_value_t = Ids::Repeated, help_heading = "Index")]
    ids: Ids,
    /// The variant. sherman: fg, fg+, +combine, +on-chip, +local, +queue, +hierarchical, sherman or +lock-read
    /// [default: +lock-read]; smart: art, +lock-free, +in-place, +rear-lock, +read-delegation or +write-combining =
    /// smart [default: smart]; sphinx: art, +hash-table or sphinx [default: sphinx]
    #[arg(long, value_name = "NAME", help_heading = "Index")]
    variant: Option<String>,
    #[command(flatten, next_help_heading = "Index")]
    smart: SmartOptions,
    #[command(flatten, next_help_heading = "Index")]
    sphinx: SphinxOptions,
    /// sherman only: bits of a lock. A lock of 16 bits, as in the paper, cannot tell a crashed client from the next
    /// client in the same client slot, so the lock of a crashed client cannot be taken over: for reproduction of the
    /// paper only
    #[arg(long, value_name = "BITS", value_enum, default_value_t = LockBits::Word, help_heading = "Index")]
    lock_width: LockBits,
    /// sherman only: how readers detect a torn copy of a node
    #[arg(long, value_enum, default_value_t = Scheme::Checksum, help_heading = "Index")]
    consistency: Scheme,
}

/// The kind of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum IndexKind {
    /// A B-link tree for keys of one length
    #[value(alias = "btree")]
    Sherman,
    /// A radix tree for keys of any length
    #[value(alias = "radix")]
    Smart,
    /// A radix tree with hash tables, for keys of any length
    #[value(alias = "hashed")]
    Sphinx,
    /// An R*-tree for rectangles
    #[value(alias = "rtree")]
    Catfish,
}

/// The coordinates of rectangles.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Coordinates {
    /// Degrees of longitude and latitude
    Degrees,
    /// A plane
    Planar,
}

/// The ids of a spatial index.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Ids {
    /// Numbers that may repeat; no records
    Repeated,
    /// Unique numbers, with records
    Number,
    /// Unique texts of up to 255 bytes, with records
    Text,
}

/// The method by which readers detect a torn copy of a node.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Scheme {
    /// A checksum, which also detects bytes that changed at rest
    Checksum,
    /// Versions at the front and the end of each part, as in the paper; damage at rest is not detected
    Versions,
    /// Versions, of one byte in entries: the smallest entries, over RDMA with hardware only
    ByteVersions,
}

/// Options that apply to an index only.
const INDEX_OPTIONS: [&str; 19] = [
    "index",
    "keys",
    "values",
    "key_bytes",
    "value_bytes",
    "any_length",
    "node_bytes",
    "crs",
    "ids",
    "variant",
    SmartOptions::NAMES[0],
    SmartOptions::NAMES[1],
    SmartOptions::NAMES[2],
    SphinxOptions::NAMES[0],
    SphinxOptions::NAMES[1],
    SphinxOptions::NAMES[2],
    SphinxOptions::NAMES[3],
    "lock_width",
    "consistency",
];

/// Options that do not apply to a kind of index.
struct Inapplicable {
    options: &'static [&'static str],
    why: &'static str,
    /// The kind of index that has the options, if it is one that the user may have meant.
    meant: Option<&'static str>,
}

/// The options that do not apply to a kind of index.
fn inapplicable(index: IndexKind) -> &'static [Inapplicable] {
    const OF_SHERMAN: &[&str] =
        &["key_bytes", "value_bytes", "any_length", "node_bytes", "lock_width", "consistency"];
    const OF_KEYS: &[&str] =
        &["keys", "values", "key_bytes", "value_bytes", "any_length", "variant", "lock_width", "consistency"];
    const CATFISH: Inapplicable =
        Inapplicable { options: &["crs", "ids"], why: "an option of catfish", meant: Some("catfish") };
    const SMART: Inapplicable =
        Inapplicable { options: &SmartOptions::NAMES, why: "an option of smart", meant: Some("smart") };
    const SPHINX: Inapplicable =
        Inapplicable { options: &SphinxOptions::NAMES, why: "an option of sphinx", meant: Some("sphinx") };
    const SHERMAN: Inapplicable = Inapplicable {
        options: OF_SHERMAN,
        why: "an option of sherman; a radix tree has keys and values of any length, nodes of several sizes, 64-bit \
              locks and checksums",
        meant: None,
    };
    const KEYS: Inapplicable =
        Inapplicable { options: OF_KEYS, why: "about keys, and a spatial index has no keys", meant: None };
    match index {
        IndexKind::Sherman => &[SMART, SPHINX, CATFISH],
        IndexKind::Smart => &[SHERMAN, SPHINX, CATFISH],
        IndexKind::Sphinx => &[SHERMAN, SMART, CATFISH],
        IndexKind::Catfish => &[SMART, SPHINX, KEYS],
    }
}

/// The group whose pools this process uses.
const GROUP_VARIABLE: &str = "FARWOOD_SHM_GROUP";

/// Options that apply to the creation of a pool only.
const POOL_OPTIONS: [&str; 7] =
    ["memory", "memory_max", "nodes", "device_memory", "group", "mode", "reserve"];

pub(crate) fn run(args: &Args, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    match args.url.index() {
        None => create_pool(args, context),
        Some(index) => create_index(args, index, context),
    }
}

fn create_pool(args: &Args, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    if let Some(option) = context.first_given(&INDEX_OPTIONS) {
        return Err(Failure::Usage(format!(
            "create {}: {option} is an option of an index, and this URL names a pool; write {}, or omit the option",
            args.url,
            args.url.index_url("INDEX")
        )));
    }
    make_pool(&args.url, args, context)?;
    report(&[&args.url], args, context)
}

/// Creates the pool, with warnings if the machine has too little memory for it.
fn make_pool(url: &Url, args: &Args, context: &mut Context<'_>) -> Result<(), Failure> {
    if args.reserve {
        warn_of_memory(url, args, context)?;
    }
    let progress = if args.reserve && context.progress {
        ProgressBar::new_spinner().with_message("allocating the memory of the pool")
    } else {
        ProgressBar::hidden()
    };
    progress.enable_steady_tick(Duration::from_millis(200));
    let created = Pool::create(url, &pool_options(args));
    progress.finish_and_clear();
    created.map_err(|error| creation_failed(url, error))?;
    warn_of_shortage(url, memory_bytes(args).saturating_mul(args.nodes.into()), context)
}

/// The failure of a creation, with another remedy if only a part of the pool exists.
fn creation_failed(url: &Url, error: Error) -> Failure {
    let exit_code = error.exit_code();
    match &error {
        // The first segment is the last one that a creation makes.
        Error::Pool { source: ShmError::Exists { pool, path }, .. }
            if path.file_name() != Some(OsStr::new(&format!("farwood.{pool}.0"))) =>
        {
            let text = format!(
                "create {url}: {} exists, and the pool has no first segment: another process is creating the pool, or \
                 was killed before it had created all segments; if none is creating it, remove the segments with \
                 `farwood drop {} --force`",
                path.display(),
                url.to_shell_word()
            );
            Failure::Other { text, exit_code }
        }
        _ => error.into(),
    }
}

/// Warns of a pool that reserves more than four fifths of the available memory.
fn warn_of_memory(url: &Url, args: &Args, context: &mut Context<'_>) -> Result<(), Failure> {
    let wanted = memory_bytes(args).saturating_mul(args.nodes.into());
    let available = doctor::machine()?.1.available_bytes;
    if wanted > available - available / 5 {
        let (wanted, available) = (size::show(wanted), size::show(available));
        writeln!(
            context.messages,
            "warning: {url}: the pool reserves {wanted}, and the machine has {available} available"
        )?;
    }
    Ok(())
}

fn create_index(args: &Args, index: &str, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    for Inapplicable { options, why, meant } in inapplicable(args.index) {
        if let Some(option) = context.first_given(options) {
            let verb = if context.is_given("index") { "give" } else { "add" };
            let remedy = match meant {
                Some(kind) => format!("{verb} --index {kind}, or omit {option}"),
                None => "omit it".to_owned(),
            };
            return Err(Failure::Usage(format!("create {}: {option} is {why}; {remedy}", args.url)));
        }
    }
    if args.index != IndexKind::Catfish {
        refuse_search_parameters(&args.url)?;
    }
    let new_index = NewIndex::of(args)?;
    // Opening new memory nodes makes them a pool, so invalid options are refused before.
    new_index.check(&args.url, [args.keys, args.values])?;
    check_pool_options(args, context)?;
    if let Some(group) =
        args.group.as_deref().filter(|group| env::var(GROUP_VARIABLE).as_deref() != Ok(group))
    {
        return Err(Failure::Usage(format!(
            "create {}: an index in a pool of group '{group}' is created by processes that trust the group; set \
             {GROUP_VARIABLE}={group}",
            args.url
        )));
    }
    let pool_url = args.url.pool_url();
    let (pool, made) = match Pool::open(&pool_url) {
        Err(error) if error.kind() == ErrorKind::NotFound && args.memory.is_some() => {
            make_pool(&pool_url, args, context)?;
            (Pool::open(&pool_url)?, true)
        }
        opened => (opened?, false),
    };
    if !made {
        check_shape(&pool, args, context)?;
    }
    match new_index.create(&pool, index, [args.keys, args.values]) {
        Ok(Some(index)) => warn_of_locks(&index, context)?,
        Ok(None) => {}
        Err(error) => {
            drop(pool);
            if made {
                Pool::remove(&pool_url)?;
            }
            return Err(error.into());
        }
    }
    let urls = if made { vec![&pool_url, &args.url] } else { vec![&args.url] };
    report(&urls, args, context)
}

/// Warns of memory of `owner` that the machine does not have.
pub(crate) fn warn_beyond_machine(
    owner: impl std::fmt::Display,
    bytes: u64,
    context: &mut Context<'_>,
) -> Result<(), Failure> {
    let Ok((_, memory)) = doctor::machine() else { return Ok(()) };
    if memory.bytes > 0 && bytes > memory.bytes {
        let (bytes, all) = (size::show(bytes), size::show(memory.bytes));
        writeln!(
            context.messages,
            "warning: {owner}: it may use {bytes} of memory, and the machine has {all}: when the memory is full, the \
             system ends processes; give less --memory"
        )?;
    }
    Ok(())
}

/// Warns of a new pool that is larger than the file system of its memory nodes, or than the memory of the machine.
pub(crate) fn warn_of_shortage(pool: &Url, bytes: u64, context: &mut Context<'_>) -> Result<(), Failure> {
    warn_beyond_machine(pool, bytes, context)?;
    if let Some(shortage) = doctor::shortage(pool)? {
        writeln!(
            context.messages,
            "warning: {pool}: {shortage}; operations fail when it is full: enlarge it (`mount -o \
             remount,size=SIZE {}`, `docker run --shm-size=SIZE`), or create a smaller pool",
            shortage.directory.display()
        )?;
    }
    Ok(())
}

/// The parsed options of the index.
enum NewIndex {
    Sherman(BTree),
    Smart(Radix),
    Sphinx(Hashed),
    Catfish(RTree),
}

impl NewIndex {
    fn of(args: &Args) -> Result<Self, Failure> {
        Ok(match args.index {
            IndexKind::Sherman => Self::Sherman(btree(args)?),
            IndexKind::Smart => Self::Smart(radix(args)?),
            IndexKind::Sphinx => {
                let variant = variant(args, SphinxVariant::RECOMMENDED)?;
                if let Some(flag) = args.sphinx.overrides().first_without_effect(variant) {
                    let why = format!("create: {flag} has no effect in this variant; omit {flag}");
                    return Err(Failure::Usage(why));
                }
                Self::Sphinx(Hashed::new().variant(args.sphinx.overrides().apply(variant.features())))
            }
            IndexKind::Catfish => Self::Catfish(rtree(args)),
        })
    }

    /// Refuses options that no pool permits.
    fn check(&self, url: &Url, kinds: [Kind; 2]) -> farwood::Result<()> {
        match self {
            Self::Sherman(options) => Pool::check_untyped(url, kinds, options),
            Self::Smart(options) => Pool::check_untyped(url, kinds, options),
            Self::Sphinx(options) => Pool::check_untyped(url, kinds, options),
            Self::Catfish(options) => Pool::check_spatial(url, options),
        }
    }

    /// Creates the index; returns it if it has keys.
    fn create(&self, pool: &Pool, name: &str, kinds: [Kind; 2]) -> farwood::Result<Option<super::Untyped>> {
        match self {
            Self::Sherman(options) => pool.create_untyped(name, kinds, options).map(Some),
            Self::Smart(options) => pool.create_untyped(name, kinds, options).map(Some),
            Self::Sphinx(options) => pool.create_untyped(name, kinds, options).map(Some),
            Self::Catfish(options) => pool.create_spatial(name, options).map(|_| None),
        }
    }
}

/// Refuses options of a pool for memory nodes that other processes run.
fn check_pool_options(args: &Args, context: &Context<'_>) -> Result<(), Failure> {
    let is_shared_memory = args.url.to_string().starts_with("shm:");
    match context.first_given(&POOL_OPTIONS) {
        Some(option) if !is_shared_memory => Err(Failure::Usage(format!(
            "create {}: {option} is an option of a pool in shared memory, and `farwood serve` has the options of these \
             memory nodes; omit it",
            args.url
        ))),
        _ => Ok(()),
    }
}

/// Refuses options that contradict the existing pool.
fn check_shape(pool: &Pool, args: &Args, context: &Context<'_>) -> Result<(), Failure> {
    let asked = AskedShape {
        memory_bytes: args.memory,
        memory_max_bytes: args.memory_max,
        nodes: args.nodes,
        device_bytes: Some(args.device_memory),
    };
    refuse_other_shape(&format!("create {}", args.url), pool, asked, context)
}

/// The shape that the options of a command give a new pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AskedShape {
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) memory_max_bytes: Option<u64>,
    pub(crate) nodes: u16,
    /// `None`: the command has no such option.
    pub(crate) device_bytes: Option<u64>,
}

/// Refuses options that contradict the existing pool.
pub(crate) fn refuse_other_shape(
    command: &str,
    pool: &Pool,
    asked: AskedShape,
    context: &Context<'_>,
) -> Result<(), Failure> {
    if !POOL_OPTIONS.iter().any(|option| context.is_given(option)) {
        return Ok(());
    }
    let nodes = pool.stats()?.nodes;
    let Some(node) = nodes.first() else { return Ok(()) };
    let agrees = |option: &str| match option {
        "memory" => asked.memory_bytes == Some(node.memory_bytes),
        "memory_max" => asked.memory_max_bytes == Some(node.memory_max_bytes),
        "nodes" => usize::from(asked.nodes) == nodes.len(),
        "device_memory" => asked.device_bytes == Some(node.device_bytes),
        // A pool does not record whether its memory was reserved, and its files have the group and the mode.
        _ => false,
    };
    let Some(option) = POOL_OPTIONS.iter().find(|option| context.is_given(option) && !agrees(option)) else {
        return Ok(());
    };
    let value = match *option {
        "memory" => asked.memory_bytes.map(size::show),
        "memory_max" => asked.memory_max_bytes.map(size::show),
        "nodes" => Some(asked.nodes.to_string()),
        "device_memory" => asked.device_bytes.map(size::show),
        _ => None,
    };
    Err(Failure::Usage(format!(
        "{command}: --{}{} cannot change the existing pool, which has {} of {} and {} of device memory; omit the \
         options of the pool, name a pool that does not exist, or use `farwood grow`",
        option.replace('_', "-"),
        value.map_or_else(String::new, |value| format!(" {value}")),
        size::count(nodes.len() as u64, "memory node", "memory nodes"),
        size::show(node.memory_bytes),
        size::show(node.device_bytes)
    )))
}

fn report(urls: &[&Url], args: &Args, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    if context.format == Format::Json {
        let urls: Vec<_> = urls.iter().map(ToString::to_string).collect();
        context.json(&json!({ "created": urls }))?;
        return Ok(Outcome::Done);
    }
    for url in urls {
        match url.index() {
            None => {
                let nodes = size::count(args.nodes.into(), "memory node", "memory nodes");
                writeln!(context.messages, "created {url}: {nodes} of {}", size::show(memory_bytes(args)))?;
            }
            Some(_) if args.index == IndexKind::Catfish => {
                let content = match args.ids {
                    Ids::Repeated => "rectangles",
                    Ids::Number => "records with unique numbers",
                    Ids::Text => "records with unique texts",
                };
                writeln!(context.messages, "created {url}: {content}")?;
            }
            Some(_) => writeln!(context.messages, "created {url}: {} to {}", args.keys, args.values)?,
        }
    }
    Ok(Outcome::Done)
}

/// Reads permissions in octal digits. For clap's `value_parser`.
pub(crate) fn octal(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o7777);
    mode.ok_or_else(|| "give octal digits, such as 0640".to_owned())
}

/// Memory of each memory node, in bytes.
fn memory_bytes(args: &Args) -> u64 {
    args.memory.unwrap_or(PoolOptions::MEMORY_BYTES)
}

fn pool_options(args: &Args) -> PoolOptions {
    let options = PoolOptions::new()
        .memory_bytes(memory_bytes(args))
        .nodes(args.nodes)
        .device_bytes(args.device_memory);
    let options = if args.reserve { options.reserve_memory() } else { options };
    let options = args.memory_max.into_iter().fold(options, PoolOptions::memory_max_bytes);
    let options = args.mode.into_iter().fold(options, PoolOptions::mode);
    args.group.iter().fold(options, PoolOptions::group)
}

fn node_bytes(args: &Args) -> Option<usize> {
    args.node_bytes.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX))
}

fn rtree(args: &Args) -> RTree {
    let coordinates = match args.crs {
        None => CoordinateSystem::Unstated,
        Some(Coordinates::Degrees) => CoordinateSystem::Degrees,
        Some(Coordinates::Planar) => CoordinateSystem::Planar,
    };
    let ids = match args.ids {
        Ids::Repeated => IdKind::Repeated,
        Ids::Number => IdKind::Number,
        Ids::Text => IdKind::Text,
    };
    node_bytes(args).into_iter().fold(RTree::new().coordinates(coordinates).ids(ids), RTree::node_bytes)
}

fn btree(args: &Args) -> Result<BTree, Failure> {
    let options = BTree::new()
        .variant(variant(args, ShermanVariant::RECOMMENDED)?.features())
        .lock_width(args.lock_width.into())
        .consistency(match args.consistency {
            Scheme::Versions => Consistency::Versions,
            Scheme::ByteVersions => Consistency::ByteVersions,
            Scheme::Checksum => Consistency::Checksum,
        });
    let options = node_bytes(args).into_iter().fold(options, BTree::node_bytes);
    let options = width(args.keys, args.key_bytes).into_iter().fold(options, BTree::key_bytes);
    Ok(match args.value_bytes {
        Some(bytes) if args.any_length => options.slot_bytes(bytes),
        None if args.any_length => options.any_length_values(),
        chosen => width(args.values, chosen).into_iter().fold(options, BTree::value_bytes),
    })
}

/// The length of keys or values: the chosen one, or that of the type, or 8 for byte strings. Texts have no default: the
/// library asks for their length.
fn width(kind: Kind, chosen: Option<usize>) -> Option<usize> {
    const BYTES_DEFAULT: usize = 8;
    chosen.or(kind.width()).or((kind != Kind::Text).then_some(BYTES_DEFAULT))
}

fn radix(args: &Args) -> Result<Radix, Failure> {
    let features = args.smart.overrides().apply(variant(args, SmartVariant::RECOMMENDED)?.features());
    Ok(Radix::new().variant(features))
}

/// The variant named on the command line, or the recommended one.
fn variant<V: std::str::FromStr<Err = String>>(args: &Args, recommended: V) -> Result<V, Failure> {
    let Some(name) = &args.variant else { return Ok(recommended) };
    name.parse().map_err(|why| Failure::Usage(format!("create {}: --variant: {why}", args.url)))
}
