//! `farwood bench`: one run, and one record for each measured system.

mod repeat;
mod simulated;
mod spatial;

use super::lock_width::LockBits;
use super::smart_options::SmartOptions;
use super::sphinx_options::SphinxOptions;
use super::{Context, Failure, Format, Outcome, heap, size};
use crate::failure::shown;
use farwood::node::Durability;
use farwood::papers::System;
use farwood_bench::record::Record;
use farwood_bench::record::table::table;
use farwood_bench::run::{
    Amount, CLIENTS_MAX, COMPUTE_NODES_MAX, FabricKind, KeySource, NodeFiles, RunSpec, Stage, THREADS_MAX,
    WarmUpEnd, WorkerCommand, run as measure,
};
pub(super) use farwood_bench::spec::count::count;
use farwood_bench::workload::Workload;
use farwood_bench::workload::distribution::{Distribution, THETA_DEFAULT};
use farwood_bench::workload::keys::KeyLength;
use indicatif::{ProgressBar, ProgressStyle};
use simulated::WarmUp;
pub(super) use simulated::warn_of_overload;
use std::io::ErrorKind;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  farwood bench --workload ycsb-a --keys 10M --compute-nodes 2
  farwood bench --workload write-intensive --variant fg+ --clients 8 --json
  farwood bench --workload range-only --range-size 1000 --distribution uniform
  farwood bench --workload ycsb-c --key-file words.txt --operations 1000000
  farwood bench --workload ycsb-a --peer lmdb --peer btreemap    (needs the feature `peers`)
  farwood bench --index smart --workload ycsb-a --clients 8 --compute-nodes 2
  farwood bench --index smart --variant art --workload ycsb-e --key-file names.txt --cache-bytes 8MiB
  farwood bench --fabric tcp --workload ycsb-c --clients 16
  farwood bench --fabric tcp --workload ycsb-c --clients 16 --connections 1 --peer redis
  farwood bench --fabric tcp --workload write-only --clients 64 --connections 1 --durability always --peer redis
  farwood bench --fabric tcp --workload write-only --clients 64 --connections 1 --durability interval=1 --peer no-log
  farwood bench --fabric sim --nic cx5-100g --memory-nodes 8 --compute-nodes 8 --colocate --clients 176 \
    --workload write-intensive --keys 10M --zipf-ranks 1e9 --cache-bytes 500MiB
  farwood bench --fabric sim --compute-nodes 4 --clients 32 --workload ycsb-a --fault crash@5ms --fault down:3ms@10ms
  farwood bench --fabric sim --clients 16 --workload ycsb-a --rate 400k --warmup auto --timeline 0.5

  farwood bench --index catfish --workload search --scale 0.01 --keys 2M --clients 4
  farwood bench --index catfish --variant local --scale 0.00001 --peer rstar     (needs the feature `peers`)
  farwood bench --index catfish --fabric sim --workload mixed --scale power-law --compute-nodes 8 --clients 256

Workloads: load, ycsb-a to ycsb-f, ycsb-d-update (updates of the latest keys), write-only, write-intensive, \
read-intensive, range-only, range-write; of catfish search and mixed (10 % inserts), whose --keys are rectangles.
Without --pool the run creates a pool, loads it, and removes it.
With --fabric sim, --seconds, --warmup and all latencies are virtual, the warm-up runs the same workload unmeasured, \
and only simulated_verbs_per_second differs between records of the same seed.";

/// Measure an index: run one workload and print one record
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The index: sherman, smart or sphinx; or catfish, for rectangles
    #[arg(long, default_value = "sherman")]
    index: String,
    /// The variant. sherman: fg, fg+, +combine, +on-chip, +local, +queue, +hierarchical, sherman or +lock-read
    /// [default: +lock-read]; smart: art, +lock-free, +in-place, +rear-lock, +read-delegation or +write-combining =
    /// smart [default: smart]; sphinx: art, +hash-table or sphinx [default: sphinx]; catfish: local, tcp,
    /// fast-messaging, offloading, +event, +multi-issue, catfish or catfish-printed (with the back-off of the
    /// paper's Algorithm 1, which differs from its text) [default: catfish]
    #[arg(long)]
    variant: Option<String>,
    #[command(flatten)]
    smart: SmartOptions,
    #[command(flatten)]
    sphinx: SphinxOptions,
    /// Radix trees only: whether a scan reads many nodes and leaves with one doorbell
    #[arg(long, value_name = "SWITCH", default_value_t = Switch::On, value_enum)]
    batched_scans: Switch,
    /// sherman only: bits of a lock. A lock of 16 bits, as in the paper, cannot tell a crashed client from the next
    /// client in the same client slot, so the lock of a crashed client cannot be taken over: for reproduction of the
    /// paper only
    #[arg(long, value_name = "BITS", value_enum, default_value_t = LockBits::Word)]
    lock_width: LockBits,
    /// The transport: shm; tcp, with memory nodes that the run starts; rdma, with those of --pool; or sim, the
    /// simulator, whose times are virtual
    #[arg(long, default_value = "shm")]
    fabric: String,
    /// With --fabric sim: the NIC model: cx5-100g, cx6-100g, cx6-200g, tcp-1g, tcp-40g, ideal, or the path of
    /// a NIC model file [default: cx5-100g]
    #[arg(long, value_name = "NIC")]
    nic: Option<String>,
    /// With --fabric sim: run memory node i and compute node i on one machine with one NIC
    #[arg(long)]
    colocate: bool,
    /// The mix of operations; see the list of workloads below
    #[arg(long, default_value = "ycsb-c")]
    workload: String,
    /// The popularity of the keys: uniform, zipf or latest
    #[arg(long, default_value = "zipf")]
    distribution: String,
    /// The skew of zipf and latest
    #[arg(long, default_value_t = THETA_DEFAULT, value_name = "SKEW", allow_negative_numbers = true)]
    theta: f64,
    /// Draw the popularity ranks of keys from this many ranks, and hash each rank to a key [default: --keys]
    #[arg(long, value_name = "COUNT", value_parser = count)]
    zipf_ranks: Option<u64>,
    /// Number of keys loaded before the measurement; for the workload load, the number of keys inserted [default: 1M,
    /// or the keys of the key file that are not needed for inserts]
    #[arg(long, value_name = "COUNT", value_parser = count)]
    keys: Option<u64>,
    /// Use the lines of this file as keys (in TSV and CSV files, the first column)
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Bytes of a key, 8 to 1024; shorter lines of the key file are padded with zeros [default: 8; with a key file,
    /// the longest line for sherman, and the length of each line for the others]
    #[arg(long, value_name = "BYTES")]
    key_bytes: Option<usize>,
    /// Bytes of a value, at least 8
    #[arg(long, default_value_t = 8, value_name = "BYTES")]
    value_bytes: usize,
    /// Number of keys of a scan; for ycsb-e, the maximum
    #[arg(long, default_value_t = 100, value_name = "COUNT")]
    range_size: u32,
    /// sherman only: bytes of a node [default: 1KiB]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    node_bytes: Option<u64>,
    /// Index cache of each compute node; 0 disables it [default: 512MiB; for sphinx, whose filter this is, 2 % of the
    /// bytes of the loaded keys]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    cache_bytes: Option<u64>,
    /// Number of memory nodes of the run's own pool
    #[arg(long, value_parser = size::memory_nodes, default_value = "1", value_name = "COUNT")]
    memory_nodes: u16,
    /// Number of compute nodes: processes, or machines of the simulator
    #[arg(long, default_value_t = 1, value_name = "COUNT", alias = "processes",
        value_parser = size::between::<usize>(1, COMPUTE_NODES_MAX as u64))]
    compute_nodes: usize,
    /// Threads of each compute node [default: one for each client; at most the number of cores if they are processes]
    #[arg(long, value_name = "COUNT", value_parser = size::between::<usize>(1, THREADS_MAX as u64))]
    threads: Option<usize>,
    /// With --fabric tcp: number of connections of all compute nodes to each memory node, which is the number of their
    /// threads [default: --threads]
    #[arg(long, value_name = "COUNT", conflicts_with = "threads",
        value_parser = size::between::<u64>(1, CLIENTS_MAX))]
    connections: Option<u64>,
    /// Number of clients of all compute nodes together, which is the number of outstanding requests [default: one for
    /// each compute node]
    #[arg(long, value_name = "COUNT", value_parser = size::between::<u64>(1, CLIENTS_MAX))]
    clients: Option<u64>,
    /// Duration of the measurement [default: 3; with --fabric sim 0.02; for the workload load, until all keys are
    /// inserted]
    #[arg(long, conflicts_with = "operations", allow_negative_numbers = true)]
    seconds: Option<f64>,
    /// Measure this many operations of all clients together instead of a duration
    #[arg(long, value_name = "COUNT", value_parser = count)]
    operations: Option<u64>,
    /// Duration of the warm-up reads that follow a pass over all keys; 0 starts with cold caches; auto, with --fabric
    /// sim: until the throughputs of three windows in succession differ by less than 2 %, for at most 20 windows of a
    /// fifth of --seconds, but at least 2 ms each [default: 1; with --fabric sim 0.005]
    #[arg(long, value_name = "SECONDS|auto", allow_negative_numbers = true)]
    warmup: Option<WarmUp>,
    #[command(flatten)]
    simulated: simulated::SimulatedArgs,
    /// Workload load with --fabric sim: bulk-load this many of the keys; the clients insert the others
    #[arg(long, default_value_t = 0, value_name = "COUNT", value_parser = count)]
    preloaded_keys: u64,
    /// Workload load with --fabric sim: insert this many keys before the measurement starts
    #[arg(long, default_value_t = 0, value_name = "COUNT", value_parser = count)]
    warmup_keys: u64,
    /// With --fabric sim: CPU time of an operation besides its verbs, in nanoseconds [default: as in the NIC model;
    /// 2500 for cx5-100g, which was fitted to Sherman's lookup]
    #[arg(long, value_name = "NANOSECONDS", value_parser = operation_ns)]
    operation_ns: Option<f64>,
    /// Seed of all operations
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run this many times, each with the next seed: the record is that of the first run, with the throughputs of all,
    /// their mean and its 95 % confidence interval
    #[arg(long, default_value_t = 1, value_name = "COUNT", value_parser = size::between::<u64>(1, 1000))]
    repeat: u64,
    /// Measure in this pool (shm://NAME, tcp://HOST:PORT or rdma://HOST:PORT[?queue-pairs=N]), in an index that the
    /// run creates
    #[arg(long, value_name = "URL")]
    pool: Option<String>,
    /// With --fabric tcp: the memory nodes that the run starts have files with this level of durability: orderly,
    /// interval=SECONDS or always. Redis gets `appendfsync everysec` beside interval, and `appendfsync always` beside
    /// always
    #[arg(long, value_name = "LEVEL")]
    durability: Option<Durability>,
    /// With --durability: the directory in which the run creates a folder for these files, on the disk to measure
    /// [default: the directory of temporary files]
    #[arg(long, value_name = "DIRECTORY", requires = "durability")]
    files: Option<PathBuf>,
    /// Also measure this system, alternating with the index: redis with --fabric tcp; no-log with --durability: the
    /// same index on memory nodes without files; lmdb, btreemap, congee or
    /// skiplist if the program was built with the feature `peers`. May be given several times
    #[arg(long, value_name = "PEER")]
    peer: Vec<String>,
    /// Options of spatial indexes.
    #[command(flatten)]
    spatial: spatial::SpatialArgs,
}

/// The value of an option that is on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Switch {
    /// Many objects per doorbell
    On,
    /// One object per doorbell
    Off,
}

/// The system of this name.
pub(super) fn system(name: &str) -> Result<System, Failure> {
    let system = name.parse().map_err(|_| {
        let ordered = System::ALL.map(System::name).join(", ");
        let problem = format!("there is no kind of index '{name}'");
        farwood_bench::Error::parameter("--index", problem, format!("give {ordered} or catfish"))
    });
    Ok(system?)
}

/// A duration of at most a second.
fn operation_ns(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| (0.0..=1e9).contains(number));
    number.ok_or_else(|| "give nanoseconds from 0 to 1e9".to_owned())
}

/// The threads of each compute node for `connections` connections in all.
fn per_node(connections: u64, compute_nodes: usize) -> Result<usize, Failure> {
    let nodes = compute_nodes.max(1) as u64;
    if connections == 0 || !connections.is_multiple_of(nodes) {
        let text =
            format!("bench: --connections {connections}: give a multiple of the {nodes} compute nodes");
        return Err(Failure::Usage(text));
    }
    Ok((connections / nodes) as usize)
}

impl Args {
    /// Whether the run measures a spatial index.
    pub(super) fn is_spatial(&self) -> bool {
        self.index == "catfish"
    }

    /// The number of runs with different seeds.
    pub(super) fn repeats(&self) -> u64 {
        self.repeat
    }

    pub(super) fn spec(self) -> Result<RunSpec, Failure> {
        let index = system(&self.index)?;
        let key_source = match (self.key_file, self.key_bytes) {
            (Some(file), Some(key_bytes)) => KeySource::File(file, KeyLength::Padded(key_bytes)),
            (Some(file), None) if index == System::Sherman => KeySource::File(file, KeyLength::Longest),
            (Some(file), None) => KeySource::File(file, KeyLength::Any),
            (None, key_bytes) => KeySource::Integers(key_bytes.unwrap_or(8)),
        };
        let amount = match (self.seconds, self.operations) {
            (Some(seconds), _) => Some(Amount::Seconds(seconds)),
            (None, operations) => operations.map(Amount::Operations),
        };
        let threads = match self.connections {
            Some(connections) if self.fabric != "tcp" => {
                let text = format!("bench: --connections {connections}: only --fabric tcp has connections");
                return Err(Failure::Usage(text));
            }
            Some(connections) => Some(per_node(connections, self.compute_nodes)?),
            None => self.threads,
        };
        Ok(RunSpec {
            index,
            variant: self.variant,
            lock_width: self.lock_width.into(),
            fabric: self.fabric.parse::<FabricKind>()?,
            nic: self.nic,
            colocate: self.colocate,
            workload: self.workload.parse::<Workload>()?,
            distribution: Distribution::new(&self.distribution, self.theta)?,
            zipf_ranks: self.zipf_ranks,
            keys: self.keys,
            key_source,
            value_bytes: self.value_bytes,
            range_size: self.range_size,
            node_bytes: self.node_bytes.map(|bytes| bytes as usize),
            smart: self.smart.overrides(),
            sphinx: self.sphinx.overrides(),
            batched_scans: self.batched_scans == Switch::On,
            cache_bytes: self.cache_bytes.map(|bytes| bytes as usize),
            memory_nodes: self.memory_nodes,
            compute_nodes: self.compute_nodes,
            threads,
            clients: self.clients,
            amount,
            warm_up_seconds: self.warmup.and_then(WarmUp::seconds),
            warm_up_end: self.warmup.map_or(WarmUpEnd::AfterTime, WarmUp::end),
            faults: self.simulated.faults()?,
            timeline_ms: self.simulated.timeline,
            rate: self.simulated.rate,
            preloaded_keys: self.preloaded_keys,
            warm_up_keys: self.warmup_keys,
            operation_ns: self.operation_ns,
            seed: self.seed,
            pool: self.pool,
            files: self.durability.map(|durability| NodeFiles {
                durability,
                directory: self.files.unwrap_or_else(std::env::temp_dir),
            }),
            peers: self.peer,
            ..RunSpec::default()
        })
    }
}

pub(crate) fn run(args: Args, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    if args.is_spatial() {
        return spatial::run(args, context);
    }
    spatial::refuse_options(context)?;
    let repeats = args.repeats();
    let spec = args.spec()?;
    if spec.fabric == FabricKind::Sim {
        heap::on_huge_pages();
    }
    let worker = WorkerCommand::this_program("worker").map_err(failure)?;
    let progress = Progress::new(context);
    let records = repeat::repeat(repeats, spec.seed, |seed| {
        let spec = RunSpec { seed, ..spec.clone() };
        measure(&spec, &worker, &mut |stage| progress.show(stage)).map_err(failure)
    })?;
    progress.0.finish_and_clear();
    show(records, context)
}

fn show(records: Vec<Record>, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    let records = &repeat::with_command(records);
    repeat::warn_of_short_windows(records, context)?;
    warn_of_overload(records, context)?;
    match context.format {
        Format::Json => {
            for record in records {
                writeln!(context.out, "{}", record.to_json_line())?;
            }
        }
        Format::Text => write!(context.out, "{}", table(records))?,
    }
    Ok(Outcome::Done)
}

/// Maps an error of a benchmark to an exit code. Errors of the machine or of the index are not usage errors.
pub(super) fn failure(error: farwood_bench::Error) -> Failure {
    use farwood_bench::Error;
    let text = error.to_string();
    let library = match error {
        Error::WrongAnswer(_) | Error::MissingKey(_) | Error::Value { .. } | Error::Stuck(_) => {
            return Failure::Other { text, exit_code: 1 };
        }
        Error::Read { option, file, source } if source.kind() == ErrorKind::InvalidInput => {
            let text = format!("{option}: {}: {source}; name another file", shown(&file));
            return Failure::Usage(text);
        }
        Error::Read { option, file, source } => {
            return Failure::file(option, "read", &file, source);
        }
        Error::Worker { .. } | Error::Processes { .. } => return Failure::Other { text, exit_code: 10 },
        Error::Pool(source) => farwood::Error::Pool { operation: "bench", source },
        Error::Tcp(source) => farwood::Error::Tcp { operation: "bench", source },
        Error::Rdma(source) => farwood::Error::Rdma { operation: "bench", source },
        Error::Etcd(source) => farwood::Error::Etcd { operation: "bench", source },
        Error::Fabric(source) => farwood::Error::Fabric { operation: "bench", pool: String::new(), source },
        Error::Index(source) => farwood::Error::Index { operation: "bench", url: String::new(), source },
        error => return Failure::Bench(error),
    };
    Failure::Other { text, exit_code: library.exit_code() }
}

/// The progress bar of a run.
pub(super) struct Progress(pub(super) ProgressBar);

impl Progress {
    pub(super) fn new(context: &Context<'_>) -> Progress {
        if !context.progress {
            return Progress(ProgressBar::hidden());
        }
        let style = ProgressStyle::with_template("{msg} {wide_bar} {percent} %");
        Progress(ProgressBar::new(1).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar())))
    }

    fn show(&self, stage: Stage<'_>) {
        match stage {
            Stage::Loading { done, all } => self.bar("loading".to_owned(), done, all),
            Stage::Warming { backend } => self.bar(format!("warming up {backend}"), 0, 1),
            Stage::Measuring { backend, round, rounds } => {
                self.bar(format!("measuring {backend}"), round as u64 - 1, rounds as u64);
            }
        }
    }

    pub(super) fn bar(&self, message: String, done: u64, all: u64) {
        self.0.set_length(all.max(1));
        self.0.set_position(done);
        self.0.set_message(message);
    }
}
