//! `farwood bench --index catfish`: rectangles instead of keys.

use super::simulated::WarmUp;
use super::{Args, Progress, failure, repeat, show};
use crate::smart_options::SmartOptions;
use crate::sphinx_options::SphinxOptions;
use crate::{Context, Failure, Outcome, heap};
use farwood_bench::run::{Amount, FabricKind, WarmUpEnd, WorkerCommand};
use farwood_bench::run::{RECTANGLES_DEFAULT, SpatialSpec, Variant, run_spatial};
use farwood_bench::workload::rectangles::{RectangleSource, Scale, SpatialMix};
use std::path::PathBuf;

/// Options of spatial indexes.
#[derive(Debug, clap::Args)]
pub(super) struct SpatialArgs {
    /// catfish only: the longest edge of a search window, such as 0.00001 or 0.01, where all coordinates are between 0
    /// and 1; power-law, to draw it for each window from a power law between these two; or hundred, for windows with
    /// about 100 results [default: 0.00001]
    #[arg(long, value_name = "SCALE")]
    scale: Option<String>,
    /// catfish only: use the rectangles of this file, one per row: smallest x, smallest y, largest x, largest y
    #[arg(long, value_name = "FILE")]
    rectangles_file: Option<PathBuf>,
    /// catfish only: pause of each client between two requests
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 0.0, allow_negative_numbers = true)]
    think: f64,
}

/// Options that only spatial indexes have.
const SPATIAL: [&str; 3] = ["scale", "rectangles_file", "think"];
/// Options that spatial indexes do not have.
const NOT_SPATIAL: [&str; 30] = [
    "durability",
    "files",
    "lock_width",
    SmartOptions::NAMES[0],
    SmartOptions::NAMES[1],
    SmartOptions::NAMES[2],
    SphinxOptions::NAMES[0],
    SphinxOptions::NAMES[1],
    SphinxOptions::NAMES[2],
    SphinxOptions::NAMES[3],
    "batched_scans",
    "operation_ns",
    "fault",
    "timeline",
    "rate",
    "preloaded_keys",
    "warmup_keys",
    "colocate",
    "distribution",
    "theta",
    "zipf_ranks",
    "key_file",
    "key_bytes",
    "value_bytes",
    "range_size",
    "node_bytes",
    "cache_bytes",
    "memory_nodes",
    "connections",
    "pool",
];

/// Refuses options of spatial indexes for another index.
pub(super) fn refuse_options(context: &Context<'_>) -> Result<(), Failure> {
    match context.first_given(&SPATIAL) {
        Some(flag) => Err(Failure::Usage(format!(
            "bench: {flag} is an option of catfish; give --index catfish, or omit it"
        ))),
        None => Ok(()),
    }
}

pub(super) fn run(args: Args, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    if let Some(flag) = context.first_given(&NOT_SPATIAL) {
        return Err(Failure::Usage(format!(
            "bench: {flag}: spatial indexes do not have this option; omit it"
        )));
    }
    let repeats = args.repeat;
    let workload = context.is_given("workload").then(|| args.workload.clone());
    let spec = spec(args, workload)?;
    if spec.fabric == FabricKind::Sim {
        heap::on_huge_pages();
    }
    let worker = WorkerCommand::this_program("worker").map_err(failure)?;
    let progress = Progress::new(context);
    let records = repeat::repeat(repeats, spec.seed, |seed| {
        let spec = SpatialSpec { seed, ..spec.clone() };
        run_spatial(&spec, &worker, &mut |stage| progress.show(stage)).map_err(failure)
    })?;
    progress.0.finish_and_clear();
    show(records, context)
}

fn spec(args: Args, workload: Option<String>) -> Result<SpatialSpec, Failure> {
    let default = SpatialSpec::default();
    let SpatialArgs { scale, rectangles_file, think } = args.spatial;
    if !(0.0..=1e9).contains(&think) {
        return Err(Failure::Usage(format!("bench: --think {think}: give microseconds, 0 or more")));
    }
    if args.keys == Some(0) {
        return Err(farwood_bench::Error::parameter("--keys", "0 rectangles", "give at least 1").into());
    }
    if args.warmup.map(WarmUp::end) == Some(WarmUpEnd::Steady) {
        let problem = "auto is a warm-up of ordered indexes";
        return Err(farwood_bench::Error::parameter("--warmup", problem, "give seconds").into());
    }
    let source = match rectangles_file {
        Some(file) => RectangleSource::File(file, args.keys.unwrap_or(u64::MAX)),
        None => RectangleSource::Uniform(args.keys.unwrap_or(RECTANGLES_DEFAULT)),
    };
    let amount = match (args.seconds, args.operations) {
        (Some(seconds), _) => Some(Amount::Seconds(seconds)),
        (None, operations) => operations.map(Amount::Operations),
    };
    Ok(SpatialSpec {
        variant: args.variant.map_or(Ok(default.variant), |name| name.parse::<Variant>())?,
        fabric: args.fabric.parse::<FabricKind>()?,
        nic: args.nic,
        mix: workload.map_or(Ok(SpatialMix::Search), |workload| workload.parse::<SpatialMix>())?,
        scale: scale.map_or(Ok(default.scale), |scale| scale.parse::<Scale>())?,
        source,
        compute_nodes: args.compute_nodes,
        threads: args.threads,
        clients: args.clients,
        amount,
        warm_up_seconds: args.warmup.and_then(WarmUp::seconds),
        think_ns: (think * 1e3) as u64,
        seed: args.seed,
        peers: args.peer,
        ..default
    })
}
