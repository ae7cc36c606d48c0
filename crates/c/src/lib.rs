//! The C interface of Farwood: `include/farwood.h`, which a test generates from this package with cbindgen.
//!
//! | file | contents |
//! |---|---|
//! | `code.rs` | the codes that calls return, and constants of arguments |
//! | `failure.rs` | the text of the last error, and the border that no panic crosses |
//! | `async_cell.rs` | the handles of indexes for sessions |
//! | `caller/sys.rs` | reads and writes memory of the caller |
//! | `pool/`, `index/`, `batch/`, `scan/`, `session/`, `spatial/`, `number/`, `text/` | the functions by object |
//!
//! In each folder, `sys.rs` declares the exported functions, and the files beside it have their contents as safe code.
//!
//! A parameter `Option<&T>` is a pointer of C that may be null, and so are `Option<&mut MaybeUninit<T>>`, a pointer to
//! memory for a result, and `Option<Box<T>>`, an object that the call closes. Their validity is the promise of every C
//! caller that `farwood.h` states: an object was returned by the function that opens it, is not closed, and is used by
//! one thread at a time unless its documentation permits more.
#![deny(unsafe_code)]

mod async_cell;
mod batch;
mod caller;
mod code;
mod failure;
mod index;
mod number;
mod pool;
mod scan;
mod session;
mod spatial;
mod text;

pub use batch::*;
pub use code::*;
pub use index::*;
pub use number::*;
pub use pool::*;
pub use scan::*;
pub use session::*;
pub use spatial::*;
pub use text::*;

/// The header permits any number of threads at the same time for the first objects, and one at a time for the others.
const _: () = {
    const fn any_threads<T: Send + Sync>() {}
    const fn one_thread_at_a_time<T: Send>() {}
    any_threads::<FwPool>();
    any_threads::<FwIndex>();
    any_threads::<FwSpatial>();
    one_thread_at_a_time::<FwScan>();
    one_thread_at_a_time::<FwItems>();
    one_thread_at_a_time::<FwSession>();
};
