//! The locks and atomics on which the queue, the local locks and request combining are built. `tests/queue_model.rs`
//! compiles the same sources against those of `loom`.

pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
pub(crate) use std::sync::{Mutex, MutexGuard};
