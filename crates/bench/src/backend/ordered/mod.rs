//! Farwood's ordered indexes: Sherman, SMART and Sphinx.

mod backend;
pub(crate) mod cache_warmup;
pub(crate) mod client;
mod describe;
pub(crate) mod process;
pub(crate) mod without_log;

pub(crate) use backend::OrderedBackend;
pub use client::get;
pub use describe::describe_run;
pub(crate) use describe::{describe, loaded_keys};
