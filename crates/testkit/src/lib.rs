//! What every fabric and every ordered index is tested with, naming none of them.
//!
//! | module | what it holds |
//! |---|---|
//! | [`harness`] | how a test gets clients, runs them together and finds memory to play on |
//! | [`contract`] | what every fabric does, one named check each |
//! | [`litmus`] | one program per promise about order and tearing, run whether it is promised or not |
//! | [`loopback`] | a fabric in one thread, honest or broken on purpose: every check here can fail |
//!
//! Checks panic with what went wrong; nothing here prints.
#![forbid(unsafe_code)]

pub mod contract;
pub mod harness;
pub mod litmus;
pub mod loopback;

pub use harness::{Harness, Scratch, ServerHarness};
