//! Traces as JSON for `chrome://tracing` and Perfetto.

use super::{OperationSpan, Trace, TraceEvent};
use crate::fault::InjectedFault;
use serde_json::{Value, json};

impl Trace {
    /// Formats the trace as JSON for `chrome://tracing` and Perfetto: one process per compute node, one thread per
    /// client, one slice per operation and per verb, and a marker per fault. An operation without an answer ends with
    /// the trace.
    pub fn to_json(&self) -> String {
        let end = self.events.iter().map(|event| event.time).max().unwrap_or(0);
        let operations = self.operations.iter().map(|operation| operation_slice(operation, end));
        let lines =
            operations.chain(self.faults.iter().map(marker)).chain(self.events.iter().map(verb_event));
        let lines: Vec<_> = lines.map(|line| line.to_string()).collect();
        format!("{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n{}\n]}}\n", lines.join(",\n"))
    }
}

/// A time in the unit of the format, microseconds.
fn timestamp(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1000.0
}

fn operation_slice(OperationSpan { client, name, call, end }: &OperationSpan, trace_end: u64) -> Value {
    let (client, compute_node) = client;
    let end = end.unwrap_or(trace_end).max(*call);
    json!({
        "name": name, "cat": "operation", "ph": "X", "ts": timestamp(*call), "dur": timestamp(end - call),
        "pid": compute_node, "tid": client,
    })
}

/// A marker over all processes.
fn marker(InjectedFault { time, fault }: &InjectedFault) -> Value {
    json!({
        "name": fault.to_string(), "cat": "fault", "ph": "i", "s": "g", "ts": timestamp(*time), "pid": 0, "tid": 0,
    })
}

/// The begin, the execution or the end of a verb's slice.
fn verb_event(event: &TraceEvent) -> Value {
    let phase = match event.stage {
        "post" => "b",
        "serve" => "n",
        _ => "e",
    };
    let (client, compute_node) = event.client;
    json!({
        "name": event.what.split(' ').next().unwrap_or_default(), "cat": "verb", "ph": phase, "id": event.verb,
        "ts": timestamp(event.time), "pid": compute_node, "tid": client,
        "args": {
            "what": event.what, "details": event.details, "node": event.node, "stage": event.stage,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Fault;
    use crate::trace::Tracing;

    fn event(time: u64, stage: &'static str) -> TraceEvent {
        let what = "CAS 8 B at n0+64".to_owned();
        TraceEvent { time, verb: 3, stage, client: (2, 1), node: 0, what, details: "won".to_owned() }
    }

    #[test]
    fn operations_faults_and_verbs_are_in_the_json_of_a_trace_and_of_its_part() {
        let mut trace = Trace::new(Tracing::Full);
        trace.add(event(1_500, "post"), &[]);
        trace.add(event(3_000, "complete"), &[]);
        let fault = Fault::Freeze { compute_node: 1, nanoseconds: 2_000 };
        let trace = trace.with_faults(vec![InjectedFault { time: 2_000, fault }]);
        let name = "put \"5\"".to_owned();
        let operation = OperationSpan { client: (2, 1), name, call: 1_000, end: None };
        let trace = trace.with_operations(vec![operation]);
        let events = |trace: &Trace| -> Vec<Value> {
            let json: Value = serde_json::from_str(&trace.to_json()).unwrap();
            json["traceEvents"].as_array().unwrap().clone()
        };
        let all = events(&trace);
        let phases: Vec<_> = all.iter().map(|event| event["ph"].as_str().unwrap()).collect();
        assert_eq!(phases, ["X", "i", "b", "e"]);
        assert_eq!((&all[0]["name"], &all[0]["dur"]), (&json!("put \"5\""), &json!(2.0)));
        assert_eq!(all[1]["name"], "compute node 1 stops for 2.000 us");
        assert_eq!((&all[2]["ts"], &all[2]["tid"]), (&json!(1.5), &json!(2)));
        let part = events(&trace.within(2_500..4_000));
        assert_eq!(part.len(), 2, "the operation and the completion: {part:?}");
        assert_eq!(events(&trace.within(0..500)), Vec::<Value>::new());
    }
}
