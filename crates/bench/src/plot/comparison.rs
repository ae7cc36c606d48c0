//! Charts that compare the paper's values with ours, as horizontal bars or as curves in panels.

use super::curves::{self, CurvePanel};
use super::font::Weight;
use super::scene::{Align, Scene};
use super::{GRID, INK, MUTED, SERIES, png, short, svg};
use crate::Result;

const WIDTH: f64 = 960.0;
/// Left and right end of the bars in pixels.
const BARS_X: (f64, f64) = (340.0, 860.0);
const TITLE_HEIGHT: f64 = 76.0;
const PANEL_TITLE_HEIGHT: f64 = 34.0;
const BAR_HEIGHT: f64 = 11.0;
/// Space between two rows in pixels.
const ROW_GAP: f64 = 8.0;
/// A panel is logarithmic if the ratio of its largest to its smallest value exceeds this.
const LINEAR_SPREAD_MAX: f64 = 60.0;

/// A panel of a chart.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ChartPanel {
    Bars(BarPanel),
    Curves(CurvePanel),
}

/// Values that are drawn on one scale.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BarPanel {
    /// The quantity with its unit.
    pub(crate) title: String,
    /// The values that the panel draws, one bar or pair of bars each.
    pub(crate) bars: Vec<ChartBar>,
}

/// The paper's value and ours.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ChartBar {
    pub(crate) name: String,
    pub(crate) paper: Option<f64>,
    /// The smaller and the larger end of our range; equal for a single value.
    pub(crate) ours: (f64, f64),
}

/// The chart as an SVG document.
pub(crate) fn comparison_svg(title: &str, panels: &[ChartPanel]) -> String {
    svg::render(&scene(title, panels))
}

/// The chart as a PNG file, twice as large as the SVG.
pub(crate) fn comparison_png(title: &str, panels: &[ChartPanel]) -> Result<Vec<u8>> {
    png::render(&scene(title, panels), 2.0)
}

fn scene(title: &str, panels: &[ChartPanel]) -> Scene {
    let heights: f64 = panels.iter().map(height).sum();
    let mut scene = Scene::new(WIDTH, TITLE_HEIGHT + heights + 16.0);
    scene.text(24.0, 38.0, 20.0, Weight::Bold, Align::Start, INK, title.to_owned());
    let has_papers = |panel: &ChartPanel| match panel {
        ChartPanel::Bars(panel) => panel.bars.iter().any(|bar| bar.paper.is_some()),
        ChartPanel::Curves(_) => false,
    };
    let legend = [(24.0, SERIES[1], "paper"), (104.0, SERIES[0], "farwood")];
    for (x, color, name) in legend.into_iter().filter(|_| panels.iter().any(has_papers)) {
        scene.rectangle(x, 54.0, 12.0, 12.0, color);
        scene.text(x + 18.0, 65.0, 13.0, Weight::Regular, Align::Start, INK, name.to_owned());
    }
    let mut y = TITLE_HEIGHT;
    for panel in panels {
        match panel {
            ChartPanel::Bars(panel) => draw(&mut scene, y, panel),
            ChartPanel::Curves(panel) => curves::draw(&mut scene, y, panel),
        }
        y += height(panel);
    }
    scene
}

fn row_height(bar: &ChartBar) -> f64 {
    ROW_GAP + BAR_HEIGHT * if bar.paper.is_some() { 2.0 } else { 1.0 }
}

fn height(panel: &ChartPanel) -> f64 {
    match panel {
        ChartPanel::Bars(panel) => height_of_bars(panel),
        ChartPanel::Curves(_) => curves::HEIGHT,
    }
}

fn height_of_bars(panel: &BarPanel) -> f64 {
    PANEL_TITLE_HEIGHT + panel.bars.iter().map(row_height).sum::<f64>() + ROW_GAP
}

fn draw(scene: &mut Scene, top: f64, panel: &BarPanel) {
    let values =
        || panel.bars.iter().flat_map(|bar| [bar.paper, Some(bar.ours.0), Some(bar.ours.1)]).flatten();
    let largest = values().fold(0.0, f64::max).max(f64::MIN_POSITIVE);
    let smallest = values().filter(|value| *value > 0.0).fold(largest, f64::min);
    let is_logarithmic = largest / smallest > LINEAR_SPREAD_MAX;
    let title = format!("{}{}", panel.title, if is_logarithmic { " (logarithmic)" } else { "" });
    scene.text(24.0, top + 20.0, 14.0, Weight::Bold, Align::Start, INK, title);
    let width = |value: f64| {
        let share = if is_logarithmic {
            // The smallest bar has a visible length too.
            ((value.max(smallest) / smallest).ln() + 0.5) / ((largest / smallest).ln() + 0.5)
        } else {
            value / largest
        };
        share.max(0.0) * (BARS_X.1 - BARS_X.0)
    };
    let mut y = top + PANEL_TITLE_HEIGHT;
    scene.line((BARS_X.0, y - 3.0), (BARS_X.0, top + height_of_bars(panel) - ROW_GAP), 1.0, GRID);
    for bar in &panel.bars {
        let middle = y + (row_height(bar) - ROW_GAP) / 2.0;
        let name = bar.name.clone();
        scene.text(BARS_X.0 - 8.0, middle + 4.0, 11.0, Weight::Regular, Align::End, INK, name);
        for (range, color) in
            [(bar.paper.map(|paper| (paper, paper)), SERIES[1]), (Some(bar.ours), SERIES[0])]
        {
            let Some((low, high)) = range else { continue };
            scene.rectangle(BARS_X.0, y, width(low), BAR_HEIGHT - 1.0, color);
            let mut text = digits(low);
            if high > low {
                // A thin bar goes on to the larger end of a range.
                let thin = (BAR_HEIGHT - 1.0) / 3.0;
                scene.rectangle(BARS_X.0 + width(low), y + thin, width(high) - width(low), thin, color);
                text = format!("{text} to {}", digits(high));
            }
            let x = BARS_X.0 + width(high) + 5.0;
            scene.text(x, y + 9.0, 10.0, Weight::Regular, Align::Start, MUTED, text);
            y += BAR_HEIGHT;
        }
        y += ROW_GAP;
    }
}

fn digits(value: f64) -> String {
    if value >= 100.0 { format!("{value:.0}") } else { short((value * 100.0).round() / 100.0) }
}
