//! Figures of the papers, made again in the laboratory.
//!
//! Each figure is one file: what runs, what the paper says, and what is compared. A run of it yields its records; the
//! report and the charts are made from records alone, so that they can be made again without measuring.

mod catfish_cluster;
mod catfish_fig10;
mod catfish_fig11;
mod catfish_fig12;
mod catfish_fig13;
mod catfish_fig14;
mod catfish_fig2;
mod catfish_fig7;
mod catfish_fig8;
mod catfish_fig9;
mod nic;
mod report;
mod sherman_cluster;
mod sherman_fig10;
mod sherman_fig11;
mod sherman_fig12;
mod sherman_fig13;
mod sherman_fig14;
mod sherman_fig15;
mod sherman_fig16;
mod sherman_fig2;
mod sherman_fig3;
mod sherman_keys;
mod sherman_on_chip;
mod sherman_table1;
mod smart_ablation;
mod smart_amplification;
mod smart_cache;
mod smart_cluster;
mod smart_ycsb;
mod sphinx_cluster;
mod sphinx_fig4;
mod sphinx_fig5;
mod sphinx_fig6;

pub use report::{MARK_BEGIN, MARK_END, between_marks, calibration, page, report, table};

use crate::plot::{self, ChartBar, ChartPanel};
use crate::record::Record;
use crate::run::{RunSpec, SpatialSpec, simulate, simulate_spatial};
use crate::sim_run::micro::{LocksSpec, VerbsSpec, simulate_locks, simulate_verbs};
use crate::{Error, Result};

/// How long and how large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// Fewer keys and less virtual time: a look at the shape, in seconds.
    Quick,
    /// What the documents show.
    Full,
}

impl Effort {
    /// One of two values.
    fn pick<T>(self, quick: T, full: T) -> T {
        if self == Effort::Quick { quick } else { full }
    }
}

/// One run of a figure.
enum Run {
    Index(Box<RunSpec>),
    Spatial(Box<SpatialSpec>),
    Verbs(VerbsSpec),
    Locks(LocksSpec),
}

/// What a number has to do with the model's constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// A constant was fitted to this point.
    Fitted,
    /// A micro-benchmark that constants were taken from, or that checks them.
    MicroBenchmark,
    /// A micro-benchmark between the ends of a curve, or whose set-up is not known: reported without a bound.
    Reported,
    /// Nothing measured: what follows from the set-up, or from a format.
    Given,
    /// A result of an index or of its locks; no constant knows of it.
    Predicted,
}

impl Standing {
    /// As it stands in reports.
    pub fn name(self) -> &'static str {
        match self {
            Standing::Fitted => "calibrated (fitted)",
            Standing::MicroBenchmark => "calibrated (micro-benchmark)",
            Standing::Reported => "reported only",
            Standing::Given => "given",
            Standing::Predicted => "prediction",
        }
    }

    /// How far off it may be, as a share.
    pub fn bound(self) -> Option<f64> {
        match self {
            Standing::Fitted => Some(0.05),
            Standing::MicroBenchmark => Some(0.10),
            Standing::Reported | Standing::Given | Standing::Predicted => None,
        }
    }
}

/// A number of the paper beside ours.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// What is measured, with its unit: numbers of one panel are drawn together.
    pub panel: String,
    /// Where on the curve.
    pub point: String,
    /// The paper's, where it prints one.
    pub paper: Option<f64>,
    /// Ours.
    pub ours: f64,
    /// Whether it is a prediction.
    pub standing: Standing,
    /// Where the paper's number is from.
    pub source: &'static str,
}

impl Comparison {
    /// What it has to do with the model's constants, as it stands in reports. Where there is nothing to compare, it is
    /// no prediction, and calibrates nothing.
    pub fn standing_name(&self) -> &'static str {
        match (self.paper, self.standing) {
            (None, standing) if standing != Standing::Given => Standing::Reported.name(),
            (_, standing) => standing.name(),
        }
    }

    /// Ours over the paper's.
    pub fn ratio(&self) -> Option<f64> {
        self.paper.map(|paper| self.ours / paper)
    }
}

/// A figure.
pub struct Figure {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// What ran, in the paper and here, and what differs.
    pub setting: &'static str,
    /// The runs: as many for each effort, in one order.
    runs: fn(Effort) -> Vec<Run>,
    /// What is compared, from the records in the order of the runs.
    compare: fn(&[Record]) -> Vec<Comparison>,
}

/// All figures, in the order in which they are listed.
pub const FIGURES: &[Figure] = &[
    nic::FIGURE,
    sherman_fig2::FIGURE,
    sherman_fig3::FIGURE,
    sherman_on_chip::FIGURE,
    sherman_fig16::FIGURE,
    sherman_table1::FIGURE,
    sherman_fig10::FIGURE,
    sherman_fig11::FIGURE,
    sherman_fig12::FIGURE,
    sherman_fig13::FIGURE,
    sherman_fig14::FIGURE,
    sherman_fig15::FIGURE,
    sherman_keys::FIGURE,
    smart_amplification::FIGURE,
    smart_ycsb::FIGURE,
    smart_ablation::FIGURE,
    smart_cache::FIGURE,
    sphinx_fig4::FIGURE,
    sphinx_fig5::FIGURE,
    sphinx_fig6::FIGURE,
    catfish_fig2::FIGURE,
    catfish_fig7::FIGURE,
    catfish_fig8::FIGURE,
    catfish_fig9::FIGURE,
    catfish_fig10::FIGURE,
    catfish_fig11::FIGURE,
    catfish_fig12::FIGURE,
    catfish_fig13::FIGURE,
    catfish_fig14::FIGURE,
];

/// The figure of that name.
pub fn figure(name: &str) -> Result<&'static Figure> {
    FIGURES.iter().find(|figure| figure.name == name).ok_or_else(|| {
        let names: Vec<&str> = FIGURES.iter().map(|figure| figure.name).collect();
        Error::parameter(
            "FIGURE",
            format!("there is no {name}"),
            format!("give all, or of {}", names.join(", ")),
        )
    })
}

impl Figure {
    /// Runs it; `progress` is told how many of how many runs are done.
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

    /// Whether it measures cards, and no index.
    pub fn measures_cards(&self) -> bool {
        (self.runs)(Effort::Quick).iter().all(|run| matches!(run, Run::Verbs(_) | Run::Locks(_)))
    }

    /// What its records say beside the paper. Refuses records of another figure, or of an older form of it.
    pub fn compare(&self, records: &[Record]) -> Result<Vec<Comparison>> {
        let wanted = (self.runs)(Effort::Full).len();
        if records.len() == wanted {
            return Ok((self.compare)(records));
        }
        Err(Error::Record(format!("{} has {wanted} records, and these are {}", self.name, records.len())))
    }

    /// Its chart as SVG.
    pub fn svg(&self, comparisons: &[Comparison]) -> String {
        plot::comparison_svg(self.title, &panels(comparisons))
    }

    /// Its chart as PNG.
    pub fn png(&self, comparisons: &[Comparison]) -> Result<Vec<u8>> {
        plot::comparison_png(self.title, &panels(comparisons))
    }
}

/// Comparisons by their panels.
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

#[cfg(test)]
mod tests;
