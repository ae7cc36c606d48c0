//! Workloads, benchmark runs, records and figures.
//!
//! This crate defines the operations that a run executes on an index, and the records of their answers and costs:
//!
//! - [`workload`]: keys, values, distributions, rectangles, and the streams of operations;
//! - [`driver`]: worker processes, their threads and their clients, independent of the index;
//! - `spec`: the parameters of a run; [`backend`]: the systems that a run measures, Farwood's indexes and their peers;
//! - [`run`]: runs on real fabrics; `sim_run`: runs in virtual time;
//! - [`record`]: one JSON line per run, and tables of it; [`plot`]: charts as SVG and PNG;
//! - [`figures`]: the papers' figures, reproduced in the simulator.
//!
//! Each folder uses only folders above it in this list, except that `record` and [`workload`] use none. Everything is
//! deterministic given a seed, prints nothing, and returns records and strings.

// Opening an LMDB environment is `unsafe` in its binding; that one call is in `backend/peers/sys.rs`.
#![cfg_attr(not(feature = "peers"), forbid(unsafe_code))]
#![cfg_attr(feature = "peers", deny(unsafe_code))]

pub mod backend;
pub mod driver;
pub mod error;
pub mod figures;
pub mod plot;
pub mod record;
pub mod run;
mod sim_run;
pub mod spec;
pub mod workload;

pub use error::{Error, Result};
