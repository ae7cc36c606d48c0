//! `farwood trace`: the verbs of one operation.

use super::bench::{failure, system};
use super::{Context, Failure, Format, Outcome, size};
use farwood_bench::run::{CachesBefore, FabricKind, RunSpec, TracedOperation, TracedRun, trace, trace_text};
use serde_json::json;

const EXAMPLES: &str = "\
Examples:
  farwood trace put 7
  farwood trace --index sphinx get 7
  farwood trace --index smart --cold get 7
  farwood trace --keys 1000 put 1000                 a new key

A line has the virtual time since the call, the client, the memory node, the number of the verb, and the verb with its
address. An arrow to the right is a post, with the operands of an atomic or the first bytes of a WRITE; [x] is the
execution at the memory node; an arrow to the left is the completion, with the outcome of an atomic or the first bytes
that a READ fetched. Bytes are in the order of memory; operands are numbers, little-endian in memory. The times do not
contain the CPU time that bench charges for an operation and for polling.";

/// Print the verbs of one operation of an index in the simulator, as a sequence diagram
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The operation
    #[arg(value_enum)]
    operation: Operation,
    /// The number of its key: keys below --keys are present
    key: u64,
    /// The index: sherman, smart or sphinx
    #[arg(long, default_value = "sherman")]
    index: String,
    /// The variant, as in bench
    #[arg(long)]
    variant: Option<String>,
    /// The simulated NIC: a name, or a NIC file
    #[arg(long)]
    nic: Option<String>,
    /// Number of loaded keys
    #[arg(long, default_value_t = 10_000, value_name = "COUNT", value_parser = size::between::<u64>(1, 10_000_000))]
    keys: u64,
    /// Number of memory nodes
    #[arg(long, default_value_t = 2, value_name = "COUNT")]
    memory_nodes: u16,
    /// Begin with empty caches, instead of after a search of the key
    #[arg(long)]
    cold: bool,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Operation {
    /// Read the key
    Get,
    /// Store a value
    Put,
    /// Remove the key
    Remove,
    /// Read 10 keys from the key on
    Scan,
}

impl Args {
    fn spec(&self) -> Result<RunSpec, Failure> {
        let index = system(&self.index).map_err(|_| {
            let (name, all) = (&self.index, "sherman, smart or sphinx");
            Failure::Usage(format!("trace: --index: there is no ordered index '{name}'; give {all}"))
        })?;
        Ok(RunSpec {
            index,
            variant: self.variant.clone(),
            fabric: FabricKind::Sim,
            nic: self.nic.clone(),
            keys: Some(self.keys),
            memory_nodes: self.memory_nodes,
            ..RunSpec::default()
        })
    }
}

pub(crate) fn run(args: &Args, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    let operation = match args.operation {
        Operation::Get => TracedOperation::Get,
        Operation::Put => TracedOperation::Put,
        Operation::Remove => TracedOperation::Remove,
        Operation::Scan => TracedOperation::Scan,
    };
    let caches = if args.cold { CachesBefore::Cold } else { CachesBefore::Warm };
    let traced = trace(&args.spec()?, operation, args.key, caches).map_err(failure)?;
    match context.format {
        Format::Json => context.json(&as_json(&traced))?,
        Format::Text => {
            let TracedRun { answer, nanoseconds, round_trips, .. } = &traced;
            write!(context.out, "{}", trace_text(&traced.events))?;
            let trips = if *round_trips == 1 { "round trip" } else { "round trips" };
            writeln!(context.out, "{answer}, after {nanoseconds} ns and {round_trips} {trips}")?;
        }
    }
    Ok(Outcome::Done)
}

fn as_json(traced: &TracedRun) -> serde_json::Value {
    let event = |event: &farwood_bench::run::TraceEvent| {
        json!({
            "ns": event.time,
            "verb": event.verb,
            "stage": event.stage,
            "memory_node": event.node,
            "what": event.what,
            "details": event.details,
        })
    };
    json!({
        "answer": traced.answer,
        "nanoseconds": traced.nanoseconds,
        "round_trips": traced.round_trips,
        "events": traced.events.iter().map(event).collect::<Vec<_>>(),
    })
}
