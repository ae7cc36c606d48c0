//! A map: coastlines, the windows of some searches with what they found, and ships.

use super::font::Weight;
use super::scene::{Align, Color, Scene};
use super::{GRID, INK, MUTED, SERIES, WIDTH, png, svg};
use crate::Result;
use crate::table::{grouped, rate};
use crate::tour::{Coast, MapOutcome};

/// Pixels of a degree, and of the margin.
const DEGREE: f64 = 912.0 / 360.0;
const MARGIN: f64 = 24.0;
/// Where the 85th parallel north lies, and how far it is to the 90th south.
const TOP: f64 = 112.0;
const NORTH: f64 = 85.0;
const HEIGHT: f64 = TOP + (NORTH + 90.0) * DEGREE + MARGIN;
/// Degrees between two lines of the grid.
const GRID_STEP: i32 = 30;
const COAST: Color = Color(0xa9, 0xb1, 0xbd);
/// Half of the edge of a ship.
const SHIP: f64 = 2.5;

/// The map as an SVG document.
pub fn map_svg(toured: &MapOutcome) -> String {
    svg::render(&scene(toured))
}

/// The map as a PNG file, twice as large as the SVG.
///
/// # Errors
/// A picture that cannot be drawn.
pub fn map_png(toured: &MapOutcome) -> Result<Vec<u8>> {
    png::render(&scene(toured), 2.0)
}

fn at([x, y]: [f64; 2]) -> (f64, f64) {
    (MARGIN + (x + 180.0) * DEGREE, TOP + (NORTH - y) * DEGREE)
}

fn color(process: u64) -> Color {
    SERIES[process as usize % SERIES.len()]
}

fn scene(toured: &MapOutcome) -> Scene {
    let (mut scene, coast) = (Scene::new(WIDTH, HEIGHT), Coast::shipped());
    draw_titles(&mut scene, toured, coast);
    for x in (-180..=180).step_by(GRID_STEP as usize).map(f64::from) {
        scene.line(at([x, -90.0]), at([x, NORTH]), 1.0, GRID);
    }
    for y in (-90..=NORTH as i32).step_by(GRID_STEP as usize).map(f64::from) {
        scene.line(at([-180.0, y]), at([180.0, y]), 1.0, GRID);
    }
    for [from, to] in &coast.segments {
        scene.line(at(*from), at(*to), 0.8, COAST);
    }
    for sighting in &toured.sightings {
        let color = color(sighting.process);
        for &[x1, y1, x2, y2] in &sighting.windows {
            let corners = [[x1, y1], [x2, y1], [x2, y2], [x1, y2]];
            for (number, &corner) in corners.iter().enumerate() {
                scene.line(at(corner), at(corners[(number + 1) % corners.len()]), 1.2, color);
            }
        }
        for &segment in &sighting.segments {
            let [from, to] = coast.segments[segment as usize];
            scene.line(at(from), at(to), 2.2, color);
        }
    }
    for &(process, ship) in &toured.ships {
        let (x, y) = at(ship);
        scene.rectangle(x - SHIP, y - SHIP, 2.0 * SHIP, 2.0 * SHIP, color(process));
    }
    scene
}

fn draw_titles(scene: &mut Scene, toured: &MapOutcome, coast: &Coast) {
    let record = &toured.record;
    let title = "Coastlines in a spatial index, searched from several processes".to_owned();
    scene.text(MARGIN, 40.0, 22.0, Weight::Bold, Align::Start, INK, title);
    let subtitle = format!(
        "{} segments and {} ships; {} requests per second by {} clients over {}; {} answers checked, {} wrong",
        grouped(coast.len()),
        toured.ships.len(),
        rate(record.mops),
        record.clients,
        record.fabric,
        grouped(toured.answers),
        toured.wrong,
    );
    scene.text_within(MARGIN, 63.0, 13.0, MUTED, &subtitle, WIDTH - 2.0 * MARGIN);
    let mut x = MARGIN;
    for process in 0..record.compute_nodes.min(SERIES.len() as u64) {
        scene.rectangle(x, 82.0, 12.0, 12.0, color(process));
        let label = format!("process {}: windows, what was found there, ships", process + 1);
        let label = if process == 0 { label } else { format!("process {}", process + 1) };
        x += 18.0 + scene.text(x + 18.0, 93.0, 13.0, Weight::Regular, Align::Start, INK, label) + 24.0;
    }
}
