//! What every fabric and every ordered index is tested with, naming none of them.
//!
//! | module | what it holds |
//! |---|---|
//! | [`campaign`] | the two sizes of long tests |
//! | [`harness`] | how a test gets clients, runs them together and finds memory to play on |
//! | [`contract`] | what every fabric does, one named check each |
//! | [`litmus`] | one program per promise about order and tearing, run whether it is promised or not |
//! | [`history`] | what concurrent clients did and saw, and whether some order explains it |
//! | [`model`] | random operations on an ordered index, compared with a `BTreeMap` |
//! | [`need`] | what a test needs from its machine, and how a test without it is skipped |
//! | [`loopback`] | a fabric in one thread, honest or broken on purpose: every check here can fail |
//!
//! Checks panic with what went wrong; only [`need`] prints.
#![forbid(unsafe_code)]

pub mod campaign;
pub mod contract;
pub mod harness;
pub mod history;
pub mod litmus;
pub mod loopback;
pub mod model;
pub mod need;

pub use harness::{Harness, Scratch, ServerHarness};
