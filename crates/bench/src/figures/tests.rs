//! Tests of figures: each runs, compares its values, and is generated again from its records.

use std::num::NonZeroUsize;

use super::*;
use crate::record::Record;

/// Runs a figure on one thread.
pub(super) fn records_of(figure: &'static Figure) -> Vec<Record> {
    let mut all = Vec::new();
    let mut observe = |event: FigureEvent<'_>| {
        if let FigureEvent::Complete { records, .. } = event {
            all = records;
        }
        Ok::<(), crate::Error>(())
    };
    FigurePlan::new(&[figure], Effort::Quick).execute(NonZeroUsize::MIN, &mut observe).unwrap();
    all
}

#[test]
fn every_figure_has_a_unique_name_and_equally_many_runs_for_each_effort() {
    for (at, figure) in FIGURES.iter().enumerate() {
        assert!(FIGURES[..at].iter().all(|other| other.name != figure.name));
        assert_eq!((figure.runs)(Effort::Quick).len(), (figure.runs)(Effort::Full).len(), "{}", figure.name);
    }
    let Err(error) = super::figure("sherman-fig99") else { panic!("there is no such figure") };
    assert!(error.to_string().contains("sherman-table1"), "{error}");
}

#[test]
fn values_of_a_quick_run_are_not_compared_with_the_paper() {
    let figure = super::figure("catfish-fig10").unwrap();
    let runs = (figure.runs)(Effort::Quick).len();
    let record = Record { keys: 20_000, seconds: 0.02, mops: 1.0, ..Record::default() };
    let records = vec![record; runs];
    let comparisons = figure.compare_other_setup(&records).unwrap();
    let full = figure.compare(&records).unwrap();
    assert!(full.iter().any(|comparison| comparison.ratio().is_some()));
    assert!(comparisons.iter().all(|comparison| comparison.ratio().is_none()));
    let svg = figure.svg(&comparisons);
    assert!(svg.contains("(another set-up)") && !svg.contains(">paper<"), "{svg}");
    let text = report(figure, &records, &comparisons, "farwood reproduce catfish-fig10 --quick");
    assert!(text.contains("Another set-up than the figure's") && text.contains("20000 keys or"), "{text}");
    assert!(!text.contains("prediction"), "{text}");
    let nic = super::figure("sherman-on-chip").unwrap();
    let compared = nic.compare_other_setup(&records_of(nic)).unwrap();
    assert!(compared[0].ratio().is_some(), "a NIC model is the same in quick runs");
}

#[test]
fn a_quick_run_yields_a_complete_report() {
    let figure = super::figure("sherman-on-chip").unwrap();
    let records = records_of(figure);
    let lines: Vec<String> = records.iter().map(Record::to_json_line).collect();
    let records = Record::from_json_lines(&lines.join("\n")).unwrap();
    let comparisons = figure.compare(&records).unwrap();
    assert_eq!((comparisons.len(), comparisons[0].paper), (2, Some(110.0)));
    assert!(comparisons.iter().all(|comparison| comparison.ours > 1.0));
    assert!(figure.svg(&comparisons).contains("</svg>"));
    assert!(figure.png(&comparisons).unwrap().starts_with(b"\x89PNG"));
    let text = report(figure, &records, &comparisons, "farwood reproduce sherman-on-chip --quick");
    for part in ["# Sherman §4.3", "--quick", &records[0].commit, "| device memory | 110 |"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(text.lines().all(|line| line.starts_with('|') || line.chars().count() <= 120), "{text}");
    let part = ReproducedFigure { figure, records: records.clone(), comparisons: comparisons.clone() };
    let parts = [part];
    assert!(
        index(&parts).contains("reproduction/sherman.md#sherman-43-cases-in-device-memory) | agrees | 2 |")
    );
    let text = page(PAGES[1], &parts);
    for part in
        ["## Sherman §4.3", "**Verdict: agrees.** Of 2 values, 2", "(../records/figures/sherman-on-chip.svg)"]
    {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(!page(PAGES[2], &parts).contains("§4.3"), "the figure is on one page");
    assert_eq!(calibration(&comparisons).lines().count(), 4);
    let marked = format!("before\n{MARK_BEGIN}\nold\n{MARK_END}\nafter\n");
    let marked = between_marks(&marked, &calibration(&comparisons)).unwrap();
    assert!(marked.starts_with("before\n") && marked.ends_with("\nafter\n") && !marked.contains("old"));
    assert_eq!(between_marks(&marked, &calibration(&comparisons)).unwrap(), marked, "it can be made again");
    assert!(between_marks("nothing", "").is_err());
    assert!(figure.compare(&records[1..]).is_err(), "records of another form are refused");
}

#[test]
fn points_of_curves_are_joined_by_lines() {
    let point = |series: &'static str, at: f64, ours| {
        builders::predicted("P99, us", format!("{series}, {at}"), None, ours, "somebody")
            .on_curve(series, "clients", at)
    };
    let figure = super::figure("smart-fig13").unwrap();
    let alone = builders::predicted("Throughput", "here", None, 1.0, "somebody");
    let comparisons = [alone, point("SMART", 8.0, 5.0), point("SMART", 16.0, 6.0), point("ART", 8.0, 9.0)];
    let svg = figure.svg(&comparisons);
    for text in [">clients<", ">SMART<", ">ART<", ">P99, us<", ">here<"] {
        assert!(svg.contains(text), "{text} in {svg}");
    }
    assert!(figure.png(&comparisons).is_ok());
    assert!(table(&comparisons).contains("SMART, 16"));
}

#[test]
fn the_records_in_the_documents_match_the_figures() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/records/figures");
    for figure in FIGURES {
        // A figure that was not run in full has no records, and is not in the documents.
        let Ok(text) = std::fs::read_to_string(folder.join(format!("{}.jsonl", figure.name))) else {
            continue;
        };
        let records = Record::from_json_lines(&text).unwrap();
        let comparisons = figure.compare(&records).unwrap();
        assert!(comparisons.iter().all(|comparison| comparison.ours.is_finite()), "{}", figure.name);
    }
}

#[test]
fn a_figure_without_its_file_is_refused_before_any_run() {
    // The paths of files are relative to the root of the repository, and tests run in the folder of the crate.
    let refused = FigurePlan::new(&[super::figure("catfish-fig14").unwrap()], Effort::Full).check_files();
    let text = refused.unwrap_err().to_string();
    assert!(text.contains("catfish-fig14 reads data/segments.csv") && text.contains("fetches"), "{text}");
    assert!(FigurePlan::new(&[super::figure("nic").unwrap()], Effort::Full).check_files().is_ok());
}

#[test]
fn the_records_do_not_depend_on_the_number_of_threads() {
    let run = |jobs: usize| {
        let (mut started, mut finished, mut complete) = (Vec::new(), 0, Vec::new());
        let mut observe = |event: FigureEvent<'_>| {
            match event {
                FigureEvent::Started(progress) => started.push((progress.number, progress.of)),
                FigureEvent::Finished { .. } => finished += 1,
                FigureEvent::Complete { figure, records } => complete.push((figure.name, records)),
            }
            Ok::<(), crate::Error>(())
        };
        let figures = [super::figure("sherman-on-chip").unwrap(), super::figure("sherman-fig2").unwrap()];
        let mut plan = FigurePlan::new(&figures, Effort::Quick);
        plan.execute(NonZeroUsize::new(jobs).unwrap(), &mut observe).unwrap();
        started.sort_unstable();
        assert_eq!(started, [(1, 2), (1, 5), (2, 2), (2, 5), (3, 5), (4, 5), (5, 5)]);
        assert_eq!((finished, complete.len()), (7, 2));
        complete.sort_by_key(|(name, _)| *name);
        let values = complete.into_iter().flat_map(|(name, records)| {
            records.into_iter().map(move |record| (name, record.mops, record.latency_us.p99, record.command))
        });
        values.collect::<Vec<_>>()
    };
    let one = run(1);
    assert_eq!(one, run(3));
    assert_eq!(one[0].3, "farwood reproduce sherman-fig2 --quick");
}

#[test]
fn records_of_the_same_commit_are_used_again() {
    let figure = super::figure("sherman-on-chip").unwrap();
    let made: Vec<Record> = records_of(figure)
        .into_iter()
        .map(|record| Record { commit: "abc123".to_owned(), profile: "release".to_owned(), ..record })
        .collect();
    let plan_with = |records: &[Record], commit: &str, effort: Effort| {
        let mut plan = FigurePlan::new(&[figure], effort);
        plan.reuse_of(records.to_vec(), commit, "release")
    };
    assert_eq!(plan_with(&made, "abc123", Effort::Quick), 2);
    assert_eq!(plan_with(&made[1..], "abc123", Effort::Quick), 1);
    assert_eq!(plan_with(&made, "abc124", Effort::Quick), 0, "another commit");
    assert_eq!(plan_with(&made, "abc123", Effort::Full), 0, "other parameters");
    let changed: Vec<Record> =
        made.iter().map(|record| Record { commit: "abc123+".to_owned(), ..record.clone() }).collect();
    assert_eq!(plan_with(&changed, "abc123+", Effort::Quick), 0, "a changed tree names no version");
    let mut plan = FigurePlan::new(&[figure], Effort::Quick);
    plan.reuse_of(made[..1].to_vec(), "abc123", "release");
    let (mut executed, mut all) = (Vec::new(), Vec::new());
    let mut observe = |event: FigureEvent<'_>| {
        match event {
            FigureEvent::Started(progress) => executed.push(progress.number),
            FigureEvent::Complete { records, .. } => all = records,
            FigureEvent::Finished { .. } => {}
        }
        Ok::<(), crate::Error>(())
    };
    plan.execute(NonZeroUsize::MIN, &mut observe).unwrap();
    assert_eq!(executed, [2]);
    assert_eq!((all[0].commit.as_str(), all.len()), ("abc123", 2));
}

#[test]
fn figures_share_the_records_of_equal_runs() {
    let names = ["catfish-fig10", "catfish-fig11"];
    let figures = names.map(|name| super::figure(name).unwrap());
    let runs = (figures[0].runs)(Effort::Full).len();
    assert_eq!(FigurePlan::new(&figures, Effort::Full).len(), runs);
    let both = FigurePlan::new(&[figures[0], super::figure("catfish-fig12").unwrap()], Effort::Full);
    assert_eq!(both.len(), 2 * runs, "runs with other parameters are different");
}

#[test]
fn deviations_beyond_the_bound_are_marked() {
    let comparison = |ours, status| Comparison {
        panel: "rate".to_owned(),
        point: "here".to_owned(),
        paper: Some(10.0),
        ours,
        ours_to: None,
        curve: None,
        status,
        source: "somebody",
    };
    for (ours, status, marked) in [
        (10.4, CalibrationStatus::Fitted, false),
        (10.6, CalibrationStatus::Fitted, true),
        (9.1, CalibrationStatus::MicroBenchmark, false),
        (8.9, CalibrationStatus::MicroBenchmark, true),
        (30.0, CalibrationStatus::Reported, false),
    ] {
        assert_eq!(calibration(&[comparison(ours, status)]).contains("**"), marked, "{ours}");
    }
    assert_eq!(calibration(&[comparison(30.0, CalibrationStatus::Predicted)]).lines().count(), 2);
    assert!(table(&[comparison(30.0, CalibrationStatus::Predicted)]).contains("3.00  prediction"));
    let range = table(&[comparison(30.0, CalibrationStatus::Predicted).to(5.0)]);
    assert!(range.contains("5.00 to 30.0") && range.contains("0.50 to 3.00"), "{range}");
    let alone = Comparison { paper: None, ..comparison(30.0, CalibrationStatus::Predicted) };
    assert!(
        table(&[alone]).contains("-  reported only"),
        "without a value of the paper it is not a prediction"
    );
}

#[test]
fn the_nic_models_agree_with_their_micro_benchmarks() {
    for name in ["nic", "sherman-fig3", "sherman-on-chip"] {
        let figure = super::figure(name).unwrap();
        let records = records_of(figure);
        for comparison in figure.compare(&records).unwrap() {
            let (Some(bound), Some(ratio)) = (comparison.status.bound(), comparison.ratio()) else {
                continue;
            };
            assert!((ratio - 1.0).abs() <= bound, "{name}, {}: {ratio:.3}", comparison.point);
        }
    }
}
