//! The phases of a run, for progress bars.

/// The current phase of a run, for a progress bar.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stage<'a> {
    /// Keys are being loaded.
    Loading {
        /// Keys loaded.
        done: u64,
        /// Keys to load.
        all: u64,
    },
    /// Processes are being started, peers loaded and caches warmed.
    Warming {
        /// The name of the system.
        backend: &'a str,
    },
    /// A round is being measured.
    Measuring {
        /// The name of the system.
        backend: &'a str,
        /// The number of the round, from 1.
        round: usize,
        /// The number of rounds.
        rounds: usize,
    },
}
