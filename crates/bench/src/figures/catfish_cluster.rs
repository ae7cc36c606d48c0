//! The cluster of Catfish's evaluation (its §V), and the curves of its figures.

use super::builders::{predicted, spatial_run};
use super::figure::{Comparison, Effort, Run};
use crate::record::Record;
use crate::run::{Amount, FabricKind};
use crate::spec::spatial::SpatialSpec;
use crate::spec::spatial_variant::Variant;
use crate::workload::rectangles::{RectangleSource, Scale, SpatialMix};

/// Number of client machines.
const MACHINES: usize = 8;
/// The paper's rectangles.
const RECTANGLES: u64 = 2_000_000;
/// Think time of a client by Little's law: with 256 clients at 1,239.35 kops (Figure 10) each client sends a request
/// every 206.6 us, of which the paper's latency (Figure 11) is 140.73 us.
pub(super) const THINK_NS: u64 = 65_800;

/// A scheme of the comparisons: its name in the paper, its variant, its NIC model.
pub(super) struct Scheme {
    pub(super) name: &'static str,
    pub(super) variant: Variant,
    pub(super) nic: &'static str,
}

const fn scheme(name: &'static str, variant: Variant, nic: &'static str) -> Scheme {
    Scheme { name, variant, nic }
}

/// The schemes of Figures 10 to 14.
pub(super) const SCHEMES: [Scheme; 6] = [
    scheme("TCP/IP-1G", Variant::Tcp, "tcp-1g"),
    scheme("TCP/IP-40G", Variant::Tcp, "tcp-40g"),
    scheme("fast messaging", Variant::FastMessaging, "cx5-100g"),
    scheme("RDMA offloading", Variant::Offloading, "cx5-100g"),
    scheme("Catfish", Variant::Catfish, "cx5-100g"),
    scheme("Catfish as printed", Variant::CatfishPrinted, "cx5-100g"),
];
const TCP_1G: usize = 0;
const FAST_MESSAGING: usize = 2;
const OFFLOADING: usize = 3;
const CATFISH: usize = 4;

/// Clients of Figures 10 to 14.
pub(super) const CLIENTS: [u64; 3] = [64, 128, 256];
/// The scales of Figures 10 to 13, and their names.
pub(super) const SCALES: [(Scale, &str); 3] =
    [(Scale::Edge(1e-5), "0.00001"), (Scale::Edge(0.01), "0.01"), (Scale::PowerLaw, "power law")];

/// A run of `variant` with `clients` clients without think time.
pub(super) fn spec(variant: Variant, nic: &str, scale: Scale, clients: u64, effort: Effort) -> SpatialSpec {
    let (warm_up_seconds, seconds) = effort.pick((0.01, 0.02), (0.1, 0.2));
    SpatialSpec {
        variant,
        fabric: FabricKind::Sim,
        nic: Some(nic.to_owned()),
        scale,
        source: RectangleSource::Uniform(effort.pick(20_000, RECTANGLES)),
        compute_nodes: MACHINES.min(clients as usize),
        clients: Some(clients),
        amount: Some(Amount::Seconds(seconds)),
        warm_up_seconds: Some(warm_up_seconds),
        ..SpatialSpec::default()
    }
}

/// The runs of Figures 10 and 11, or of 12 and 13.
pub(super) fn runs_of(mix: SpatialMix, effort: Effort) -> Vec<Run> {
    let mut runs = Vec::new();
    for (scale, _) in SCALES {
        for clients in CLIENTS {
            for scheme in &SCHEMES {
                let spec = spec(scheme.variant, scheme.nic, scale, clients, effort);
                runs.push(spatial_run(SpatialSpec { mix, think_ns: THINK_NS, ..spec }));
            }
        }
    }
    runs
}

/// The records of one scale: by clients, and then by schemes.
pub(super) struct ScaleRecords<'r>(pub(super) &'r [Record]);

impl ScaleRecords<'_> {
    fn at(&self, clients: usize, scheme: usize) -> &Record {
        &self.0[clients * SCHEMES.len() + scheme]
    }

    /// The largest ratio of Catfish to a scheme over all numbers of clients; larger values of `of` are better.
    fn gain(&self, scheme: usize, of: impl Fn(&Record) -> f64) -> f64 {
        let gains = (0..self.0.len() / SCHEMES.len())
            .map(|clients| of(self.at(clients, CATFISH)) / of(self.at(clients, scheme)));
        gains.fold(0.0, f64::max)
    }

    /// Whether Catfish is better than all baselines with the `clients`-th number of clients.
    fn is_first(&self, clients: usize, of: impl Fn(&Record) -> f64) -> bool {
        (0..CATFISH).all(|scheme| of(self.at(clients, CATFISH)) > of(self.at(clients, scheme)))
    }
}

/// The values that the paper prints for a pair of figures.
pub(super) struct Printed {
    pub(super) source: &'static str,
    /// Catfish with the most clients, by scale.
    pub(super) catfish: [Option<f64>; 3],
    /// Fast messaging with the most clients, by scale.
    pub(super) fast_messaging: [Option<f64>; 3],
    /// The largest ratios to fast messaging, offloading and TCP.
    pub(super) gains: [f64; 3],
}

/// Throughput in thousand operations per second.
pub(super) fn kops(record: &Record) -> f64 {
    1e3 * record.mops
}

/// Mean latency of searches in microseconds.
pub(super) fn latency_us(record: &Record) -> f64 {
    record.by_operation.search.as_ref().map_or(record.latency_us.mean, |search| search.latency_us.mean)
}

/// A curve of a figure: its panel, its values, and whether larger or smaller values are better.
#[derive(Clone, Copy)]
pub(super) struct Curve {
    pub(super) panel: &'static str,
    pub(super) of: fn(&Record) -> f64,
    /// The value, or its inverse, so that larger is better.
    pub(super) merit: fn(&Record) -> f64,
}

/// Throughput over clients.
pub(super) const THROUGHPUT: Curve = Curve { panel: "Throughput, kops", of: kops, merit: kops };
/// Latency over clients.
pub(super) const LATENCY: Curve =
    Curve { panel: "Mean latency of searches, us", of: latency_us, merit: |record| 1.0 / latency_us(record) };

/// Compares records with the paper's values: the curves, and the largest ratios.
pub(super) fn compare_curves(records: &[Record], curve: Curve, paper: &Printed) -> Vec<Comparison> {
    let of_scale = |at: usize| {
        ScaleRecords(&records[at * CLIENTS.len() * SCHEMES.len()..][..CLIENTS.len() * SCHEMES.len()])
    };
    let mut all = Vec::new();
    for (at, (_, scale)) in SCALES.into_iter().enumerate() {
        all.extend(compare_scale(&of_scale(at), scale, at, curve, paper));
    }
    let schemes = [(FAST_MESSAGING, "fast messaging"), (OFFLOADING, "RDMA offloading"), (TCP_1G, "TCP/IP")];
    for ((scheme, name), gain) in schemes.into_iter().zip(paper.gains) {
        let ours = (0..SCALES.len()).map(|at| of_scale(at).gain(scheme, curve.merit)).fold(0.0, f64::max);
        let panel = format!("{}: largest advantage of Catfish over another scheme, as a factor", curve.panel);
        all.push(predicted(panel, name, Some(gain), ours, paper.source));
    }
    all
}

fn compare_scale(
    records: &ScaleRecords<'_>,
    scale: &str,
    at: usize,
    curve: Curve,
    paper: &Printed,
) -> Vec<Comparison> {
    let mut all = Vec::new();
    for (number, clients) in CLIENTS.into_iter().enumerate() {
        for (scheme, Scheme { name, .. }) in SCHEMES.iter().enumerate() {
            let printed = match scheme {
                CATFISH => paper.catfish[at],
                FAST_MESSAGING => paper.fast_messaging[at],
                _ => None,
            };
            let is_last = number + 1 == CLIENTS.len();
            let printed = printed.filter(|_| is_last);
            let ours = (curve.of)(records.at(number, scheme));
            let panel = format!("{}, scale {scale}", curve.panel);
            all.push(predicted(panel, format!("{name}, {clients} clients"), printed, ours, paper.source));
        }
    }
    all
}

/// Compares whether Catfish is the best scheme with each number of clients; 1 means that it is.
pub(super) fn compare_first(
    records: &[Record],
    merit: fn(&Record) -> f64,
    should: impl Fn(usize, u64) -> bool,
    source: &'static str,
) -> Vec<Comparison> {
    let mut all = Vec::new();
    for (at, (_, scale)) in SCALES.into_iter().enumerate() {
        let of_scale =
            ScaleRecords(&records[at * CLIENTS.len() * SCHEMES.len()..][..CLIENTS.len() * SCHEMES.len()]);
        for (number, clients) in CLIENTS.into_iter().enumerate() {
            let one = |first: bool| f64::from(u8::from(first));
            let point = format!("scale {scale}, {clients} clients");
            let ours = one(of_scale.is_first(number, merit));
            let panel = "Catfish is better than all baselines (1 = yes, 0 = no)";
            all.push(predicted(panel, point, Some(one(should(at, clients))), ours, source));
        }
    }
    all
}

/// The share of searches that Catfish's clients executed by READs, with the most clients.
pub(super) fn offloaded_shares(records: &[Record]) -> Vec<Comparison> {
    let most = |at: usize, scheme: usize| {
        &records[(at * CLIENTS.len() + CLIENTS.len() - 1) * SCHEMES.len() + scheme]
    };
    let mut all = Vec::new();
    for (at, (_, scale)) in SCALES.into_iter().enumerate() {
        for (scheme, Scheme { name, .. }) in SCHEMES.iter().enumerate().skip(CATFISH) {
            let record = most(at, scheme);
            let share = record.spatial.as_ref().map_or(0.0, |spatial| 100.0 * spatial.share_offloaded);
            let point = format!("{name}, scale {scale}");
            let panel = "Share of offloaded searches at 256 clients, %";
            all.push(predicted(panel, point, None, share, "not printed"));
        }
    }
    all
}
