//! One point of a micro-benchmark of a NIC model: a verb, its size, and the number of requests in flight.
//!
//! The results are those of perftest on a real card: rate, bandwidth and latency.

use std::fmt::Write as _;

use farwood_fabric::Memory;

use super::super::ordered::nic_label;
use super::verbs::AREA_BYTES;
use super::{Cluster, Load, Verb, VerbsSpec, Words, simulate_verbs};
use crate::record::Latency;
use crate::run::nic_model;
use crate::{Error, Result};

/// Largest payload of a READ or WRITE, bytes.
const BYTES_MAX: u64 = 1 << 20;

/// Largest payload of all requests in flight, bytes.
const IN_FLIGHT_BYTES_MAX: u64 = 1 << 30;
/// Completions below which rate and bandwidth depend on the moment at which the measurement ends.
const COMPLETIONS_MIN: f64 = 100.0;

/// The addresses that verbs access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NicTarget {
    /// All verbs access the same address.
    Same,
    /// READs and WRITEs access random cache lines of 16 MiB; each atomic in flight has its own word.
    Spread,
}

impl NicTarget {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            NicTarget::Same => "same",
            NicTarget::Spread => "spread",
        }
    }
}

/// A point of a micro-benchmark.
#[derive(Clone, Debug, PartialEq)]
pub struct NicPoint {
    /// The name of the NIC model, or the path of its file.
    pub nic: String,
    /// The verb.
    pub verb: Verb,
    /// The memory of the memory nodes.
    pub memory: Memory,
    /// The addresses.
    pub target: NicTarget,
    /// Payload bytes of a READ or WRITE; an atomic has 8.
    pub bytes: u64,
    /// Requests in flight of each client.
    pub outstanding: u64,
    /// Requests of one post.
    pub batch: u64,
    /// Clients of all compute nodes: each has a thread, and a queue pair to each memory node.
    pub queue_pairs: u64,
    /// Machines of the clients.
    pub compute_nodes: u64,
    /// Memory nodes; posts select them round-robin.
    pub memory_nodes: u16,
    /// Virtual seconds of the measured phase. A quarter of it is added as warm-up.
    pub seconds: f64,
    /// Seed of addresses and of the assignment of queue pairs to processing units.
    pub seed: u64,
}

impl Default for NicPoint {
    fn default() -> NicPoint {
        NicPoint {
            nic: "cx5-100g".to_owned(),
            verb: Verb::Read,
            memory: Memory::Host,
            target: NicTarget::Spread,
            bytes: 8,
            outstanding: 1,
            batch: 1,
            queue_pairs: 1,
            compute_nodes: 1,
            memory_nodes: 1,
            seconds: 0.001,
            seed: 1,
        }
    }
}

/// The results of a point.
#[derive(Clone, Debug, PartialEq)]
pub struct NicMeasurement {
    /// The name of the NIC model.
    pub nic: String,
    /// The hash of its parameters.
    pub nic_hash: String,
    /// Million verbs per second of all clients.
    pub mverbs: f64,
    /// Payload, gigabits per second.
    pub gbits: f64,
    /// Time from the post to the completion in memory, without the CPU time of polling it, microseconds.
    pub latency_us: Latency,
}

impl NicPoint {
    /// Most requests in flight of a client.
    pub const OUTSTANDING_MAX: u64 = 1024;
    /// Most clients.
    pub const QUEUE_PAIRS_MAX: u64 = 4096;
    /// Most machines of the clients.
    pub const COMPUTE_NODES_MAX: u64 = 64;

    /// Refuses impossible points.
    ///
    /// # Errors
    /// [`Error::Parameter`] with the option and the remedy; a NIC model that cannot be read.
    pub fn check(&self) -> Result<()> {
        let NicPoint { bytes, outstanding, batch, queue_pairs, compute_nodes, .. } = *self;
        if self.verb.is_atomic() && bytes != 8 {
            let problem = format!("{bytes}: an atomic has 8 bytes");
            return Err(Error::parameter("--bytes", problem, "give 8, or --verb read or write"));
        }
        let device_bytes = nic_model(&self.nic)?.memory.device_bytes;
        let area = if self.memory == Memory::Device { device_bytes } else { AREA_BYTES };
        let bytes_max = BYTES_MAX.min(area);
        if bytes == 0 || !bytes.is_multiple_of(8) || bytes > bytes_max {
            let remedy = format!("give a multiple of 8 from 8 to {bytes_max}");
            return Err(Error::parameter("--bytes", bytes.to_string(), remedy));
        }
        if !outstanding.is_multiple_of(batch) {
            let problem = format!("{outstanding} is not a multiple of --batch {batch}");
            return Err(Error::parameter("--outstanding", problem, "give a multiple of --batch"));
        }
        if !queue_pairs.is_multiple_of(compute_nodes) {
            let problem = format!("{queue_pairs} is not a multiple of --compute-nodes {compute_nodes}");
            return Err(Error::parameter("--queue-pairs", problem, "give a multiple of --compute-nodes"));
        }
        for (flag, count, most) in [
            ("--outstanding", outstanding, Self::OUTSTANDING_MAX),
            ("--queue-pairs", queue_pairs, Self::QUEUE_PAIRS_MAX),
            ("--compute-nodes", compute_nodes, Self::COMPUTE_NODES_MAX),
        ] {
            if count > most {
                return Err(Error::parameter(flag, format!("{count} are more than {most}"), "give fewer"));
            }
        }
        let words = queue_pairs.saturating_mul(outstanding);
        if words.saturating_mul(bytes) > IN_FLIGHT_BYTES_MAX {
            let problem = format!("{words} requests of {bytes} bytes are more than 1 GiB in flight");
            return Err(Error::parameter("--outstanding", problem, "give fewer, or smaller --bytes"));
        }
        if self.verb.is_atomic() && self.target == NicTarget::Spread && 8 * words > area {
            let problem = format!("{words} atomics in flight need a word each, and there are {}", area / 8);
            return Err(Error::parameter("--target", problem, "give fewer --outstanding or --queue-pairs"));
        }
        Ok(())
    }

    /// The reason why a longer measurement would have another result, if there is one.
    pub fn warning(&self, measured: &NicMeasurement) -> Option<String> {
        let completions = measured.mverbs * 1e6 * self.seconds;
        let in_flight = (self.queue_pairs * self.outstanding) as f64;
        let reason = if completions < COMPLETIONS_MIN {
            format!("only {completions:.0} verbs ended")
        } else if completions < 4.0 * in_flight {
            format!("{completions:.0} verbs ended with {in_flight:.0} in flight, so queues still grew")
        } else {
            return None;
        };
        Some(format!(
            "{}: {reason} in the {} s that were measured; give more --seconds",
            self.options(),
            self.seconds
        ))
    }

    /// Simulates the point.
    ///
    /// # Errors
    /// As [`check`](Self::check); a phase that is too short for one verb.
    pub fn measure(&self) -> Result<NicMeasurement> {
        self.check()?;
        let card = nic_model(&self.nic)?;
        let record = simulate_verbs(&self.spec())?;
        if record.operations == 0 {
            let problem = format!("{}: no verb ended in this time", self.seconds);
            return Err(Error::parameter("--seconds", problem, "give more virtual time"));
        }
        let poll_us = card.cpu.poll_ns / 1000.0;
        let without_poll = |latency: f64| (latency - poll_us).max(0.0);
        let Latency { mean, p50, p90, p99, p999, max } = record.latency_us;
        Ok(NicMeasurement {
            nic_hash: card.hash(),
            nic: nic_label(Some(&self.nic), &card),
            mverbs: record.mops,
            gbits: record.mops * 8.0 * self.bytes as f64 / 1000.0,
            latency_us: Latency {
                mean: without_poll(mean),
                p50: without_poll(p50),
                p90: without_poll(p90),
                p99: without_poll(p99),
                p999: without_poll(p999),
                max: without_poll(max),
            },
        })
    }

    fn spec(&self) -> VerbsSpec {
        let compute_nodes = self.compute_nodes as usize;
        let threads = (self.queue_pairs / self.compute_nodes) as usize;
        let cluster = Cluster::new(&self.nic, self.memory_nodes, compute_nodes, threads);
        VerbsSpec {
            cluster: Cluster { seed: self.seed, ..cluster },
            load: Load {
                verb: self.verb,
                memory: self.memory,
                words: if self.target == NicTarget::Same { Words::One } else { Words::Own },
                bytes: self.bytes as usize,
                depth: (self.outstanding / self.batch) as usize,
                batch: self.batch as usize,
            },
            beside: None,
            seconds: self.seconds,
        }
    }

    /// The options of `farwood nic` that differ from their defaults.
    pub fn options(&self) -> String {
        let default = NicPoint::default();
        let mut options = format!("--nic {} --verb {}", self.nic, self.verb.name());
        let numbers = [
            ("--bytes", self.bytes, default.bytes),
            ("--outstanding", self.outstanding, default.outstanding),
            ("--batch", self.batch, default.batch),
            ("--queue-pairs", self.queue_pairs, default.queue_pairs),
            ("--compute-nodes", self.compute_nodes, default.compute_nodes),
            ("--memory-nodes", u64::from(self.memory_nodes), u64::from(default.memory_nodes)),
            ("--seed", self.seed, default.seed),
        ];
        for (option, value, _) in numbers.into_iter().filter(|(_, value, default)| value != default) {
            let _ = write!(options, " {option} {value}");
        }
        if self.memory == Memory::Device {
            options += " --memory device";
        }
        if self.target == NicTarget::Same {
            options += " --target same";
        }
        if self.seconds.to_bits() != default.seconds.to_bits() {
            let _ = write!(options, " --seconds {}", self.seconds);
        }
        options
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(point: &NicPoint) -> NicMeasurement {
        point.measure().unwrap()
    }

    #[test]
    fn a_read_takes_its_latency_and_transfers_its_bytes() {
        let small = measured(&NicPoint::default());
        assert!((1.7..2.0).contains(&small.latency_us.p50), "{small:?}");
        let large = measured(&NicPoint { bytes: 65_536, outstanding: 8, ..NicPoint::default() });
        assert!((90.0..100.0).contains(&large.gbits), "the link has 100 Gb/s: {large:?}");
    }

    #[test]
    fn atomics_on_one_word_are_slower_than_spread_ones() {
        let spread = NicPoint { verb: Verb::Faa, outstanding: 4, queue_pairs: 32, ..NicPoint::default() };
        let same = NicPoint { target: NicTarget::Same, ..spread.clone() };
        assert!(measured(&spread).mverbs > 5.0 * measured(&same).mverbs);
        let masked = NicPoint { verb: Verb::MaskedCas, ..same.clone() };
        let on_card = NicPoint { memory: Memory::Device, ..masked.clone() };
        assert!(measured(&on_card).mverbs > 2.0 * measured(&masked).mverbs);
    }

    #[test]
    fn reads_and_writes_access_device_memory() {
        let host = NicPoint { bytes: 64, outstanding: 16, queue_pairs: 64, ..NicPoint::default() };
        for verb in [Verb::Read, Verb::Write] {
            let host = NicPoint { verb, ..host.clone() };
            let device = NicPoint { memory: Memory::Device, ..host.clone() };
            assert!(measured(&device).mverbs > 1.2 * measured(&host).mverbs, "{verb:?}");
        }
    }

    #[test]
    fn a_measurement_that_is_too_short_is_noticed() {
        let warning = |point: &NicPoint| point.warning(&measured(point));
        assert_eq!(warning(&NicPoint::default()), None);
        let few = NicPoint { bytes: 1 << 20, outstanding: 16, ..NicPoint::default() };
        assert!(warning(&few).unwrap().contains("verbs ended"), "100 Gb/s are 12 MiB in 1 ms");
        let growing = NicPoint { bytes: 65_536, outstanding: 16, queue_pairs: 16, ..NicPoint::default() };
        assert!(warning(&growing).unwrap().contains("256 in flight"), "{growing:?}");
        assert_eq!(warning(&NicPoint { seconds: 0.02, ..growing }), None);
    }

    #[test]
    fn impossible_points_are_refused_by_option() {
        let good = NicPoint::default();
        for (point, option) in [
            (NicPoint { verb: Verb::Cas, bytes: 16, ..good.clone() }, "--bytes"),
            (NicPoint { bytes: 12, ..good.clone() }, "--bytes"),
            (NicPoint { bytes: 1 << 19, memory: Memory::Device, ..good.clone() }, "--bytes"),
            (NicPoint { outstanding: 3, batch: 2, ..good.clone() }, "--outstanding"),
            (NicPoint { queue_pairs: 3, compute_nodes: 2, ..good.clone() }, "--queue-pairs"),
            (
                NicPoint {
                    verb: Verb::Faa,
                    memory: Memory::Device,
                    outstanding: 512,
                    queue_pairs: 512,
                    ..good.clone()
                },
                "--target",
            ),
            (NicPoint { nic: "cx9".to_owned(), ..good.clone() }, "--nic"),
            (NicPoint { seconds: 1e-9, ..good }, "--seconds"),
        ] {
            let error = point.measure().unwrap_err().to_string();
            assert!(error.starts_with(option), "{option}: {error}");
        }
    }

    #[test]
    fn the_options_repeat_a_point() {
        let point = NicPoint { verb: Verb::Write, bytes: 64, target: NicTarget::Same, ..NicPoint::default() };
        assert_eq!(point.options(), "--nic cx5-100g --verb write --bytes 64 --target same");
    }
}
