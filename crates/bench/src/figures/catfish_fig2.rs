//! Catfish, Figure 2: the bottleneck of a server over 1 Gb/s Ethernet.

use super::builders::{predicted, spatial_run};
use super::catfish_cluster::spec;
use super::figure::{Comparison, Effort, Figure};
use super::run::Run;
use crate::record::{Record, Spatial};
use crate::spec::spatial_variant::Variant;
use crate::workload::rectangles::Scale;

pub(super) const FIGURE: Figure = Figure {
    name: "catfish-fig2",
    title: "Catfish, Figure 2: CPU and network of a server over TCP",
    setting: "One server of 28 cores over 1 Gb/s Ethernet, 2 to 32 client threads without think time. The bandwidth is \
              that of the data sent by the server's NIC, headers included.",
    claim: "At scale 0.00001 the server's CPU is the bottleneck (100 %), and at 0.01 its link is.",
    key: "",
    cause: "32 clients keep two thirds of the cores busy here: a request passes two kernels, so that a client waits \
              longer before it sends the next one.",
    runs,
    compare,
};

const CLIENTS: [u64; 5] = [2, 4, 8, 16, 32];
const SCALES: [(Scale, &str); 2] = [(Scale::Edge(0.01), "0.01"), (Scale::Edge(1e-5), "0.00001")];
const SOURCE: &str = "Catfish §I";

fn runs(effort: Effort) -> Vec<Run> {
    let of_scale = |(scale, _)| {
        CLIENTS
            .into_iter()
            .map(move |clients| spatial_run(spec(Variant::Tcp, "tcp-1g", scale, clients, effort)))
    };
    SCALES.into_iter().flat_map(of_scale).collect()
}

fn compare(records: &[Record]) -> Vec<Comparison> {
    let mut all = Vec::new();
    for (at, record) in records.iter().enumerate() {
        let ((_, scale), clients) = (SCALES[at / CLIENTS.len()], CLIENTS[at % CLIENTS.len()]);
        let none = Spatial::default();
        let spatial = record.spatial.as_ref().unwrap_or(&none);
        let most = clients == CLIENTS[CLIENTS.len() - 1];
        let (busy, sent) = match (most, at / CLIENTS.len()) {
            (true, 0) => (Some(28.0), Some(100.0)),
            (true, _) => (Some(100.0), Some(65.8)),
            _ => (None, None),
        };
        let point = format!("scale {scale}, {clients} clients");
        let ours = 100.0 * spatial.server_busy.unwrap_or(0.0);
        all.push(predicted("Server's CPU, %", point.clone(), busy, ours, SOURCE));
        let ours = 100.0 * spatial.server_gbps.unwrap_or(0.0);
        all.push(predicted("Server's bandwidth, % of 1 Gb/s", point, sent, ours, SOURCE));
    }
    all.sort_by(|one, other| one.panel.cmp(&other.panel));
    all
}
