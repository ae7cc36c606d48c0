//! Runs clients' futures on the threads of real machines.
//!
//! | file | contents |
//! |---|---|
//! | `executor.rs` | [`block_on`] for one future, [`run_all`] for several on one thread |
//! | `poll_source.rs` | connections that the executors poll between futures |
//! | `task_thread.rs` | a thread that runs futures of other threads |
//! | `timers.rs` | sleeping, and [`yield_now`] |
//! | `timer_thread.rs` | sleeping in other executors |

mod catch_panic;
mod executor;
mod poll_source;
#[allow(unsafe_code)]
mod sys;
mod task_thread;
mod timer_thread;
mod timers;

pub use catch_panic::catch_panic;
pub use executor::{block_on, run_all};
pub(crate) use poll_source::thread_number;
#[cfg(feature = "tcp")]
pub(crate) use poll_source::{PollSource, Progress, add_poll_source, is_polled_by_executor};
pub use task_thread::TaskThread;
#[cfg(feature = "tcp")]
pub(crate) use timers::wake_at;
pub use timers::yield_now;
pub(crate) use timers::{poll_until, sleep};
