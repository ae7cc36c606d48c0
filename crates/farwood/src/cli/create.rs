//! `farwood create`: a pool, or an index in it.

use super::lock_width::LockBits;
use super::{Context, Failure, Format, Outcome, size, warn_of_locks};
use farwood::{Backing, Consistency, IndexOptions, Kind, Pool, PoolOptions, Url, Values, Variant};
use serde_json::json;

const EXAMPLES: &str = "\
Examples:
  farwood create shm://demo --memory 1GiB --nodes 2
  farwood create shm://demo/numbers
  farwood create shm://demo/words --keys text --key-bytes 64
  farwood create shm://demo/places --index catfish     rectangles: search, load, check
  farwood create shm://scratch/t --memory 64MiB        the pool too, if it is not there
  farwood create tcp://127.0.0.1:7470/numbers          where `farwood serve` runs";

/// Create a pool, or an index in a pool
///
/// `shm://NAME` creates a pool of memory nodes; `shm://NAME/INDEX` creates an index in it, and the pool as well if it
/// is not there and --memory says how large it shall be. Pools over TCP are there while their memory nodes are:
/// `farwood serve`.
///
/// How much memory: each memory node gives 8 MiB to the superblock; each index takes 8 MiB per process that inserts
/// into it at the same time, and then what its entries need, about 32 B each for keys and values of 8 bytes at 80 %
/// fill. So 16MiB serve one writing process of one index.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// shm://POOL, shm://POOL/INDEX or tcp://HOST:PORT/INDEX
    url: Url,

    /// Memory of each memory node, a multiple of 8 MiB [default: 1GiB]
    #[arg(long, value_name = "SIZE", value_parser = size::parse, help_heading = "Pool")]
    memory: Option<u64>,
    /// Memory nodes
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Pool")]
    nodes: u16,
    /// Device memory of each memory node, where locks lie
    #[arg(long, value_name = "SIZE", value_parser = size::parse, default_value = "256KiB", help_heading = "Pool")]
    device_memory: u64,
    /// Take all memory at once: nothing can run out later
    #[arg(long, help_heading = "Pool")]
    reserve: bool,

    /// What the index is: sherman (ordered, of keys) or catfish (spatial, of rectangles)
    #[arg(long, value_name = "KIND", value_enum, default_value_t = IndexKind::Sherman, help_heading = "Index")]
    index: IndexKind,
    /// What keys are: u64, text or hex (byte strings)
    #[arg(long, value_name = "KIND", default_value = "u64", help_heading = "Index")]
    keys: Kind,
    /// What values are: u64, text or hex
    #[arg(long, value_name = "KIND", default_value = "u64", help_heading = "Index")]
    values: Kind,
    /// Bytes of a key, 8 to 1024; of a text, at most [default: 8, but texts need it]
    #[arg(long, value_name = "N", help_heading = "Index")]
    key_bytes: Option<usize>,
    /// Bytes of a value, 0 to 4096; of a text, at most [default: 8, but texts need it]. With --any-length: bytes that
    /// an entry has for a value, 16 to 256 [default: 32]; those that are shorter by 4 lie there, others out of line
    #[arg(long, value_name = "N", help_heading = "Index")]
    value_bytes: Option<usize>,
    /// Values have any length up to 16 MiB
    #[arg(long, help_heading = "Index")]
    any_length: bool,
    /// Bytes of a node, a multiple of 64
    #[arg(long, value_name = "SIZE", value_parser = size::parse, default_value = "1KiB", help_heading = "Index")]
    node_bytes: u64,
    /// fg, fg+, +combine, +on-chip, +local, +queue, +hierarchical, sherman or +lock-read
    #[arg(long, value_name = "NAME", default_value_t = Variant::RECOMMENDED, help_heading = "Index")]
    variant: Variant,
    /// Bits of a lock. Locks of 16 bits (the paper's) name no epoch, so a dead client's lock cannot be taken: for
    /// reproduction only
    #[arg(long, value_name = "BITS", value_enum, default_value_t = LockBits::Word, help_heading = "Index")]
    lock_width: LockBits,
    /// How readers tell a whole copy
    #[arg(long, value_enum, default_value_t = Scheme::Auto, help_heading = "Index")]
    consistency: Scheme,
}

/// Which system an index is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum IndexKind {
    /// A B-link tree, of keys
    Sherman,
    /// An R*-tree, of rectangles
    Catfish,
}

/// A consistency scheme, or the pool's choice.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Scheme {
    /// What the pool's fabric allows
    Auto,
    /// Versions in front and behind
    Versions,
    /// A hash
    Checksum,
}

/// Options that mean nothing where only a pool is created.
const OF_INDEXES: [&str; 10] = [
    "index",
    "keys",
    "values",
    "key_bytes",
    "value_bytes",
    "any_length",
    "node_bytes",
    "variant",
    "lock_width",
    "consistency",
];

/// Options that only the making of a pool can follow.
const OF_POOLS: [&str; 4] = ["memory", "nodes", "device_memory", "reserve"];

pub(crate) fn run(args: &Args, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    match args.url.index() {
        None => create_pool(args, context),
        Some(index) => create_index(args, index, context),
    }
}

fn create_pool(args: &Args, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    if let Some(option) = OF_INDEXES.iter().find(|option| context.is_given(option)) {
        let option = option.replace('_', "-");
        return Err(Failure::Usage(format!(
            "create {}: --{option} is about an index; write {}/INDEX, or leave it out",
            args.url, args.url
        )));
    }
    Pool::create(&args.url, &pool_options(args))?;
    report(&[&args.url], args, context)
}

fn create_index(args: &Args, index: &str, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    let of_keys = OF_INDEXES.iter().find(|option| **option != "index" && context.is_given(option));
    if let (IndexKind::Catfish, Some(option)) = (args.index, of_keys) {
        let option = option.replace('_', "-");
        return Err(Failure::Usage(format!(
            "create {}: --{option} is about keys, and a spatial index has none; leave it out",
            args.url
        )));
    }
    let pool_url = args.url.pool_url();
    let (pool, made) = match Pool::open(&pool_url) {
        Err(error) if error.exit_code() == 3 && args.memory.is_some() => {
            Pool::create(&pool_url, &pool_options(args))?;
            (Pool::open(&pool_url)?, true)
        }
        opened => (opened?, false),
    };
    if !made {
        check_shape(&pool, args, context)?;
    }
    match create_kind(&pool, index, args) {
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

/// Creates an index of the kind that is wished for; yields it if it has keys.
fn create_kind(pool: &Pool, index: &str, args: &Args) -> farwood::Result<Option<super::Untyped>> {
    match args.index {
        IndexKind::Sherman => {
            pool.create_untyped(index, [args.keys, args.values], &index_options(args)).map(Some)
        }
        IndexKind::Catfish => pool.create_spatial(index, &farwood::spatial::Config::default()).map(|_| None),
    }
}

/// Refuses options that contradict a pool that is there.
fn check_shape(pool: &Pool, args: &Args, context: &Context<'_>) -> Result<(), Failure> {
    if !OF_POOLS.iter().any(|option| context.is_given(option)) {
        return Ok(());
    }
    let nodes = pool.stats()?.nodes;
    let Some(node) = nodes.first() else { return Ok(()) };
    let agrees = |option: &str| match option {
        "memory" => args.memory == Some(node.memory_bytes),
        "nodes" => usize::from(args.nodes) == nodes.len(),
        "device_memory" => args.device_memory == node.device_bytes,
        // Nobody can tell afterwards what was reserved.
        _ => false,
    };
    let Some(option) = OF_POOLS.iter().find(|option| context.is_given(option) && !agrees(option)) else {
        return Ok(());
    };
    Err(Failure::Usage(format!(
        "create {}: --{} cannot change the pool, which exists, with {} of {} and {} of device memory; leave the pool's \
         options away",
        args.url,
        option.replace('_', "-"),
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
                let options = pool_options(args);
                let nodes = size::count(options.nodes.into(), "memory node", "memory nodes");
                writeln!(context.words, "created {url}: {nodes} of {}", size::show(options.memory_bytes))?;
            }
            Some(_) if args.index == IndexKind::Catfish => {
                writeln!(context.words, "created {url}: rectangles")?;
            }
            Some(_) => writeln!(context.words, "created {url}: {} to {}", args.keys, args.values)?,
        }
    }
    Ok(Outcome::Done)
}

fn pool_options(args: &Args) -> PoolOptions {
    let default = PoolOptions::default();
    PoolOptions {
        memory_bytes: args.memory.unwrap_or(default.memory_bytes),
        nodes: args.nodes,
        device_bytes: args.device_memory,
        backing: if args.reserve { Backing::Reserved } else { Backing::Growable },
    }
}

fn index_options(args: &Args) -> IndexOptions {
    /// Where the kind does not say the length, and nobody else does. Texts of so few bytes are nobody's wish: the
    /// library asks for their length.
    const BYTES_DEFAULT: usize = 8;
    let default = |kind: Kind| (kind != Kind::Text).then_some(BYTES_DEFAULT);
    let width = |kind: Kind, chosen: Option<usize>| chosen.or(kind.width()).or(default(kind));
    IndexOptions {
        key_bytes: width(args.keys, args.key_bytes),
        value_bytes: if args.any_length { args.value_bytes } else { width(args.values, args.value_bytes) },
        values: if args.any_length { Values::AnyLength } else { Values::Fixed },
        node_bytes: usize::try_from(args.node_bytes).unwrap_or(usize::MAX),
        variant: args.variant.options(),
        lock_width: args.lock_width.into(),
        consistency: match args.consistency {
            Scheme::Auto => None,
            Scheme::Versions => Some(Consistency::Versions),
            Scheme::Checksum => Some(Consistency::Checksum),
        },
        ..IndexOptions::default()
    }
}
