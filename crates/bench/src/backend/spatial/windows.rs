//! Windows of searches that have about a hundred results.

use std::sync::Arc;

use farwood_fabric::{Fabric, Server};
use farwood_index::catfish::{Count, Item, Query, Rectangle, Worker};

use crate::Result;
use crate::spec::spatial::SpatialSpec;
use crate::workload::random::Generator;
use crate::workload::rectangles::Scale;

/// Number of windows.
const WINDOWS: usize = 10_000;
/// Results of a window (Catfish §V-C: 50 to 150, and 100 on average).
const RESULTS: std::ops::RangeInclusive<u64> = 50..=150;
/// A constant that is combined with the seed for the windows.
const WINDOWS_SEED: u64 = 0x7769_6E64_6F77_7321;

/// The windows that all clients choose from; none if each client draws its own.
pub(crate) async fn windows<F: Fabric, S: Server>(
    spec: &SpatialSpec,
    worker: &Worker<'_, F, S>,
    items: &[Item],
) -> Result<Arc<[Rectangle]>> {
    let mut windows = Vec::new();
    if spec.scale == Scale::Hundred {
        let mut generator = Generator::for_client(spec.seed ^ WINDOWS_SEED, 0);
        for _ in 0..WINDOWS {
            let centre = items[generator.below(items.len() as u64) as usize].bounds.centre();
            let wanted = RESULTS.start() + generator.below(RESULTS.end() - RESULTS.start() + 1);
            windows.push(window_with(worker, centre, wanted).await?);
        }
    }
    Ok(windows.into())
}

/// A square window around `centre` with about `wanted` results. It first extends to the farthest of the `wanted`
/// nearest neighbours, and is then enlarged or reduced until it has between 50 and 150 results.
async fn window_with<F: Fabric, S: Server>(
    worker: &Worker<'_, F, S>,
    centre: [f64; 2],
    wanted: u64,
) -> Result<Rectangle> {
    const TRIES_MAX: usize = 40;
    let near = worker.nearest(centre, wanted as usize).await?;
    let mut half_edge = near.last().map_or(0.0, |near| near.distance_squared.sqrt()).max(f64::MIN_POSITIVE);
    let (mut low, mut high) = (0.0, f64::INFINITY);
    let window = |half_edge: f64| {
        let corner = |sign: f64| [centre[0] + sign * half_edge, centre[1] + sign * half_edge];
        Rectangle::new(corner(-1.0), corner(1.0)).expect("half_edge is positive and finite")
    };
    for _ in 0..TRIES_MAX {
        let mut count = Count::default();
        worker.search(&Query::intersecting(window(half_edge)), &mut count).await?;
        if RESULTS.contains(&count.0) {
            break;
        }
        if count.0 > *RESULTS.end() {
            high = half_edge;
        } else {
            low = half_edge;
        }
        half_edge = if high.is_finite() { f64::midpoint(low, high) } else { 2.0 * half_edge };
    }
    Ok(window(half_edge))
}
