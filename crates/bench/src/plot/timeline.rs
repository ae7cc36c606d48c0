//! Charts of records over the time of their measured phases.

use std::collections::BTreeSet;

use super::records::{Fields, SweepAxes, SweepChart, shared_text};
use super::{ChartPanel, CurvePanel, SERIES_MAX};
use crate::record::Record;
use crate::record::timeline::TimelineBucket;
use crate::{Error, Result};

const AXIS: &str = "milliseconds of the measured phase";

impl SweepChart {
    /// The throughput and the latency of records over time, with one curve for each record, named after the fields of
    /// `series`, or after index and variant.
    ///
    /// # Errors
    /// No records, or more than 6; a record without a timeline; two records with one name.
    pub fn over_time(records: &[Record], series: &[String]) -> Result<Self> {
        let refuse = |problem: String| Err(Error::Record(problem));
        if records.is_empty() || records.len() > SERIES_MAX {
            let problem = format!("{} records; a chart over time has 1 to {SERIES_MAX}", records.len());
            return refuse(problem);
        }
        let axes = SweepAxes { across: String::new(), up: Vec::new(), series: series.to_vec() };
        let flat: Vec<Fields> = records.iter().map(Fields::of).collect();
        let names: Vec<String> = flat.iter().map(|fields| fields.series(&axes)).collect();
        if let Some(without) = records.iter().position(|record| record.timeline.is_empty()) {
            return refuse(format!(
                "the record of {} has no timeline; run bench with --timeline",
                names[without]
            ));
        }
        if names.iter().collect::<BTreeSet<_>>().len() < names.len() {
            return refuse(
                "two records have one name; name what tells the curves apart with --series".to_owned(),
            );
        }
        let panel = |title: &str, value: fn(&TimelineBucket) -> Option<f64>| {
            let curve = |record: &Record| {
                // A curve has a gap where a value is not a number.
                let point =
                    |bucket: &TimelineBucket| (bucket.from_seconds * 1e3, value(bucket).unwrap_or(f64::NAN));
                record.timeline.iter().map(point).collect()
            };
            let series = names.iter().cloned().zip(records.iter().map(curve)).collect();
            let (title, axis) = (title.to_owned(), AXIS.to_owned());
            ChartPanel::Curves(CurvePanel { title, axis, series, whiskers: Vec::new() })
        };
        let panels = vec![
            panel("million operations per second", |bucket| Some(bucket.mops())),
            panel("p99 latency, microseconds", |bucket| bucket.p99_us),
        ];
        Ok(Self { title: shared_text(&flat, &["workload", "nic", "faults"]), panels })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(index: &str) -> Record {
        let bucket = |number: u64| TimelineBucket {
            from_seconds: number as f64 * 1e-3,
            seconds: 1e-3,
            operations: 1000 * number,
            failed: 0,
            p99_us: (number > 0).then_some(5.0),
        };
        let (index, faults) = (index.to_owned(), vec!["crash@5ms".to_owned()]);
        Record { index, faults, timeline: (0..3).map(bucket).collect(), ..Record::default() }
    }

    #[test]
    fn a_chart_over_time_has_a_curve_for_each_record() {
        let chart = SweepChart::over_time(&[record("sherman"), record("smart")], &[]).unwrap();
        let ChartPanel::Curves(mops) = &chart.panels[0] else { panic!("it has curves") };
        assert_eq!(mops.series[1], ("smart".to_owned(), vec![(0.0, 0.0), (1.0, 1.0), (2.0, 2.0)]));
        let ChartPanel::Curves(latency) = &chart.panels[1] else { panic!("it has curves") };
        let latencies = &latency.series[0].1;
        assert!(latencies[0].1.is_nan(), "an interval without operations has no latency");
        assert_eq!(latencies[1..], [(1.0, 5.0), (2.0, 5.0)]);
        let svg = chart.svg();
        assert!(svg.contains("crash@5ms") && !svg.contains("NaN"), "{svg}");
        let other = Record { faults: vec!["down:1ms@5ms".to_owned()], ..record("smart") };
        let by_fault = SweepChart::over_time(&[record("smart"), other], &["faults".to_owned()]).unwrap();
        let ChartPanel::Curves(mops) = &by_fault.panels[0] else { panic!("it has curves") };
        assert_eq!(
            mops.series.iter().map(|(name, _)| name).collect::<Vec<_>>(),
            ["crash@5ms", "down:1ms@5ms"]
        );
        assert_eq!(by_fault.title, "", "the records share nothing");
    }

    #[test]
    fn records_without_timelines_or_with_one_name_are_refused() {
        let refused = |records: &[Record]| SweepChart::over_time(records, &[]).unwrap_err().to_string();
        let without = Record { timeline: Vec::new(), ..record("smart") };
        assert!(refused(&[record("sherman"), without]).contains("smart has no timeline"));
        assert!(refused(&[record("smart"), record("smart")]).contains("--series"));
        assert!(refused(&[]).contains("0 records"));
    }
}
