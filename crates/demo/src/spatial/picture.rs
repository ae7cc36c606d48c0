//! The map of a demo of a spatial index: coastlines, some searches with their results, and ships.

use farwood_bench::Result;
use farwood_bench::plot::map::{MapSearch, WorldMap};
use farwood_bench::record::table::{grouped, rate};

use super::{Coastlines, SpatialDemoOutcome};

/// The map as an SVG document.
pub fn map_svg(outcome: &SpatialDemoOutcome) -> String {
    map(outcome).svg()
}

/// The map as a PNG file, twice as large as the SVG.
///
/// # Errors
/// A picture that cannot be drawn.
pub fn map_png(outcome: &SpatialDemoOutcome) -> Result<Vec<u8>> {
    map(outcome).png()
}

fn map(outcome: &SpatialDemoOutcome) -> WorldMap<'static> {
    let (coast, record) = (Coastlines::shipped(), &outcome.record);
    let subtitle = format!(
        "{} segments and {} ships; {} requests per second by {} clients over {}; {} answers checked, {} wrong",
        grouped(coast.len()),
        outcome.ships.len(),
        rate(record.mops),
        record.clients,
        record.fabric,
        grouped(outcome.answers),
        outcome.wrong,
    );
    let legend = (1..=record.compute_nodes).map(|process| match process {
        1 => "process 1: windows, their results, ships".to_owned(),
        _ => format!("process {process}"),
    });
    let searches = outcome.samples.iter().map(|sample| MapSearch {
        series: sample.process as usize,
        windows: sample.windows.clone(),
        segments: sample.segments.iter().map(|&segment| coast.segments[segment as usize]).collect(),
    });
    WorldMap {
        title: "Coastlines in a spatial index, searched by several processes".to_owned(),
        subtitle,
        legend: legend.collect(),
        segments: &coast.segments,
        searches: searches.collect(),
        points: outcome.ships.iter().map(|&(process, at)| (process as usize, at)).collect(),
    }
}
