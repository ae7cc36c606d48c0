//! `farwood top`: the load of a pool, refreshed periodically.

use super::access::AccessArgs;
use super::stat::{CHUNK_BYTES, node_json, server_json, server_text};
use super::{Context, Failure, Format, Outcome, size};
use farwood::error::{EtcdError, FabricError, RdmaError, TcpError};
use farwood::node::NodeReport;
use farwood::stats::{IndexUse, NodeStats, PoolStats};
use farwood::{Error, Pool, Url};
use serde_json::json;
use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

const EXAMPLES: &str = "\
Examples:
  farwood top tcp://127.0.0.1:7470,127.0.0.1:7471
  farwood top shm://demo --interval 5
  farwood top tcp://127.0.0.1:7470 --count 10 --json";

/// Clears the terminal and moves the cursor to its first line.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Show a pool at work: the load of its memory nodes and the number of clients
///
/// Rates are averages since the previous refresh, including about 330 requests for the refresh itself. Latencies are
/// percentiles since the memory node started. If a memory node is lost, the command reports that until the node is
/// back. It ends on SIGINT, or after --count refreshes.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The URL of a pool
    url: Url,
    /// Seconds between two refreshes
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0)]
    interval: f64,
    /// End after this many refreshes [default: run until SIGINT]
    #[arg(long, value_name = "COUNT")]
    count: Option<u64>,
    #[command(flatten)]
    access: AccessArgs,
}

pub(crate) fn run(args: &Args, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    if args.url.index().is_some() {
        return Err(Failure::Usage(format!(
            "top {}: this URL names an index; give the URL of its pool",
            args.url
        )));
    }
    if !(args.interval.is_finite() && (0.01..=86_400.0).contains(&args.interval)) {
        return Err(Failure::Usage(format!("top: --interval {}: give 0.01 to 86400", args.interval)));
    }
    if args.count == Some(0) {
        return Err(Failure::Usage("top: --count 0: give at least 1".to_owned()));
    }
    let pool = args.access.find(args.url.clone())?;
    let clears = context.format == Format::Text && std::io::stdout().is_terminal();
    let (mut before, mut since) = (Some(pool.stats()?), Instant::now());
    let mut watched = Watched { url: &args.url, access: args.access, pool: Some(pool) };
    let mut looks = 0;
    while args.count.is_none_or(|count| looks < count) {
        std::thread::sleep(Duration::from_secs_f64(args.interval));
        let (now, seconds) = (watched.look()?, since.elapsed().as_secs_f64());
        since = Instant::now();
        if clears {
            write!(context.out, "{CLEAR}")?;
        }
        match &now {
            Ok(now) => show(&args.url, before.as_ref(), now, seconds, context)?,
            Err(lost) => show_lost(&args.url, lost, seconds, context)?,
        }
        context.out.flush()?;
        (before, looks) = (now.ok(), looks + 1);
    }
    Ok(Outcome::Done)
}

/// A pool whose memory nodes may be lost and come back.
struct Watched<'a> {
    url: &'a Url,
    access: AccessArgs,
    /// `None` if a memory node was lost at the last refresh.
    pool: Option<Pool>,
}

impl Watched<'_> {
    /// The state of the pool; `Err` says which memory node is lost.
    fn look(&mut self) -> Result<Result<PoolStats, String>, Failure> {
        let pool = self.pool.take().map_or_else(|| self.access.find(self.url.clone()), Ok);
        match pool.and_then(|pool| Ok((pool.stats()?, pool))) {
            Ok((stats, pool)) => {
                self.pool = Some(pool);
                Ok(Ok(stats))
            }
            Err(error) if may_come_back(&error) => Ok(Err(error.message_of_command())),
            Err(error) => Err(error.into()),
        }
    }
}

/// Whether the error comes from a lost memory node, which may come back.
fn may_come_back(error: &Error) -> bool {
    match error {
        Error::Fabric { source, .. } => {
            matches!(source, FabricError::NodeLost { .. } | FabricError::Revoked(_))
        }
        Error::Tcp { source, .. } | Error::Rdma { source: RdmaError::Pool(source), .. } => {
            let lost = |error: &FabricError| matches!(error, FabricError::NodeLost { .. });
            matches!(source, TcpError::NotThere { .. })
                || matches!(source, TcpError::Pool { error, .. } if lost(error))
        }
        Error::Etcd { source, .. } => {
            matches!(source, EtcdError::Incomplete { .. } | EtcdError::NoAnswer { .. })
        }
        _ => false,
    }
}

fn show(
    url: &Url,
    before: Option<&PoolStats>,
    now: &PoolStats,
    seconds: f64,
    context: &mut Context<'_>,
) -> Result<(), Failure> {
    let old = |at| before.and_then(|before| before.nodes.get(at));
    let rates: Vec<_> = now.nodes.iter().enumerate().map(|(at, new)| rates(old(at)?, new, seconds)).collect();
    match context.format {
        Format::Json => json_look(url, now, &rates, seconds, context),
        Format::Text => text_look(url, now, &rates, context),
    }
}

/// Shows that the pool cannot be reached.
fn show_lost(url: &Url, lost: &str, seconds: f64, context: &mut Context<'_>) -> Result<(), Failure> {
    match context.format {
        Format::Json => {
            context.json(&json!({ "pool": url.to_string(), "seconds": seconds, "lost": lost }))?;
        }
        Format::Text => writeln!(context.out, "{lost}")?,
    }
    Ok(())
}

/// The load of a memory node per second.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Rates {
    requests: f64,
    verbs: f64,
    bytes_in: f64,
    bytes_out: f64,
}

/// The rates between two refreshes. The counters of a restarted memory node begin at 0.
fn rates(old: &NodeStats, new: &NodeStats, seconds: f64) -> Option<Rates> {
    let (old, new) = (old.report?, new.report?);
    let rate = |of: fn(&NodeReport) -> u64| of(&new).saturating_sub(of(&old)) as f64 / seconds;
    Some(Rates {
        requests: rate(|report| report.requests),
        verbs: rate(|report| report.verbs),
        bytes_in: rate(|report| report.bytes_in),
        bytes_out: rate(|report| report.bytes_out),
    })
}

fn json_look(
    url: &Url,
    stats: &PoolStats,
    rates: &[Option<Rates>],
    seconds: f64,
    context: &mut Context<'_>,
) -> Result<(), Failure> {
    let node = |(node, rates): (&NodeStats, &Option<Rates>)| {
        let mut value = node_json(node);
        value["per_second"] = json!(rates.map(|rates| json!({
            "requests": rates.requests,
            "verbs": rates.verbs,
            "bytes_in": rates.bytes_in,
            "bytes_out": rates.bytes_out,
        })));
        value
    };
    let server = |index: &IndexUse| {
        let mut value = server_json(index.server);
        value["index"] = index.entry.name.as_str().into();
        value
    };
    let alive = stats.clients.iter().filter(|client| client.alive && !client.is_own).count();
    let crashed = stats.clients.iter().filter(|client| !client.alive).count();
    context.json(&json!({
        "pool": url.to_string(),
        "seconds": seconds,
        "nodes": stats.nodes.iter().zip(rates).map(node).collect::<Vec<_>>(),
        "clients": alive,
        "clients_crashed": crashed,
        "indexes": stats.indexes.iter().map(|index| index.entry.name.as_str()).collect::<Vec<_>>(),
        "servers": stats.indexes.iter().filter(|index| index.server.is_some()).map(server).collect::<Vec<_>>(),
    }))?;
    Ok(())
}

fn text_look(
    url: &Url,
    stats: &PoolStats,
    rates: &[Option<Rates>],
    context: &mut Context<'_>,
) -> Result<(), Failure> {
    let out = &mut context.out;
    let alive = stats.clients.iter().filter(|client| client.alive && !client.is_own).count();
    let crashed = stats.clients.iter().filter(|client| !client.alive).count();
    writeln!(
        out,
        "{url}: {}, {} crashed, {}",
        size::count(alive as u64, "client", "clients"),
        crashed,
        size::count(stats.indexes.len() as u64, "index", "indexes")
    )?;
    // A memory node in shared memory counts no requests.
    let counts = stats.nodes.iter().any(|node| node.report.is_some());
    let counted = if counts { " conns    req/s  verbs/s      in/s     out/s p50 us p99 us" } else { "" };
    writeln!(out, "node  resident  chunks{counted}")?;
    for (at, (node, rates)) in stats.nodes.iter().zip(rates).enumerate() {
        let chunks = format!("{}/{}", node.chunks_used, node.chunks);
        write!(out, "{at:>4} {:>9} {chunks:>7}", size::show(node.resident_bytes))?;
        match (node.report, rates) {
            (Some(report), Some(rates)) => writeln!(
                out,
                " {:>5} {:>8.0} {:>8.0} {:>9} {:>9} {:>6} {:>6}",
                report.connections,
                rates.requests,
                rates.verbs,
                size::show(rates.bytes_in as u64),
                size::show(rates.bytes_out as u64),
                format!("<{}", report.latency_us[0]),
                format!("<{}", report.latency_us[2])
            )?,
            _ => writeln!(out)?,
        }
    }
    for index in &stats.indexes {
        write!(out, "  {}: {}", index.entry.name, size::show(index.chunks * CHUNK_BYTES))?;
        match index.server {
            Some(server) => writeln!(out, ", server {}", server_text(server))?,
            None => writeln!(out)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_differences_per_second() {
        let node = |verbs| NodeStats {
            memory_bytes: 0,
            memory_max_bytes: 0,
            device_bytes: 0,
            resident_bytes: 0,
            pages: None,
            report: Some(NodeReport { verbs, ..NodeReport::default() }),
            card: None,
            chunks: 0,
            chunks_used: 0,
        };
        let verbs = |old, new| rates(&node(old), &node(new), 2.0).unwrap().verbs.round() as u64;
        assert_eq!(verbs(100, 300), 100);
        assert_eq!(verbs(300, 100), 0, "restarted");
        let silent = NodeStats { report: None, ..node(0) };
        assert_eq!(rates(&silent, &node(1), 1.0), None);
    }
}
