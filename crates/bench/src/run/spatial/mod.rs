//! Runs of spatial indexes: Catfish, its variants, and a peer.
//!
//! | file | what it knows |
//! |---|---|
//! | `spec.rs`, `variant.rs` | [`SpatialSpec`]: everything that can be said about a run; the variants by name |
//! | `access.rs`, `seat.rs` | how a client does what it is asked; one client at work, every answer checked |
//! | `laboratory.rs`, `fleet.rs` | [`simulate_spatial`]: a run in virtual time; the server and the clients in it |
//! | `processes.rs`, `node.rs`, `server.rs` | [`run_spatial`]: a run of real processes: clients', and the server's |
//! | `connection.rs`, `peer.rs` | rings or a socket; rstar |

mod access;
mod fleet;
mod laboratory;
pub(crate) mod node;
pub(crate) mod peer;
mod processes;
mod seat;
pub(crate) mod server;
mod spec;
mod variant;

pub use laboratory::simulate_spatial;
pub(crate) use processes::Place;
pub use processes::run_spatial;
pub use spec::{RECTANGLES_DEFAULT, SpatialSpec};
pub use variant::Variant;

use std::sync::Arc;

use farwood_fabric::{Fabric, Server};
use farwood_index::catfish::{Count, Item, Query, Rectangle, Worker};
use serde_json::{Map, Value};

use crate::Result;
use crate::machine::commit;
use crate::measure::CostTotals;
use crate::random::Generator;
use crate::record::{Record, Spatial};
use crate::rectangles::{Mix, POWER, Scale};

/// Share of a node that a bulk load fills: the paper does not say; the R*-tree's nodes are about so full.
const FILL: f64 = 0.7;
/// Windows that are looked for where they must have about a hundred results.
const WINDOWS: usize = 10_000;
/// How many results these have (Catfish §V-C: 50 to 150, and 100 on average).
const RESULTS: std::ops::RangeInclusive<u64> = 50..=150;
/// Mixed into the seed for windows.
const WINDOWED: u64 = 0x7769_6E64_6F77_7321;

/// The windows that all clients choose from; none where the scale draws them.
async fn windows<F: Fabric, S: Server>(
    spec: &SpatialSpec,
    worker: &Worker<'_, F, S>,
    items: &[Item],
) -> Result<Arc<[Rectangle]>> {
    let mut windows = Vec::new();
    if spec.scale == Scale::Hundred {
        let mut chance = Generator::for_client(spec.seed ^ WINDOWED, 0);
        for _ in 0..WINDOWS {
            let around = items[chance.below(items.len() as u64) as usize].bounds.centre();
            let wanted = RESULTS.start() + chance.below(RESULTS.end() - RESULTS.start() + 1);
            windows.push(window_with(worker, around, wanted).await?);
        }
    }
    Ok(windows.into())
}

/// A square window around a point with about so many results: as far as the so-many-nearest reach, and then halved or
/// doubled until it has between 50 and 150.
async fn window_with<F: Fabric, S: Server>(
    worker: &Worker<'_, F, S>,
    around: [f64; 2],
    wanted: u64,
) -> Result<Rectangle> {
    const TRIES_MAX: usize = 40;
    let near = worker.nearest(around, wanted as usize).await?;
    let mut reach = near.last().map_or(0.0, |near| near.distance_squared.sqrt()).max(f64::MIN_POSITIVE);
    let (mut low, mut high) = (0.0, f64::INFINITY);
    let window = |reach: f64| {
        let corner = |sign: f64| [around[0] + sign * reach, around[1] + sign * reach];
        Rectangle::new(corner(-1.0), corner(1.0)).expect("a reach is positive and finite")
    };
    for _ in 0..TRIES_MAX {
        let mut count = Count::default();
        worker.search(&Query::intersecting(window(reach)), &mut count).await?;
        if RESULTS.contains(&count.0) {
            break;
        }
        if count.0 > *RESULTS.end() {
            high = reach;
        } else {
            low = reach;
        }
        reach = if high.is_finite() { f64::midpoint(low, high) } else { 2.0 * reach };
    }
    Ok(window(reach))
}

/// The record of a run, but for what is measured.
fn describe(spec: &SpatialSpec, loaded: u64, consistency: &str) -> Record {
    let mut options = Map::new();
    let mut say = |name: &str, value: Value| options.insert(name.to_owned(), value);
    say("node_bytes", Value::from(spec.node_bytes()));
    say("fill", Value::from(FILL));
    let variant = spec.variant;
    if variant.messages() {
        say("notice", Value::from(if variant.is_polling() { "polling" } else { "event" }));
    }
    if variant.reads() {
        say("multi_issue", Value::from(variant.is_multi_issue()));
    }
    if let Some(rule) = variant.rule() {
        let settings = SpatialSpec::back_off(rule);
        say("rule", Value::from(format!("{rule:?}").to_lowercase()));
        say("window", Value::from(settings.window));
        say("threshold", Value::from(settings.threshold));
    }
    Record {
        index: "catfish".to_owned(),
        variant: Some(variant.name().to_owned()),
        options,
        consistency: Some(consistency.to_owned()),
        fabric: spec.fabric.name().to_owned(),
        workload: spec.mix.name().to_owned(),
        distribution: if spec.scale == Scale::PowerLaw { "power-law" } else { "uniform" }.to_owned(),
        theta: if spec.scale == Scale::PowerLaw { POWER } else { 0.0 },
        keys: loaded,
        key_bytes: 32,
        value_bytes: 8,
        compute_nodes: spec.compute_nodes as u64,
        threads: spec.threads() as u64,
        clients: spec.clients(),
        seed: spec.seed,
        commit: commit(),
        ..Record::default()
    }
}

/// What a record says of a run's searches.
fn spatial(spec: &SpatialSpec, costs: &CostTotals, searches: u64) -> Spatial {
    let share = |part: u64| part as f64 / searches.max(1) as f64;
    Spatial {
        scale: spec.scale.to_string(),
        think_us: spec.think_ns as f64 / 1e3,
        share_offloaded: share(costs.offloaded),
        found_mean: share(costs.found),
        server_busy: None,
        server_gbps: None,
    }
}

/// Whether a mix changes the index.
fn changes(mix: Mix) -> bool {
    mix == Mix::Mixed
}

#[cfg(test)]
mod tests;
