//! Catfish, Figure 9: latency and throughput of the transports.

use farwood_fabric::Memory;

use super::figure::{CalibrationStatus, Comparison, Effort, Figure};
use super::run::Run;
use crate::record::Record;
use crate::sim_run::micro::{Cluster, Load, Verb, VerbsSpec, Words};

pub(super) const FIGURE: Figure = Figure {
    name: "catfish-fig9",
    title: "Catfish, Figure 9: latency and throughput of messages over their size",
    setting: "One client, one transfer at a time, 8 B to 8 MiB: READ and WRITE on ConnectX-5, and the answer to a \
              small request on the NIC models tcp-1g and tcp-40g. The paper plots the values and prints none; it \
              states that latencies hardly grow below 2 KiB, that WRITE is the fastest and TCP over 1 Gb/s the \
              slowest, and that RDMA has the highest throughput. The model's WRITE ends when its acknowledgement \
              arrives, perftest's when the data arrives.",
    claim: "Latencies hardly grow below 2 KiB; RDMA WRITE is the fastest transport and TCP over 1 Gb/s the slowest.",
    key: "",
    cause: "A message over 1 Gb/s needs 16 us for 2 KiB, so that its latency grows by a third. READ and WRITE \
              reach over 99 of 100 Gb/s. TCP over 40 Gb/s reaches 11 Gb/s, because each kernel of the model processes \
              a whole message on one core, 0.25 ns for each byte: the 5.9 ms of 8 MiB are 2.1 ms in the kernel of the \
              memory node, 1.7 ms on the link and 2.1 ms in the kernel of the client, one after the other.",
    runs,
    compare,
};

const TRANSPORTS: [(&str, &str, Verb); 4] = [
    ("TCP/IP-1G", "tcp-1g", Verb::Read),
    ("TCP/IP-40G", "tcp-40g", Verb::Read),
    ("RDMA READ", "cx5-100g", Verb::Read),
    ("RDMA WRITE", "cx5-100g", Verb::Write),
];
const SIZES: [usize; 6] = [8, 256, 2 << 10, 32 << 10, 512 << 10, 8 << 20];
/// Position of the largest size below which latencies hardly grow.
const FLAT: usize = 2;
const SOURCE: &str = "Catfish §V-A";

fn runs(effort: Effort) -> Vec<Run> {
    let mut runs = Vec::new();
    for (_, nic, verb) in TRANSPORTS {
        for bytes in SIZES {
            let load = Load { verb, memory: Memory::Host, words: Words::Own, bytes, depth: 1, batch: 1 };
            // Long enough for a few of the largest transfers over 1 Gb/s.
            let seconds = effort.pick(0.3, 1.0);
            let seconds = if bytes > 64 << 10 { seconds } else { seconds / 20.0 };
            runs.push(Run::Verbs(VerbsSpec {
                cluster: Cluster::new(nic, 1, 1, 1),
                load,
                beside: None,
                seconds,
            }));
        }
    }
    runs
}

fn compare(records: &[Record]) -> Vec<Comparison> {
    let reported = |panel: &str, point: String, paper: Option<f64>, ours: f64| Comparison {
        panel: panel.to_owned(),
        point,
        paper,
        ours,
        ours_to: None,
        curve: None,
        status: CalibrationStatus::Reported,
        source: SOURCE,
    };
    let of = |transport: usize, size: usize| &records[transport * SIZES.len() + size];
    let mut all = Vec::new();
    for (transport, (name, ..)) in TRANSPORTS.into_iter().enumerate() {
        for (size, bytes) in SIZES.into_iter().enumerate() {
            let ours = of(transport, size).latency_us.mean;
            all.push(reported("Latency, us", format!("{name}, {bytes} B"), None, ours));
        }
    }
    for (transport, (name, ..)) in TRANSPORTS.into_iter().enumerate() {
        for (size, bytes) in SIZES.into_iter().enumerate() {
            let ours = of(transport, size).mops * 8.0 * bytes as f64 / 1e3;
            all.push(reported("Throughput, Gb/s", format!("{name}, {bytes} B"), None, ours));
        }
    }
    for (transport, (name, ..)) in TRANSPORTS.into_iter().enumerate() {
        let ours = of(transport, FLAT).latency_us.mean / of(transport, 0).latency_us.mean;
        all.push(reported("Latency of 2 KiB over that of 8 B, times", name.to_owned(), Some(1.0), ours));
    }
    all
}
