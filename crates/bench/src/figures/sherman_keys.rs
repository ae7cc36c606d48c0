//! The influence of the number of loaded keys on the results of Sherman's skewed workload.

use super::builders::{Time, ZIPF, predicted, run};
use super::figure::{Comparison, Effort, Figure};
use super::run::Run;
use super::sherman_cluster::{factors, hottest_share, spec};
use crate::record::Record;
use crate::run::RunSpec;
use crate::workload::Workload;

pub(super) const FIGURE: Figure = Figure {
    name: "sherman-keys",
    title: "Sherman, write-intensive, zipf 0.99, over the number of loaded keys",
    setting: "Set-up of Table 1, with 1, 10 and 100 million loaded keys (100 thousand to 10 million with --quick); the \
              paper loads 1e9. Popularity is always drawn over 1e9 ranks, so that the hottest key keeps its share. 100 \
              million keys need 4 GiB of memory.",
    claim: "The paper loads 1e9 keys; this figure checks that fewer keys do not change the ratios.",
    key: "sherman over fg+, times",
    cause: "The ratios hardly depend on the number of keys. They differ from the paper for the reason given for \
              Figure 10.",
    runs,
    compare,
};

const KEYS: [(u64, &str); 3] =
    [(1_000_000, "1 million keys"), (10_000_000, "10 million keys"), (100_000_000, "100 million keys")];
const VARIANTS: [&str; 2] = ["fg+", "sherman"];

fn runs(effort: Effort) -> Vec<Run> {
    let mut runs = Vec::new();
    for (keys, _) in KEYS {
        for variant in VARIANTS {
            let spec =
                spec(variant, Workload::WriteIntensive, ZIPF, Time::contended(variant, effort), effort);
            runs.push(run(RunSpec { keys: Some(keys / effort.pick(10, 1)), ..spec }));
        }
    }
    runs
}

fn compare(records: &[Record]) -> Vec<Comparison> {
    let of = |keys: usize, variant: usize| &records[keys * VARIANTS.len() + variant];
    let mut all: Vec<Comparison> =
        KEYS.iter().enumerate().map(|(at, (_, name))| hottest_share(of(at, 0), *name)).collect();
    for (at, (_, name)) in KEYS.iter().enumerate() {
        for ((what, ours), paper) in factors(of(at, 0), of(at, 1)).into_iter().zip([23.6, 1.4, 30.2]) {
            all.push(predicted(
                "sherman over fg+, times",
                format!("{name}, {what}"),
                Some(paper),
                ours,
                "Sherman §5.2.1",
            ));
        }
    }
    for (variant, named) in VARIANTS.iter().enumerate() {
        for (at, (_, name)) in KEYS.iter().enumerate() {
            let panel = "Throughput, million operations per second";
            all.push(predicted(
                panel,
                format!("{named}, {name}"),
                None,
                of(at, variant).mops,
                "Sherman §5.2.1",
            ));
        }
    }
    for (variant, named) in VARIANTS.iter().enumerate() {
        for (at, (_, name)) in KEYS.iter().enumerate() {
            let panel = "99th percentile, us";
            let ours = of(at, variant).latency_us.p99;
            all.push(predicted(panel, format!("{named}, {name}"), None, ours, "Sherman §5.2.1"));
        }
    }
    all
}
