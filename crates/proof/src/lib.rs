//! Code that the tests of indexes on fabrics share: every fabric as a harness of the testkit, tables of costs, random
//! workloads, and runs that a seed determines. No other crate depends on this one.
#![forbid(unsafe_code)]

pub mod blocking_index;
pub mod catfish_costs;
pub mod children;
pub mod crash_cluster;
pub mod crash_points;
pub mod golden;
pub mod hooked;
pub mod load;
pub mod power_loss;
pub mod radix_costs;
pub mod radix_model;
pub mod read_only;
pub mod seeds;
pub mod served;
pub mod shared_pool;
pub mod sherman_costs;
pub mod sherman_model;
pub mod shm;
pub mod simulator;
pub mod tree;
pub mod workload;
pub mod yielding;
