//! Catfish, Figure 7: polling for messages, and events.

use super::builders::{predicted, spatial_run};
use super::catfish_cluster::{latency_us, spec};
use super::figure::{CalibrationStatus, Comparison, Effort, Figure};
use super::run::Run;
use crate::record::Record;
use crate::spec::spatial_variant::Variant;
use crate::workload::rectangles::Scale;

pub(super) const FIGURE: Figure = Figure {
    name: "catfish-fig7",
    title: "Catfish, Figure 7: polling and events",
    setting: "One server of 28 cores, 80 to 320 clients without think time, ConnectX-5. With polling, the thread of \
              each connection keeps its core for its time slice. The CPU time of a request is fitted to the growth of \
              the event-based latency from 80 to 320 clients at scale 0.00001.",
    claim: "With polling, the latency grows 18 times from 80 to 320 clients; with events it grows 4.5 times.",
    key: "",
    cause: "The events agree. Polling has no cost besides the time slice here, so its latency grows in proportion to \
              the clients.",
    runs,
    compare,
};

const CLIENTS: [u64; 4] = [80, 160, 240, 320];
const SCALES: [(Scale, &str); 2] = [(Scale::Edge(1e-5), "0.00001"), (Scale::Edge(0.01), "0.01")];
const NOTICES: [(Variant, &str); 2] = [(Variant::FastMessaging, "polling"), (Variant::Event, "events")];
/// Latencies at scale 0.00001 with 80 clients and with 320.
const PAPER_US: [[f64; 2]; 2] = [[203.96, 3_712.35], [152.50, 680.47]];
const SOURCE: &str = "Catfish §IV-B";

fn runs(effort: Effort) -> Vec<Run> {
    let mut runs = Vec::new();
    for (scale, _) in SCALES {
        for (variant, _) in NOTICES {
            runs.extend(
                CLIENTS.map(|clients| spatial_run(spec(variant, "cx5-100g", scale, clients, effort))),
            );
        }
    }
    runs
}

fn compare(records: &[Record]) -> Vec<Comparison> {
    let mut all = Vec::new();
    let of = |scale: usize, notice: usize, clients: usize| {
        latency_us(&records[(scale * NOTICES.len() + notice) * CLIENTS.len() + clients])
    };
    let last = CLIENTS.len() - 1;
    for (scale, (_, name)) in SCALES.into_iter().enumerate() {
        for (notice, (_, how)) in NOTICES.into_iter().enumerate() {
            for (at, clients) in CLIENTS.into_iter().enumerate() {
                let paper = match at {
                    _ if scale > 0 => None,
                    0 => Some(PAPER_US[notice][0]),
                    at if at == last => Some(PAPER_US[notice][1]),
                    _ => None,
                };
                let (panel, point) =
                    (format!("Mean latency, us, scale {name}"), format!("{how}, {clients} clients"));
                all.push(predicted(panel, point, paper, of(scale, notice, at), SOURCE));
            }
        }
    }
    let (polling, events) = (of(0, 0, 0), of(0, 1, 0));
    let paper = PAPER_US[0][0] / PAPER_US[1][0];
    let panel = "Latency by polling divided by that by events, scale 0.00001";
    all.push(predicted(panel, "80 clients", Some(paper), polling / events, SOURCE));
    let grown = |scale: usize, notice: usize| {
        (of(scale, notice, last) - of(scale, notice, 0)) / (CLIENTS[last] - CLIENTS[0]) as f64
    };
    let fitted = |[few, many]: [f64; 2]| (many - few) / (CLIENTS[last] - CLIENTS[0]) as f64;
    all.push(Comparison {
        panel: "Latency that each further client adds, us".to_owned(),
        point: "events, scale 0.00001, 80 to 320 clients".to_owned(),
        paper: Some(fitted(PAPER_US[1])),
        ours: grown(0, 1),
        ours_to: None,
        curve: None,
        status: CalibrationStatus::Fitted,
        source: SOURCE,
    });
    let times = |notice: usize| of(0, notice, last) / of(0, notice, 0);
    for (notice, (_, how)) in NOTICES.into_iter().enumerate() {
        let [few, many] = PAPER_US[notice];
        let panel = "Latency of 320 clients over that of 80, times";
        all.push(predicted(panel, how, Some(many / few), times(notice), SOURCE));
    }
    all
}
