//! Tests of the testkit: its checks accept correct fabrics, indexes and histories, and reject incorrect ones.

mod contract;
mod cross_check;
mod history;
mod litmus;
mod model;
