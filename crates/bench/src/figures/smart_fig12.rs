//! SMART, Figure 12: YCSB with e-mail addresses.

use super::figure::{Comparison, Effort, Figure};
use super::run::Run;
use super::smart_cluster::{Clients, KeyKind};
use super::smart_curves::{self, ClientCounts, of_16};
use crate::record::Record;

pub(super) const FIGURE: Figure = Figure {
    name: "smart-fig12",
    title: "SMART, Figure 12: YCSB, e-mail addresses",
    setting: "Set-up of Figure 11, with the artifact's numbers of clients for these keys. Keys are generated e-mail \
              addresses in 32 B: the artifact cuts or pads its addresses to 32 B for all systems.",
    claim: "The slides print no numbers for string keys; the artifact measures the curves of Figure 11 for them.",
    key: "",
    cause: "",
    runs,
    compare,
};

const COUNTS: ClientCounts = [
    [
        of_16([6, 10, 14, 24]),
        of_16([4, 8, 16, 22]),
        of_16([8, 16, 24, 26]),
        of_16([8, 16, 32, 56]),
        of_16([8, 20, 36, 48]),
    ],
    [
        of_16([6, 10, 14, 17]),
        of_16([3, 5, 7, 9]),
        of_16([8, 12, 16, 24]),
        of_16([8, 16, 32, 48]),
        of_16([8, 16, 24, 30]),
    ],
    [
        of_16([3, 5, 7, 9]),
        [Clients::new(4, 7), Clients::new(2, 18), Clients::new(2, 20), Clients::new(4, 11)],
        of_16([3, 5, 6, 7]),
        [Clients::new(16, 3), Clients::new(16, 5), Clients::new(8, 14), Clients::new(16, 8)],
        of_16([4, 6, 8, 10]),
    ],
];

fn runs(effort: Effort) -> Vec<Run> {
    smart_curves::runs(KeyKind::String, &COUNTS, effort)
}

fn compare(records: &[Record]) -> Vec<Comparison> {
    smart_curves::compare(records, &COUNTS, &[])
}
