//! What the tests of whole systems share: the fabrics as harnesses of the testkit, tables of what indexes cost, and
//! indexes as their checks see them.
//! Nothing depends on this room.
#![forbid(unsafe_code)]

pub mod casualties;
pub mod catfish_costs;
pub mod children;
pub mod crash_points;
pub mod golden;
pub mod lab;
pub mod load;
pub mod radix_costs;
pub mod radix_model;
pub mod seeds;
pub mod served;
pub mod sherman;
pub mod sherman_costs;
pub mod sherman_model;
pub mod shm;
pub mod site;
pub mod tree;
pub mod yielding;
