//! Project checks.
//!
//! - [`tidy`]: properties of the source tree that `rustc` and `clippy` do not check: dependencies between crates,
//!   forbidden paths, length of functions, maps of formats, prose.
//! - [`licences`]: every dependency has a licence on the allow-list.
//! - [`rxe`]: tests of the RDMA fabric on a machine without an RDMA NIC.
//!
//! `tidy` and `licences` are plain functions, so that `cargo test` runs them as well as `cargo xtask`.
#![forbid(unsafe_code)]

pub mod licences;
pub mod metadata;
pub mod rxe;
pub mod tidy;

use std::path::{Path, PathBuf};

/// Returns the root of the workspace that this crate was built in.
///
/// # Panics
/// If this crate is not in `crates/xtask` of a workspace.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).expect("xtask is two levels below the root").to_path_buf()
}
