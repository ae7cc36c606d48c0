//! Maps of the world: segments of lines, the windows of some searches with their results, and points.

use super::font::Weight;
use super::scene::{Align, Color, Scene};
use super::{GRID, INK, MUTED, SERIES, WIDTH, png, svg};
use crate::Result;

/// Pixels of a degree.
const DEGREE: f64 = 912.0 / 360.0;
/// Pixels of the margin.
const MARGIN: f64 = 24.0;
/// Vertical position of the northern limit in pixels.
const TOP: f64 = 112.0;
/// Northern limit of the map in degrees; the southern one is the pole.
const NORTH: f64 = 85.0;
const HEIGHT: f64 = TOP + (NORTH + 90.0) * DEGREE + MARGIN;
/// Degrees between two lines of the grid.
const GRID_STEP: i32 = 30;
const SEGMENT: Color = Color(0xa9, 0xb1, 0xbd);
/// Half of the edge of a point in pixels.
const POINT: f64 = 2.5;

/// A map. Positions are longitude and latitude in degrees; a *series* is a number that selects a colour.
pub struct WorldMap<'a> {
    /// The title.
    pub title: String,
    /// The line below the title.
    pub subtitle: String,
    /// The label of each series.
    pub legend: Vec<String>,
    /// Both ends of each segment.
    pub segments: &'a [[[f64; 2]; 2]],
    /// Searches, which are drawn above the segments.
    pub searches: Vec<MapSearch>,
    /// The series and position of each point.
    pub points: Vec<(usize, [f64; 2])>,
}

/// A search on a map.
pub struct MapSearch {
    /// The number of the series, which determines the colour.
    pub series: usize,
    /// The windows to draw: least x, least y, greatest x, greatest y.
    pub windows: Vec<[f64; 4]>,
    /// The segments that the search found.
    pub segments: Vec<[[f64; 2]; 2]>,
}

fn pixel([x, y]: [f64; 2]) -> (f64, f64) {
    (MARGIN + (x + 180.0) * DEGREE, TOP + (NORTH - y) * DEGREE)
}

fn color(series: usize) -> Color {
    SERIES[series % SERIES.len()]
}

impl WorldMap<'_> {
    /// The map as an SVG document.
    pub fn svg(&self) -> String {
        svg::render(&self.scene())
    }

    /// The map as a PNG file, twice as large as the SVG.
    ///
    /// # Errors
    /// A picture that cannot be drawn.
    pub fn png(&self) -> Result<Vec<u8>> {
        png::render(&self.scene(), 2.0)
    }

    fn scene(&self) -> Scene {
        let mut scene = Scene::new(WIDTH, HEIGHT);
        self.draw_titles(&mut scene);
        for x in (-180..=180).step_by(GRID_STEP as usize).map(f64::from) {
            scene.line(pixel([x, -90.0]), pixel([x, NORTH]), 1.0, GRID);
        }
        for y in (-90..=NORTH as i32).step_by(GRID_STEP as usize).map(f64::from) {
            scene.line(pixel([-180.0, y]), pixel([180.0, y]), 1.0, GRID);
        }
        for [from, to] in self.segments {
            scene.line(pixel(*from), pixel(*to), 0.8, SEGMENT);
        }
        for search in &self.searches {
            draw_search(&mut scene, search);
        }
        for &(series, at) in &self.points {
            let (x, y) = pixel(at);
            scene.rectangle(x - POINT, y - POINT, 2.0 * POINT, 2.0 * POINT, color(series));
        }
        scene
    }

    fn draw_titles(&self, scene: &mut Scene) {
        scene.text(MARGIN, 40.0, 22.0, Weight::Bold, Align::Start, INK, self.title.clone());
        scene.text_within(MARGIN, 63.0, 13.0, MUTED, &self.subtitle, WIDTH - 2.0 * MARGIN);
        let mut x = MARGIN;
        for (series, label) in self.legend.iter().take(SERIES.len()).enumerate() {
            scene.rectangle(x, 82.0, 12.0, 12.0, color(series));
            let label = label.clone();
            x += 18.0 + scene.text(x + 18.0, 93.0, 13.0, Weight::Regular, Align::Start, INK, label) + 24.0;
        }
    }
}

fn draw_search(scene: &mut Scene, search: &MapSearch) {
    let color = color(search.series);
    for &[x1, y1, x2, y2] in &search.windows {
        let corners = [[x1, y1], [x2, y1], [x2, y2], [x1, y2]];
        for (number, &corner) in corners.iter().enumerate() {
            scene.line(pixel(corner), pixel(corners[(number + 1) % corners.len()]), 1.2, color);
        }
    }
    for &[from, to] in &search.segments {
        scene.line(pixel(from), pixel(to), 2.2, color);
    }
}
