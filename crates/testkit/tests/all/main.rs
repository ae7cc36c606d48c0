//! The checks of the testkit accept what is right and notice what is wrong.

mod contract;
mod cross_check;
mod history;
mod litmus;
mod model;
