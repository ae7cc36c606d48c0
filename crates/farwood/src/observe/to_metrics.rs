//! An observer for the crate `metrics`.

use super::observer::{CallOutcome, ObservedCall, Observer};
use metrics::{Label, counter, histogram};
use std::sync::Arc;

/// Records each call with the recorder of the crate `metrics`. The labels are `index` and `operation`, and `error`, the
/// [name](crate::error::ErrorKind::name) of its kind, for failed calls.
///
/// | name | kind | value |
/// |---|---|---|
/// | `farwood_calls_total` | counter | calls that have ended |
/// | `farwood_errors_total` | counter | calls that have failed |
/// | `farwood_unfinished_total` | counter | calls that were dropped |
/// | `farwood_round_trips_total`, `farwood_verbs_total` | counter | |
/// | `farwood_bytes_read_total`, `farwood_bytes_written_total` | counter | bytes |
/// | `farwood_lock_retries_total` | counter | attempts at locks that others held |
/// | `farwood_torn_reads_total` | counter | READs repeated because the copy was torn |
/// | `farwood_call_seconds` | histogram | durations |
#[derive(Clone, Copy, Debug, Default)]
pub struct MetricsObserver;

impl Observer for MetricsObserver {
    fn done(&self, call: &ObservedCall<'_>) {
        let index: Arc<str> = call.index.into();
        let labels = || {
            vec![
                Label::new("index", Arc::clone(&index)),
                Label::from_static_parts("operation", call.operation),
            ]
        };
        counter!("farwood_calls_total", labels()).increment(1);
        histogram!("farwood_call_seconds", labels()).record(call.duration.as_secs_f64());
        match call.outcome {
            CallOutcome::Succeeded => {}
            CallOutcome::Failed(kind) => {
                let mut labels = labels();
                labels.push(Label::from_static_parts("error", kind.name()));
                counter!("farwood_errors_total", labels).increment(1);
            }
            CallOutcome::Unfinished => counter!("farwood_unfinished_total", labels()).increment(1),
        }
        let costs = &call.costs;
        for (name, count) in [
            ("farwood_round_trips_total", costs.round_trips),
            ("farwood_verbs_total", costs.verbs()),
            ("farwood_bytes_read_total", costs.bytes_read),
            ("farwood_bytes_written_total", costs.bytes_written),
            ("farwood_lock_retries_total", costs.lock),
            ("farwood_torn_reads_total", costs.torn),
        ] {
            if count > 0 {
                counter!(name, labels()).increment(count);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use farwood_fabric::Costs;
    use metrics::{
        Counter, CounterFn, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString,
        Unit,
    };
    use std::collections::BTreeMap;
    use std::sync::Mutex;
    use std::time::Duration;

    /// Sums of counters and of histograms.
    #[derive(Clone, Default)]
    struct Sums(Arc<Mutex<BTreeMap<String, f64>>>);

    /// One of them.
    struct Sum(Sums, String);

    impl Sum {
        fn add(&self, value: f64) {
            *self.0.0.lock().unwrap().entry(self.1.clone()).or_default() += value;
        }
    }

    impl CounterFn for Sum {
        fn increment(&self, value: u64) {
            self.add(value as f64);
        }
        fn absolute(&self, _: u64) {
            unreachable!("counters are only incremented")
        }
    }

    impl HistogramFn for Sum {
        fn record(&self, value: f64) {
            self.add(value);
        }
    }

    impl Sums {
        fn of(&self, key: &Key) -> Arc<Sum> {
            let labels: Vec<_> = key.labels().map(|label| label.value().to_owned()).collect();
            Arc::new(Sum(self.clone(), format!("{} {}", key.name(), labels.join(" "))))
        }
    }

    impl Recorder for Sums {
        fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
            Counter::from_arc(self.of(key))
        }
        fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
            unreachable!("the observer has no gauges")
        }
        fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
            Histogram::from_arc(self.of(key))
        }
    }

    #[test]
    fn each_call_is_counted_with_its_labels() {
        let sums = Sums::default();
        let call = |outcome| ObservedCall {
            index: "numbers",
            operation: "put",
            duration: Duration::from_millis(500),
            costs: Costs { round_trips: 2, reads: 1, lock: 3, ..Costs::default() },
            outcome,
        };
        metrics::with_local_recorder(&sums, || {
            MetricsObserver.done(&call(CallOutcome::Succeeded));
            MetricsObserver.done(&call(CallOutcome::Failed(ErrorKind::Busy)));
            MetricsObserver.done(&call(CallOutcome::Unfinished));
        });
        let expected = [
            ("farwood_call_seconds numbers put", 1.5),
            ("farwood_calls_total numbers put", 3.0),
            ("farwood_errors_total numbers put busy", 1.0),
            ("farwood_lock_retries_total numbers put", 9.0),
            ("farwood_round_trips_total numbers put", 6.0),
            ("farwood_unfinished_total numbers put", 1.0),
            ("farwood_verbs_total numbers put", 3.0),
        ];
        let expected: BTreeMap<_, _> = expected.map(|(key, sum)| (key.to_owned(), sum)).into();
        assert_eq!(*sums.0.lock().unwrap(), expected);
    }
}
