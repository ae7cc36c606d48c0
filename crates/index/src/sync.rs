//! The locks and atomics that the queue and its users are built on. `tests/queue_model.rs` compiles the same sources
//! against those of `loom`.

pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
pub(crate) use std::sync::{Mutex, MutexGuard};
