//! Figures: their runs, the comparison with the paper, and their charts.

use crate::plot::{self, ChartBar, ChartPanel};
use crate::record::Record;
use crate::run::{RunSpec, SpatialSpec, simulate, simulate_spatial};
use crate::sim_run::micro::{LocksSpec, VerbsSpec, simulate_locks, simulate_verbs};
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

/// One run of a figure.
pub(super) enum Run {
    Index(Box<RunSpec>),
    Spatial(Box<SpatialSpec>),
    Verbs(VerbsSpec),
    Locks(LocksSpec),
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
        }
    }

    /// The largest relative deviation, if the value is checked.
    pub fn bound(self) -> Option<f64> {
        match self {
            CalibrationStatus::Fitted => Some(0.05),
            CalibrationStatus::MicroBenchmark => Some(0.10),
            CalibrationStatus::Reported | CalibrationStatus::Given | CalibrationStatus::Predicted => None,
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
    /// Whether the value was used to calibrate the NIC model.
    pub status: CalibrationStatus,
    /// The source of the paper's value.
    pub source: &'static str,
}

impl Comparison {
    /// The name of the status in reports. A comparison without a value of the paper is "reported only".
    pub fn status_name(&self) -> &'static str {
        match (self.paper, self.status) {
            (None, status) if status != CalibrationStatus::Given => CalibrationStatus::Reported.name(),
            (_, status) => status.name(),
        }
    }

    /// The simulator's value divided by the paper's.
    pub fn ratio(&self) -> Option<f64> {
        self.paper.map(|paper| self.ours / paper)
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
    /// The runs; their number and order are the same for each effort.
    pub(super) runs: fn(Effort) -> Vec<Run>,
    /// The comparisons, from the records in the order of the runs.
    pub(super) compare: fn(&[Record]) -> Vec<Comparison>,
}

impl Figure {
    /// Runs the figure; calls `progress` with the number of finished runs and of all runs.
    ///
    /// # Errors
    /// The errors of the runs.
    pub fn run(&self, effort: Effort, progress: &mut dyn FnMut(usize, usize)) -> Result<Vec<Record>> {
        let runs = (self.runs)(effort);
        let all = runs.len();
        let mut records = Vec::new();
        for (done, run) in runs.iter().enumerate() {
            progress(done, all);
            records.push(match run {
                Run::Index(spec) => simulate(spec, &mut |_| {})?,
                Run::Spatial(spec) => simulate_spatial(spec, &mut |_| {})?,
                Run::Verbs(spec) => simulate_verbs(spec)?,
                Run::Locks(spec) => simulate_locks(spec)?,
            });
        }
        progress(all, all);
        Ok(records)
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

    /// Draws the chart as SVG.
    pub fn svg(&self, comparisons: &[Comparison]) -> String {
        plot::comparison_svg(self.title, &panels(comparisons))
    }

    /// Draws the chart as PNG.
    ///
    /// # Errors
    /// The picture cannot be drawn.
    pub fn png(&self, comparisons: &[Comparison]) -> Result<Vec<u8>> {
        plot::comparison_png(self.title, &panels(comparisons))
    }
}

/// Groups comparisons by panel.
fn panels(comparisons: &[Comparison]) -> Vec<ChartPanel> {
    let mut panels: Vec<ChartPanel> = Vec::new();
    for Comparison { panel, point, paper, ours, .. } in comparisons {
        let bar = ChartBar { name: point.clone(), paper: *paper, ours: *ours };
        match panels.iter_mut().find(|known| known.title == *panel) {
            Some(known) => known.bars.push(bar),
            None => panels.push(ChartPanel { title: panel.clone(), bars: vec![bar] }),
        }
    }
    panels
}
