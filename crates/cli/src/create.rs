//! `farwood create`: a pool, or an index in it.

use super::lock_width::LockBits;
use super::{Context, Failure, Format, Outcome, size, warn_of_locks};
use farwood::{
    Backing, Consistency, IndexOptions, Kind, Pool, PoolOptions, SmartOptions, SphinxOptions, Url, Values,
    Variant, smart, sphinx,
};
use serde_json::json;

const EXAMPLES: &str = "\
Examples:
  farwood create shm://demo --memory 1GiB --nodes 2
  farwood create shm://demo/numbers
  farwood create shm://demo/words --keys text --key-bytes 64
  farwood create shm://demo/packages --index smart --keys text      keys of any length, values too
  farwood create shm://demo/art --index smart --variant art --preallocate
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

    /// What the index is: sherman (ordered, keys of one length), smart or sphinx (ordered, keys of any length) or
    /// catfish (spatial, of rectangles)
    #[arg(long, value_name = "KIND", value_enum, default_value_t = IndexKind::Sherman, help_heading = "Index")]
    index: IndexKind,
    /// What keys are: u64, text or hex (byte strings). Texts and byte strings have up to 4096 bytes in smart and
    /// sphinx, and as many as --key-bytes says in sherman
    #[arg(long, value_name = "KIND", default_value = "u64", help_heading = "Index")]
    keys: Kind,
    /// What values are: u64, text or hex
    #[arg(long, value_name = "KIND", default_value = "u64", help_heading = "Index")]
    values: Kind,
    /// Of sherman: bytes of a key, 8 to 1024; of a text, at most [default: 8, but texts need it]
    #[arg(long, value_name = "N", help_heading = "Index")]
    key_bytes: Option<usize>,
    /// Of sherman: bytes of a value, 0 to 4096; of a text, at most [default: 8, but texts need it]. With --any-length:
    /// bytes that an entry has for a value, 16 to 256 [default: 32]; those that are shorter by 4 lie there, others out
    /// of line
    #[arg(long, value_name = "N", help_heading = "Index")]
    value_bytes: Option<usize>,
    /// Of sherman: values have any length up to 16 MiB, as those of smart always do
    #[arg(long, help_heading = "Index")]
    any_length: bool,
    /// Of sherman: bytes of a node, a multiple of 64
    #[arg(long, value_name = "SIZE", value_parser = size::parse, default_value = "1KiB", help_heading = "Index")]
    node_bytes: u64,
    /// Of sherman: fg, fg+, +combine, +on-chip, +local, +queue, +hierarchical, sherman or +lock-read [default:
    /// +lock-read]; of smart: art, +lock-free, +in-place, +rear-lock, +read-delegation or +write-combining = smart
    /// [default: smart]; of sphinx: art, +hash-table or sphinx [default: sphinx]
    #[arg(long, value_name = "NAME", help_heading = "Index")]
    variant: Option<String>,
    /// Of smart: give each inner node room for 256 children, as the paper's artifact does
    #[arg(long, help_heading = "Index")]
    preallocate: bool,
    /// Of sherman: bits of a lock. Locks of 16 bits (the paper's) name no epoch, so a dead client's lock cannot be
    /// taken: for reproduction only
    #[arg(long, value_name = "BITS", value_enum, default_value_t = LockBits::Word, help_heading = "Index")]
    lock_width: LockBits,
    /// Of sherman: how readers tell a whole copy
    #[arg(long, value_enum, default_value_t = Scheme::Auto, help_heading = "Index")]
    consistency: Scheme,
}

/// Which system an index is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum IndexKind {
    /// A B-link tree, of keys of one length
    Sherman,
    /// A radix tree, of keys of any length
    Smart,
    /// A radix tree with hash tables, of keys of any length
    Sphinx,
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
const OF_INDEXES: [&str; 11] = [
    "index",
    "keys",
    "values",
    "key_bytes",
    "value_bytes",
    "any_length",
    "node_bytes",
    "variant",
    "preallocate",
    "lock_width",
    "consistency",
];

/// Options that an index of a system does not have, each time with why.
fn strangers(index: IndexKind) -> &'static [(&'static [&'static str], &'static str)] {
    const OF_SHERMAN: &[&str] =
        &["key_bytes", "value_bytes", "any_length", "node_bytes", "lock_width", "consistency"];
    const OF_KEYS: &[&str] = OF_INDEXES.split_at(1).1;
    const WHY: &str = "about a B-link tree; a radix tree has keys and values of any length, nodes as large as they \
                       need, 64-bit locks and checksums";
    match index {
        IndexKind::Sherman => &[(&["preallocate"], "about the nodes of a radix tree; add --index smart")],
        IndexKind::Smart => &[(OF_SHERMAN, WHY)],
        IndexKind::Sphinx => &[
            (OF_SHERMAN, WHY),
            (&["preallocate"], "about smart, whose artifact does so; sphinx has nodes as large as they need"),
        ],
        IndexKind::Catfish => &[(OF_KEYS, "about keys, and a spatial index has none")],
    }
}

/// Options that only the making of a pool can follow.
const OF_POOLS: [&str; 4] = ["memory", "nodes", "device_memory", "reserve"];

pub(crate) fn run(args: &Args, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    match args.url.index() {
        None => create_pool(args, context),
        Some(index) => create_index(args, index, context),
    }
}

fn create_pool(args: &Args, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    if let Some(option) = context.first_given(&OF_INDEXES) {
        return Err(Failure::Usage(format!(
            "create {}: {option} is about an index; write {}, or leave it out",
            args.url,
            args.url.index_url("INDEX")
        )));
    }
    Pool::create(&args.url, &pool_options(args))?;
    report(&[&args.url], args, context)
}

fn create_index(args: &Args, index: &str, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    for (options, why) in strangers(args.index) {
        if let Some(option) = context.first_given(options) {
            return Err(Failure::Usage(format!("create {}: {option} is {why}; leave it out", args.url)));
        }
    }
    let making = Making::of(args)?;
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
    match making.create(&pool, index, [args.keys, args.values]) {
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

/// What is wished for, understood.
enum Making {
    Sherman(IndexOptions),
    Smart(SmartOptions),
    Sphinx(SphinxOptions),
    Catfish,
}

impl Making {
    fn of(args: &Args) -> Result<Self, Failure> {
        Ok(match args.index {
            IndexKind::Sherman => Self::Sherman(index_options(args)?),
            IndexKind::Smart => Self::Smart(smart_options(args)?),
            IndexKind::Sphinx => Self::Sphinx(SphinxOptions {
                variant: variant(args, sphinx::Variant::RECOMMENDED)?.options(),
                ..SphinxOptions::default()
            }),
            IndexKind::Catfish => Self::Catfish,
        })
    }

    /// Creates the index; yields it if it has keys.
    fn create(&self, pool: &Pool, name: &str, kinds: [Kind; 2]) -> farwood::Result<Option<super::Untyped>> {
        match self {
            Self::Sherman(options) => pool.create_untyped(name, kinds, options).map(Some),
            Self::Smart(options) => pool.create_untyped(name, kinds, options).map(Some),
            Self::Sphinx(options) => pool.create_untyped(name, kinds, options).map(Some),
            Self::Catfish => pool.create_spatial(name, &farwood::spatial::Config::default()).map(|_| None),
        }
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

fn index_options(args: &Args) -> Result<IndexOptions, Failure> {
    /// Where the kind does not say the length, and nobody else does. Texts of so few bytes are nobody's wish: the
    /// library asks for their length.
    const BYTES_DEFAULT: usize = 8;
    let default = |kind: Kind| (kind != Kind::Text).then_some(BYTES_DEFAULT);
    let width = |kind: Kind, chosen: Option<usize>| chosen.or(kind.width()).or(default(kind));
    Ok(IndexOptions {
        key_bytes: width(args.keys, args.key_bytes),
        value_bytes: if args.any_length { args.value_bytes } else { width(args.values, args.value_bytes) },
        values: if args.any_length { Values::AnyLength } else { Values::Fixed },
        node_bytes: usize::try_from(args.node_bytes).unwrap_or(usize::MAX),
        variant: variant(args, Variant::RECOMMENDED)?.options(),
        lock_width: args.lock_width.into(),
        consistency: match args.consistency {
            Scheme::Auto => None,
            Scheme::Versions => Some(Consistency::Versions),
            Scheme::Checksum => Some(Consistency::Checksum),
        },
        ..IndexOptions::default()
    })
}

fn smart_options(args: &Args) -> Result<SmartOptions, Failure> {
    let mut options = variant(args, smart::Variant::RECOMMENDED)?.options();
    if args.preallocate {
        options.rooms = smart::Rooms::Preallocated;
    }
    Ok(SmartOptions { variant: options, ..SmartOptions::default() })
}

/// The system's variant of the name that was given, or the recommended one.
fn variant<V: std::str::FromStr<Err = String>>(args: &Args, recommended: V) -> Result<V, Failure> {
    let Some(name) = &args.variant else { return Ok(recommended) };
    name.parse().map_err(|why| Failure::Usage(format!("create {}: --variant: {why}", args.url)))
}
