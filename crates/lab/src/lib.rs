//! A laboratory for indexes in far memory: write get, put and remove; check and measure them on a simulated network.
//!
//! An index is a type that implements [`FarIndex`]. A program with this `main` has commands for it:
//!
//! ```ignore
//! fn main() -> std::process::ExitCode {
//!     farwood_lab::run::<MyIndex>()
//! }
//! ```
//!
//! - `check` runs concurrent clients with faults, one run for each seed, and checks that some order of the operations
//!   explains every answer. It shrinks a run that fails, and prints the operations and the verbs of its key.
//! - `crashes` crashes a client at every verb of every operation, and checks what the others find.
//! - `canaries` checks that each deliberate defect ([`FarIndex::MUTANTS`]) is found within 50 seeds.
//! - `costs` prints round trips, verbs and bytes of every operation, and compares them with a file.
//! - `trace` prints one operation as a sequence diagram.
//! - `bench` measures throughput, latency and costs, beside Farwood's own indexes if asked, with the records of
//!   `farwood bench`.
//!
//! [`testing`] has the checks as functions for `cargo test`. Everything is deterministic: a seed repeats its run.
//! `docs/your-index.md` is a guide.
#![forbid(unsafe_code)]

mod bench;
mod canaries;
mod case;
mod check;
mod cli;
mod costs;
mod crashes;
mod error;
mod faults;
mod finding;
mod history_run;
mod index;
mod report;
mod shrink;
mod space;
pub mod testing;
mod trace;
mod world;

pub use cli::run;
pub use error::{LabError, LabResult};
pub use farwood_fabric as fabric;
pub use index::FarIndex;
pub use space::Space;
