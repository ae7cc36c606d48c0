//! Measurements: latencies and costs of operations, merged over clients, threads and processes.
//!
//! A [`Measurement`] belongs to one thread. Recording costs a few additions; percentiles are computed once, at the end.

use farwood_fabric::Costs;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::histogram::Counts;
use super::{ByOperation, Bytes, Cache, Counted, Latency, Measured, Record, Retries, RoundTrips, Verbs};

/// Significant decimal digits of latencies.
const DIGITS: u8 = 3;
/// Longest latency that is recorded exactly, in ns: 1000 s. Longer ones are recorded as 1000 s.
const LATENCY_MAX_NS: u64 = 1_000_000_000_000;
/// Largest number of round trips with its own entry in a record's histogram; larger ones are counted together in one
/// more entry.
pub const ROUND_TRIPS_MAX: u64 = 64;

/// The kinds of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OperationKind {
    /// Read of one key.
    Get,
    /// Insert or update, and read-modify-write.
    Put,
    /// Insert of a new key.
    Insert,
    /// Remove.
    Remove,
    /// Range scan.
    Scan,
    /// Search for rectangles.
    Search,
}

const KINDS: usize = 6;

/// The costs of one operation, or of many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CostTotals {
    /// Round trips (longest chain of dependent posts).
    pub round_trips: u64,
    /// READs.
    pub reads: u64,
    /// WRITEs.
    pub writes: u64,
    /// CASes on 64 bits.
    pub cas: u64,
    /// CASes under a mask.
    pub masked_cas: u64,
    /// Fetch-and-adds.
    pub faa: u64,
    /// WRITE_WITH_IMMs.
    pub write_imm: u64,
    /// Bytes read from memory nodes.
    pub bytes_read: u64,
    /// Bytes written to memory nodes.
    pub bytes_written: u64,
    /// Reads repeated because a copy was torn.
    pub torn: u64,
    /// Attempts at a lock that was held.
    pub lock: u64,
    /// Steps taken because a node had split or a cached one was stale.
    pub moved: u64,
    /// Prefixes without a node for which a filter made the client search.
    pub misled: u64,
    /// Lookups that the cache answered.
    pub cache_hits: u64,
    /// Lookups that the cache did not answer.
    pub cache_misses: u64,
    /// Locks that a client of the same compute node handed over.
    pub handed_over: u64,
    /// Searches that the client executed by READs.
    #[serde(default)]
    pub offloaded: u64,
    /// Rectangles that searches found.
    #[serde(default)]
    pub found: u64,
}

impl From<Costs> for CostTotals {
    #[inline]
    fn from(costs: Costs) -> CostTotals {
        CostTotals {
            round_trips: costs.round_trips,
            reads: costs.reads,
            writes: costs.writes,
            cas: costs.cas,
            masked_cas: costs.masked_cas,
            faa: costs.faa,
            write_imm: costs.write_imm,
            bytes_read: costs.bytes_read,
            bytes_written: costs.bytes_written,
            torn: costs.torn,
            lock: costs.lock,
            moved: costs.moved,
            misled: costs.misled,
            cache_hits: costs.cache_hits,
            cache_misses: costs.cache_misses,
            handed_over: costs.handed_over,
            offloaded: 0,
            found: 0,
        }
    }
}

impl std::ops::AddAssign<&CostTotals> for CostTotals {
    #[inline]
    fn add_assign(&mut self, other: &CostTotals) {
        self.round_trips += other.round_trips;
        self.reads += other.reads;
        self.writes += other.writes;
        self.cas += other.cas;
        self.masked_cas += other.masked_cas;
        self.faa += other.faa;
        self.write_imm += other.write_imm;
        self.bytes_read += other.bytes_read;
        self.bytes_written += other.bytes_written;
        self.torn += other.torn;
        self.lock += other.lock;
        self.moved += other.moved;
        self.misled += other.misled;
        self.cache_hits += other.cache_hits;
        self.cache_misses += other.cache_misses;
        self.handed_over += other.handed_over;
        self.offloaded += other.offloaded;
        self.found += other.found;
    }
}

/// The measurements of one kind of operation.
#[derive(Clone, Debug)]
struct Tally {
    latency_ns: Histogram<u64>,
    latency_sum_ns: u64,
    latency_max_ns: u64,
    /// Operations by round trips.
    round_trips: Counts,
    /// Operations by READs repeated because a copy was torn.
    torn: Counts,
    /// Operations by bytes written.
    bytes_written: Counts,
    costs: CostTotals,
}

/// Binary digits of a latency in the histogram of a record.
const HISTOGRAM_DIGITS: u32 = 6;

/// A number with its highest binary digits, and zeros.
fn rounded_down(value: u64) -> u64 {
    let dropped = (u64::BITS - value.leading_zeros()).saturating_sub(HISTOGRAM_DIGITS + 1);
    value >> dropped << dropped
}

/// The measurements of one thread, or merged ones of several.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(from = "Serialised", into = "Serialised")]
pub struct Measurement {
    /// One for each [`OperationKind`]; boxed, because a histogram is large and most workloads have two kinds.
    tallies: [Option<Box<Tally>>; KINDS],
}

impl Measurement {
    /// Creates a measurement without operations.
    pub fn new() -> Measurement {
        Measurement::default()
    }

    /// Records one operation: its latency in ns and its costs.
    #[inline]
    pub fn record(&mut self, kind: OperationKind, latency_ns: u64, costs: &CostTotals) {
        let tally = self.tallies[kind as usize].get_or_insert_with(|| Box::new(Tally::new()));
        tally.record(latency_ns, costs);
    }

    /// Adds the measurement of another client, thread or process.
    pub fn merge(&mut self, other: &Measurement) {
        for (mine, theirs) in self.tallies.iter_mut().zip(&other.tallies) {
            if let Some(theirs) = theirs {
                mine.get_or_insert_with(|| Box::new(Tally::new())).merge(theirs);
            }
        }
    }

    /// Operations of all kinds.
    pub fn operations(&self) -> u64 {
        self.tallies.iter().flatten().map(|tally| tally.operations()).sum()
    }

    /// Costs of all operations together.
    pub fn costs(&self) -> CostTotals {
        let mut costs = CostTotals::default();
        for tally in self.tallies.iter().flatten() {
            costs += &tally.costs;
        }
        costs
    }

    /// Latencies over all kinds, each with a number of operations.
    pub fn latency_histogram(&self) -> Vec<(u64, u64)> {
        let mut all: Vec<(u64, u64)> = Vec::new();
        for value in self.total().latency_ns.iter_recorded() {
            let (lower, count) = (rounded_down(value.value_iterated_to()), value.count_at_value());
            match all.last_mut() {
                Some((last, times)) if *last == lower => *times += count,
                _ => all.push((lower, count)),
            }
        }
        all
    }

    /// The measured fields of a record over all kinds, for a run of `seconds` whose caches hold `cache_bytes`
    /// (`None`: there is no cache).
    pub fn measured(&self, seconds: f64, cache_bytes: Option<u64>) -> Measured {
        self.total().remote(seconds, cache_bytes)
    }

    /// Computes the results for each kind of operation.
    pub fn by_operation(&self, seconds: f64, cache_bytes: Option<u64>) -> ByOperation {
        self.by_kind(|tally| tally.remote(seconds, cache_bytes))
    }

    /// Adds the distributions of costs to a record of this measurement.
    pub fn count_into(&self, record: &mut Record) {
        record.counted = Some(self.total().counted());
        let kinds = &mut record.by_operation;
        for (kind, measured) in [
            (OperationKind::Get, &mut kinds.get),
            (OperationKind::Put, &mut kinds.put),
            (OperationKind::Insert, &mut kinds.insert),
            (OperationKind::Remove, &mut kinds.remove),
            (OperationKind::Scan, &mut kinds.scan),
            (OperationKind::Search, &mut kinds.search),
        ] {
            if let (Some(measured), Some(tally)) = (measured, &self.tallies[kind as usize]) {
                measured.counted = Some(tally.counted());
            }
        }
    }

    /// The measured fields for a store without far memory (a peer): throughput and latency only.
    pub fn measured_locally(&self, seconds: f64) -> Measured {
        self.total().local(seconds)
    }

    /// Computes the results for each kind of operation, without costs of a fabric.
    pub fn by_operation_locally(&self, seconds: f64) -> ByOperation {
        self.by_kind(|tally| tally.local(seconds))
    }

    fn total(&self) -> Tally {
        let mut total = Tally::new();
        for tally in self.tallies.iter().flatten() {
            total.merge(tally);
        }
        total
    }

    fn by_kind(&self, measured: impl Fn(&Tally) -> Measured) -> ByOperation {
        let of = |kind: OperationKind| self.tallies[kind as usize].as_deref().map(&measured);
        ByOperation {
            get: of(OperationKind::Get),
            put: of(OperationKind::Put),
            insert: of(OperationKind::Insert),
            remove: of(OperationKind::Remove),
            scan: of(OperationKind::Scan),
            search: of(OperationKind::Search),
        }
    }
}

/// The serialised form of a measurement.
type Serialised = [Option<TallySerialised>; KINDS];

impl From<Serialised> for Measurement {
    fn from(serialised: Serialised) -> Measurement {
        Measurement {
            tallies: serialised.map(|tally| tally.map(|tally| Box::new(Tally::from_serialised(&tally)))),
        }
    }
}

impl From<Measurement> for Serialised {
    fn from(measurement: Measurement) -> Serialised {
        measurement.tallies.map(|tally| tally.map(|tally| tally.to_serialised()))
    }
}

/// The serialised form of a tally: histograms are lists of values and their counts.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TallySerialised {
    latency_ns: Vec<(u64, u64)>,
    latency_sum_ns: u64,
    latency_max_ns: u64,
    round_trips: Counts,
    torn: Counts,
    bytes_written: Counts,
    costs: CostTotals,
}

impl Tally {
    fn new() -> Tally {
        let mut latency_ns = Histogram::new_with_bounds(1, 1 << 20, DIGITS).expect("bounds are in order");
        latency_ns.auto(true);
        Tally {
            latency_ns,
            latency_sum_ns: 0,
            latency_max_ns: 0,
            round_trips: Counts::default(),
            torn: Counts::default(),
            bytes_written: Counts::default(),
            costs: CostTotals::default(),
        }
    }

    #[inline]
    fn record(&mut self, latency_ns: u64, costs: &CostTotals) {
        self.count(latency_ns, 1);
        self.latency_sum_ns += latency_ns;
        self.latency_max_ns = self.latency_max_ns.max(latency_ns);
        self.round_trips.add(costs.round_trips, 1);
        self.torn.add(costs.torn, 1);
        self.bytes_written.add(costs.bytes_written, 1);
        self.costs += costs;
    }

    #[inline]
    fn count(&mut self, latency_ns: u64, times: u64) {
        let latency_ns = latency_ns.min(LATENCY_MAX_NS);
        self.latency_ns.record_n(latency_ns, times).expect("the histogram grows up to the longest latency");
    }

    fn merge(&mut self, other: &Tally) {
        self.latency_ns.add(&other.latency_ns).expect("the histogram grows up to the longest latency");
        self.latency_sum_ns += other.latency_sum_ns;
        self.latency_max_ns = self.latency_max_ns.max(other.latency_max_ns);
        self.round_trips.merge(&other.round_trips);
        self.torn.merge(&other.torn);
        self.bytes_written.merge(&other.bytes_written);
        self.costs += &other.costs;
    }

    fn operations(&self) -> u64 {
        self.latency_ns.len()
    }

    fn local(&self, seconds: f64) -> Measured {
        Measured {
            operations: self.operations(),
            seconds,
            mops: ratio(self.operations() as f64 / 1e6, seconds),
            latency_us: self.latency(),
            ..Measured::default()
        }
    }

    fn remote(&self, seconds: f64, cache_bytes: Option<u64>) -> Measured {
        let costs = &self.costs;
        let per_op = |count: u64| ratio(count as f64, self.operations() as f64);
        let lookups = (costs.cache_hits + costs.cache_misses) as f64;
        let hit_ratio = ratio(costs.cache_hits as f64, lookups);
        Measured {
            round_trips: Some(self.round_trips()),
            verbs_per_op: Some(Verbs {
                read: per_op(costs.reads),
                write: per_op(costs.writes),
                cas: per_op(costs.cas),
                masked_cas: per_op(costs.masked_cas),
                faa: per_op(costs.faa),
                write_imm: per_op(costs.write_imm),
            }),
            bytes_per_op: Some(Bytes {
                read: per_op(costs.bytes_read),
                written: per_op(costs.bytes_written),
            }),
            retries: Some(Retries {
                torn: costs.torn,
                lock: costs.lock,
                moved: costs.moved,
                misled: costs.misled,
            }),
            cache: cache_bytes.map(|bytes| Cache { bytes, hit_ratio }),
            ..self.local(seconds)
        }
    }

    fn latency(&self) -> Latency {
        let microseconds = |ns: u64| ns as f64 / 1e3;
        // The upper end of a bucket can exceed the longest latency.
        let at =
            |quantile| microseconds(self.latency_ns.value_at_quantile(quantile).min(self.latency_max_ns));
        Latency {
            mean: ratio(microseconds(self.latency_sum_ns), self.operations() as f64),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: microseconds(self.latency_max_ns),
        }
    }

    fn round_trips(&self) -> RoundTrips {
        RoundTrips {
            mean: ratio(self.costs.round_trips as f64, self.operations() as f64),
            p50: self.round_trips.quantile(50),
            p99: self.round_trips.quantile(99),
            histogram: self.round_trips.histogram(ROUND_TRIPS_MAX + 1),
        }
    }

    fn counted(&self) -> Counted {
        Counted {
            round_trips_max: self.round_trips.max(),
            bytes_written: self.bytes_written.histogram(u64::MAX),
            torn: self.torn.histogram(u64::MAX),
            handed_over: self.costs.handed_over,
        }
    }

    fn to_serialised(&self) -> TallySerialised {
        let buckets = self.latency_ns.iter_recorded();
        TallySerialised {
            latency_ns: buckets.map(|b| (b.value_iterated_to(), b.count_since_last_iteration())).collect(),
            latency_sum_ns: self.latency_sum_ns,
            latency_max_ns: self.latency_max_ns,
            round_trips: self.round_trips.clone(),
            torn: self.torn.clone(),
            bytes_written: self.bytes_written.clone(),
            costs: self.costs,
        }
    }

    fn from_serialised(serialised: &TallySerialised) -> Tally {
        let mut tally = Tally::new();
        for (value, count) in &serialised.latency_ns {
            tally.count(*value, *count);
        }
        tally.round_trips = serialised.round_trips.clone();
        tally.torn = serialised.torn.clone();
        tally.bytes_written = serialised.bytes_written.clone();
        tally.latency_sum_ns = serialised.latency_sum_ns;
        tally.latency_max_ns = serialised.latency_max_ns;
        tally.costs = serialised.costs;
        tally
    }
}

/// `part / whole`, and 0 if `whole` is 0.
fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn costs(round_trips: u64) -> CostTotals {
        CostTotals {
            round_trips,
            reads: 2,
            bytes_read: 100,
            cache_hits: 3,
            cache_misses: 1,
            ..Default::default()
        }
    }

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() <= b.abs() * 0.002
    }

    #[test]
    fn percentiles_and_means_are_those_of_the_recorded_values() {
        let mut measurement = Measurement::new();
        for i in 1..=1000 {
            measurement.record(OperationKind::Get, i * 1000, &costs(if i <= 985 { 1 } else { 3 }));
        }
        let measured = measurement.measured(0.5, Some(77));
        assert_eq!(measured.operations, 1000);
        assert!(close(measured.mops, 0.002));
        let latency = &measured.latency_us;
        for (measured, theory) in [
            (latency.mean, 500.5),
            (latency.p50, 500.0),
            (latency.p90, 900.0),
            (latency.p99, 990.0),
            (latency.p999, 999.0),
            (latency.max, 1000.0),
        ] {
            assert!(close(measured, theory), "{measured} for {theory}");
        }
        let round_trips = measured.round_trips.unwrap();
        assert_eq!((round_trips.p50, round_trips.p99), (1, 3));
        assert!(close(round_trips.mean, 1.03));
        assert_eq!(round_trips.histogram, BTreeMap::from([(1, 985), (3, 15)]));
        assert!(close(measured.verbs_per_op.unwrap().read, 2.0));
        assert_eq!(measured.cache, Some(Cache { bytes: 77, hit_ratio: 0.75 }));
    }

    #[test]
    fn a_record_contains_the_distribution_of_costs() {
        let mut measurement = Measurement::new();
        for i in 0..100 {
            let (round_trips, handed_over) = if i < 98 { (3, 1) } else { (400 + i, 0) };
            let torn = u64::from(i == 7);
            let costs = CostTotals { bytes_written: 32, handed_over, torn, ..costs(round_trips) };
            measurement.record(OperationKind::Put, 1000, &costs);
        }
        let mut record = Record::of(measurement.measured(1.0, None), measurement.by_operation(1.0, None));
        assert_eq!(record.counted, None);
        measurement.count_into(&mut record);
        let counted = Counted {
            round_trips_max: 499,
            bytes_written: BTreeMap::from([(32, 100)]),
            torn: BTreeMap::from([(0, 99), (1, 1)]),
            handed_over: 98,
        };
        let put = record.by_operation.put.unwrap();
        assert_eq!((record.counted.as_ref(), put.counted.as_ref()), (Some(&counted), Some(&counted)));
        let round_trips = put.round_trips.unwrap();
        assert_eq!((round_trips.p99, round_trips.histogram), (498, BTreeMap::from([(3, 98), (65, 2)])));
    }

    #[test]
    fn merged_measurements_equal_a_common_one_also_between_processes() {
        let (mut one, mut two, mut both) = (Measurement::new(), Measurement::new(), Measurement::new());
        for i in 0..2000 {
            let kind = if i % 3 == 0 { OperationKind::Scan } else { OperationKind::Put };
            let latency_ns = 100 + i * i * i;
            let part = if i % 2 == 0 { &mut one } else { &mut two };
            part.record(kind, latency_ns, &costs(i % 70));
            both.record(kind, latency_ns, &costs(i % 70));
        }
        let line = serde_json::to_string(&two).unwrap();
        one.merge(&serde_json::from_str(&line).unwrap());
        assert_eq!(one.measured(1.0, None), both.measured(1.0, None));
        assert_eq!(one.by_operation(1.0, None), both.by_operation(1.0, None));
        assert_eq!(one.costs(), both.costs());
        let histogram = one.measured(1.0, None).round_trips.unwrap().histogram;
        assert_eq!(histogram.keys().next_back(), Some(&65), "numbers above 64 are counted as 65");
        assert!(one.by_operation(1.0, None).get.is_none());
    }

    #[test]
    fn an_empty_measurement_is_zero_and_very_long_latencies_are_kept() {
        let empty = Measurement::new().measured(1.0, None);
        assert_eq!(empty.operations, 0);
        assert!(empty.mops == 0.0 && empty.latency_us == Latency::default());
        let mut measurement = Measurement::new();
        measurement.record(OperationKind::Remove, 0, &costs(1));
        measurement.record(OperationKind::Remove, u64::MAX / 2, &costs(1));
        assert_eq!(measurement.operations(), 2);
    }
}
