//! Curves: several series of points over one axis, in a panel of a comparison chart.

use super::font::Weight;
use super::scene::{Align, Color, Scene};
use super::{GRID, INK, MUTED, SERIES, round_step, short};

/// Left and right end of the axis in pixels.
const AXIS_X: (f64, f64) = (90.0, 720.0);
/// Left end of the legend in pixels.
const LEGEND_X: f64 = 748.0;
const TITLE_HEIGHT: f64 = 34.0;
const AXIS_HEIGHT: f64 = 200.0;
/// Space below the horizontal axis. It holds the numbers and the quantity.
const LABELS_HEIGHT: f64 = 48.0;
/// Edge of the square that marks a point, in pixels.
const MARK: f64 = 6.0;
/// An axis is logarithmic if the ratio of its largest to its smallest value exceeds this.
const LINEAR_SPREAD_MAX: f64 = 16.0;
/// Intervals between the lines of an axis.
const TICKS: f64 = 4.0;

/// A panel of curves.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CurvePanel {
    /// The vertical quantity with its unit.
    pub(crate) title: String,
    /// The horizontal quantity with its unit.
    pub(crate) axis: String,
    /// The curves with their names. A curve has a gap where a point's second value is not a number.
    pub(crate) series: Vec<(String, Vec<(f64, f64)>)>,
    /// Intervals at points of the curves.
    pub(crate) whiskers: Vec<Whisker>,
}

/// A vertical interval at a point of a curve.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Whisker {
    /// The name of the curve.
    pub(crate) series: String,
    /// The point on the horizontal axis.
    pub(crate) x: f64,
    /// The lower and the upper end.
    pub(crate) ends: (f64, f64),
}

/// The height of each panel in pixels.
pub(super) const HEIGHT: f64 = TITLE_HEIGHT + AXIS_HEIGHT + LABELS_HEIGHT;

/// Draws a panel below `top`.
pub(super) fn draw(scene: &mut Scene, top: f64, panel: &CurvePanel) {
    let points = || panel.series.iter().flat_map(|(_, points)| points.iter().copied());
    let across = Axis::new(points().map(|(x, _)| x), AXIS_X);
    let bottom = top + TITLE_HEIGHT + AXIS_HEIGHT;
    let upper_ends = panel.whiskers.iter().map(|whisker| whisker.ends.1);
    let up = Axis::new(points().map(|(_, y)| y).chain(upper_ends), (bottom, top + TITLE_HEIGHT));
    scene.text(24.0, top + 20.0, 14.0, Weight::Bold, Align::Start, INK, panel.title.clone());
    draw_axes(scene, bottom, &across, &up);
    let middle = f64::midpoint(AXIS_X.0, AXIS_X.1);
    let axis = panel.axis.clone();
    scene.text(middle, bottom + 36.0, 12.0, Weight::Regular, Align::Middle, INK, axis);
    for (number, (name, points)) in panel.series.iter().enumerate() {
        let color = SERIES[number % SERIES.len()];
        let placed: Vec<(f64, f64)> =
            points.iter().map(|(x, y)| (across.position(*x), up.position(*y))).collect();
        draw_curve(scene, &placed, color);
        for whisker in panel.whiskers.iter().filter(|whisker| whisker.series == *name) {
            let (low, high) = whisker.ends;
            let ends = (up.position(low.max(up.range.0)), up.position(high));
            draw_whisker(scene, across.position(whisker.x), ends, color);
        }
        let y = top + TITLE_HEIGHT + 18.0 * number as f64;
        scene.rectangle(LEGEND_X, y, 12.0, 12.0, color);
        scene.text(LEGEND_X + 18.0, y + 11.0, 13.0, Weight::Regular, Align::Start, INK, name.clone());
    }
}

fn draw_curve(scene: &mut Scene, placed: &[(f64, f64)], color: Color) {
    let is_drawn = |point: &(f64, f64)| !point.1.is_nan();
    for ends in placed.windows(2).filter(|ends| ends.iter().all(is_drawn)) {
        scene.line(ends[0], ends[1], 2.0, color);
    }
    for (x, y) in placed.iter().filter(|point| is_drawn(point)) {
        scene.rectangle(x - MARK / 2.0, y - MARK / 2.0, MARK, MARK, color);
    }
}

fn draw_whisker(scene: &mut Scene, x: f64, (low, high): (f64, f64), color: Color) {
    scene.line((x, low), (x, high), 1.5, color);
    for end in [low, high] {
        scene.line((x - MARK, end), (x + MARK, end), 1.5, color);
    }
}

fn draw_axes(scene: &mut Scene, bottom: f64, across: &Axis, up: &Axis) {
    for value in up.ticks() {
        let y = up.position(value);
        scene.line((AXIS_X.0, y), (AXIS_X.1, y), 1.0, GRID);
        scene.text(AXIS_X.0 - 8.0, y + 4.0, 11.0, Weight::Regular, Align::End, MUTED, short(value));
    }
    for value in across.ticks() {
        let x = across.position(value);
        scene.line((x, bottom), (x, bottom + 4.0), 1.0, INK);
        scene.text(x, bottom + 18.0, 11.0, Weight::Regular, Align::Middle, MUTED, short(value));
    }
    scene.line((AXIS_X.0, bottom), (AXIS_X.1, bottom), 1.0, INK);
}

/// The scale of an axis.
struct Axis {
    /// The smallest and the largest value that the axis shows.
    range: (f64, f64),
    is_logarithmic: bool,
    /// The positions of both in pixels.
    pixels: (f64, f64),
}

impl Axis {
    fn new(values: impl Iterator<Item = f64> + Clone, pixels: (f64, f64)) -> Axis {
        let largest = values.clone().fold(0.0, f64::max).max(f64::MIN_POSITIVE);
        let smallest = values.fold(largest, f64::min);
        let is_logarithmic = smallest > 0.0 && largest / smallest > LINEAR_SPREAD_MAX;
        let range = if is_logarithmic {
            (2_f64.powf(smallest.log2().floor()), 2_f64.powf(largest.log2().ceil()))
        } else {
            let step = round_step(largest / TICKS);
            (0.0, (largest / step).ceil() * step)
        };
        Axis { range, is_logarithmic, pixels }
    }

    fn position(&self, value: f64) -> f64 {
        let (low, high) = self.range;
        let share = if self.is_logarithmic {
            (value / low).log2() / (high / low).log2()
        } else {
            (value - low) / (high - low)
        };
        self.pixels.0 + share * (self.pixels.1 - self.pixels.0)
    }

    /// The values that the axis names: multiples of a round number, or powers of two or of four.
    fn ticks(&self) -> Vec<f64> {
        let (low, high) = self.range;
        if self.is_logarithmic {
            let powers = (high / low).log2().round() as i32;
            let step = 1 + powers / 9;
            return (0..=powers / step).map(|number| low * 2_f64.powi(number * step)).collect();
        }
        let step = round_step(high / TICKS);
        (0..=(high / step).round() as u32).map(|number| f64::from(number) * step).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_with_a_wide_spread_is_logarithmic() {
        let axis = Axis::new([8.0, 1024.0].into_iter(), (0.0, 70.0));
        assert!(axis.is_logarithmic);
        assert_eq!(axis.ticks(), [8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0]);
        assert!((axis.position(64.0) - 30.0).abs() < 1e-9);
        let axis = Axis::new([0.5, 0.99].into_iter(), (100.0, 0.0));
        assert_eq!((axis.range, axis.is_logarithmic), ((0.0, 1.0), false));
        assert!((axis.position(0.5) - 50.0).abs() < 1e-9);
    }

    #[test]
    fn an_axis_without_values_is_drawn() {
        let axis = Axis::new(std::iter::empty(), (0.0, 1.0));
        assert!(axis.position(0.0).is_finite() && axis.ticks().len() < 10);
    }
}
