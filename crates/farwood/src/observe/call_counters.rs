//! The counters of the calls of one operation on one index, which one client at a time changes.
//!
//! A change is a load and a store without a locked instruction, because there is one writer. Other threads only read.

use super::latency::{Latencies, LatencyCounters, add};
use super::observer::CallOutcome;
use super::snapshot::OperationMetrics;
use crate::error::ErrorKind;
use farwood_fabric::Costs;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Counters of one client.
pub(super) struct CallCounters {
    calls: AtomicU64,
    unfinished: AtomicU64,
    errors: [AtomicU64; ErrorKind::ALL.len()],
    costs: CostCounters,
    /// Of the calls that were measured.
    latency: OnceLock<Box<LatencyCounters>>,
}

impl CallCounters {
    pub(super) fn new() -> Self {
        Self {
            calls: AtomicU64::new(0),
            unfinished: AtomicU64::new(0),
            errors: [const { AtomicU64::new(0) }; ErrorKind::ALL.len()],
            costs: CostCounters::default(),
            latency: OnceLock::new(),
        }
    }

    /// Counts a call that has succeeded, and moves its costs from those of its client.
    #[inline]
    pub(super) fn succeed(&self, costs: &mut Costs) {
        add(&self.calls, 1);
        self.costs.take(costs);
    }

    /// Counts a call.
    pub(super) fn add(&self, outcome: CallOutcome, costs: &Costs) {
        match outcome {
            CallOutcome::Succeeded => {}
            CallOutcome::Failed(kind) => add(&self.errors[kind as usize], 1),
            CallOutcome::Unfinished => add(&self.unfinished, 1),
        }
        self.succeed(&mut costs.clone());
    }

    /// Records the duration of a call.
    pub(super) fn measure(&self, duration: Duration) {
        self.latency.get_or_init(|| Box::new(LatencyCounters::new())).add(duration);
    }

    /// Adds these counts to a sum.
    pub(super) fn add_to(&self, sum: &mut OperationMetrics) {
        sum.calls += self.calls.load(Ordering::Relaxed);
        sum.unfinished += self.unfinished.load(Ordering::Relaxed);
        for (kind, count) in ErrorKind::ALL.into_iter().zip(&self.errors) {
            sum.add_errors(kind, count.load(Ordering::Relaxed));
        }
        sum.costs += self.costs.load();
        if let Some(latency) = self.latency.get() {
            Latencies::add(&mut sum.latency, latency);
        }
    }
}

/// Declares counters of the same names as the fields of [`Costs`]. Lookups have costs of the first list.
macro_rules! cost_counters {
    ([$($frequent:ident),+], [$($rare:ident),+]) => {
        #[derive(Default)]
        struct CostCounters {
            $($frequent: AtomicU64,)+
            $($rare: AtomicU64,)+
        }

        impl CostCounters {
            /// Moves costs to the counters.
            #[inline]
            fn take(&self, costs: &mut Costs) {
                $(add(&self.$frequent, std::mem::take(&mut costs.$frequent));)+
                if $(costs.$rare)|+ != 0 {
                    $(add(&self.$rare, std::mem::take(&mut costs.$rare));)+
                }
            }

            fn load(&self) -> Costs {
                Costs {
                    $($frequent: self.$frequent.load(Ordering::Relaxed),)+
                    $($rare: self.$rare.load(Ordering::Relaxed),)+
                }
            }
        }
    };
}

cost_counters!(
    [round_trips, reads, bytes_read, cache_hits],
    [
        writes,
        cas,
        masked_cas,
        faa,
        write_imm,
        bytes_written,
        cas_failures,
        torn,
        lock,
        moved,
        misled,
        cache_misses,
        handed_over
    ]
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_move_to_the_counters() {
        let mut costs = Costs { round_trips: 1, reads: 2, lock: 3, ..Costs::default() };
        let (moved, counters) = (costs, CallCounters::new());
        counters.succeed(&mut costs);
        assert_eq!(costs, Costs::default());
        counters.add(CallOutcome::Failed(ErrorKind::Full), &Costs { writes: 4, ..Costs::default() });
        counters.add(CallOutcome::Unfinished, &Costs::default());
        let mut sum = OperationMetrics::new("numbers", "put");
        counters.add_to(&mut sum);
        assert_eq!((sum.calls, sum.unfinished, &*sum.errors), (3, 1, &[(ErrorKind::Full, 1)][..]));
        assert_eq!(sum.costs, Costs { writes: 4, ..moved });
    }
}
