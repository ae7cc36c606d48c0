//! The house's own checks.
//!
//! - [`tidy`]: what `rustc` and `clippy` cannot see: who may depend on whom, what a room must not touch, how
//!   long a function is, whether a format has its map.
//! - [`licences`]: every dependency is under a licence we accept.
//!
//! Both are plain functions, so that `cargo test` runs them as well as `cargo xtask`.
//!
//! [`rxe`] tests the RDMA fabric where there is no card.
#![forbid(unsafe_code)]

pub mod licences;
pub mod rxe;
pub mod tidy;

use std::path::{Path, PathBuf};

/// The root of the workspace that this crate was built in.
///
/// # Panics
/// When the crate does not lie in `crates/xtask` of a workspace.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).expect("xtask lies two levels below the root").to_path_buf()
}
