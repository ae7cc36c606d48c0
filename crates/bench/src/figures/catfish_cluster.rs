//! The cluster of the evaluation of Catfish (§V of the paper), and the curves of Figures 10 to 14.

use super::builders::{predicted, spatial_run};
use super::figure::{Comparison, Effort};
use super::run::Run;
use crate::record::Record;
use crate::run::{Amount, FabricKind};
use crate::spec::spatial::SpatialSpec;
use crate::spec::spatial_variant::Variant;
use crate::workload::rectangles::{RectangleSource, Scale, SpatialMix};

/// Number of client machines.
const MACHINES: usize = 8;
/// Rectangles that the paper loads.
const RECTANGLES: u64 = 2_000_000;
/// Think time of a client between two requests, by Little's law: 256 clients at 1,239.35 kops (Figure 10) send a
/// request each 206.6 us, of which 140.73 us are the latency of the request (Figure 11).
pub(super) const THINK_NS: u64 = 65_800;

/// A scheme that the figures compare: its name in the paper, its variant, and its NIC model.
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
// Positions in `SCHEMES`.
pub(super) const TCP_1G: usize = 0;
pub(super) const FAST_MESSAGING: usize = 2;
pub(super) const OFFLOADING: usize = 3;
pub(super) const CATFISH: usize = 4;

/// The numbers of clients in Figures 10 to 14.
pub(super) const CLIENTS: [u64; 3] = [64, 128, 256];
/// The scales of Figures 10 to 13, and their names.
pub(super) const SCALES: [(Scale, &str); 3] =
    [(Scale::Edge(1e-5), "0.00001"), (Scale::Edge(0.01), "0.01"), (Scale::PowerLaw, "power law")];

/// Specifies a run of `variant` with `clients` clients without think time.
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

/// Builds the runs that Figures 10 and 11 share, or Figures 12 and 13: for each scale, number of clients and scheme.
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

/// The records of one scale: for each number of clients one record per scheme, in the order of [`SCHEMES`].
pub(super) struct ScaleRecords<'r>(pub(super) &'r [Record]);

impl ScaleRecords<'_> {
    /// The record of the scheme at position `scheme` of [`SCHEMES`] with the number of clients at position
    /// `count_index` of [`CLIENTS`].
    fn at(&self, count_index: usize, scheme: usize) -> &Record {
        &self.0[count_index * SCHEMES.len() + scheme]
    }

    /// The largest ratio of Catfish to `scheme` over all numbers of clients. Larger results of `merit` are better.
    fn gain(&self, scheme: usize, merit: impl Fn(&Record) -> f64) -> f64 {
        let gains = (0..self.0.len() / SCHEMES.len())
            .map(|count_index| merit(self.at(count_index, CATFISH)) / merit(self.at(count_index, scheme)));
        gains.fold(0.0, f64::max)
    }

    /// Whether Catfish is better than all baselines with the number of clients at position `count_index`.
    fn is_first(&self, count_index: usize, merit: impl Fn(&Record) -> f64) -> bool {
        let catfish = merit(self.at(count_index, CATFISH));
        (0..CATFISH).all(|scheme| catfish > merit(self.at(count_index, scheme)))
    }
}

/// The values that the paper prints for one figure.
pub(super) struct Printed {
    pub(super) source: &'static str,
    /// The value of Catfish with 256 clients at each scale.
    pub(super) catfish: [Option<f64>; 3],
    /// The value of fast messaging with 256 clients at each scale.
    pub(super) fast_messaging: [Option<f64>; 3],
    /// The largest ratio of Catfish to fast messaging, to offloading, and to TCP.
    pub(super) gains: [f64; 3],
}

/// Throughput in thousand operations per second.
pub(super) fn kops(record: &Record) -> f64 {
    1e3 * record.mops
}

/// Mean latency of searches in microseconds; of all operations, if the record does not list searches.
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

/// The curve of throughput against the number of clients.
pub(super) const THROUGHPUT: Curve = Curve { panel: "Throughput, kops", of: kops, merit: kops };
/// The curve of the latency of searches against the number of clients.
pub(super) const LATENCY: Curve =
    Curve { panel: "Mean latency of searches, us", of: latency_us, merit: |record| 1.0 / latency_us(record) };
/// The curve of the latency of all requests against the number of clients.
pub(super) const LATENCY_OF_ALL: Curve = Curve {
    panel: "Mean latency of all requests, us",
    of: |record| record.latency_us.mean,
    merit: |record| 1.0 / record.latency_us.mean,
};
/// The curve of the latency of inserts against the number of clients.
pub(super) const LATENCY_OF_INSERTS: Curve = Curve {
    panel: "Mean latency of inserts, us",
    of: |record| record.by_operation.insert.as_ref().map_or(0.0, |insert| insert.latency_us.mean),
    merit: |_| 0.0,
};

/// Compares the points of `curve` with the values in the paper.
pub(super) fn compare_points(records: &[Record], curve: Curve, paper: &Printed) -> Vec<Comparison> {
    let mut all = Vec::new();
    for (scale_index, (_, scale)) in SCALES.into_iter().enumerate() {
        all.extend(compare_scale(&records_of_scale(records, scale_index), scale, scale_index, curve, paper));
    }
    all
}

/// Compares records with the values in the paper: the points of `curve`, and the largest ratios of Catfish to the other
/// schemes.
pub(super) fn compare_curves(records: &[Record], curve: Curve, paper: &Printed) -> Vec<Comparison> {
    let of_scale = |scale_index: usize| records_of_scale(records, scale_index);
    let mut all = compare_points(records, curve, paper);
    let schemes = [(FAST_MESSAGING, "fast messaging"), (OFFLOADING, "RDMA offloading"), (TCP_1G, "TCP/IP")];
    for ((scheme, name), gain) in schemes.into_iter().zip(paper.gains) {
        let gains = (0..SCALES.len()).map(|scale_index| of_scale(scale_index).gain(scheme, curve.merit));
        let ours = gains.fold(0.0, f64::max);
        let panel = format!("{}: largest advantage of Catfish over another scheme, as a factor", curve.panel);
        all.push(predicted(panel, name, Some(gain), ours, paper.source));
    }
    all
}

/// The records of the scale at position `scale_index` of [`SCALES`].
fn records_of_scale(records: &[Record], scale_index: usize) -> ScaleRecords<'_> {
    let count = CLIENTS.len() * SCHEMES.len();
    ScaleRecords(&records[scale_index * count..][..count])
}

/// Compares the points of `curve` at one scale with the values in the paper.
fn compare_scale(
    records: &ScaleRecords<'_>,
    scale: &str,
    scale_index: usize,
    curve: Curve,
    paper: &Printed,
) -> Vec<Comparison> {
    let mut all = Vec::new();
    for (count_index, clients) in CLIENTS.into_iter().enumerate() {
        for (scheme, Scheme { name, .. }) in SCHEMES.iter().enumerate() {
            let printed = match scheme {
                CATFISH => paper.catfish[scale_index],
                FAST_MESSAGING => paper.fast_messaging[scale_index],
                _ => None,
            };
            let is_last = count_index + 1 == CLIENTS.len();
            let printed = printed.filter(|_| is_last);
            let ours = (curve.of)(records.at(count_index, scheme));
            let panel = format!("{}, scale {scale}", curve.panel);
            all.push(predicted(panel, format!("{name}, {clients} clients"), printed, ours, paper.source));
        }
    }
    all
}

/// Compares whether Catfish is better than all baselines, at each scale and number of clients: 1 if it is, else 0.
/// `in_paper` answers the same for a position in [`SCALES`] and a number of clients in the paper.
pub(super) fn compare_first(
    records: &[Record],
    merit: fn(&Record) -> f64,
    in_paper: impl Fn(usize, u64) -> bool,
    source: &'static str,
) -> Vec<Comparison> {
    let mut all = Vec::new();
    for (scale_index, (_, scale)) in SCALES.into_iter().enumerate() {
        let of_scale = records_of_scale(records, scale_index);
        for (count_index, clients) in CLIENTS.into_iter().enumerate() {
            let number = |is_first: bool| f64::from(u8::from(is_first));
            let point = format!("scale {scale}, {clients} clients");
            let ours = number(of_scale.is_first(count_index, merit));
            let panel = "Catfish is better than all baselines (1 = yes, 0 = no)";
            all.push(predicted(panel, point, Some(number(in_paper(scale_index, clients))), ours, source));
        }
    }
    all
}

/// Compares which of two schemes is better with 256 clients at scale 0.00001: 1 if `one` is, else 0. In the paper it
/// is. Both are positions in [`SCHEMES`].
pub(super) fn compare_pair(
    records: &[Record],
    (one, other): (usize, usize),
    merit: fn(&Record) -> f64,
    source: &'static str,
) -> Comparison {
    let of_scale = records_of_scale(records, 0);
    let of = |scheme| merit(of_scale.at(CLIENTS.len() - 1, scheme));
    let ours = f64::from(u8::from(of(one) > of(other)));
    let point = format!("{} before {}, 256 clients, scale 0.00001", SCHEMES[one].name, SCHEMES[other].name);
    predicted("Order of the schemes (1 = as in the paper, 0 = not)", point, Some(1.0), ours, source)
}

/// The share of searches that Catfish's clients executed by READs, with 256 clients.
pub(super) fn offloaded_shares(records: &[Record]) -> Vec<Comparison> {
    let mut all = Vec::new();
    for (scale_index, (_, scale)) in SCALES.into_iter().enumerate() {
        let of_scale = records_of_scale(records, scale_index);
        for (scheme, Scheme { name, .. }) in SCHEMES.iter().enumerate().skip(CATFISH) {
            let record = of_scale.at(CLIENTS.len() - 1, scheme);
            let share = record.spatial.as_ref().map_or(0.0, |spatial| 100.0 * spatial.share_offloaded);
            let point = format!("{name}, scale {scale}");
            let panel = "Share of offloaded searches at 256 clients, %";
            all.push(predicted(panel, point, None, share, "not printed"));
        }
    }
    all
}
