//! Sherman, Figure 13: scalability with the number of clients.

use super::builders::{Time, predicted, run};
use super::figure::{Comparison, Effort, Figure};
use super::run::Run;
use super::sherman_cluster::{hottest_share, spec};
use crate::record::Record;
use crate::run::RunSpec;
use crate::workload::Workload;
use crate::workload::distribution::Distribution;

pub(super) const FIGURE: Figure = Figure {
    name: "sherman-fig13",
    title: "Sherman, Figure 13: scalability",
    setting: "Set-up of Table 1, write-intensive. Clients beyond 176 are coroutines: 22 threads per machine with at \
              most 3 clients each. The paper does not state its numbers of clients; its peaks of FG+ under skew are \
              below 176 clients, so the numbers here begin at 48. The paper's peaks of FG+ are its peaks of Sherman \
              divided by the printed factors.",
    claim: "Sherman scales to 44 million operations per second with uniform keys, and its peaks under skew are 1.4 \
              times those of FG+.",
    key: "",
    cause: "",
    runs,
    compare,
};

const DISTRIBUTIONS: [(Distribution, &str); 3] = [
    (Distribution::Uniform, "uniform"),
    (Distribution::Zipf { theta: 0.9 }, "zipf 0.9"),
    (Distribution::Zipf { theta: 0.99 }, "zipf 0.99"),
];
const CLIENTS: [u64; 8] = [48, 64, 96, 128, 176, 264, 352, 528];
const VARIANTS: [&str; 2] = ["fg+", "sherman"];
/// Largest number of threads of a machine.
const THREADS: u64 = 22;

fn runs(effort: Effort) -> Vec<Run> {
    let mut runs = Vec::new();
    for (distribution, _) in DISTRIBUTIONS {
        for variant in VARIANTS {
            for clients in CLIENTS {
                let spec = spec(
                    variant,
                    Workload::WriteIntensive,
                    distribution,
                    time(distribution, variant, effort),
                    effort,
                );
                let threads = Some((clients / 8).min(THREADS) as usize);
                runs.push(run(RunSpec { clients: Some(clients), threads, ..spec }));
            }
        }
    }
    runs
}

fn time(distribution: Distribution, variant: &str, effort: Effort) -> Time {
    match (distribution, variant) {
        (Distribution::Uniform, _) => Time::of(effort, (0.0005, 0.001), (0.003, 0.01)),
        (_, "fg+") => Time::of(effort, (0.005, 0.01), (0.1, 0.2)),
        _ => Time::of(effort, (0.003, 0.006), (0.02, 0.05)),
    }
}

fn compare(records: &[Record]) -> Vec<Comparison> {
    let of = |distribution: usize, variant: usize, clients: usize| {
        &records[(distribution * VARIANTS.len() + variant) * CLIENTS.len() + clients]
    };
    let source = "Sherman §5.4";
    let last = CLIENTS.len() - 1;
    let peak =
        |distribution, variant| (0..=last).map(|at| of(distribution, variant, at).mops).fold(0.0, f64::max);
    let mut all = vec![hottest_share(of(2, 0, 0), "zipf 0.99")];
    let panel = "Throughput, million operations per second";
    all.push(predicted(panel, "uniform, sherman, 528 clients", Some(44.0), of(0, 1, last).mops, source));
    all.push(predicted(panel, "zipf 0.9, sherman, peak", Some(21.0), peak(1, 1), source));
    all.push(predicted(panel, "zipf 0.99, sherman, peak", Some(9.0), peak(2, 1), source));
    all.push(predicted(panel, "zipf 0.9, fg+, peak", Some(21.0 / 1.44), peak(1, 0), source));
    all.push(predicted(panel, "zipf 0.99, fg+, peak", Some(9.0 / 1.4), peak(2, 0), source));
    let panel = "sherman over fg+, times";
    let uniform = of(0, 1, last).mops / of(0, 0, last).mops;
    all.push(predicted(panel, "uniform, 528 clients", Some(1.14), uniform, source));
    all.push(predicted(panel, "zipf 0.9, peaks", Some(1.44), peak(1, 1) / peak(1, 0), source));
    all.push(predicted(panel, "zipf 0.99, peaks", Some(1.40), peak(2, 1) / peak(2, 0), source));
    for (distribution, (_, name)) in DISTRIBUTIONS.iter().enumerate().skip(1) {
        for (variant, named) in VARIANTS.iter().enumerate() {
            let sustained = of(distribution, variant, last).mops / peak(distribution, variant);
            let panel = "Throughput of 528 clients relative to the peak";
            all.push(predicted(panel, format!("{name}, {named}"), None, sustained, source));
        }
    }
    for (distribution, (_, name)) in DISTRIBUTIONS.iter().enumerate() {
        for (variant, named) in VARIANTS.iter().enumerate() {
            for (at, clients) in CLIENTS.iter().enumerate() {
                let panel = format!("Throughput, {name}, million operations per second");
                let ours = of(distribution, variant, at).mops;
                all.push(predicted(
                    panel,
                    format!("{named}, {clients} clients"),
                    None,
                    ours,
                    "Sherman, Figure 13",
                ));
            }
        }
    }
    all
}
