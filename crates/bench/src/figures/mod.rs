//! The papers' figures, reproduced in the simulator.
//!
//! Each figure is one file with its runs, the paper's values, and the comparison. Running a figure yields its records;
//! the report and the charts depend on records only, so that they can be generated again without measuring.

mod builders;
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
mod catfish_nodes;
mod changes;
mod cpu_sensitivity;
mod figure;
mod nic;
mod pages;
mod plan;
mod report;
mod run;
mod sherman_alternatives;
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
mod smart_amplification;
mod smart_cache;
mod smart_cluster;
mod smart_curves;
mod smart_fig11;
mod smart_fig12;
mod smart_fig13;
mod smart_fig14;
mod smart_fig15;
mod smart_fig16;
mod smart_fig17;
mod smart_fig18;
mod smart_fig3;
mod sphinx_cluster;
mod sphinx_fig4;
mod sphinx_fig5;
mod sphinx_fig6;
mod sphinx_filter;
mod validation;
mod verdict;

pub use changes::SetupChanges;
pub use figure::{CalibrationStatus, Comparison, CurvePoint, Effort, Figure};
pub use pages::{PAGES, ReproducedFigure, index, page};
pub use plan::{FigureEvent, FigurePlan, RunProgress};
pub use report::{MARK_BEGIN, MARK_END, between, between_marks, calibration, report, table};
pub use validation::{VALIDATION_BEGIN, VALIDATION_END, validation};
pub use verdict::{Judgement, Verdict, judge};

use crate::{Error, Result};

/// All figures, in the order of the documents.
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
    sherman_alternatives::FIGURE,
    smart_amplification::FIGURE,
    smart_fig3::FIGURE,
    smart_fig11::FIGURE,
    smart_fig12::FIGURE,
    smart_fig13::FIGURE,
    smart_fig14::FIGURE,
    smart_fig15::FIGURE,
    smart_fig16::FIGURE,
    smart_fig17::FIGURE,
    smart_fig18::FIGURE,
    smart_cache::FIGURE,
    sphinx_fig4::FIGURE,
    sphinx_fig5::FIGURE,
    sphinx_fig6::FIGURE,
    sphinx_filter::FIGURE,
    catfish_fig2::FIGURE,
    catfish_fig7::FIGURE,
    catfish_fig8::FIGURE,
    catfish_fig9::FIGURE,
    catfish_fig10::FIGURE,
    catfish_fig11::FIGURE,
    catfish_fig12::FIGURE,
    catfish_fig13::FIGURE,
    catfish_fig14::FIGURE,
    catfish_nodes::FIGURE,
    cpu_sensitivity::FIGURE,
];

/// The figure of this name.
///
/// # Errors
/// No figure has the name.
pub fn figure(name: &str) -> Result<&'static Figure> {
    FIGURES.iter().find(|figure| figure.name == name).ok_or_else(|| {
        let names: Vec<&str> = FIGURES.iter().map(|figure| figure.name).collect();
        Error::parameter(
            "FIGURE",
            format!("no such figure: {name}"),
            format!("give all, or some of {}", names.join(", ")),
        )
    })
}

#[cfg(test)]
mod drift;
#[cfg(test)]
mod tests;
