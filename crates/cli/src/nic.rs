//! `farwood nic`: rate, bandwidth and latency of verbs on a simulated card.

use super::bench::failure;
use super::text_table::aligned;
use super::value_list::{ValueList, counts};
use super::{Context, Failure, Format, Outcome, size};
use clap::ValueEnum;
use farwood_bench::run::{CardValue, Memory, NicMeasurement, NicPoint, NicTarget, Verb, card_values};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  farwood nic --verb read --bytes 8,64,1024 --outstanding 16 --queue-pairs 32
  farwood nic --nic cx6-200g --verb write --queue-pairs 1..96*2 --outstanding 8
  farwood nic --verb cas --target same --queue-pairs 176 --compute-nodes 8      one contended word
  farwood nic --verb faa,masked-cas --memory device --queue-pairs 64 --json
  farwood nic --nic my-card.toml --bytes 4096..65536*2 --outstanding 8
  farwood nic --nic cx6-200g --compare measured.csv          model and card, side by side

A value of --verb, --bytes, --outstanding and --queue-pairs can be a list (8,64,1024), a range with a factor \
(1..64*2) or a range with a step (8..64+8). All combinations are measured, the last of these options fastest.

The rate counts verbs of all queue pairs in million per second, the bandwidth their payload. The latency is the time \
from the post to the completion in memory; the CPU time of polling the completion is not part of it, but limits the \
rate of a queue pair, because each queue pair has its own thread. All times are virtual; the seed determines the \
results.";

/// Measure verbs on a simulated network card: rate, bandwidth and latency, as perftest does on a real one
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The NIC model: cx5-100g, cx6-100g, cx6-200g, tcp-1g, tcp-40g, ideal, or the path of a NIC model file
    #[arg(long, default_value = "cx5-100g", value_name = "NIC")]
    nic: String,
    /// The verbs: read, write, cas (compare-and-swap), faa (fetch-and-add) or masked-cas. Comparisons succeed
    #[arg(long, default_value = "read", value_name = "VERBS")]
    verb: ValueList<Verb>,
    /// Payload bytes of a READ or WRITE, multiples of 8; atomics have 8
    #[arg(long, default_value = "8", value_name = "COUNTS", value_parser = counts(8, 1 << 20))]
    bytes: ValueList<u64>,
    /// Requests in flight of each client, which has a queue pair for each memory node
    #[arg(long, default_value = "1", value_name = "COUNTS", value_parser = counts(1, NicPoint::OUTSTANDING_MAX))]
    outstanding: ValueList<u64>,
    /// Clients of all compute nodes, each with a thread and with a queue pair to each memory node
    #[arg(long, default_value = "1", value_name = "COUNTS", value_parser = counts(1, NicPoint::QUEUE_PAIRS_MAX))]
    queue_pairs: ValueList<u64>,
    /// Requests of a post, which have one doorbell; --outstanding is a multiple of it
    #[arg(long, default_value = "1", value_name = "COUNT", value_parser = size::between::<u64>(1, 1024))]
    batch: u64,
    /// Machines of the clients; --queue-pairs is a multiple of it
    #[arg(long, default_value = "1", value_name = "COUNT",
        value_parser = size::between::<u64>(1, NicPoint::COMPUTE_NODES_MAX))]
    compute_nodes: u64,
    /// Number of memory nodes
    #[arg(long, default_value = "1", value_name = "COUNT", value_parser = size::between::<u16>(1, 64))]
    memory_nodes: u16,
    /// The memory that the verbs access: of the host, or of the card
    #[arg(long, value_enum, default_value_t = MemoryKind::Host)]
    memory: MemoryKind,
    /// The addresses: the same for all verbs; or spread: random cache lines for READs and WRITEs, and a word of its own
    /// for each atomic in flight
    #[arg(long, value_enum, default_value_t = TargetKind::Spread)]
    target: TargetKind,
    /// Virtual seconds of each measurement
    #[arg(long, default_value = "0.001", value_parser = seconds)]
    seconds: f64,
    /// Seed of the addresses, and of the assignment of queue pairs to processing units of the card
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Compare the model with the measurements of a card in this file, as docs/validation/measure.sh writes it: for
    /// each of its lines, the value of the model, that of the card, and the error
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = [
            "verb", "bytes", "outstanding", "queue_pairs", "batch", "compute_nodes", "memory", "target",
        ]
    )]
    compare: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum MemoryKind {
    /// The memory of the memory node
    Host,
    /// The memory of its card
    Device,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum TargetKind {
    /// One address
    Same,
    /// Many addresses
    Spread,
}

/// A virtual duration.
fn seconds(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| (1e-9..=10.0).contains(number));
    number.ok_or_else(|| "give virtual seconds from 1e-9 to 10".to_owned())
}

impl Args {
    /// All combinations of the values.
    fn points(&self) -> Vec<NicPoint> {
        let mut points = Vec::new();
        for &verb in &self.verb.0 {
            for &bytes in &self.bytes.0 {
                for &outstanding in &self.outstanding.0 {
                    let of = |&queue_pairs| self.point(verb, bytes, outstanding, queue_pairs);
                    points.extend(self.queue_pairs.0.iter().map(of));
                }
            }
        }
        points
    }

    fn point(&self, verb: Verb, bytes: u64, outstanding: u64, queue_pairs: u64) -> NicPoint {
        NicPoint {
            nic: self.nic.clone(),
            verb,
            memory: match self.memory {
                MemoryKind::Host => Memory::Host,
                MemoryKind::Device => Memory::Device,
            },
            target: match self.target {
                TargetKind::Same => NicTarget::Same,
                TargetKind::Spread => NicTarget::Spread,
            },
            bytes,
            outstanding,
            batch: self.batch,
            queue_pairs,
            compute_nodes: self.compute_nodes,
            memory_nodes: self.memory_nodes,
            seconds: self.seconds,
            seed: self.seed,
        }
    }
}

pub(crate) fn run(args: &Args, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    match &args.compare {
        Some(file) => compare(args, file, context)?,
        None => measure(args, context)?,
    }
    Ok(Outcome::Done)
}

/// Measures all points of the options.
fn measure(args: &Args, context: &mut Context<'_>) -> Result<(), Failure> {
    let points = args.points();
    // The first of thousands of runs must not delay the error of the last one.
    points.iter().try_for_each(NicPoint::check).map_err(failure)?;
    let mut rows = vec![HEADING.map(str::to_owned).to_vec()];
    let mut nic = String::new();
    for point in &points {
        let measured = point.measure().map_err(failure)?;
        warn(point, &measured, context)?;
        match context.format {
            Format::Json => context.json(&as_json(point, &measured))?,
            Format::Text => rows.push(row(point, &measured)),
        }
        nic = format!("{} {}", measured.nic, measured.nic_hash);
    }
    if matches!(context.format, Format::Text) {
        write!(context.out, "card {nic}\n{}", aligned(&rows))?;
    }
    Ok(())
}

/// Warns of a measurement that was too short.
fn warn(point: &NicPoint, measured: &NicMeasurement, context: &mut Context<'_>) -> Result<(), Failure> {
    if let Some(warning) = point.warning(measured) {
        writeln!(context.messages, "warning: {warning}")?;
    }
    Ok(())
}

/// Compares the model with the values of a card.
fn compare(args: &Args, file: &Path, context: &mut Context<'_>) -> Result<(), Failure> {
    let text =
        fs::read_to_string(file).map_err(|source| Failure::file("nic: --compare", "read", file, source))?;
    let base = NicPoint {
        nic: args.nic.clone(),
        memory_nodes: args.memory_nodes,
        seconds: args.seconds,
        seed: args.seed,
        ..NicPoint::default()
    };
    let values = card_values(&text, &base).map_err(failure)?;
    let mut rows = vec![COMPARED.map(str::to_owned).to_vec()];
    let mut last: Option<(&NicPoint, NicMeasurement)> = None;
    for value in &values {
        let measured = match last {
            Some((point, measured)) if *point == value.point => measured,
            _ => {
                let measured = value.point.measure().map_err(failure)?;
                warn(&value.point, &measured, context)?;
                measured
            }
        };
        match context.format {
            Format::Json => context.json(&compared_json(value, &measured))?,
            Format::Text => rows.push(compared_row(value, &measured)),
        }
        last = Some((&value.point, measured));
    }
    if let (Format::Text, Some((_, NicMeasurement { nic, nic_hash, .. }))) = (context.format, last) {
        write!(context.out, "card {nic} {nic_hash}\n{}", aligned(&rows))?;
    }
    Ok(())
}

const COMPARED: [&str; 12] = [
    "verb",
    "bytes",
    "outstanding",
    "batch",
    "queue pairs",
    "compute nodes",
    "memory",
    "target",
    "metric",
    "model",
    "card",
    "error %",
];

/// The deviation of the model from the card, percent of the card's value.
fn error_percent(model: f64, card: f64) -> f64 {
    100.0 * (model - card) / card
}

fn compared_row(value: &CardValue, measured: &NicMeasurement) -> Vec<String> {
    let CardValue { point, metric, card } = value;
    let model = metric.of(measured);
    vec![
        point.verb.name().to_owned(),
        point.bytes.to_string(),
        point.outstanding.to_string(),
        point.batch.to_string(),
        point.queue_pairs.to_string(),
        point.compute_nodes.to_string(),
        memory_name(point).to_owned(),
        point.target.name().to_owned(),
        metric.name().to_owned(),
        format!("{model:.3}"),
        format!("{card:.3}"),
        format!("{:+.1}", error_percent(model, *card)),
    ]
}

fn compared_json(value: &CardValue, measured: &NicMeasurement) -> Value {
    let CardValue { point, metric, card } = value;
    let model = metric.of(measured);
    let compared = json!({
        "metric": metric.name(),
        "model": model,
        "card": card,
        "error_percent": error_percent(model, *card),
    });
    with_set_up(point, measured, compared)
}

fn memory_name(point: &NicPoint) -> &'static str {
    if point.memory == Memory::Device { "device" } else { "host" }
}

/// The NIC model and the parameters of a point, followed by the fields of `result`.
fn with_set_up(point: &NicPoint, measured: &NicMeasurement, result: Value) -> Value {
    let mut all = json!({
        "nic": measured.nic,
        "nic_hash": measured.nic_hash,
        "verb": point.verb.name(),
        "bytes": point.bytes,
        "outstanding": point.outstanding,
        "queue_pairs": point.queue_pairs,
        "batch": point.batch,
        "compute_nodes": point.compute_nodes,
        "memory_nodes": point.memory_nodes,
        "memory": memory_name(point),
        "target": point.target.name(),
        "seconds": point.seconds,
        "seed": point.seed,
    });
    if let (Value::Object(all), Value::Object(result)) = (&mut all, result) {
        all.extend(result);
    }
    all
}

const HEADING: [&str; 9] =
    ["verb", "bytes", "outstanding", "queue pairs", "M verbs/s", "Gbit/s", "mean us", "p50 us", "p99 us"];

fn row(point: &NicPoint, measured: &NicMeasurement) -> Vec<String> {
    let NicMeasurement { mverbs, gbits, latency_us, .. } = measured;
    let latencies = [latency_us.mean, latency_us.p50, latency_us.p99].map(|latency| format!("{latency:.2}"));
    let counts = [point.bytes, point.outstanding, point.queue_pairs].map(|count| count.to_string());
    let mut row = vec![point.verb.name().to_owned()];
    row.extend(counts);
    row.extend([format!("{mverbs:.3}"), format!("{gbits:.2}")]);
    row.extend(latencies);
    row
}

fn as_json(point: &NicPoint, measured: &NicMeasurement) -> Value {
    let NicMeasurement { mverbs, gbits, latency_us, .. } = measured;
    let result = json!({
        "million_per_second": mverbs,
        "gbit_per_second": gbits,
        "latency_us": { "mean": latency_us.mean, "p50": latency_us.p50, "p99": latency_us.p99 },
    });
    with_set_up(point, measured, result)
}
