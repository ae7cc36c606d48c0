//! Discovery of a pool's memory nodes by compute nodes.

pub mod etcd;
