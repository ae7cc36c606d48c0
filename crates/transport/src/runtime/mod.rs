//! Runs clients' futures on the threads of real machines.
//!
//! | file | contents |
//! |---|---|
//! | `executor.rs` | [`block_on`] for one future, [`run_all`] for several on one thread |
//! | `round_waits.rs` | the waits of an executor between its polls |
//! | `idle_pause.rs` | the lengths of pauses without an answer |
//! | `poll_source.rs` | connections that the executors poll between futures |
//! | `task_thread.rs` | a thread that runs futures of other threads |
//! | `sleep.rs` | sleeping, repeated attempts, and [`yield_now`] |
//! | `timers.rs` | the timers of a thread, and the timer of a future |
//! | `timer_list.rs` | timers by the times at which they are due |
//! | `timer_thread.rs` | the timers of futures in other executors |

mod catch_panic;
mod executor;
mod idle_pause;
mod poll_source;
mod round_waits;
mod sleep;
#[allow(unsafe_code)]
mod sys;
mod task_thread;
mod timer_list;
mod timer_thread;
mod timers;

pub use catch_panic::catch_panic;
pub use executor::{block_on, poll_once, run_all};
#[cfg(feature = "tcp")]
pub(crate) use idle_pause::IdlePolls;
pub(crate) use poll_source::thread_number;
#[cfg(feature = "tcp")]
pub(crate) use poll_source::{PollSource, Progress, add_poll_source, is_polled_by_executor};
pub use sleep::yield_now;
pub(crate) use sleep::{poll_until, sleep};
pub use task_thread::TaskThread;
#[cfg(all(test, feature = "tcp"))]
pub(crate) use timer_thread::timers_of;
#[cfg(feature = "tcp")]
pub(crate) use timers::TaskTimer;
