//! Discovery: how compute nodes find the memory nodes of a pool.

pub mod etcd;
