//! Workloads, runs, records and figures.
//!
//! This room decides *what* is asked of an index and *how* the answers and their costs are written down:
//!
//! - what is asked: [`keys`], [`values`], [`distribution`], [`workload`]; of spatial indexes, [`rectangles`];
//! - how it is asked: [`run`], in real processes; [`tour`], with every answer checked against a model;
//! - what was measured: [`measure`], [`record`], [`machine`];
//! - how people see it: [`table`], [`chart`], [`page`]; [`figures`], the papers' made again in the laboratory;
//! - what Farwood is compared with: `redis` over TCP, and `peers` (cargo feature `peers`).
//!
//! Everything here is deterministic given a seed, prints nothing, and returns records and strings.

// Opening an LMDB environment is `unsafe` in its binding; that one call lives in `peers/sys.rs`.
#![cfg_attr(not(feature = "peers"), forbid(unsafe_code))]
#![cfg_attr(feature = "peers", deny(unsafe_code))]

pub mod chart;
mod clock;
pub mod distribution;
pub mod error;
pub mod figures;
pub mod keys;
pub mod machine;
pub mod measure;
mod micro;
pub mod page;
#[cfg(feature = "peers")]
pub mod peers;
pub mod random;
pub mod record;
pub mod rectangles;
mod redis;
pub mod run;
pub mod table;
pub mod tour;
pub mod values;
pub mod workload;

pub use error::{Error, Result};
