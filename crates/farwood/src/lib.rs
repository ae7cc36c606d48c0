//! Tree indexes for far memory.
#![forbid(unsafe_code)]

mod error;

pub use error::Error;
