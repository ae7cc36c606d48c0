//! The report of one figure, and the calibration table of the NIC model.

use std::collections::BTreeSet;
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

pub(super) fn section(
    figure: &Figure,
    records: &[Record],
    comparisons: &[Comparison],
    command: &str,
) -> String {
    let is_other = comparisons.iter().any(|comparison| comparison.status == CalibrationStatus::OtherSetup);
    let mut text = if is_other { wrapped(&note_of_other_setup(records)) + "\n\n" } else { String::new() };
    let _ = write!(text, "{}\n\n```sh\n{command}\n```\n\n", wrapped(figure.setting));
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
    if !is_other {
        text.push_str(&summary(comparisons));
    }
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

/// The set-up of the records, which differs from that in the text of the figure.
fn note_of_other_setup(records: &[Record]) -> String {
    let span = |value: &dyn Fn(&Record) -> f64, unit: &str| {
        let (low, high) = records
            .iter()
            .map(value)
            .fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
        format!("{} {unit}", range(&number(low), &number(high)))
    };
    let nics: BTreeSet<_> = records.iter().filter_map(|record| record.nic.as_deref()).collect();
    format!(
        "**Another set-up than the figure's**: {}, {} of virtual time after {} of warm-up, on {}. The text below \
         describes the full figure. With another set-up, even the order of the systems may differ, so no value is \
         compared with the paper.",
        span(&|record| record.keys as f64, "keys or rectangles"),
        span(&|record| 1e3 * record.seconds, "ms"),
        span(&|record| 1e3 * record.warm_up_seconds.unwrap_or(0.0), "ms"),
        nics.into_iter().collect::<Vec<_>>().join(", "),
    )
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

/// Our value, or the range of our values.
pub(super) fn ours(comparison: &Comparison) -> String {
    let (low, high) = comparison.range();
    range(&number(low), &number(high))
}

/// The ratio to the paper's value, or the range of ratios.
pub(super) fn ratio(comparison: &Comparison) -> Option<String> {
    let (low, high) = comparison.ratio_range()?;
    Some(range(&format!("{low:.2}"), &format!("{high:.2}")))
}

/// A range in words; one number if both ends are equal as printed.
fn range(low: &str, high: &str) -> String {
    if low == high { low.to_owned() } else { format!("{low} to {high}") }
}

fn row(comparison: &Comparison, point: &str) -> String {
    let or_dash = |value: Option<String>| value.unwrap_or_else(|| "–".to_owned());
    let ratio = ratio(comparison).map(|text| {
        let bound = comparison.status.bound().unwrap_or(f64::INFINITY);
        // Deviations beyond the bound are bold.
        let is_off = comparison.ratio().is_some_and(|ratio| (ratio - 1.0).abs() > bound);
        if is_off { format!("**{text}**") } else { text }
    });
    format!(
        "| {point} | {} | {} | {} | {} | {} |\n",
        or_dash(comparison.paper.map(number)),
        ours(comparison),
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
    let is_of_nic = |status| {
        use CalibrationStatus::{Given, OtherSetup, Predicted};
        !matches!(status, Predicted | Given | OtherSetup)
    };
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
    between(text, MARK_BEGIN, MARK_END, table)
}

/// Replaces the text between the lines `begin` and `end` by `table`.
///
/// # Errors
/// A text without these lines.
pub fn between(text: &str, begin: &str, end: &str, table: &str) -> Result<String> {
    let parts = text.split_once(begin).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(end)?;
        Some((before, after))
    });
    let Some((before, after)) = parts else {
        return Err(Error::Record(format!("{begin} followed by {end} is missing")));
    };
    Ok(format!("{before}{begin}\n\n{table}\n{end}{after}"))
}

/// The comparisons as a text table.
pub fn table(comparisons: &[Comparison]) -> String {
    let mut text = String::new();
    let width = comparisons.iter().map(|c| c.point.chars().count()).max().unwrap_or(0);
    for (at, comparison) in comparisons.iter().enumerate() {
        if at == 0 || comparisons[at - 1].panel != comparison.panel {
            let _ = write!(
                text,
                "{}\n{:width$}  {:>10}  {:>14}  {:>12}\n",
                comparison.panel, "", "paper", "ours", "ratio"
            );
        }
        let or_dash = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        let _ = writeln!(
            text,
            "{:width$}  {:>10}  {:>14}  {:>12}  {}",
            comparison.point,
            or_dash(comparison.paper.map(number)),
            ours(comparison),
            or_dash(ratio(comparison)),
            comparison.status_name(),
        );
    }
    text
}

/// A number with three significant digits.
pub(super) fn number(value: f64) -> String {
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
pub(super) fn wrapped(words: &str) -> String {
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
