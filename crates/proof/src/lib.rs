//! What the tests of whole systems share: the fabrics as harnesses of the testkit. Nothing depends on this room.
#![forbid(unsafe_code)]

pub mod shm;
