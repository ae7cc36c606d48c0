//! The NIC models: rates and latencies of verbs, with and without contention.
//!
//! The measured values are published micro-benchmarks: rates over threads and over requests in flight from the artifact
//! of SMART (ASPLOS'24), atomics from RCuckoo and Fusa, interference from FORGE, and the rest common knowledge.

use farwood_fabric::Memory;

use super::figure::{CalibrationStatus, Comparison, Effort, Figure};
use super::run::Run;
use crate::record::Record;
use crate::run::nic_model;
use crate::sim_run::micro::{Cluster, Load, Verb, VerbsSpec, Words};

pub(super) const FIGURE: Figure = Figure {
    name: "nic",
    title: "The NIC: READs, WRITEs and atomics per second",
    setting: "Verbs of 8 B without an index. Over threads: one compute node, one memory node, one queue pair per \
              thread with 8 posts in flight, except in the points that vary the requests in flight. Atomics: 8 compute \
              nodes of 22 threads, one memory node. Interference: half of these threads read; the other half is idle, \
              or posts CASes, each on its own word, all on 4 words, or all on one word. FORGE's set-up is not known. \
              The round trip of a small READ ends when its completion is in memory; it does not include the CPU time \
              of polling, which the rate of one thread does.",
    claim: "Published micro-benchmarks give the rates of READs, WRITEs and atomics of ConnectX-5 and ConnectX-6 \
              cards, and the loss of READs beside CASes.",
    key: "",
    cause: "Between 8 and 64 threads the model follows the sum of the threads up to the card's maximum, and real \
              cards bend earlier. The loss of READs beside CASes depends on the number of words, threads and requests \
              in flight, which its source does not state.",
    runs,
    compare,
};

/// The metric of a point.
#[derive(Clone, Copy)]
pub(super) enum NicFigureMetric {
    /// Million verbs per second.
    Rate,
    /// Median latency in microseconds.
    Median,
}

/// A point with its value measured on hardware.
pub(super) struct NicFigurePoint {
    pub(super) nic: &'static str,
    pub(super) compute_nodes: usize,
    pub(super) threads: usize,
    pub(super) load: Load,
    pub(super) metric: NicFigureMetric,
    pub(super) measured: f64,
    pub(super) status: CalibrationStatus,
    pub(super) source: &'static str,
}

const READ: Load =
    Load { verb: Verb::Read, memory: Memory::Host, words: Words::Own, bytes: 8, depth: 8, batch: 1 };
const WRITE: Load = Load { verb: Verb::Write, ..READ };
const ATOMIC: Load = Load { verb: Verb::Cas, depth: 4, ..READ };
const CONTENDED: Load = Load { words: Words::One, depth: 1, ..ATOMIC };
const ON_CARD: Load = Load { memory: Memory::Device, ..ATOMIC };

const SMART: &str = "SMART artifact (ASPLOS'24)";

/// A point of the curve over threads.
const fn over_threads(
    load: Load,
    threads: usize,
    measured: f64,
    status: CalibrationStatus,
) -> NicFigurePoint {
    let (nic, metric, source) = ("cx6-200g", NicFigureMetric::Rate, SMART);
    NicFigurePoint { nic, compute_nodes: 1, threads, load, metric, measured, status, source }
}

/// A point of 8 compute nodes of 22 threads.
const fn of_all(
    nic: &'static str,
    load: Load,
    measured: f64,
    status: CalibrationStatus,
    source: &'static str,
) -> NicFigurePoint {
    NicFigurePoint {
        nic,
        compute_nodes: 8,
        threads: 22,
        load,
        metric: NicFigureMetric::Rate,
        measured,
        status,
        source,
    }
}

/// The latency of a READ on an idle NIC.
const fn alone(nic: &'static str) -> NicFigurePoint {
    let (metric, status, source) =
        (NicFigureMetric::Median, CalibrationStatus::Fitted, "1.9 to 2.0 us, common knowledge");
    let load = Load { depth: 1, ..READ };
    NicFigurePoint { nic, compute_nodes: 1, threads: 1, load, metric, measured: 1.9, status, source }
}

pub(super) const POINTS: [NicFigurePoint; 19] = [
    alone("cx5-100g"),
    alone("cx6-200g"),
    over_threads(READ, 1, 1.9, CalibrationStatus::Fitted),
    over_threads(READ, 8, 14.5, CalibrationStatus::Reported),
    over_threads(READ, 16, 28.7, CalibrationStatus::Reported),
    over_threads(READ, 32, 55.2, CalibrationStatus::Reported),
    over_threads(READ, 64, 90.3, CalibrationStatus::Reported),
    over_threads(READ, 96, 111.2, CalibrationStatus::MicroBenchmark),
    over_threads(WRITE, 1, 1.7, CalibrationStatus::Fitted),
    over_threads(WRITE, 32, 50.3, CalibrationStatus::Reported),
    over_threads(WRITE, 64, 78.4, CalibrationStatus::Reported),
    over_threads(WRITE, 96, 90.6, CalibrationStatus::MicroBenchmark),
    over_threads(Load { depth: 16, ..READ }, 96, 78.1, CalibrationStatus::Fitted),
    over_threads(Load { depth: 32, ..READ }, 96, 55.2, CalibrationStatus::Fitted),
    of_all("cx5-100g", ATOMIC, 50.0, CalibrationStatus::MicroBenchmark, "RCuckoo"),
    of_all("cx6-100g", ATOMIC, 42.3, CalibrationStatus::MicroBenchmark, "RCuckoo"),
    of_all("cx5-100g", CONTENDED, 3.0, CalibrationStatus::MicroBenchmark, "RCuckoo"),
    of_all("cx6-100g", CONTENDED, 2.33, CalibrationStatus::MicroBenchmark, "Fusa"),
    of_all(
        "cx5-100g",
        Load { memory: Memory::Device, ..CONTENDED },
        9.3,
        CalibrationStatus::MicroBenchmark,
        "RCuckoo: 3.1 times as many as in host memory",
    ),
];

/// The CASes that run with READs, and their names.
const BESIDE: [(Load, &str); 6] = [
    (ATOMIC, "CASes on separate words in host memory"),
    (Load { words: Words::Few, ..ATOMIC }, "CASes on 4 words in host memory"),
    (Load { words: Words::One, ..ATOMIC }, "CASes on one word in host memory"),
    (ON_CARD, "CASes on separate words in device memory"),
    (Load { words: Words::Few, ..ON_CARD }, "CASes on 4 words in device memory"),
    (Load { words: Words::One, ..ON_CARD }, "CASes on one word in device memory"),
];

fn runs(effort: Effort) -> Vec<Run> {
    let seconds = effort.pick(0.0002, 0.002);
    let run = |point: &NicFigurePoint| {
        let cluster = Cluster::new(point.nic, 1, point.compute_nodes, point.threads);
        Run::Verbs(VerbsSpec { cluster, load: point.load, beside: None, seconds })
    };
    let reads = |beside: Option<Load>| {
        // Without CASes only half of the threads run.
        let threads = if beside.is_some() { 22 } else { 11 };
        let cluster = Cluster::new("cx5-100g", 1, 8, threads);
        Run::Verbs(VerbsSpec { cluster, load: READ, beside, seconds })
    };
    let interference = BESIDE.iter().map(|(beside, _)| reads(Some(*beside)));
    POINTS.iter().map(run).chain([reads(None)]).chain(interference).collect()
}

fn compare(records: &[Record]) -> Vec<Comparison> {
    let (points, reads) = records.split_at(POINTS.len());
    let (alone, beside) = (&reads[0], &reads[1..]);
    let of_point = |(point, record): (&NicFigurePoint, &Record)| {
        let (panel, ours) = match point.metric {
            NicFigureMetric::Rate => ("Rate, million per second", record.mops),
            NicFigureMetric::Median => {
                ("Round trip of a small READ, us", record.latency_us.p50 - poll_us(record))
            }
        };
        Comparison {
            panel: panel.to_owned(),
            point: name(point),
            paper: Some(point.measured),
            ours,
            ours_to: None,
            curve: None,
            status: point.status,
            source: point.source,
        }
    };
    let interference = |((load, name), record): (&(Load, &str), &Record)| Comparison {
        panel: "READs alone over READs beside CASes, times".to_owned(),
        point: format!("cx5-100g, {name}"),
        paper: (load.memory == Memory::Host).then_some(4.3),
        ours: alone.mops / record.mops,
        ours_to: None,
        curve: None,
        status: CalibrationStatus::Reported,
        source: "FORGE, unknown set-up: 4.3 times fewer; with device memory the loss is 2.4 to 3.0 times smaller",
    };
    let points = POINTS.iter().zip(points).map(of_point);
    points.chain(BESIDE.iter().zip(beside).map(interference)).collect()
}

/// CPU time of polling a completion, in microseconds.
fn poll_us(record: &Record) -> f64 {
    record.nic.as_deref().and_then(|nic| nic_model(nic).ok()).map_or(0.0, |card| card.cpu.poll_ns / 1000.0)
}

/// The name of a point.
fn name(point: &NicFigurePoint) -> String {
    let NicFigurePoint { nic, threads, compute_nodes, load, .. } = point;
    let memory = if load.memory == Memory::Device { "device" } else { "host" };
    match (load.verb, load.words) {
        (Verb::Cas, Words::Own) => format!("{nic}: CAS, own words, {memory} memory"),
        (Verb::Cas, Words::One) => format!("{nic}: CAS, one word, {memory} memory"),
        (verb, _) => {
            let threads = threads * compute_nodes;
            let verb = verb.name().to_uppercase();
            format!("{nic}: {verb}, {threads} threads, {} in flight each", load.depth)
        }
    }
}
