//! The pages of the documents about reproduced figures: an index, and a page for each paper.

use std::fmt::Write as _;

use super::figure::{Comparison, Effort, Figure};
use super::report::{number, ours, ratio, section, wrapped};
use super::verdict::{Judgement, judge};
use crate::record::Record;

/// A figure with its records.
pub struct ReproducedFigure {
    /// The figure.
    pub figure: &'static Figure,
    /// The records of its runs.
    pub records: Vec<Record>,
    /// The comparisons with the paper.
    pub comparisons: Vec<Comparison>,
}

/// The pages: their names and titles.
pub const PAGES: [(&str, &str); 6] = [
    ("nic", "The NIC models"),
    ("sherman", "Sherman"),
    ("smart", "SMART"),
    ("sphinx", "Sphinx"),
    ("catfish", "Catfish"),
    ("cpu", "The CPU time of an operation"),
];
/// The largest number of values in the short table of a figure.
const SHORT_ROWS_MAX: usize = 8;

/// The index of all figures: `docs/reproduction.md`.
pub fn index(figures: &[ReproducedFigure]) -> String {
    let about = "The papers' figures, reproduced in the simulator: a network in virtual time, whose NIC models are \
                 calibrated with micro-benchmarks only ([nic-model.md](nic-model.md)). The records in \
                 `docs/records/figures` name the commands that make them again; \
                 `docs/records/reproduce` makes all. `cargo run -p farwood-bench --example reproduction` generates \
                 these pages from the records; do not edit them. [papers.md](papers.md) describes the deviations in \
                 more detail.";
    let rule = "The *verdict* on a figure compares our values with those that the paper prints. Fitted values do not \
                count, nor values that follow from the set-up.";
    let mut text = format!("# Reproduced figures\n\n{}\n\n{}\n\n", wrapped(about), wrapped(rule));
    text.push_str(
        "| verdict | meaning |\n|---|---|\n\
         | agrees | the median deviation from the paper's values is at most 15 % |\n\
         | close | it is at most 30 % |\n\
         | differs | it is larger |\n\
         | fitted | a constant of the model was fitted to all of these values, so they show nothing |\n\
         | no number | the paper prints no value |\n\n",
    );
    let range = "Where a duration of the NIC model is known only between two bounds, our value is a range, and its \
                 point that is nearest to the paper's value counts. A wide range that contains the paper's value shows \
                 less than a single value that agrees.";
    let _ = writeln!(text, "{}\n", wrapped(range));
    text.push_str("| figure | verdict | values within 15 % | within 30 % | of |\n|---|---|---:|---:|---:|\n");
    for ReproducedFigure { figure, comparisons, .. } in figures {
        let Judgement { verdict, decisive, agreeing, close } = judge(figure, comparisons);
        let (title, page, anchor) = (figure.title, figure.page(), anchor(figure.title));
        let (word, all) = (verdict.word(), decisive.len());
        let within = agreeing + close;
        let _ = writeln!(
            text,
            "| [{title}](reproduction/{page}.md#{anchor}) | {word} | {agreeing} | {within} | {all} |"
        );
    }
    text
}

/// The page of a paper: a file in `docs/reproduction`.
pub fn page((name, title): (&str, &str), figures: &[ReproducedFigure]) -> String {
    let about = "Generated from `docs/records/figures`; do not edit. [The index](../reproduction.md) explains the \
                 verdicts.";
    let mut text = format!("# {title}: reproduced figures\n\n{}\n", wrapped(about));
    for part in figures.iter().filter(|part| part.figure.page() == name) {
        text.push_str(&part.text());
    }
    text
}

impl ReproducedFigure {
    fn text(&self) -> String {
        let ReproducedFigure { figure, records, comparisons } = self;
        let judged = judge(figure, comparisons);
        let mut text = format!("\n## {}\n\n", figure.title);
        let _ = writeln!(text, "{}\n", wrapped(&format!("**The paper:** {}", figure.claim)));
        let _ = writeln!(
            text,
            "{}",
            wrapped(&format!("**Verdict: {}.** {}", judged.verdict.word(), basis(&judged)))
        );
        text.push_str(&short_table(&judged.decisive));
        if !figure.cause.is_empty() {
            let _ = writeln!(text, "\n{}", wrapped(&format!("**Cause:** {}", figure.cause)));
        }
        let _ = writeln!(text, "\n![{}](../records/figures/{}.svg)\n", figure.title, figure.name);
        let all = section(figure, records, comparisons, &figure.command(Effort::Full));
        let _ = write!(text, "<details>\n<summary>Set-up and all values</summary>\n\n{all}\n</details>\n");
        text
    }
}

/// The values that the verdict rests on, in words.
fn basis(judged: &Judgement) -> String {
    match judged.decisive.len() {
        0 => String::new(),
        1 => "One value decides.".to_owned(),
        all => {
            let Judgement { agreeing, close, .. } = judged;
            format!(
                "Of {all} values, {agreeing} are within 15 % of the paper's, and {close} more within 30 %."
            )
        }
    }
}

/// A table of the decisive values: all of them, or the first ones.
fn short_table(decisive: &[Comparison]) -> String {
    if decisive.is_empty() {
        return String::new();
    }
    let mut text = "\n| value | paper | ours | ratio |\n|---|---:|---:|---:|\n".to_owned();
    for comparison in decisive.iter().take(SHORT_ROWS_MAX) {
        let Comparison { panel, point, paper, .. } = comparison;
        let paper = paper.map_or_else(String::new, number);
        let ratio = ratio(comparison).unwrap_or_default();
        let _ = writeln!(text, "| {panel}: {point} | {paper} | {} | {ratio} |", ours(comparison));
    }
    if decisive.len() > SHORT_ROWS_MAX {
        let _ = writeln!(
            text,
            "\n{} more values are in the table below the chart.",
            decisive.len() - SHORT_ROWS_MAX
        );
    }
    text
}

/// The anchor of a heading: lower case, without punctuation, with dashes for spaces.
fn anchor(title: &str) -> String {
    let kept = title.chars().filter(|char| char.is_alphanumeric() || *char == ' ' || *char == '-');
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

#[cfg(test)]
mod tests {
    use super::super::FIGURES;
    use super::*;

    #[test]
    fn each_figure_has_a_page_and_a_claim() {
        for figure in FIGURES {
            assert!(PAGES.iter().any(|(name, _)| *name == figure.page()), "{}", figure.name);
            assert!(figure.claim.ends_with('.'), "{}", figure.name);
        }
    }

    #[test]
    fn an_anchor_has_no_punctuation() {
        assert_eq!(anchor("Sherman, Figure 2: exclusive locks"), "sherman-figure-2-exclusive-locks");
        assert_eq!(anchor("Sherman §4.3: CASes"), "sherman-43-cases");
    }
}
