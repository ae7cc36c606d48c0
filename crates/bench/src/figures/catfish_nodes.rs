//! Catfish: the size of nodes and the client's CPU time, which the paper does not give and which decide between READs
//! and messages.

use super::builders::{predicted, spatial_run};
use super::catfish_cluster::{CLIENTS, SCALES, THINK_NS, kops, spec};
use super::figure::{Comparison, Effort, Figure};
use super::run::Run;
use crate::record::Record;
use crate::spec::spatial::SpatialSpec;
use crate::spec::spatial_variant::Variant;

pub(super) const FIGURE: Figure = Figure {
    name: "catfish-nodes",
    title: "Catfish: the size of nodes and the client's CPU time",
    setting: "Set-up of Figure 10, with nodes of 42, 84 and 203 entries (1,984, 3,904 and 9,344 bytes), and with and \
              without CPU time of a client for a search by READs besides that of examining nodes.",
    claim: "Catfish serves 1,239 thousand searches per second with 256 clients at scale 0.00001, and up to 3.09 times \
              as many as offloading; the first number determined the think time.",
    key: "",
    cause: "No setting meets both numbers: with larger nodes, READs transfer more bytes per search, so that Catfish \
              gains more over offloading and serves fewer searches.",
    runs,
    compare,
};

/// Blocks of 7 entries in a node.
const BLOCKS: [usize; 3] = [6, 12, 29];
/// The client's CPU time of a search, and its name.
const SEARCH_NS: [(Option<u64>, &str); 2] =
    [(Some(0), "no client CPU time"), (None, "client CPU time of a request")];
/// The scales of the runs, from [`SCALES`].
const SCALES_MAX: usize = 2;
const VARIANTS: [Variant; 2] = [Variant::Offloading, Variant::Catfish];
const SOURCE: &str = "Catfish §V-B";

fn runs(effort: Effort) -> Vec<Run> {
    let mut runs = Vec::new();
    for blocks in BLOCKS {
        for (search_ns, _) in SEARCH_NS {
            for (scale, _) in SCALES.into_iter().take(SCALES_MAX) {
                for clients in CLIENTS {
                    for variant in VARIANTS {
                        let spec = spec(variant, "cx5-100g", scale, clients, effort);
                        let spec = SpatialSpec { blocks, search_ns, think_ns: THINK_NS, ..spec };
                        runs.push(spatial_run(spec));
                    }
                }
            }
        }
    }
    runs
}

fn compare(records: &[Record]) -> Vec<Comparison> {
    let mut all = Vec::new();
    let mut settings = records.chunks(SCALES_MAX * CLIENTS.len() * VARIANTS.len());
    for blocks in BLOCKS {
        for (_, name) in SEARCH_NS {
            let Some(setting) = settings.next() else { return all };
            all.extend(compare_setting(setting, &format!("{} entries, {name}", 7 * blocks)));
        }
    }
    all.sort_by(|one, other| one.panel.cmp(&other.panel));
    all
}

/// Compares the runs of one size of nodes and one CPU time.
fn compare_setting(records: &[Record], setting: &str) -> Vec<Comparison> {
    let pairs: Vec<_> = records.chunks(VARIANTS.len()).collect();
    let gain = |pair: &&[Record]| kops(&pair[1]) / kops(&pair[0]);
    let most = pairs.iter().map(gain).fold(0.0, f64::max);
    let mut all = vec![
        predicted(
            "Largest advantage of Catfish over offloading, as a factor",
            setting,
            Some(3.09),
            most,
            SOURCE,
        ),
        predicted(
            "Catfish, 256 clients, scale 0.00001, kops",
            setting,
            Some(1_239.35),
            kops(&pairs[CLIENTS.len() - 1][1]),
            SOURCE,
        ),
    ];
    for ((_, scale), of_scale) in SCALES.into_iter().zip(pairs.chunks(CLIENTS.len())) {
        for (clients, pair) in CLIENTS.into_iter().zip(of_scale) {
            let point = format!("{setting}, {clients} clients");
            let panel = format!("Throughput of Catfish divided by that of offloading, scale {scale}");
            all.push(predicted(panel, point, None, gain(pair), "not printed"));
        }
    }
    all
}
