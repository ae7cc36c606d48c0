//! Tests of figures: each runs, compares its values, and is generated again from its records.

use super::*;
use crate::record::Record;

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
fn a_quick_run_yields_a_complete_report() {
    let figure = super::figure("sherman-on-chip").unwrap();
    let mut steps = Vec::new();
    let records = figure.run(Effort::Quick, &mut |done, all| steps.push((done, all))).unwrap();
    assert_eq!(steps, [(0, 2), (1, 2), (2, 2)]);
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
    assert!(page(&[(figure, records.clone(), comparisons.clone())]).contains("## Sherman §4.3"));
    assert_eq!(calibration(&comparisons).lines().count(), 4);
    let marked = format!("before\n{MARK_BEGIN}\nold\n{MARK_END}\nafter\n");
    let marked = between_marks(&marked, &calibration(&comparisons)).unwrap();
    assert!(marked.starts_with("before\n") && marked.ends_with("\nafter\n") && !marked.contains("old"));
    assert_eq!(between_marks(&marked, &calibration(&comparisons)).unwrap(), marked, "it can be made again");
    assert!(between_marks("nothing", "").is_err());
    assert!(figure.compare(&records[1..]).is_err(), "records of another form are refused");
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
fn deviations_beyond_the_bound_are_marked() {
    let comparison = |ours, status| Comparison {
        panel: "rate".to_owned(),
        point: "here".to_owned(),
        paper: Some(10.0),
        ours,
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
        let records = figure.run(Effort::Quick, &mut |_, _| {}).unwrap();
        for comparison in figure.compare(&records).unwrap() {
            let (Some(bound), Some(ratio)) = (comparison.status.bound(), comparison.ratio()) else {
                continue;
            };
            assert!((ratio - 1.0).abs() <= bound, "{name}, {}: {ratio:.3}", comparison.point);
        }
    }
}
