//! Metrics of calls, and observers.
//!
//! | file | contents |
//! |---|---|
//! | `snapshot.rs` | [`Metrics`]: the sums that a program reads |
//! | `observer.rs` | [`Observer`]: the trait that a program implements |
//! | `call_counters.rs`, `latency.rs` | the counters of one client |
//! | `registry.rs` | the counters of a pool, and its settings |
//! | `metered_client.rs` | a client that counts its calls |
//! | `to_tracing.rs`, `to_metrics.rs` | observers for the crates `tracing` and `metrics` |

mod call_counters;
mod latency;
mod metered_client;
mod observer;
mod registry;
mod snapshot;
#[cfg(feature = "metrics")]
mod to_metrics;
#[cfg(feature = "tracing")]
mod to_tracing;

pub use latency::Latencies;
pub(crate) use metered_client::MeteredClient;
pub use observer::{CallOutcome, ObservedCall, Observer};
pub(crate) use registry::{CallRegistry, MeteredIndex};
pub use snapshot::{Metrics, MetricsLevel, OperationMetrics};
#[cfg(feature = "metrics")]
pub use to_metrics::MetricsObserver;
#[cfg(feature = "tracing")]
pub use to_tracing::TracingObserver;
