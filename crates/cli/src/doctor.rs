//! `farwood doctor`: the shared memory and the pools of this machine, and the objects that crashed processes left.

use super::access::AccessArgs;
use super::card::{card_json, card_text};
use super::stat::{pool_json, rights_json, rights_text};
use super::{Context, Failure, Format, Outcome, size};
use farwood::doctor::{self, PoolReport, Rdma, Report, Swept};
use farwood::{Access, Url};
use serde_json::{Value, json};

const EXAMPLES: &str = "\
Examples:
  farwood doctor
  farwood doctor tcp://127.0.0.1:7470,127.0.0.1:7471
  farwood doctor --read-only    also pools that this user may only read
  farwood doctor --sweep        remove what crashed processes left
  FARWOOD_SHM_DIR=/mnt/shm farwood doctor";

/// Show the pools and the memory of this machine, and the objects that crashed processes left
///
/// Prints each problem with the command that resolves it. The command attaches to each pool for a moment and
/// takes the lowest client slot that no live process uses. If a crashed client had that slot, the command frees the
/// slot and lists only the other crashed clients. Without --sweep, the command changes nothing else; it never removes
/// a pool. With --read-only it takes no slot and changes nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Pools to examine in addition to those in shared memory of this machine
    #[arg(value_name = "URL")]
    pools: Vec<Url>,
    /// Remove the objects that crashed processes left: unfinished segments, client slots, and locks
    #[arg(long)]
    sweep: bool,
    /// Exit with code 1 if there are problems
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    access: AccessArgs,
}

pub(crate) fn run(args: &Args, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    if args.sweep && args.access.access() == Access::ReadOnly {
        return Err(Failure::Usage("doctor: --sweep changes pools; omit it, or --read-only".to_owned()));
    }
    let swept = if args.sweep { Some(doctor::sweep_with(&args.pools)?) } else { None };
    let report = doctor::examine_as(&args.pools, args.access.access())?;
    match context.format {
        Format::Json => context.json(&as_json(&report, swept.as_ref()))?,
        Format::Text => as_text(&report, swept.as_ref(), context)?,
    }
    let healthy = report.findings().is_empty();
    Ok(if args.strict && !healthy { Outcome::Negative } else { Outcome::Done })
}

fn as_text(report: &Report, swept: Option<&Swept>, context: &mut Context<'_>) -> Result<(), Failure> {
    if let Some(swept) = swept {
        for draft in &swept.drafts {
            writeln!(context.out, "removed {}", draft.display())?;
        }
        for (url, clients) in &swept.clients {
            let clients = size::count(*clients as u64, "crashed client", "crashed clients");
            writeln!(context.out, "{url}: freed the slots of {clients}")?;
        }
        for (url, locks) in &swept.locks {
            let locks = size::count(*locks, "lock", "locks");
            writeln!(context.out, "{url}: freed {locks} of crashed clients")?;
        }
    }
    machine_text(report, context)?;
    match &report.rdma {
        Err(error) => writeln!(context.out, "{error}")?,
        Ok(devices) if devices.is_empty() => writeln!(context.out, "RDMA: no device")?,
        Ok(devices) => {
            for device in devices {
                let text = device.card.as_ref().map_or_else(|_| "cannot be used".to_owned(), card_text);
                writeln!(context.out, "RDMA: {}: {text}", device.name)?;
            }
        }
    }
    for device in &report.rdma_requested {
        let text = device.card.as_ref().map_or_else(|_| "cannot be used".to_owned(), card_text);
        writeln!(context.out, "RDMA, as requested ({}): {text}", device.name)?;
    }
    for pool in &report.pools {
        pool_text(pool, context)?;
    }
    let findings = report.findings();
    for finding in &findings {
        writeln!(context.out, "! {}\n    {}", finding.what, finding.remedy)?;
    }
    let unseen = report.pools.iter().filter(|pool| pool.state.is_err()).count() as u64;
    match (findings.is_empty(), unseen) {
        (true, 0) => writeln!(context.out, "no problems found")?,
        (true, unseen) => {
            let pools = size::count(unseen, "pool", "pools");
            writeln!(context.out, "no problems in the pools that could be examined; {pools} could not")?;
        }
        _ => {}
    }
    Ok(())
}

fn machine_text(report: &Report, context: &mut Context<'_>) -> Result<(), Failure> {
    let out = &mut context.out;
    let (space, memory) = (&report.directory, &report.memory);
    let (free, all) = (size::show(space.free_bytes), size::show(space.bytes));
    writeln!(out, "{}: {free} free of {all}", space.path.display())?;
    let (free, all) = (size::show(memory.available_bytes), size::show(memory.bytes));
    writeln!(out, "memory: {free} available of {all}")?;
    let (huge, free) = memory.huge_pages;
    let mount = match &memory.huge_mount {
        Some(path) => format!("mounted at {}", path.display()),
        None => "not mounted".to_owned(),
    };
    writeln!(out, "huge pages of 2 MiB: {free} free of {huge}, {mount}")?;
    writeln!(out, "transparent huge pages for shared memory by default: {}", memory.transparent)?;
    for (name, limit) in &report.limits {
        let shown = |limit| if *name == "open files" { format!("{limit}") } else { size::show(limit) };
        let limit = limit.map_or("unlimited".to_owned(), shown);
        writeln!(out, "limit on {name}: {limit}")?;
    }
    Ok(())
}

fn pool_text(pool: &PoolReport, context: &mut Context<'_>) -> Result<(), Failure> {
    let out = &mut context.out;
    let resident: u64 = pool.segments.iter().map(|segment| segment.resident_bytes).sum();
    let bytes: u64 = pool.segments.iter().map(|segment| segment.bytes).sum();
    write!(out, "{}", pool.url)?;
    if !pool.segments.is_empty() {
        // A small file occupies a whole page.
        write!(out, ": {} of {} in use", size::show(bytes.min(resident)), size::show(bytes))?;
    }
    match &pool.state {
        Err(_) if !pool.findings().is_empty() => writeln!(out, "; cannot be used, see below")?,
        Err(error) => writeln!(out, "; {}", error.message_of_command())?,
        Ok(stats) => {
            let attached = stats.clients.iter().filter(|client| client.alive && !client.is_own);
            let attached = names(attached.map(|client| client.process.to_string()));
            let indexes = names(stats.indexes.iter().map(|index| index.entry.name.clone()));
            writeln!(out, "; attached: {attached}; indexes: {indexes}")?;
        }
    }
    for segment in &pool.segments {
        writeln!(out, "    {}: {}", segment.path.display(), rights_text(segment))?;
    }
    Ok(())
}

fn names(names: impl Iterator<Item = String>) -> String {
    let names: Vec<_> = names.collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

fn as_json(report: &Report, swept: Option<&Swept>) -> Value {
    let limits: serde_json::Map<_, _> =
        report.limits.iter().map(|(name, limit)| (name.replace(' ', "_"), json!(limit))).collect();
    let findings: Vec<_> = report
        .findings()
        .into_iter()
        .map(|finding| json!({ "what": finding.what, "remedy": finding.remedy }))
        .collect();
    let memory = &report.memory;
    let mut value = json!({
        "directory": report.directory.path,
        "directory_bytes": report.directory.bytes,
        "directory_free_bytes": report.directory.free_bytes,
        "memory_bytes": memory.bytes,
        "memory_available_bytes": memory.available_bytes,
        "huge_pages": memory.huge_pages.0,
        "huge_pages_free": memory.huge_pages.1,
        "huge_mount": memory.huge_mount,
        "transparent_huge_pages": memory.transparent,
        "limits": limits,
        "pools": report.pools.iter().map(report_json).collect::<Vec<_>>(),
        "unfinished_segments": report.drafts.iter().map(|draft| json!(draft.path)).collect::<Vec<_>>(),
        "findings": findings,
        "rdma": rdma_json(report),
        "rdma_requested": report.rdma_requested.iter().map(device_json).collect::<Vec<_>>(),
    });
    if let Some(swept) = swept {
        value["swept_drafts"] = json!(swept.drafts);
        value["swept_clients"] = json!(swept.clients.iter().map(|(_, clients)| clients).sum::<usize>());
        value["swept_locks"] = json!(swept.locks.iter().map(|(_, locks)| locks).sum::<u64>());
    }
    value
}

fn rdma_json(report: &Report) -> Value {
    match &report.rdma {
        Err(error) => json!({ "error": error.to_string() }),
        Ok(devices) => devices.iter().map(device_json).collect(),
    }
}

fn device_json(device: &Rdma) -> Value {
    match &device.card {
        Ok(card) => card_json(card),
        Err(error) => json!({ "device": device.name, "error": error.to_string() }),
    }
}

fn report_json(pool: &PoolReport) -> Value {
    let mut value = match &pool.state {
        Ok(stats) => pool_json(&pool.url, stats),
        Err(error) => json!({ "pool": pool.url, "error": error.message_of_command() }),
    };
    let segment = |segment: &doctor::Segment| {
        let mut value = rights_json(segment);
        value["path"] = json!(segment.path);
        value["bytes"] = segment.bytes.into();
        value["resident_bytes"] = segment.resident_bytes.into();
        value
    };
    value["segments"] = pool.segments.iter().map(segment).collect();
    value
}
