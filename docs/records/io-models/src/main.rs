//! Compares models of input and output for a memory node over TCP: how decision 16 was measured.
//!
//! `cargo run --release` prints a table, on an idle machine; about six minutes.

mod client;
mod completion;
mod executors;
mod node;
mod readiness;
mod sys;
mod threads;

use clap::{Parser, ValueEnum};
use client::{Case, Client};
use node::Memory;
use serde::Serialize;
use std::error::Error;
use std::io::{self, BufRead as _, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

/// Threads of a node, but for `threads`.
const THREADS: usize = 2;
const SPIN: Duration = Duration::from_micros(50);

const CASES: [Case; 6] = [
    Case { name: "1 connection, 1 outstanding", busy: 1, idle: 0, outstanding: 1 },
    Case { name: "1 connection, 16 outstanding", busy: 1, idle: 0, outstanding: 16 },
    Case { name: "1 connection, 64 outstanding", busy: 1, idle: 0, outstanding: 64 },
    Case { name: "16 connections, 1 outstanding each", busy: 16, idle: 0, outstanding: 1 },
    Case { name: "200 connections, 1 outstanding each", busy: 200, idle: 0, outstanding: 1 },
    Case { name: "200 connections, 1 outstanding each, 800 idle", busy: 200, idle: 800, outstanding: 1 },
];

/// Compares models of input and output for a memory node over TCP.
///
/// Each case runs against a node in a process of its own: requests of 32 B, answers of 1 KiB, over loopback. Rounds
/// go through all cases and models in turn, and the median of the rounds is printed.
///
/// The machine has to be idle, and `ulimit -n` above 1100. Exit codes: 0, 1 where something failed, 2 for bad usage.
#[derive(Parser)]
#[command(
    after_help = "Examples:\n  io-models\n  io-models --models mio,io-uring --rounds 1 --seconds 0.5 --json"
)]
struct Options {
    /// Seconds for each case.
    #[arg(long, default_value = "2")]
    seconds: f64,
    /// The number of repetitions of all cases.
    #[arg(long, default_value = "3", value_parser = clap::value_parser!(u8).range(1..))]
    rounds: u8,
    /// Models to compare: all of them, if not said.
    #[arg(long, value_delimiter = ',')]
    models: Vec<Model>,
    /// JSON in place of a table.
    #[arg(long)]
    json: bool,
    /// Run a node of this model for `--connections` connections (the program starts its nodes with this option).
    #[arg(long, hide = true, requires = "connections")]
    node: Option<Model>,
    #[arg(long, hide = true)]
    connections: Option<usize>,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Model {
    /// A thread for each connection, blocking.
    Threads,
    /// Readiness, 2 threads that look for 50 us before they sleep.
    Mio,
    /// The same, but they sleep at once.
    MioSleep,
    /// Completion, 2 threads that look for 50 us before they sleep.
    IoUring,
    /// The same, but they sleep at once.
    IoUringSleep,
    /// Completion, 2 threads that look for 50 us, and 2 of the kernel that look for submissions.
    IoUringSqpoll,
    /// Tokio, 2 threads.
    Tokio,
    /// Compio over `io_uring`, 2 threads.
    Compio,
}

impl Model {
    fn name(self) -> String {
        self.to_possible_value().expect("none is hidden").get_name().to_owned()
    }
}

#[derive(Serialize)]
struct Row {
    case: &'static str,
    model: String,
    requests_per_s: f64,
    p50_us: f64,
    p99_us: f64,
    /// Of the node, in user mode and in the kernel.
    cpu_us_per_request: f64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::parse();
    if let (Some(model), Some(connections)) = (options.node, options.connections) {
        return be_node(model, connections)
            .map_err(|why| format!("a node of {}: {why}", model.name()).into());
    }
    let rows = compare(&options)?;
    if options.json {
        println!("{}", serde_json::to_string_pretty(&rows)?);
        return Ok(());
    }
    println!(
        "| Case | Model | Requests/s | p50 µs | p99 µs | Node's CPU, µs/request |\n|---|---|--:|--:|--:|--:|"
    );
    for Row { case, model, requests_per_s, p50_us, p99_us, cpu_us_per_request } in rows {
        println!(
            "| {case} | {model} | {requests_per_s:.0} | {p50_us:.1} | {p99_us:.1} | {cpu_us_per_request:.2} |"
        );
    }
    Ok(())
}

/// All cases and models, by rounds; the medians.
fn compare(options: &Options) -> Result<Vec<Row>, Box<dyn Error>> {
    let models = if options.models.is_empty() { Model::value_variants() } else { &options.models };
    let time = Duration::try_from_secs_f64(options.seconds)?;
    let pairs: Vec<_> =
        CASES.iter().flat_map(|case| models.iter().map(move |model| (*case, *model))).collect();
    let mut figures = vec![Vec::new(); pairs.len()];
    for round in 1..=options.rounds {
        for ((case, model), figures) in pairs.iter().zip(&mut figures) {
            eprintln!("round {round}: {}, {}", case.name, model.name());
            let remedy = "the machine has to have io_uring, and `ulimit -n` to be above 1100";
            let measured = measure(*case, *model, time);
            figures
                .push(measured.map_err(|why| format!("{}, {}: {why} ({remedy})", case.name, model.name()))?);
        }
    }
    let rows = pairs.iter().zip(figures).map(|((case, model), figures)| {
        let [requests_per_s, p50_us, p99_us, cpu_us_per_request] = medians(&figures);
        Row { case: case.name, model: model.name(), requests_per_s, p50_us, p99_us, cpu_us_per_request }
    });
    Ok(rows.collect())
}

fn medians(figures: &[[f64; 4]]) -> [f64; 4] {
    [0, 1, 2, 3].map(|which| {
        let mut of_rounds: Vec<_> = figures.iter().map(|round| round[which]).collect();
        of_rounds.sort_unstable_by(f64::total_cmp);
        of_rounds[of_rounds.len() / 2]
    })
}

/// Requests/s, median and 99th percentile in us, and the node's CPU time in us for each request.
fn measure(case: Case, model: Model, time: Duration) -> io::Result<[f64; 4]> {
    let (mut child, address) = start_node(model, case.busy + case.idle)?;
    let run = || {
        let meter = || cpu_seconds(child.id());
        Client::connect(address, case)?.run(case, time, meter)
    };
    let seen = run();
    if seen.is_err() {
        // It may wait for connections that do not come.
        child.kill()?;
    }
    // The client's connections are closed, so it ends.
    let ended = child.wait()?;
    let mut seen = seen?;
    if !ended.success() {
        return Err(io::Error::other("the node failed: see its messages"));
    }
    if seen.latencies.is_empty() {
        return Err(io::Error::other("no answer came in time: raise --seconds"));
    }
    let requests = seen.latencies.len();
    seen.latencies.sort_unstable();
    let us_at = |share: f64| f64::from(seen.latencies[(share * requests as f64) as usize]) / 1e3;
    let requests = requests as f64;
    Ok([requests / seen.time.as_secs_f64(), us_at(0.5), us_at(0.99), seen.metered * 1e6 / requests])
}

fn start_node(model: Model, connections: usize) -> io::Result<(Child, SocketAddr)> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--node", &model.name(), "--connections", &connections.to_string()]).stdout(Stdio::piped());
    let mut child = command.spawn()?;
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("it is piped")).read_line(&mut line)?;
    let address =
        line.trim().parse().map_err(|_| io::Error::other("the node did not start: see its messages"))?;
    Ok((child, address))
}

/// CPU time of a process so far.
fn cpu_seconds(process: u32) -> io::Result<f64> {
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    // After the name, which is in brackets: user mode is the twelfth, the kernel the thirteenth.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2);
    let ticks: f64 = fields.filter_map(|field| field.parse::<f64>().ok()).sum();
    Ok(ticks / TICKS_PER_SECOND)
}

/// Takes in all connections, and then serves them until they have ended.
fn be_node(model: Model, connections: usize) -> io::Result<()> {
    let memory = Memory::leaked();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    println!("{}", listener.local_addr()?);
    let streams = listener.incoming().take(connections).collect::<io::Result<Vec<_>>>()?;
    streams.iter().try_for_each(|stream| stream.set_nodelay(true))?;
    let mio = |spin| move |streams| readiness::serve(streams, memory, spin);
    let io_uring = |spin, sqpoll| move |streams: Vec<_>| completion::serve(&streams, memory, spin, sqpoll);
    match model {
        Model::Threads => threads::serve(streams, memory),
        Model::Tokio => executors::serve_tokio(streams, memory, THREADS)?,
        Model::Mio => share(streams, mio(SPIN))?,
        Model::MioSleep => share(streams, mio(Duration::ZERO))?,
        Model::IoUring => share(streams, io_uring(SPIN, false))?,
        Model::IoUringSleep => share(streams, io_uring(Duration::ZERO, false))?,
        Model::IoUringSqpoll => share(streams, io_uring(SPIN, true))?,
        Model::Compio => share(streams, |streams| executors::serve_compio(streams, memory))?,
    }
    Ok(())
}

/// Serves connections on threads, each with connections of its own.
fn share(streams: Vec<TcpStream>, serve: impl Fn(Vec<TcpStream>) -> io::Result<()> + Sync) -> io::Result<()> {
    let mut shares: [Vec<_>; THREADS] = [const { Vec::new() }; THREADS];
    for (number, stream) in streams.into_iter().enumerate() {
        shares[number % THREADS].push(stream);
    }
    thread::scope(|scope| {
        let shares = shares.into_iter().filter(|share| !share.is_empty());
        let workers: Vec<_> = shares.map(|share| scope.spawn(|| serve(share))).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("a worker does not panic"))
    })
}
