//! An observer for the crate `tracing`.

use super::observer::{CallOutcome, ObservedCall, Observer};

/// Emits an event for each call, with the target `farwood`: at the level `DEBUG`, or `WARN` if the call has failed.
///
/// The fields are `index`, `operation`, `duration_us`, `round_trips`, `verbs`, `bytes_read`, `bytes_written`,
/// `lock_retries` and `torn`; and `error`, the [name](crate::error::ErrorKind::name) of its kind, or `unfinished`.
#[derive(Clone, Copy, Debug, Default)]
pub struct TracingObserver;

/// Emits an event of the level with the fields of a call.
macro_rules! event {
    ($level:ident, $call:expr $(, $more:tt)*) => {
        tracing::event!(
            target: "farwood",
            tracing::Level::$level,
            index = $call.index,
            operation = $call.operation,
            duration_us = $call.duration.as_nanos() as f64 / 1e3,
            round_trips = $call.costs.round_trips,
            verbs = $call.costs.verbs(),
            bytes_read = $call.costs.bytes_read,
            bytes_written = $call.costs.bytes_written,
            lock_retries = $call.costs.lock,
            torn = $call.costs.torn,
            $($more)*
        )
    };
}

impl Observer for TracingObserver {
    fn done(&self, call: &ObservedCall<'_>) {
        match call.outcome {
            CallOutcome::Succeeded => event!(DEBUG, call),
            CallOutcome::Failed(kind) => {
                let error = kind.name();
                event!(WARN, call, error);
            }
            CallOutcome::Unfinished => {
                let unfinished = true;
                event!(DEBUG, call, unfinished);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use farwood_fabric::Costs;
    use std::fmt::{self, Write as _};
    use std::sync::{Arc, Mutex};
    use std::time::Duration;
    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};

    /// Collects events as text.
    struct Events(Arc<Mutex<Vec<String>>>);

    struct Fields(String);

    impl Visit for Fields {
        fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
            write!(self.0, " {field}={value:?}").unwrap();
        }
    }

    impl Subscriber for Events {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }
        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }
        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn event(&self, event: &Event<'_>) {
            let mut fields = Fields(format!("{} {}", event.metadata().target(), event.metadata().level()));
            event.record(&mut fields);
            self.0.lock().unwrap().push(fields.0);
        }
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    #[test]
    fn each_call_is_an_event_with_its_costs() {
        let events = Arc::default();
        let call = |outcome| ObservedCall {
            index: "numbers",
            operation: "put",
            duration: Duration::from_nanos(1500),
            costs: Costs { round_trips: 2, reads: 1, writes: 2, lock: 3, ..Costs::default() },
            outcome,
        };
        tracing::subscriber::with_default(Events(Arc::clone(&events)), || {
            TracingObserver.done(&call(CallOutcome::Succeeded));
            TracingObserver.done(&call(CallOutcome::Failed(ErrorKind::TimedOut)));
            TracingObserver.done(&call(CallOutcome::Unfinished));
        });
        let fields = "index=\"numbers\" operation=\"put\" duration_us=1.5 round_trips=2 verbs=3 bytes_read=0 \
                      bytes_written=0 lock_retries=3 torn=0";
        let expected = [
            format!("farwood DEBUG {fields}"),
            format!("farwood WARN {fields} error=\"timed_out\""),
            format!("farwood DEBUG {fields} unfinished=true"),
        ];
        assert_eq!(*events.lock().unwrap(), expected);
    }
}
