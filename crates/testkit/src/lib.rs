//! Checks for every fabric and every ordered index. No fabric and no index is named here.
//!
//! | module | content |
//! |---|---|
//! | [`campaign`] | the two sizes of long tests |
//! | [`harness`] | a trait by which tests obtain clients, run them concurrently, and allocate far memory |
//! | [`contract`] | the contract of every fabric: one named check for each clause |
//! | [`litmus`] | one program per promise about order and tearing, run whether the fabric promises it or not |
//! | [`history`] | histories of concurrent clients, and a check for linearizability |
//! | [`model`] | random operations on an ordered index, compared with a `BTreeMap` |
//! | [`need`] | requirements of a test on its machine, and skipping of tests whose requirements are not met |
//! | [`seeds`] | runs of many seeds on all processors, until one fails |
//! | [`loopback`] | a fabric in one thread, correct or broken deliberately, which shows that every check can fail |
//!
//! A failed check panics with the cause; only [`need`] prints.
#![forbid(unsafe_code)]

pub mod campaign;
pub mod contract;
pub mod harness;
pub mod history;
pub mod litmus;
pub mod loopback;
pub mod model;
pub mod need;
pub mod seeds;

pub use harness::{Harness, Scratch, ServerHarness};
