//! Charts of records over a swept parameter: one curve for each series, one panel for each quantity.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{ChartPanel, CurvePanel, SERIES_MAX, Whisker, comparison_png, comparison_svg};
use crate::record::Record;
use crate::{Error, Result};

/// Fields that a run measures, or that name the machine and the program: records may differ in them.
const NOT_SETUP: [&str; 28] = [
    "operations",
    "seconds",
    "mops",
    "repeats",
    "latency_us",
    "latency_histogram",
    "round_trips",
    "verbs_per_op",
    "bytes_per_op",
    "retries",
    "counted",
    "cache",
    "memory_node_bytes",
    "index_bytes",
    "simulated_verbs_per_second",
    "by_operation",
    "commit",
    "command",
    "spec_hash",
    "host_seconds",
    "machine",
    "ratio",
    "loopback",
    "warm_up_steady",
    "timeline",
    "faults_injected",
    "failed_operations",
    "unfinished_us_max",
];
/// Fields that describe the index: series may differ in them.
const OF_INDEX: [&str; 5] = ["index", "variant", "options", "consistency", "peer"];

/// What a chart shows. Fields are named as in the JSON of a record, those within objects as `latency_us.p99`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SweepAxes {
    /// The field of the horizontal axis.
    pub across: String,
    /// The fields of the vertical axes, one for each panel.
    pub up: Vec<String>,
    /// The fields that tell the series apart; empty: index and variant.
    pub series: Vec<String>,
}

/// A chart of records over a swept parameter.
#[derive(Clone, Debug)]
pub struct SweepChart {
    pub(super) title: String,
    pub(super) panels: Vec<ChartPanel>,
}

/// The points of a panel, by series.
type Points = BTreeMap<String, Vec<(f64, f64)>>;

impl SweepChart {
    /// The chart of records.
    ///
    /// # Errors
    /// No records; a field that a record does not have or that is not a number; records that differ in more than the
    /// swept parameter and the series; two records at one point; more than 6 series.
    pub fn new(records: &[Record], axes: &SweepAxes) -> Result<Self> {
        let flat: Vec<Fields> = records.iter().map(Fields::of).collect();
        if flat.is_empty() {
            return Err(Error::Record("there are no records to draw".to_owned()));
        }
        check_fields(&flat, axes)?;
        check_setup(&flat, axes)?;
        let names: BTreeSet<String> = flat.iter().map(|fields| fields.series(axes)).collect();
        if names.len() > SERIES_MAX {
            let problem = format!("there are {} series, and a chart has at most {SERIES_MAX}", names.len());
            return Err(Error::Record(problem));
        }
        let panel = |up: &String| {
            let (mut points, mut whiskers) = (Points::new(), Vec::new());
            for fields in &flat {
                let (x, series) = (fields.number(&axes.across)?, fields.series(axes));
                let interval = fields.interval_of_mean(up);
                let y = interval.map_or_else(|| fields.number(up), |(mean, _)| Ok(mean))?;
                points.entry(series.clone()).or_default().push((x, y));
                whiskers.extend(interval.map(|(mean, half_width)| Whisker {
                    series,
                    x,
                    ends: (mean - half_width, mean + half_width),
                }));
            }
            for (name, points) in &mut points {
                points.sort_by(|one, other| one.0.total_cmp(&other.0));
                if let Some(pair) = points.windows(2).find(|pair| pair[0].0 >= pair[1].0) {
                    let problem = format!("{name} has two records with {} = {}", axes.across, pair[0].0);
                    return Err(Error::Record(problem));
                }
            }
            let series = points.into_iter().collect();
            let (title, axis) = (up.clone(), axes.across.clone());
            Ok(ChartPanel::Curves(CurvePanel { title, axis, series, whiskers }))
        };
        let panels: Result<Vec<_>> = axes.up.iter().map(panel).collect();
        Ok(Self { title: shared_text(&flat, &["workload", "fabric", "nic"]), panels: panels? })
    }

    /// The chart as an SVG document.
    pub fn svg(&self) -> String {
        comparison_svg(&self.title, &self.panels)
    }

    /// The chart as a PNG file.
    ///
    /// # Errors
    /// The chart is too large to be drawn.
    pub fn png(&self) -> Result<Vec<u8>> {
        comparison_png(&self.title, &self.panels)
    }
}

/// The values of the fields that all records share.
pub(super) fn shared_text(all: &[Fields], names: &[&str]) -> String {
    let is_shared = |name: &&&str| all.iter().all(|fields| fields.0.get(**name) == all[0].0.get(**name));
    let values = names.iter().filter(is_shared).filter_map(|name| all[0].text(name));
    values.collect::<Vec<_>>().join(", ")
}

/// Refuses fields that no record has.
fn check_fields(all: &[Fields], axes: &SweepAxes) -> Result<()> {
    let named = std::iter::once(&axes.across).chain(&axes.up).chain(&axes.series);
    let unknown = named.into_iter().find(|path| all.iter().all(|fields| !fields.0.contains_key(*path)));
    unknown.map_or(Ok(()), |path| {
        let swept = Fields::swept(all).join(", ");
        let differ = if swept.is_empty() { String::new() } else { format!("; they differ in {swept}") };
        Err(Error::Record(format!("the records have no field '{path}'{differ}")))
    })
}

/// Refuses records that differ in more than the swept parameter and the series.
fn check_setup(all: &[Fields], axes: &SweepAxes) -> Result<()> {
    let mut firsts: BTreeMap<String, &Fields> = BTreeMap::new();
    let is_chosen = |path: &str| path == axes.across || axes.series.iter().any(|series| series == path);
    let mut differing = BTreeSet::new();
    for fields in all {
        let of_series = *firsts.entry(fields.series(axes)).or_insert(fields);
        for (other, within) in [(of_series, true), (&all[0], false)] {
            let paths: BTreeSet<_> = fields.setup().chain(other.setup()).collect();
            let is_compared = |path: &&&str| within || !has_root(path, &OF_INDEX);
            let differs = |path: &&&str| fields.0.get(**path) != other.0.get(**path) && !is_chosen(path);
            differing.extend(paths.iter().filter(is_compared).filter(differs).map(|path| (*path).to_owned()));
        }
    }
    if differing.is_empty() {
        return Ok(());
    }
    // The options of an index follow from its name and variant.
    let (of_index, others): (Vec<_>, Vec<_>) =
        differing.into_iter().partition(|path| has_root(path, &OF_INDEX));
    let index = of_index.first().map(|_| "index".to_owned());
    let names = index.into_iter().chain(others).collect::<Vec<_>>().join(", ");
    Err(Error::Record(format!(
        "the records differ in {names}; name what tells the curves apart with --series, or give fewer records"
    )))
}

/// Whether a path is one of the fields, or within one of them.
fn has_root(path: &str, fields: &[&str]) -> bool {
    fields.contains(&path.split('.').next().unwrap_or(path))
}

/// The fields of a record by their paths.
#[derive(Clone, Debug)]
pub struct Fields(BTreeMap<String, Value>);

impl Fields {
    /// The fields of a record, without the number of threads if it follows from the number of clients.
    pub fn of(record: &Record) -> Self {
        let mut all = BTreeMap::new();
        if let Ok(value) = serde_json::to_value(record) {
            flatten("", value, &mut all);
        }
        // The parameters of a NIC model say more than their hash.
        if record.nic_values.is_some() {
            all.remove("nic_hash");
        }
        // The run itself determines the time of a warm-up until the throughput is steady.
        if record.warm_up_steady.is_some() {
            all.remove("warm_up_seconds");
        }
        // In the simulator, each client has a thread of its own unless the user says otherwise.
        if record.threads == record.clients.div_ceil(record.compute_nodes.max(1)) {
            all.remove("threads");
        }
        Self(all)
    }

    /// The paths of the fields that are set before the run.
    fn setup(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str).filter(|path| !has_root(path, &NOT_SETUP))
    }

    /// The paths in which records differ, of the fields that are set before the runs.
    pub fn swept(all: &[Fields]) -> Vec<String> {
        let paths: BTreeSet<&str> = all.iter().flat_map(Fields::setup).collect();
        let differs = |path: &&str| all.iter().any(|fields| fields.0.get(*path) != all[0].0.get(*path));
        paths.into_iter().filter(differs).map(str::to_owned).collect()
    }

    /// A field as text, without quotation marks.
    pub fn text(&self, path: &str) -> Option<String> {
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        self.0.get(path).map(|value| match value {
            Value::Array(all) => all.iter().map(text).collect::<Vec<_>>().join(" "),
            value => text(value),
        })
    }

    fn number(&self, path: &str) -> Result<f64> {
        let value = self.0.get(path);
        value.and_then(Value::as_f64).ok_or_else(|| {
            let found = value.map_or_else(|| "has no such field".to_owned(), |value| format!("has {value}"));
            Error::Record(format!("{path} is not a number: a record {found}"))
        })
    }

    /// The mean of a throughput over several seeds, with half the width of its interval of confidence; `None` for other
    /// fields and for a record of one seed.
    fn interval_of_mean(&self, path: &str) -> Option<(f64, f64)> {
        let number = |path: &str| self.0.get(path).and_then(Value::as_f64);
        let is_throughput = matches!(path, "mops" | "repeats.mean");
        is_throughput.then(|| Some((number("repeats.mean")?, number("repeats.half_width95")?))).flatten()
    }

    /// The name of the record's series.
    pub(super) fn series(&self, axes: &SweepAxes) -> String {
        let part = |path: &str| self.text(path).unwrap_or_else(|| "-".to_owned());
        if axes.series.is_empty() {
            let variant = self.text("variant").filter(|variant| *variant != part("index"));
            return self.text("peer").unwrap_or_else(|| match variant {
                Some(variant) => format!("{} {variant}", part("index")),
                None => part("index"),
            });
        }
        axes.series.iter().map(|path| part(path)).collect::<Vec<_>>().join(", ")
    }
}

fn flatten(path: &str, value: Value, all: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let path = if path.is_empty() { name } else { format!("{path}.{name}") };
                flatten(&path, value, all);
            }
        }
        value => {
            all.insert(path.to_owned(), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::repeats::Repeats;

    fn record(index: &str, clients: u64, theta: f64, mops: f64) -> Record {
        Record { index: index.to_owned(), clients, theta, mops, ..Record::default() }
    }

    fn axes(series: &[&str]) -> SweepAxes {
        SweepAxes {
            across: "clients".to_owned(),
            up: vec!["mops".to_owned(), "latency_us.p99".to_owned()],
            series: series.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    #[test]
    fn each_index_is_a_curve_over_the_clients() {
        let records = [
            record("sherman", 16, 0.9, 2.0),
            record("sherman", 8, 0.9, 1.0),
            record("smart", 8, 0.9, 3.0),
            record("smart", 16, 0.9, 4.0),
        ];
        let chart = SweepChart::new(&records, &axes(&[])).unwrap();
        let svg = chart.svg();
        for part in ["sherman", "smart", "clients", "mops", "latency_us.p99"] {
            assert!(svg.contains(part), "{part}");
        }
        assert!(!svg.contains("paper"), "no paper's values are drawn");
        assert!(chart.png().unwrap().starts_with(b"\x89PNG"));
    }

    #[test]
    fn records_of_different_set_ups_are_refused_with_the_fields() {
        let records = [record("sherman", 8, 0.9, 1.0), record("sherman", 16, 0.99, 2.0)];
        let refused = SweepChart::new(&records, &axes(&[])).unwrap_err().to_string();
        assert!(refused.contains("differ in theta"), "{refused}");
        assert!(SweepChart::new(&records, &axes(&["theta"])).is_ok());
        let twice = [record("sherman", 8, 0.9, 1.0), record("sherman", 8, 0.9, 2.0)];
        let refused = SweepChart::new(&twice, &axes(&[])).unwrap_err().to_string();
        assert!(refused.contains("two records with clients = 8"), "{refused}");
        let unknown = SweepAxes { across: "wings".to_owned(), ..axes(&[]) };
        let refused = SweepChart::new(&twice[..1], &unknown).unwrap_err().to_string();
        assert!(refused.contains("no field 'wings'"), "{refused}");
        assert!(SweepChart::new(&[], &axes(&[])).is_err());
    }

    #[test]
    fn records_of_several_seeds_have_whiskers() {
        let repeats = Repeats::of(vec![1.0, 2.0, 3.0]);
        let records = [8, 16]
            .map(|clients| Record { repeats: repeats.clone(), ..record("sherman", clients, 0.9, 1.0) });
        let chart = SweepChart::new(&records, &axes(&[])).unwrap();
        let ChartPanel::Curves(panel) = &chart.panels[0] else { panic!("a chart of records has curves") };
        assert_eq!(panel.series[0].1, [(8.0, 2.0), (16.0, 2.0)], "the means");
        let half_width = repeats.as_ref().unwrap().half_width95;
        assert_eq!(panel.whiskers[1].ends, (2.0 - half_width, 2.0 + half_width));
        let ChartPanel::Curves(latencies) = &chart.panels[1] else { panic!("a chart of records has curves") };
        assert!(latencies.whiskers.is_empty(), "only throughputs have intervals");
        let single = records.map(|record| Record { repeats: None, ..record });
        let without = SweepChart::new(&single, &axes(&[])).unwrap().svg();
        // Only whiskers have this width.
        let lines = |svg: &str| svg.matches("stroke-width=\"1.5\"").count();
        assert_eq!((lines(&chart.svg()), lines(&without)), (2 * 3, 0), "a line and two caps for each point");
    }

    #[test]
    fn the_time_of_a_warm_up_until_the_throughput_is_steady_is_no_difference() {
        let records = [8, 16].map(|clients| Record {
            warm_up_seconds: Some(clients as f64),
            warm_up_steady: Some(clients == 8),
            ..record("sherman", clients, 0.9, 1.0)
        });
        assert!(SweepChart::new(&records, &axes(&[])).is_ok());
        let fixed = records.map(|record| Record { warm_up_steady: None, ..record });
        assert!(SweepChart::new(&fixed, &axes(&[])).is_err(), "a time that was asked for is one");
    }

    #[test]
    fn the_swept_fields_are_those_that_differ() {
        let records = [record("sherman", 8, 0.9, 1.0), record("sherman", 16, 0.9, 2.0)];
        let fields: Vec<_> = records.iter().map(Fields::of).collect();
        assert_eq!(Fields::swept(&fields), ["clients"]);
        assert_eq!(fields[1].text("latency_us.p99").as_deref(), Some("0.0"));
    }
}
