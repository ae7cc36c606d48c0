//! The verdict on a figure: how near our values are to the paper's, in one word.

use super::figure::{CalibrationStatus, Comparison, Figure};

/// The largest deviation of a value that agrees.
const AGREES: f64 = 0.15;
/// The largest deviation of a value that is close.
const CLOSE: f64 = 0.30;

/// The result of a comparison with the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The median deviation is at most 15 %.
    Agrees,
    /// The median deviation is at most 30 %.
    Close,
    /// The median deviation is larger.
    Differs,
    /// All values with one in the paper were fitted to it.
    Fitted,
    /// The paper prints no value.
    NoNumber,
}

impl Verdict {
    /// The word in the documents.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Agrees => "agrees",
            Verdict::Close => "close",
            Verdict::Differs => "differs",
            Verdict::Fitted => "fitted",
            Verdict::NoNumber => "no number",
        }
    }
}

/// A verdict with the numbers of values that it rests on.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// The verdict.
    pub verdict: Verdict,
    /// The values that decide the verdict.
    pub decisive: Vec<Comparison>,
    /// The number of decisive values that agree.
    pub agreeing: usize,
    /// The number of decisive values that are close and do not agree.
    pub close: usize,
}

/// Judges a figure by the median deviation of the values in its key panels from the paper's. Given and fitted values do
/// not count. The deviation of a value is its distance from the paper's, relative to the paper's; the nearest point
/// of a range counts.
pub fn judge(figure: &Figure, comparisons: &[Comparison]) -> Judgement {
    let printed = || {
        comparisons
            .iter()
            .filter(|c| c.paper.is_some() && c.panel.starts_with(figure.key))
            .filter(|c| c.status != CalibrationStatus::Given)
    };
    let decisive: Vec<Comparison> =
        printed().filter(|c| c.status != CalibrationStatus::Fitted).cloned().collect();
    let mut deviations: Vec<f64> = decisive.iter().map(deviation).collect();
    deviations.sort_by(f64::total_cmp);
    let verdict = match deviations.get(deviations.len() / 2) {
        None if printed().next().is_some() => Verdict::Fitted,
        None => Verdict::NoNumber,
        Some(..=AGREES) => Verdict::Agrees,
        Some(..=CLOSE) => Verdict::Close,
        Some(_) => Verdict::Differs,
    };
    let within = |bound: f64| deviations.iter().filter(|deviation| **deviation <= bound).count();
    let agreeing = within(AGREES);
    Judgement { verdict, decisive, agreeing, close: within(CLOSE) - agreeing }
}

/// The distance from the paper's value, relative to it.
fn deviation(comparison: &Comparison) -> f64 {
    match comparison.ratio() {
        Some(ratio) if ratio.is_finite() => (ratio - 1.0).abs(),
        _ => f64::INFINITY,
    }
}

#[cfg(test)]
mod tests {
    use super::super::builders::predicted;
    use super::super::figure;
    use super::*;

    fn value(ours: f64) -> Comparison {
        predicted("Throughput", "here", Some(100.0), ours, "somebody")
    }

    #[test]
    fn the_median_deviation_decides() {
        let figure = figure("smart-fig11").unwrap();
        let verdict = |values: &[f64]| {
            let comparisons: Vec<Comparison> = values.iter().copied().map(value).collect();
            judge(figure, &comparisons).verdict
        };
        assert_eq!(verdict(&[90.0, 114.0, 300.0]), Verdict::Agrees);
        assert_eq!(verdict(&[71.0, 129.0, 300.0]), Verdict::Close);
        assert_eq!(verdict(&[100.0, 69.0, 131.0]), Verdict::Differs);
        assert_eq!(verdict(&[]), Verdict::NoNumber);
        let fitted = Comparison { status: CalibrationStatus::Fitted, ..value(100.0) };
        assert_eq!(judge(figure, &[fitted]).verdict, Verdict::Fitted);
    }

    #[test]
    fn a_range_agrees_if_it_contains_the_papers_value() {
        let range = |ours, to| deviation(&value(ours).to(to));
        assert!(range(50.0, 200.0).abs() < 1e-9);
        assert!((range(200.0, 120.0) - 0.2).abs() < 1e-9);
        assert!((range(50.0, 80.0) - 0.2).abs() < 1e-9);
    }

    #[test]
    fn only_the_key_panels_decide() {
        let figure = figure("catfish-fig10").unwrap();
        let other = Comparison { panel: "Catfish is better".to_owned(), ..value(0.0) };
        let judged = judge(
            figure,
            &[other.clone(), other, Comparison { panel: "Throughput, kops".to_owned(), ..value(100.0) }],
        );
        assert_eq!((judged.verdict, judged.agreeing, judged.decisive.len()), (Verdict::Agrees, 1, 1));
    }
}
