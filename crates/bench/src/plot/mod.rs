//! Charts of records as SVG and PNG, without fonts or libraries of the system.
//!
//! A chart compares records (Farwood and its peers, or several variants) by kind of operation: throughput in the upper
//! panel, latency in the lower one (a bar up to p50, a line up to p99). SVG and PNG render the same scene.

mod comparison;
mod curves;
mod font;
pub mod map;
mod png;
pub mod records;
mod scene;
mod svg;
mod timeline;

pub(crate) use comparison::{BarPanel, ChartBar, ChartPanel, comparison_png, comparison_svg};
pub(crate) use curves::{CurvePanel, Whisker};

use crate::record::table::{grouped, microseconds, rate};
use crate::record::{Measured, Record};
use crate::{Error, Result};
use font::Weight;
use scene::{Align, Color, Scene};

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 720.0;
/// Left and right end of both panels in pixels.
const PANEL_X: (f64, f64) = (78.0, 936.0);
/// Top and bottom of the throughput panel.
const THROUGHPUT_Y: (f64, f64) = (136.0, 366.0);
/// Top and bottom of the latency panel.
const LATENCY_Y: (f64, f64) = (446.0, 668.0);
/// Largest number of records in a chart.
const SERIES_MAX: usize = 6;

const INK: Color = Color(0x1f, 0x29, 0x37);
const MUTED: Color = Color(0x5b, 0x65, 0x75);
const GRID: Color = Color(0xe3, 0xe7, 0xed);
/// Okabe and Ito's colours, which colour-blind readers can distinguish.
const SERIES: [Color; SERIES_MAX] = [
    Color(0x00, 0x72, 0xb2),
    Color(0xe6, 0x9f, 0x00),
    Color(0x00, 0x9e, 0x73),
    Color(0xcc, 0x79, 0xa7),
    Color(0x56, 0xb4, 0xe9),
    Color(0xd5, 0x5e, 0x00),
];

/// The chart as an SVG document.
///
/// # Errors
/// No records, or more than 6.
pub fn svg(records: &[Record]) -> Result<String> {
    Ok(svg::render(&Plot::new(records)?.scene()))
}

/// The chart as a PNG file, twice as large as the SVG.
///
/// # Errors
/// No records, or more than 6.
pub fn png(records: &[Record]) -> Result<Vec<u8>> {
    png::render(&Plot::new(records)?.scene(), 2.0)
}

/// A group of bars: a kind of operation, and its results in each record.
struct Group {
    name: &'static str,
    measured: Vec<Option<Measured>>,
}

struct Plot<'a> {
    records: &'a [Record],
    groups: Vec<Group>,
}

impl<'a> Plot<'a> {
    fn new(records: &'a [Record]) -> Result<Plot<'a>> {
        if records.is_empty() || records.len() > SERIES_MAX {
            return Err(Error::Chart(format!("{} records; a chart shows 1 to {SERIES_MAX}", records.len())));
        }
        let mut groups: Vec<Group> = Vec::new();
        for name in ["get", "put", "insert", "remove", "scan"] {
            let of = |record: &Record| {
                record
                    .by_operation
                    .iter()
                    .find(|(kind, _)| *kind == name)
                    .map(|(_, measured)| measured.clone())
            };
            let measured: Vec<Option<Measured>> = records.iter().map(of).collect();
            if measured.iter().any(Option::is_some) {
                groups.push(Group { name, measured });
            }
        }
        if groups.len() != 1 {
            groups
                .push(Group { name: "all", measured: records.iter().map(|r| Some(r.measured())).collect() });
        }
        Ok(Plot { records, groups })
    }

    fn scene(&self) -> Scene {
        let mut scene = Scene::new(WIDTH, HEIGHT);
        self.draw_titles(&mut scene);
        self.draw_legend(&mut scene);
        self.draw_throughput(&mut scene);
        self.draw_latency(&mut scene);
        scene
    }

    fn draw_titles(&self, scene: &mut Scene) {
        let first = &self.records[0];
        let names: Vec<String> = self.records.iter().map(Record::label).collect();
        let title = format!("{}: {}", names.join(", "), first.workload);
        scene.text(24.0, 40.0, 22.0, Weight::Bold, Align::Start, INK, title);
        let skew = match first.distribution.as_str() {
            "uniform" => "uniform".to_owned(),
            name => format!("{name} {}", first.theta),
        };
        let subtitle = format!(
            "{} keys of {} B, values of {} B, {skew}; {} {}, {} clients; {} s on {}",
            grouped(first.keys),
            first.key_bytes,
            first.value_bytes,
            first.compute_nodes,
            if first.nic.is_some() { "compute nodes" } else { "processes" },
            first.clients,
            rounded_seconds(first.seconds),
            first.machine,
        );
        scene.text_within(24.0, 63.0, 13.0, MUTED, &subtitle, WIDTH - 48.0);
    }

    fn draw_legend(&self, scene: &mut Scene) {
        let mut x = 24.0;
        for (record, color) in self.records.iter().zip(SERIES) {
            scene.rectangle(x, 82.0, 12.0, 12.0, color);
            let label = record.label();
            let width = scene.text(x + 18.0, 93.0, 13.0, Weight::Regular, Align::Start, INK, label);
            x += 18.0 + width + 24.0;
        }
    }

    fn draw_throughput(&self, scene: &mut Scene) {
        let (top, bottom) = THROUGHPUT_Y;
        panel_title(scene, top, "Throughput, operations per second");
        let largest = self.all().map(|measured| measured.mops).fold(0.0, f64::max);
        let step = round_step(largest / 4.0);
        let end = (largest / step).ceil().max(1.0) * step;
        let y = |mops: f64| bottom - (bottom - top) * mops / end;
        for tick in 0..=(end / step).round() as u32 {
            let mops = f64::from(tick) * step;
            let label = if tick == 0 { "0".to_owned() } else { tick_rate(mops) };
            let line = if tick == 0 { GridLine::Axis } else { GridLine::Inner };
            grid_line(scene, y(mops), line, label);
        }
        self.draw_bars(scene, bottom, |scene, bar, measured| {
            scene.rectangle(bar.x, y(measured.mops), bar.width, bottom - y(measured.mops), bar.color);
            bar.label(scene, y(measured.mops) - 5.0, INK, &rate(measured.mops));
        });
    }

    fn draw_latency(&self, scene: &mut Scene) {
        let (top, bottom) = LATENCY_Y;
        panel_title(scene, top, "Latency, microseconds, logarithmic: bar up to p50, line up to p99");
        let positive = || self.all().map(|m| &m.latency_us).filter(|latency| latency.p50 > 0.0);
        let low = positive().map(|latency| latency.p50).fold(f64::INFINITY, f64::min);
        let high = positive().map(|latency| latency.p99.max(latency.p50)).fold(0.0, f64::max);
        let (low, high) = if high > 0.0 { (low, high) } else { (1.0, 1.0) };
        // The lower end of a logarithmic axis is arbitrary; this one gives bars some height, and labels some space.
        let (from, to) = ((low * 0.6).log10().floor(), (high * 1.3).log10().ceil());
        let y = |us: f64| bottom - (bottom - top) * (us.max(1e-9).log10() - from) / (to - from);
        for decade in from as i32..=to as i32 {
            let label = tick_microseconds(decade);
            let line = if decade == from as i32 { GridLine::Axis } else { GridLine::Inner };
            grid_line(scene, y(10f64.powi(decade)), line, label);
        }
        self.draw_bars(scene, bottom, |scene, bar, measured| {
            let latency = &measured.latency_us;
            if latency.p50 <= 0.0 {
                return;
            }
            let middle = bar.x + bar.width / 2.0;
            scene.rectangle(bar.x, y(latency.p50), bar.width, bottom - y(latency.p50), bar.color);
            scene.line((middle, y(latency.p50)), (middle, y(latency.p99)), 1.5, INK);
            let cap = (bar.width / 4.0).min(8.0);
            scene.line((middle - cap, y(latency.p99)), (middle + cap, y(latency.p99)), 1.5, INK);
            bar.label(scene, y(latency.p99) - 6.0, INK, &microseconds(latency.p99));
            if bottom - y(latency.p50) > 20.0 {
                bar.label(scene, y(latency.p50) + 16.0, bar.color.contrast(), &microseconds(latency.p50));
            }
        });
    }

    /// Calls `draw` for every bar of a panel, and writes the names of the groups below it.
    fn draw_bars(&self, scene: &mut Scene, bottom: f64, draw: impl Fn(&mut Scene, &Bar, &Measured)) {
        let slot = (PANEL_X.1 - PANEL_X.0) / self.groups.len() as f64;
        let width = (slot * 0.72 / self.records.len() as f64).min(84.0);
        for (number, group) in self.groups.iter().enumerate() {
            let middle = PANEL_X.0 + slot * (number as f64 + 0.5);
            let bars = SERIES.iter().zip(&group.measured);
            let bars: Vec<_> =
                bars.filter_map(|(color, measured)| Some((*color, measured.as_ref()?))).collect();
            let mut x = middle - width * bars.len() as f64 / 2.0;
            for (color, measured) in bars {
                draw(scene, &Bar { x: x + 1.5, width: width - 3.0, color }, measured);
                x += width;
            }
            scene.text(
                middle,
                bottom + 20.0,
                14.0,
                Weight::Regular,
                Align::Middle,
                INK,
                group.name.to_owned(),
            );
        }
    }

    fn all(&self) -> impl Iterator<Item = &Measured> {
        self.groups.iter().flat_map(|group| group.measured.iter().flatten())
    }
}

/// The position and colour of a bar.
struct Bar {
    x: f64,
    width: f64,
    color: Color,
}

impl Bar {
    /// A label in the middle of the bar's column, if it fits there at a legible size.
    fn label(&self, scene: &mut Scene, y: f64, color: Color, text: &str) {
        for size in [12.0, 11.0, 10.0] {
            if font::width(text, size, Weight::Regular) <= self.width + 6.0 {
                let middle = self.x + self.width / 2.0;
                scene.text(middle, y, size, Weight::Regular, Align::Middle, color, text.to_owned());
                return;
            }
        }
    }
}

fn panel_title(scene: &mut Scene, top: f64, title: &str) {
    scene.text(24.0, top - 18.0, 14.0, Weight::Bold, Align::Start, INK, title.to_owned());
}

/// The role of a horizontal line of a panel.
#[derive(Clone, Copy)]
enum GridLine {
    /// The line on which the bars stand.
    Axis,
    Inner,
}

fn grid_line(scene: &mut Scene, y: f64, line: GridLine, label: String) {
    let color = match line {
        GridLine::Axis => INK,
        GridLine::Inner => GRID,
    };
    scene.line((PANEL_X.0, y), (PANEL_X.1, y), 1.0, color);
    scene.text(PANEL_X.0 - 8.0, y + 4.0, 12.0, Weight::Regular, Align::End, MUTED, label);
}

/// The smallest of 1, 2, 2.5 and 5 times a power of ten that is at least `step`.
fn round_step(step: f64) -> f64 {
    if step <= 0.0 {
        return 1.0;
    }
    let power = 10f64.powf(step.log10().floor());
    [1.0, 2.0, 2.5, 5.0].into_iter().map(|digit| digit * power).find(|s| *s >= step).unwrap_or(10.0 * power)
}

/// A throughput on an axis, without trailing zeros.
fn tick_rate(mops: f64) -> String {
    match mops * 1e6 {
        x if x >= 1e6 => format!("{} M", short(x / 1e6)),
        x if x >= 1e3 => format!("{} k", short(x / 1e3)),
        x => short(x),
    }
}

fn tick_microseconds(decade: i32) -> String {
    if decade >= 0 { grouped(10u64.pow(decade as u32)) } else { short(10f64.powi(decade)) }
}

/// A number without trailing zeros.
fn short(x: f64) -> String {
    let text = format!("{x:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn rounded_seconds(seconds: f64) -> String {
    if seconds >= 10.0 { format!("{seconds:.0}") } else { short((seconds * 100.0).round() / 100.0) }
}

#[cfg(test)]
mod tests;
