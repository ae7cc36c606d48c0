//! Published micro-benchmarks beside the NIC models: the tables of `docs/validation.md`.
//!
//! The points of [`super::nic`] are part of them. No constant of a NIC model follows from a point that is marked as not
//! fitted.

use std::fmt::Write as _;

use super::figure::CalibrationStatus;
use super::nic::{self, NicFigureMetric};
use super::report::number;
use crate::Result;
use crate::run::{Memory, NicMetric, NicPoint, NicTarget, Verb};
use crate::sim_run::micro::Words;

/// Virtual seconds of a measurement of small messages.
const SECONDS: f64 = 0.0005;
/// Virtual seconds of a measurement of a bandwidth, in which hundreds of large messages end.
const BANDWIDTH_SECONDS: f64 = 0.01;

/// Whether constants of the model were derived from a published value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PublishedUse {
    /// A constant was fitted to it, or derived from it.
    Fitted,
    /// No constant depends on it.
    NotFitted,
}

/// A published value of a micro-benchmark.
struct PublishedValue {
    point: NicPoint,
    metric: NicMetric,
    value: f64,
    used: PublishedUse,
    source: &'static str,
}

const NVIDIA: &str = "[NVIDIA GPU Operator](https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/), GPUDirect \
                      RDMA: ib_write_bw, RoCE with an MTU of 1024 B, card not named";
const UCX_READ: &str = "[ucx issue 8851](https://github.com/openucx/ucx/issues/8851): ib_read_bw, 16 READs in flight, \
                        card not named";
const UCX_GET: &str = "[ucx issue 9520](https://github.com/openucx/ucx/issues/9520): ucx_perftest ucp_get, ConnectX-5, \
                       requests in flight not stated";
const PERFTEST: &str = "[perftest issue 225](https://github.com/linux-rdma/perftest/issues/225): ib_write_bw, default \
                        options, 100 Gb/s InfiniBand, card not named";

/// Bits per second of perftest's and UCX's megabytes, which have 2^20 bytes, in gigabits.
const GBIT_PER_MB: f64 = 8.0 * 1_048_576.0 / 1e9;

fn base(nic: &str) -> NicPoint {
    NicPoint { nic: nic.to_owned(), seconds: SECONDS, ..NicPoint::default() }
}

/// All published values: those of the figure `nic`, and more.
fn published() -> Vec<PublishedValue> {
    let mut all: Vec<PublishedValue> = nic::POINTS.iter().map(of_figure).collect();
    all.extend(of_sherman());
    all.extend(of_perftest());
    all
}

fn of_figure(point: &nic::NicFigurePoint) -> PublishedValue {
    let load = point.load;
    let fitted = matches!(point.status, CalibrationStatus::Fitted | CalibrationStatus::MicroBenchmark);
    PublishedValue {
        point: NicPoint {
            verb: load.verb,
            memory: load.memory,
            target: if load.words == Words::One { NicTarget::Same } else { NicTarget::Spread },
            bytes: load.bytes as u64,
            outstanding: (load.depth * load.batch) as u64,
            batch: load.batch as u64,
            queue_pairs: (point.compute_nodes * point.threads) as u64,
            compute_nodes: point.compute_nodes as u64,
            ..base(point.nic)
        },
        metric: match point.metric {
            NicFigureMetric::Rate => NicMetric::Rate,
            NicFigureMetric::Median => NicMetric::Median,
        },
        value: point.measured,
        used: if fitted { PublishedUse::Fitted } else { PublishedUse::NotFitted },
        source: point.source,
    }
}

/// Values of Sherman's paper, and a contradicting one.
fn of_sherman() -> Vec<PublishedValue> {
    let inbound = NicPoint {
        verb: Verb::Write,
        outstanding: 16,
        batch: 16,
        queue_pairs: 154,
        compute_nodes: 7,
        ..base("cx5-100g")
    };
    let writes = |point, source| (point, NicMetric::Rate, 50.0, PublishedUse::Fitted, source);
    let outbound = NicPoint { queue_pairs: 22, compute_nodes: 1, memory_nodes: 7, ..inbound.clone() };
    let on_card = NicPoint {
        verb: Verb::Cas,
        memory: Memory::Device,
        outstanding: 8,
        queue_pairs: 176,
        compute_nodes: 8,
        ..base("cx5-100g")
    };
    let values = [
        writes(NicPoint { bytes: 16, ..inbound.clone() }, "Sherman, Figure 3: more than 50, inbound"),
        writes(NicPoint { bytes: 128, ..inbound }, "Sherman, Figure 3: more than 50, inbound"),
        writes(NicPoint { bytes: 128, ..outbound }, "Sherman, Figure 3: more than 50, outbound"),
        (on_card.clone(), NicMetric::Rate, 110.0, PublishedUse::Fitted, "Sherman, section 4.3: about 110"),
        (
            on_card,
            NicMetric::Rate,
            90.0,
            PublishedUse::NotFitted,
            "RCuckoo: 1.8 times the 50 of host memory; contradicts Sherman, section 4.3",
        ),
    ];
    values.into_iter().map(of_tuple).collect()
}

/// Outputs of perftest and of UCX's benchmark on cards of 100 and 200 Gb/s.
fn of_perftest() -> Vec<PublishedValue> {
    use NicMetric::{Bandwidth, Rate};
    let write = NicPoint { verb: Verb::Write, outstanding: 128, ..base("cx6-100g") };
    let read = NicPoint { outstanding: 16, ..base("cx6-200g") };
    let get = NicPoint { outstanding: 16, ..base("cx5-100g") };
    let values = [
        (write.clone(), Rate, 7.01, NVIDIA),
        (NicPoint { bytes: 1024, ..write.clone() }, Rate, 7.18, NVIDIA),
        (NicPoint { bytes: 2048, ..write.clone() }, Bandwidth, 91.47, NVIDIA),
        (NicPoint { bytes: 65_536, ..write.clone() }, Bandwidth, 92.38, NVIDIA),
        (read.clone(), Rate, 2.556, UCX_READ),
        (NicPoint { bytes: 128, ..read.clone() }, Rate, 2.540, UCX_READ),
        (NicPoint { bytes: 65_536, ..get.clone() }, Bandwidth, 11_287.8 * GBIT_PER_MB, UCX_GET),
        (NicPoint { bytes: 262_144, ..get.clone() }, Bandwidth, 11_659.31 * GBIT_PER_MB, UCX_GET),
        (
            NicPoint { verb: Verb::Write, bytes: 65_536, outstanding: 128, ..get },
            Bandwidth,
            11_728.47 * GBIT_PER_MB,
            PERFTEST,
        ),
    ];
    let not_fitted =
        |(point, metric, value, source)| of_tuple((point, metric, value, PublishedUse::NotFitted, source));
    values.into_iter().map(not_fitted).collect()
}

fn of_tuple(
    (point, metric, value, used, source): (NicPoint, NicMetric, f64, PublishedUse, &'static str),
) -> PublishedValue {
    let seconds = if metric == NicMetric::Bandwidth { BANDWIDTH_SECONDS } else { point.seconds };
    PublishedValue { point: NicPoint { seconds, ..point }, metric, value, used, source }
}

/// The tables of `docs/validation.md`: measures the NIC models.
///
/// # Errors
/// A point that cannot be simulated.
pub fn validation() -> Result<String> {
    let mut rows: Vec<(PublishedUse, f64, String)> = Vec::new();
    for published in published() {
        let model = published.metric.of(&published.point.measure()?);
        let error = 100.0 * (model - published.value) / published.value;
        rows.push((published.used, error, row(&published, model, error)));
    }
    let mut text = String::new();
    for (used, title) in
        [(PublishedUse::NotFitted, "Not fitted"), (PublishedUse::Fitted, "Fitted, or derived from")]
    {
        let of_use = || rows.iter().filter(|(of, ..)| *of == used);
        let mut errors: Vec<f64> = of_use().map(|(_, error, _)| error.abs()).collect();
        errors.sort_by(f64::total_cmp);
        let median = median(&errors);
        let largest = errors.last().copied().unwrap_or(0.0);
        let _ = write!(
            text,
            "### {title}\n\n{} values; the median of the absolute errors is {median:.0} %, the largest {largest:.0} %.\
             \n\n| verb | metric | published | model | error | source | `farwood nic` |\n\
             |---|---|---:|---:|---:|---|---|\n",
            errors.len()
        );
        of_use().for_each(|(_, _, row)| text.push_str(row));
        text.push('\n');
    }
    Ok(text)
}

fn row(published: &PublishedValue, model: f64, error: f64) -> String {
    let PublishedValue { point, metric, value, source, .. } = published;
    let unit = match metric {
        NicMetric::Rate => "M/s",
        NicMetric::Bandwidth => "Gbit/s",
        NicMetric::Mean | NicMetric::Median | NicMetric::P99 => "us",
    };
    format!(
        "| {} of {} B, {} | {unit} | {} | {} | {error:+.1} % | {source} | `{}` |\n",
        point.verb.name(),
        point.bytes,
        point.nic,
        number(*value),
        number(model),
        point.options(),
    )
}

/// The line of `docs/validation.md` before the tables.
pub const VALIDATION_BEGIN: &str = "<!-- validation: measured by a test of farwood-bench; do not edit -->";
/// The line after the tables.
pub const VALIDATION_END: &str = "<!-- end of validation -->";

/// The median of sorted values.
fn median(sorted: &[f64]) -> f64 {
    let middle = &sorted[sorted.len().saturating_sub(1) / 2..(sorted.len() / 2 + 1).min(sorted.len())];
    middle.iter().sum::<f64>() / middle.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::super::report::between;
    use super::*;

    #[test]
    fn the_median_of_an_even_number_of_values_is_between_the_middle_ones() {
        let medians = [&[3.0][..], &[1.0, 4.0], &[1.0, 2.0, 9.0]].map(|values| median(values).to_string());
        assert_eq!(medians, ["3", "2.5", "2"]);
    }

    #[test]
    fn the_page_of_published_values_is_that_of_the_model() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/validation.md");
        let page = std::fs::read_to_string(&path).unwrap();
        let made = between(&page, VALIDATION_BEGIN, VALIDATION_END, &validation().unwrap()).unwrap();
        if std::env::var_os("FARWOOD_BLESS").is_some() {
            std::fs::write(&path, &made).unwrap();
        } else {
            assert!(
                page == made,
                "docs/validation.md differs from the model; if the change is intended, write it again with \
                 FARWOOD_BLESS=1, and state the reason in the commit. The new page:\n{made}"
            );
        }
    }
}
