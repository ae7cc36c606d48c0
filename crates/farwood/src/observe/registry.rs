//! The counters of a pool, and the settings of what is counted.
//!
//! Each client has counters of its own, so that a call executes no locked instruction. When a client ends, its counters
//! stay, and the next client that needs counters of the same operation continues with them.

use super::call_counters::CallCounters;
use super::observer::{CallOutcome, ObservedCall, Observer};
use super::snapshot::{Metrics, MetricsLevel, OperationMetrics};
use crate::error::ErrorKind;
use farwood_fabric::Costs;
use farwood_transport::fork::ForkCount;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

/// The level of a pool that was just opened.
const LEVEL_DEFAULT: MetricsLevel = MetricsLevel::Off;

/// The work of a call for metrics and the observer, as bits.
#[derive(Clone, Copy)]
pub(super) struct Duties(u8);

impl Duties {
    const COUNT: u8 = 1;
    const SAMPLE: u8 = 2;
    const MEASURE: u8 = 4;
    const OBSERVE: u8 = 8;

    const fn of_level(level: MetricsLevel) -> u8 {
        match level {
            MetricsLevel::Off => 0,
            MetricsLevel::Counts => Self::COUNT,
            MetricsLevel::Sampled => Self::COUNT | Self::SAMPLE,
            MetricsLevel::Full => Self::COUNT | Self::MEASURE,
        }
    }

    #[inline]
    pub(super) const fn is_none(self) -> bool {
        self.0 == 0
    }

    #[inline]
    pub(super) const fn counts(self) -> bool {
        self.0 & Self::COUNT != 0
    }

    #[inline]
    pub(super) const fn samples(self) -> bool {
        self.0 & Self::SAMPLE != 0
    }

    #[inline]
    pub(super) const fn measures(self) -> bool {
        self.0 & (Self::MEASURE | Self::OBSERVE) != 0
    }

    #[inline]
    pub(super) const fn observes(self) -> bool {
        self.0 & Self::OBSERVE != 0
    }
}

/// An index whose calls a registry counts.
pub(crate) struct MeteredIndex {
    /// The number of the name in the registry.
    pub(super) number: usize,
    name: Arc<str>,
}

/// Counters of an operation, and whether a client changes them.
struct Owned {
    counters: Arc<CallCounters>,
    has_owner: bool,
}

/// The operations of one index name.
struct Named {
    name: Arc<str>,
    operations: BTreeMap<&'static str, Vec<Owned>>,
}

/// The counters of a pool.
pub(crate) struct CallRegistry {
    duties: AtomicU8,
    observer: RwLock<Option<Arc<dyn Observer>>>,
    observer_panics: AtomicU64,
    seeds: AtomicU32,
    indexes: Mutex<Vec<Named>>,
    /// A forked child must not wait for the mutex, which another thread of its parent may have held.
    forks: ForkCount,
}

thread_local! {
    /// Whether this thread executes an observer.
    static IS_OBSERVING: Cell<bool> = const { Cell::new(false) };
}

/// Marks this thread as executing an observer, until it is dropped.
struct Observing;

impl Drop for Observing {
    fn drop(&mut self) {
        let _ = IS_OBSERVING.try_with(|observing| observing.set(false));
    }
}

impl CallRegistry {
    pub(crate) fn new(forks: ForkCount) -> Self {
        Self {
            duties: AtomicU8::new(Duties::of_level(LEVEL_DEFAULT)),
            observer: RwLock::default(),
            observer_panics: AtomicU64::new(0),
            seeds: AtomicU32::new(0x9e37_79b9),
            indexes: Mutex::default(),
            forks,
        }
    }

    #[inline]
    pub(super) fn duties(&self) -> Duties {
        Duties(self.duties.load(Ordering::Relaxed))
    }

    pub(crate) fn set_level(&self, level: MetricsLevel) {
        let new = |old: u8| Some(old & Duties::OBSERVE | Duties::of_level(level));
        let _ = self.duties.fetch_update(Ordering::Relaxed, Ordering::Relaxed, new);
    }

    /// Replaces the observer; `None` removes it.
    pub(crate) fn set_observer(&self, observer: Option<Arc<dyn Observer>>) {
        let mut current = self.observer.write().unwrap_or_else(PoisonError::into_inner);
        if observer.is_some() {
            self.duties.fetch_or(Duties::OBSERVE, Ordering::Relaxed);
        } else {
            self.duties.fetch_and(!Duties::OBSERVE, Ordering::Relaxed);
        }
        let before = std::mem::replace(&mut *current, observer);
        drop(current);
        // Its destructor may use the pool.
        drop(before);
    }

    /// Passes a call to the observer.
    pub(super) fn observe<'i>(
        &self,
        index: &'i MeteredIndex,
        call: impl FnOnce(&'i str) -> ObservedCall<'i>,
    ) {
        if !self.forks.is_current() || IS_OBSERVING.try_with(|observing| observing.replace(true)) != Ok(false)
        {
            return;
        }
        let _observing = Observing;
        let observer = self.observer.read().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(observer) = observer else { return };
        let done = catch_unwind(AssertUnwindSafe(|| {
            observer.done(&call(&index.name));
            drop(observer);
        }));
        self.observer_panics.fetch_add(u64::from(done.is_err()), Ordering::Relaxed);
    }

    /// An index of that name.
    pub(crate) fn index(&self, name: &str) -> MeteredIndex {
        let mut indexes = self.lock();
        let known = indexes.iter().position(|index| &*index.name == name);
        let number = known.unwrap_or_else(|| {
            indexes.push(Named { name: name.into(), operations: BTreeMap::new() });
            indexes.len() - 1
        });
        MeteredIndex { number, name: Arc::clone(&indexes[number].name) }
    }

    /// Counts and observes a call that was refused because of an argument, before a client executed it.
    pub(crate) fn refuse(&self, index: &MeteredIndex, operation: &'static str, kind: ErrorKind) {
        let (outcome, costs) = (CallOutcome::Failed(kind), Costs::default());
        if self.duties().counts()
            && let Some(counters) = self.acquire(index.number, operation)
        {
            counters.add(outcome, &costs);
            self.release(index.number, &[(operation, counters)]);
        }
        if self.duties().observes() {
            let duration = Duration::ZERO;
            self.observe(index, |index| ObservedCall { index, operation, duration, costs, outcome });
        }
    }

    /// A number for the random numbers of a client, different from those of other clients.
    pub(super) fn seed(&self) -> u32 {
        self.seeds.fetch_add(0x9e37_79b9, Ordering::Relaxed)
    }

    /// Makes the caller the owner of counters of an operation; `None`: this process is a forked child.
    pub(super) fn acquire(&self, index: usize, operation: &'static str) -> Option<Arc<CallCounters>> {
        if !self.forks.is_current() {
            return None;
        }
        let mut indexes = self.lock();
        let all = indexes[index].operations.entry(operation).or_default();
        if let Some(free) = all.iter_mut().find(|owned| !owned.has_owner) {
            free.has_owner = true;
            return Some(Arc::clone(&free.counters));
        }
        let counters = Arc::new(CallCounters::new());
        all.push(Owned { counters: Arc::clone(&counters), has_owner: true });
        Some(counters)
    }

    /// Ends the ownership of counters of an index.
    pub(super) fn release(&self, index: usize, counters: &[(&'static str, Arc<CallCounters>)]) {
        if !self.forks.is_current() {
            return;
        }
        let mut indexes = self.lock();
        for (operation, counters) in counters {
            let all = indexes[index].operations.get_mut(operation);
            let owned =
                all.and_then(|all| all.iter_mut().find(|owned| Arc::ptr_eq(&owned.counters, counters)));
            if let Some(owned) = owned {
                owned.has_owner = false;
            }
        }
    }

    /// The sums of all counters; none in a forked child.
    pub(crate) fn metrics(&self) -> Metrics {
        let mut metrics = Metrics::default();
        if !self.forks.is_current() {
            return metrics;
        }
        metrics.observer_panics = self.observer_panics.load(Ordering::Relaxed);
        for Named { name, operations } in &*self.lock() {
            for (operation, all) in operations {
                let mut sum = OperationMetrics::new(name, operation);
                for owned in all {
                    owned.counters.add_to(&mut sum);
                }
                metrics.operations.push(sum);
            }
        }
        metrics.operations.retain(|of| of.calls > 0);
        metrics.operations.sort_by(|a, b| (&a.index, a.operation).cmp(&(&b.index, b.operation)));
        metrics
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Named>> {
        self.indexes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
