//! The documents about figures: the report of one figure, the page of all figures, and the calibration table of the NIC
//! model.

use std::fmt::Write as _;

use super::figure::{CalibrationStatus, Comparison, Figure};
use crate::record::Record;
use crate::{Error, Result};

/// The report of one figure in Markdown: the set-up, the paper's values and ours.
pub fn report(figure: &Figure, records: &[Record], comparisons: &[Comparison], command: &str) -> String {
    let mut text = format!("# {}\n\n", figure.title);
    text.push_str(&section(figure, records, comparisons, command));
    text
}

/// The page of all figures: `docs/reproduction.md`.
pub fn page(parts: &[(&Figure, Vec<Record>, Vec<Comparison>)]) -> String {
    let about = "The papers' figures, reproduced in the simulator: a network in virtual time, whose NIC models are \
                 calibrated with micro-benchmarks only ([nic-model.md](nic-model.md)). Generated from the records \
                 in `docs/records/figures` by `cargo run -p farwood-bench --example reproduction`; do not edit. \
                 `docs/records/reproduce` measures again.";
    let mut text = format!("# Reproduction\n\n{}\n\n", wrapped(about));
    let words = wrapped(
        "A *prediction* compares a result with the paper's, and no constant of the model was derived from it. Values \
         without one in the paper are *reported only*. *Given* values are not measured: they follow from the set-up, \
         or from a format. A ratio is our value divided by the paper's.",
    );
    let _ = writeln!(text, "{words}");
    for (figure, records, comparisons) in parts {
        let _ = write!(text, "\n## {}\n\n", figure.title);
        let command = format!("farwood reproduce {}", figure.name);
        text.push_str(&section(figure, records, comparisons, &command));
        let _ = writeln!(text, "\n![{}](records/figures/{}.svg)", figure.title, figure.name);
    }
    text
}

fn section(figure: &Figure, records: &[Record], comparisons: &[Comparison], command: &str) -> String {
    let mut text = format!("{}\n\n```sh\n{command}\n```\n\n", wrapped(figure.setting));
    if let Some(record) = records.first() {
        let verbs: Vec<f64> = records.iter().filter_map(|record| record.simulated_verbs_per_second).collect();
        let mean = verbs.iter().sum::<f64>() / verbs.len().max(1) as f64;
        let origin = format!(
            "Commit {}{}, on {}; {:.2} million verbs simulated per second, mean of {} runs.",
            record.commit,
            if record.profile.is_empty() { String::new() } else { format!(" ({} profile)", record.profile) },
            record.machine,
            mean / 1e6,
            verbs.len()
        );
        let _ = writeln!(text, "{}\n", wrapped(&origin));
    }
    text.push_str(&summary(comparisons));
    for (at, comparison) in comparisons.iter().enumerate() {
        if at == 0 || comparisons[at - 1].panel != comparison.panel {
            let _ = write!(
                text,
                "\n{}:\n\n| point | paper | ours | ratio | status | source |\n|---|---:|---:|---:|---|---|\n",
                comparison.panel
            );
        }
        text.push_str(&row(comparison, &comparison.point));
    }
    text
}

/// The number of calibrating values and of predictions.
fn summary(comparisons: &[Comparison]) -> String {
    let count = |status| comparisons.iter().filter(|c| c.status == status && c.paper.is_some()).count();
    let numbers = format!(
        "Of the values with one in the paper, {} were fitted, {} are micro-benchmarks that calibrate or check the NIC \
         model, {} are reported only, and {} are predictions.",
        count(CalibrationStatus::Fitted),
        count(CalibrationStatus::MicroBenchmark),
        count(CalibrationStatus::Reported),
        count(CalibrationStatus::Predicted),
    );
    wrapped(&numbers) + "\n"
}

fn row(comparison: &Comparison, point: &str) -> String {
    let or_dash = |value: Option<String>| value.unwrap_or_else(|| "–".to_owned());
    let ratio = comparison.ratio().map(|ratio| {
        let is_off = comparison.status.bound().is_some_and(|bound| (ratio - 1.0).abs() > bound);
        // Deviations beyond the bound are bold.
        if is_off { format!("**{ratio:.2}**") } else { format!("{ratio:.2}") }
    });
    format!(
        "| {point} | {} | {} | {} | {} | {} |\n",
        or_dash(comparison.paper.map(number)),
        number(comparison.ours),
        or_dash(ratio),
        comparison.status_name(),
        comparison.source,
    )
}

/// The calibration table of `docs/nic-model.md`: every point with a measured value that calibrates, checks or describes
/// a NIC model.
pub fn calibration(comparisons: &[Comparison]) -> String {
    let mut text = String::from(
        "| point | measured | model | ratio | status | source |\n|---|---:|---:|---:|---|---|\n",
    );
    let is_of_nic = |status| !matches!(status, CalibrationStatus::Predicted | CalibrationStatus::Given);
    let points = comparisons.iter().filter(|c| is_of_nic(c.status) && c.paper.is_some());
    for comparison in points {
        let point = format!("{}: {}", comparison.panel, comparison.point);
        text.push_str(&row(comparison, &point));
    }
    text
}

/// The line of `docs/nic-model.md` before the calibration table.
pub const MARK_BEGIN: &str = "<!-- calibration: made from docs/records/figures; do not edit -->";
/// The line after the calibration table.
pub const MARK_END: &str = "<!-- end of calibration -->";

/// Replaces the text between the two marks by `table`.
///
/// # Errors
/// A text without the marks.
pub fn between_marks(text: &str, table: &str) -> Result<String> {
    let parts = text.split_once(MARK_BEGIN).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(MARK_END)?;
        Some((before, after))
    });
    let Some((before, after)) = parts else {
        return Err(Error::Record(format!("{MARK_BEGIN} followed by {MARK_END} is missing")));
    };
    Ok(format!("{before}{MARK_BEGIN}\n\n{table}\n{MARK_END}{after}"))
}

/// The comparisons as a text table.
pub fn table(comparisons: &[Comparison]) -> String {
    let mut text = String::new();
    let width = comparisons.iter().map(|c| c.point.chars().count()).max().unwrap_or(0);
    for (at, comparison) in comparisons.iter().enumerate() {
        if at == 0 || comparisons[at - 1].panel != comparison.panel {
            let _ = write!(
                text,
                "{}\n{:width$}  {:>10}  {:>10}  {:>6}\n",
                comparison.panel, "", "paper", "ours", "ratio"
            );
        }
        let or_dash = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        let _ = writeln!(
            text,
            "{:width$}  {:>10}  {:>10}  {:>6}  {}",
            comparison.point,
            or_dash(comparison.paper.map(number)),
            number(comparison.ours),
            or_dash(comparison.ratio().map(|ratio| format!("{ratio:.2}"))),
            comparison.status_name(),
        );
    }
    text
}

/// A number with three significant digits.
fn number(value: f64) -> String {
    match value.abs() {
        // The difference to 100 % matters in a percentage just below it.
        x if (99.5..100.0).contains(&x) => format!("{value:.2}"),
        x if x >= 99.95 => format!("{value:.0}"),
        x if x >= 9.995 => format!("{value:.1}"),
        x if x >= 0.9995 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// Wraps words into lines of at most 120 characters.
fn wrapped(words: &str) -> String {
    let mut text = String::new();
    let mut column = 0;
    for word in words.split_whitespace() {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > 120 {
            text.push('\n');
            column = 0;
        } else if column > 0 {
            text.push(' ');
            column += 1;
        }
        text.push_str(word);
        column += length;
    }
    text
}
