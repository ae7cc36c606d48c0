//! Figures: their runs, the comparison with the paper, and their charts.

use super::run::Run;
use crate::plot::{self, BarPanel, ChartBar, ChartPanel, CurvePanel};
use crate::record::Record;
use crate::{Error, Result};

/// The number of keys and the virtual time of the runs of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// Fewer keys and less virtual time: a preview in seconds.
    Quick,
    /// The runs in the documents.
    Full,
}

impl Effort {
    /// Picks `quick` or `full`.
    pub(super) fn pick<T>(self, quick: T, full: T) -> T {
        if self == Effort::Quick { quick } else { full }
    }
}

/// Whether constants of the NIC model were fitted to a value: only other values test the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CalibrationStatus {
    /// A constant was fitted to this point.
    Fitted,
    /// A micro-benchmark from which constants were derived, or which checks them.
    MicroBenchmark,
    /// A micro-benchmark in the middle of a curve, or with an unknown set-up: its deviation has no bound.
    Reported,
    /// Not measured: the value follows from the set-up, or from a format.
    Given,
    /// A result of an index or of its locks, from which no constant was derived.
    Predicted,
    /// A result of another set-up than the figure's: it says nothing about the paper's value.
    OtherSetup,
}

impl CalibrationStatus {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            CalibrationStatus::Fitted => "calibrated (fitted)",
            CalibrationStatus::MicroBenchmark => "calibrated (micro-benchmark)",
            CalibrationStatus::Reported => "reported only",
            CalibrationStatus::Given => "given",
            CalibrationStatus::Predicted => "prediction",
            CalibrationStatus::OtherSetup => "another set-up",
        }
    }

    /// The largest relative deviation, if the value is checked.
    pub fn bound(self) -> Option<f64> {
        match self {
            CalibrationStatus::Fitted => Some(0.05),
            CalibrationStatus::MicroBenchmark => Some(0.10),
            CalibrationStatus::Reported
            | CalibrationStatus::Given
            | CalibrationStatus::Predicted
            | CalibrationStatus::OtherSetup => None,
        }
    }
}

/// A value of the paper beside the value that the simulator measures.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The quantity with its unit; the values of one panel are drawn together.
    pub panel: String,
    /// The point on the curve.
    pub point: String,
    /// The paper's value, if it prints one.
    pub paper: Option<f64>,
    /// The simulator's value.
    pub ours: f64,
    /// The simulator's value with the other bound of a duration of the NIC model that no source measures alone; the
    /// two values are the ends of a range.
    pub ours_to: Option<f64>,
    /// Whether the value was used to calibrate the NIC model.
    pub status: CalibrationStatus,
    /// The source of the paper's value.
    pub source: &'static str,
    /// The position of our value on a curve; `None`: the chart has a bar.
    pub curve: Option<CurvePoint>,
}

/// The position of a value on a curve of a chart. All values of a panel have one, or none.
#[derive(Clone, Debug, PartialEq)]
pub struct CurvePoint {
    /// The name of the curve.
    pub series: String,
    /// The horizontal quantity with its unit.
    pub axis: String,
    /// The horizontal value; the vertical one is [`Comparison::ours`].
    pub at: f64,
}

impl Comparison {
    /// The name of the status in reports. A comparison without a value of the paper is "reported only".
    pub fn status_name(&self) -> &'static str {
        match (self.paper, self.status) {
            (None, status) if !matches!(status, CalibrationStatus::Given | CalibrationStatus::OtherSetup) => {
                CalibrationStatus::Reported.name()
            }
            (_, status) => status.name(),
        }
    }

    /// The comparison with a second value of the simulator, from the other bound of a duration of the NIC model.
    #[must_use]
    pub(super) fn to(self, ours_to: f64) -> Comparison {
        Comparison { ours_to: Some(ours_to), ..self }
    }

    /// The comparison as a point of a curve.
    #[must_use]
    pub(super) fn on_curve(self, series: impl Into<String>, axis: impl Into<String>, at: f64) -> Comparison {
        Comparison { curve: Some(CurvePoint { series: series.into(), axis: axis.into(), at }), ..self }
    }

    /// The smaller and the larger of the simulator's values.
    pub fn range(&self) -> (f64, f64) {
        let other = self.ours_to.unwrap_or(self.ours);
        (self.ours.min(other), self.ours.max(other))
    }

    /// The simulator's value divided by the paper's. Of a range, the value that is nearest to the paper's counts: the
    /// ratio is 1 if the range contains the paper's value.
    pub fn ratio(&self) -> Option<f64> {
        let (low, high) = self.range();
        self.paper.map(|paper| if high > low { paper.clamp(low, high) } else { low } / paper)
    }

    /// The smaller and the larger of the simulator's values, divided by the paper's.
    pub fn ratio_range(&self) -> Option<(f64, f64)> {
        let (low, high) = self.range();
        self.paper.map(|paper| (low / paper, high / paper))
    }
}

/// A figure or table of a paper, reproduced in the simulator.
pub struct Figure {
    /// The name of the figure on the command line.
    pub name: &'static str,
    /// The title of the figure in reports and charts.
    pub title: &'static str,
    /// The set-up in the paper and here, and the differences.
    pub setting: &'static str,
    /// The paper's claim, in one sentence.
    pub claim: &'static str,
    /// The beginning of the names of the panels that decide the verdict; empty: all panels.
    pub(super) key: &'static str,
    /// The reason why our values differ from the claim; empty if they do not differ.
    pub cause: &'static str,
    /// The runs; their number and order are the same for each effort.
    pub(super) runs: fn(Effort) -> Vec<Run>,
    /// The comparisons, from the records in the order of the runs.
    pub(super) compare: fn(&[Record]) -> Vec<Comparison>,
}

impl Figure {
    /// The name of the figure's page: the paper, or `nic`.
    pub fn page(&self) -> &'static str {
        self.name.split('-').next().unwrap_or(self.name)
    }

    /// The command that makes the figure.
    pub fn command(&self, effort: Effort) -> String {
        format!("farwood reproduce {}{}", self.name, effort.pick(" --quick", ""))
    }

    /// Whether the figure measures NIC models without an index.
    pub fn measures_nics(&self) -> bool {
        (self.runs)(Effort::Quick).iter().all(|run| matches!(run, Run::Verbs(_) | Run::Locks(_)))
    }

    /// Compares the records of the figure's runs with the paper.
    ///
    /// # Errors
    /// The number of records differs from the number of runs: the records belong to another figure, or to an older
    /// version of this one.
    pub fn compare(&self, records: &[Record]) -> Result<Vec<Comparison>> {
        let wanted = (self.runs)(Effort::Full).len();
        if records.len() == wanted {
            return Ok((self.compare)(records));
        }
        Err(Error::Record(format!("{} has {wanted} records instead of {}", self.name, records.len())))
    }

    /// As [`compare`](Self::compare), for records of quick runs, or of runs with changed parameters: values of indexes
    /// have no value of the paper beside them.
    ///
    /// # Errors
    /// As [`compare`](Self::compare).
    pub fn compare_other_setup(&self, records: &[Record]) -> Result<Vec<Comparison>> {
        let mut all = self.compare(records)?;
        if !self.measures_nics() {
            let measured = all.iter_mut().filter(|comparison| comparison.status != CalibrationStatus::Given);
            measured.for_each(|comparison| {
                (comparison.paper, comparison.status) = (None, CalibrationStatus::OtherSetup);
            });
        }
        Ok(all)
    }

    /// The title of a chart and of a table, which names another set-up than the figure's.
    pub fn chart_title(&self, comparisons: &[Comparison]) -> String {
        let is_other =
            comparisons.iter().any(|comparison| comparison.status == CalibrationStatus::OtherSetup);
        format!("{}{}", self.title, if is_other { " (another set-up)" } else { "" })
    }

    /// Draws the chart as SVG.
    pub fn svg(&self, comparisons: &[Comparison]) -> String {
        plot::comparison_svg(&self.chart_title(comparisons), &panels(comparisons))
    }

    /// Draws the chart as PNG.
    ///
    /// # Errors
    /// The picture cannot be drawn.
    pub fn png(&self, comparisons: &[Comparison]) -> Result<Vec<u8>> {
        plot::comparison_png(&self.chart_title(comparisons), &panels(comparisons))
    }
}

/// Groups comparisons by panel.
fn panels(comparisons: &[Comparison]) -> Vec<ChartPanel> {
    let mut groups: Vec<Vec<&Comparison>> = Vec::new();
    for comparison in comparisons {
        match groups.iter_mut().find(|group| group[0].panel == comparison.panel) {
            Some(group) => group.push(comparison),
            None => groups.push(vec![comparison]),
        }
    }
    groups
        .iter()
        .map(|group| curve_panel(group).map_or_else(|| bar_panel(group), ChartPanel::Curves))
        .collect()
}

fn bar_panel(group: &[&Comparison]) -> ChartPanel {
    let bar = |comparison: &&Comparison| ChartBar {
        name: comparison.point.clone(),
        paper: comparison.paper,
        ours: comparison.range(),
    };
    ChartPanel::Bars(BarPanel { title: group[0].panel.clone(), bars: group.iter().map(bar).collect() })
}

/// The panel of a group whose values are points of curves.
fn curve_panel(group: &[&Comparison]) -> Option<CurvePanel> {
    let axis = group[0].curve.as_ref()?.axis.clone();
    let mut series: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
    for comparison in group {
        let CurvePoint { series: name, at, .. } = comparison.curve.as_ref()?;
        let point = (*at, comparison.ours);
        match series.iter_mut().find(|(known, _)| known == name) {
            Some((_, points)) => points.push(point),
            None => series.push((name.clone(), vec![point])),
        }
    }
    Some(CurvePanel { title: group[0].panel.clone(), axis, series, whiskers: Vec::new() })
}
