//! The exported functions of sessions.

use super::operation::{Arguments, RunningOp, SpatialArguments, begin, begin_spatial};
use super::{FwDone, FwOp, FwSession};
use crate::caller::{array, bytes, give, optional_bytes, required, store, write_all};
use crate::code::{FW_OK, FW_OP_SCAN};
use crate::failure::{CallResult, Failure, guard};
use crate::scan::{GivenRange, range_of};
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::time::Duration;

/// Opens a session, which may submit operations on any indexes. A thread of the pool executes them; it starts with the
/// first operation.
#[unsafe(no_mangle)]
pub extern "C" fn fw_session_open(session: Option<&mut MaybeUninit<*mut FwSession>>) -> i32 {
    guard(|| {
        let out = required(session, "session")?;
        give(out, FwSession::open()?);
        Ok(FW_OK)
    })
}

/// Closes a session; NULL is permitted. Operations in flight end as they would have ended, and their completions are
/// forgotten.
#[unsafe(no_mangle)]
pub extern "C" fn fw_session_close(session: Option<Box<FwSession>>) -> i32 {
    guard(|| {
        drop(session);
        Ok(FW_OK)
    })
}

/// Stores a descriptor (an eventfd) that is readable when completions may be available, for poll, epoll, io_uring or an
/// event loop. Only watch it: `fw_poll` reads it. It is valid until the session is closed.
#[unsafe(no_mangle)]
pub extern "C" fn fw_fd(session: Option<&FwSession>, fd: Option<&mut MaybeUninit<c_int>>) -> i32 {
    guard(|| {
        store(fd, required(session, "session")?.signal.descriptor());
        Ok(FW_OK)
    })
}

/// Begins `count` operations, which run at the same time and end in any order. An operation with invalid arguments ends
/// with an error as its status. The number of operations in flight has no limit but memory; 16 to 64 keep a network
/// busy.
///
/// # Safety
/// The arguments are as stated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_submit(session: Option<&mut FwSession>, ops: *const FwOp, count: usize) -> i32 {
    guard(|| {
        let session = required(session, "session")?;
        session.check_process()?;
        // SAFETY: the caller promises `count` operations.
        for op in unsafe { array(ops, count, "ops") }? {
            // SAFETY: the caller promises that the index is open, and that the bytes are as the operation states.
            session.submit((op.tag, op.code), || unsafe { begin_op(op) });
        }
        if !session.ended.is_empty() {
            session.signal.raise();
        }
        Ok(FW_OK)
    })
}

/// Begins an operation of a caller.
///
/// # Safety
/// As [`fw_submit`].
unsafe fn begin_op(op: &FwOp) -> CallResult<RunningOp> {
    if op.reserved != 0 {
        return Err(Failure::argument("fw_op.reserved must be 0"));
    }
    // SAFETY: the caller promises an open index, or null.
    let spatial = unsafe { op.spatial.as_ref() };
    if let Some(spatial) = spatial {
        let arguments = SpatialArguments {
            code: op.code,
            // SAFETY: the caller promises an item, or null.
            item: unsafe { op.item.as_ref() },
            // SAFETY: the caller promises a rectangle, or null.
            bounds: unsafe { op.bounds.as_ref() },
            number: op.number,
        };
        return begin_spatial(spatial, &arguments);
    }
    // SAFETY: the caller promises an open index, or null.
    let index = required(unsafe { op.index.as_ref() }, "index")?;
    // SAFETY: the caller promises the byte strings and the range of the operation.
    begin(index, &unsafe { arguments_of(op) }?)
}

/// The arguments of an operation on an ordered index.
///
/// # Safety
/// As [`fw_submit`].
unsafe fn arguments_of<'a>(op: &FwOp) -> CallResult<Arguments<'a>> {
    let mut range = GivenRange::default();
    if op.code == FW_OP_SCAN {
        // SAFETY: the caller promises a range, or null.
        range = unsafe { range_of(op.range) }?;
    }
    Ok(Arguments {
        code: op.code,
        // SAFETY: the caller promises `key_len` bytes at `key`.
        key: unsafe { bytes(op.key, op.key_len, "key") }?,
        // SAFETY: the caller promises `value_len` bytes at `value`, or null.
        value: unsafe { optional_bytes(op.value, op.value_len, "value") }?,
        // SAFETY: the caller promises `expected_len` bytes at `expected`, or null.
        expected: unsafe { optional_bytes(op.expected, op.expected_len, "expected") }?,
        range,
        number: op.number,
    })
}

/// Stores up to `cap` completions in `done`, and their number in `count`, without waiting. The values of the
/// completions before become invalid.
///
/// # Safety
/// The arguments are as stated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_poll(
    session: Option<&mut FwSession>,
    done: *mut FwDone,
    cap: usize,
    count: Option<&mut MaybeUninit<usize>>,
) -> i32 {
    // SAFETY: the caller promises memory for `cap` completions.
    guard(|| unsafe { collect(session, (done, cap), Some(Duration::ZERO), count) })
}

/// As `fw_poll`, but waits for a completion: up to `timeout_ms` milliseconds, or without a limit if that is negative.
/// `count` receives 0 if the time has passed, or no operation is in flight.
///
/// # Safety
/// The arguments are as stated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_wait(
    session: Option<&mut FwSession>,
    done: *mut FwDone,
    cap: usize,
    timeout_ms: i64,
    count: Option<&mut MaybeUninit<usize>>,
) -> i32 {
    let limit = u64::try_from(timeout_ms).ok().map(Duration::from_millis);
    // SAFETY: the caller promises memory for `cap` completions.
    guard(|| unsafe { collect(session, (done, cap), limit, count) })
}

/// Collects completions for a caller.
///
/// # Safety
/// As [`fw_poll`].
unsafe fn collect(
    session: Option<&mut FwSession>,
    (done, cap): (*mut FwDone, usize),
    limit: Option<Duration>,
    count: Option<&mut MaybeUninit<usize>>,
) -> CallResult {
    let (session, count) = (required(session, "session")?, required(count, "count")?);
    session.check_process()?;
    let cap = if done.is_null() { 0 } else { cap };
    let found = session.wait(cap, limit)?;
    // SAFETY: the caller promises memory for `cap` completions, and there are no more.
    unsafe { write_all(&found, done) };
    count.write(found.len());
    Ok(FW_OK)
}

/// Stores the number of operations that have not ended.
#[unsafe(no_mangle)]
pub extern "C" fn fw_in_flight(session: Option<&FwSession>, count: Option<&mut MaybeUninit<usize>>) -> i32 {
    guard(|| {
        store(count, required(session, "session")?.in_flight());
        Ok(FW_OK)
    })
}
