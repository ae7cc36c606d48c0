//! What the tests of whole systems share: the fabrics as harnesses of the testkit, and Sherman as its checks see it.
//! Nothing depends on this room.
#![forbid(unsafe_code)]

pub mod lab;
pub mod load;
pub mod seeds;
pub mod sherman;
pub mod shm;
pub mod site;
pub mod tcp;
pub mod tree;
pub mod yielding;
