//! Sessions: operations whose completions are collected later, with a descriptor that tells of them.
//!
//! The thread of the pool executes the operations of all sessions. A session polls the answer of an operation once when
//! it is submitted, and again after its waker has put it into the list of ready operations; the waker makes the
//! descriptor readable when the list was empty.

mod operation;
mod signal;
#[allow(unsafe_code)]
mod sys;

pub use sys::*;

use crate::failure::{CallResult, Failure, LastError, guard_part};
use crate::index::FwIndex;
use crate::scan::FwScan;
use crate::spatial::{FwItem, FwItems, FwRect, FwSpatial};
use operation::{Finished, RunningOp};
use signal::{Signal, SlotWaker};
use std::collections::VecDeque;
use std::ffi::{CString, c_void};
use std::ptr;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// Operations in flight, and those that have ended. One thread at a time may use it.
pub struct FwSession {
    signal: Arc<Signal>,
    /// The process that opened the session.
    process: u32,
    /// The operations in flight, by slot.
    slots: Vec<Option<Pending>>,
    free: Vec<usize>,
    /// Operations that have ended, and that no call has returned.
    ended: VecDeque<Ended>,
    /// The bytes of the completions that the last call returned.
    returned: Vec<CString>,
    returned_values: Vec<Vec<u8>>,
}

/// An operation. Set all bytes to 0 before you set the fields that it needs. Its keys and values are copied: they need
/// not outlive `fw_submit`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct FwOp {
    /// A number of the caller, which the completion has, too.
    pub tag: u64,
    /// The ordered index; NULL for an operation on a spatial index.
    pub index: *const FwIndex,
    /// The spatial index; NULL for an operation on an ordered index.
    pub spatial: *const FwSpatial,
    /// The key.
    pub key: *const c_void,
    /// The bytes of the key.
    pub key_len: usize,
    /// The value of `FW_OP_PUT`, `FW_OP_INSERT` and `FW_OP_UPDATE`; the new value of `FW_OP_COMPARE_EXCHANGE`, or NULL.
    pub value: *const c_void,
    /// The bytes of the value.
    pub value_len: usize,
    /// The expected value of `FW_OP_COMPARE_EXCHANGE`, or NULL for a key that must not exist.
    pub expected: *const c_void,
    /// The bytes of the expected value.
    pub expected_len: usize,
    /// The range of `FW_OP_SCAN`; NULL: all entries. Give it a limit.
    pub range: *const crate::scan::FwRange,
    /// The item of `FW_OP_ITEM_INSERT`, `FW_OP_ITEM_REMOVE` and `FW_OP_ITEM_MOVE`.
    pub item: *const FwItem,
    /// The window of `FW_OP_SEARCH`; the new bounds of `FW_OP_ITEM_MOVE`; the point of `FW_OP_NEAREST`, `x_min` and
    /// `y_min`.
    pub bounds: *const FwRect,
    /// The summand of `FW_OP_FETCH_ADD`; the number of items of `FW_OP_NEAREST`; the relation of `FW_OP_SEARCH`, such
    /// as `FW_INTERSECTS`.
    pub number: i64,
    /// `FW_OP_GET` or another operation.
    pub code: i32,
    /// Must be 0.
    pub reserved: u32,
}

/// The completion of an operation.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct FwDone {
    /// The tag of the operation.
    pub tag: u64,
    /// The value that the operation has found (`FW_OP_GET`; `FW_OP_COMPARE_EXCHANGE` with `FW_MISMATCH`); after an
    /// error its text, with a NUL at its end. It is valid until the next call of `fw_poll`, `fw_wait` or
    /// `fw_session_close`.
    pub value: *const c_void,
    /// The bytes of the value, or of the text without NUL.
    pub value_len: usize,
    /// The entries of `FW_OP_SCAN`, or NULL. Close it with `fw_scan_close`.
    pub scan: *mut FwScan,
    /// The items of `FW_OP_SEARCH` and `FW_OP_NEAREST`, or NULL. Close them with `fw_items_close`.
    pub items: *mut FwItems,
    /// The number before `FW_OP_FETCH_ADD`.
    pub before: i64,
    /// The code that the call of the same name would have returned. That of `FW_OP_PUT` may be `FW_REPLACED`.
    pub status: i32,
    /// The operation.
    pub code: i32,
    /// Of an error: `FW_EFFECT_NONE` or `FW_EFFECT_UNKNOWN`.
    pub effect: i32,
    /// Of an error: 1 if the operation may succeed later without a remedy.
    pub retryable: i32,
}

/// An operation in flight.
struct Pending {
    tag: u64,
    code: i32,
    running: RunningOp,
    waker: Waker,
}

/// An operation that has ended.
struct Ended {
    tag: u64,
    code: i32,
    outcome: Result<Finished, LastError>,
}

impl FwSession {
    fn open() -> CallResult<Self> {
        Ok(Self {
            signal: Arc::new(Signal::new()?),
            process: std::process::id(),
            slots: Vec::new(),
            free: Vec::new(),
            ended: VecDeque::new(),
            returned: Vec::new(),
            returned_values: Vec::new(),
        })
    }

    /// Refuses a forked child, which must not take signals of its parent.
    fn check_process(&self) -> CallResult<()> {
        if std::process::id() == self.process {
            return Ok(());
        }
        let text = "a forked child uses a session of its parent; open a session in this process";
        Err(Failure::Refused(crate::code::FW_ERR_FORKED, text.to_owned()))
    }

    /// Begins an operation. If it cannot begin, it ends with the error.
    fn submit(&mut self, (tag, code): (u64, i32), begin: impl FnOnce() -> CallResult<RunningOp>) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        match guard_part(begin) {
            Ok(running) => {
                let waker = SlotWaker::waker(slot, &self.signal);
                self.slots[slot] = Some(Pending { tag, code, running, waker });
                self.advance(slot);
            }
            Err(error) => {
                self.free.push(slot);
                self.ended.push_back(Ended { tag, code, outcome: Err(error) });
            }
        }
    }

    /// Polls an operation, and lists it if it has ended.
    fn advance(&mut self, slot: usize) {
        // A late waker may name a slot that is free again.
        let Some(Some(Pending { tag, code, running, waker })) = self.slots.get_mut(slot) else { return };
        let polled = guard_part(|| match running.as_mut().poll(&mut Context::from_waker(waker)) {
            Poll::Pending => Ok(None),
            Poll::Ready(outcome) => outcome.map(Some),
        });
        let Some(outcome) = polled.transpose() else { return };
        self.ended.push_back(Ended { tag: *tag, code: *code, outcome });
        self.slots[slot] = None;
        self.free.push(slot);
    }

    /// Polls the operations that are ready.
    fn advance_ready(&mut self) {
        self.signal.clear();
        for slot in self.signal.take_ready() {
            self.advance(slot);
        }
    }

    /// Yields up to `limit` completions. Their bytes stay until the next call.
    fn collect(&mut self, limit: usize) -> Vec<FwDone> {
        self.returned.clear();
        self.returned_values.clear();
        self.advance_ready();
        let count = limit.min(self.ended.len());
        let ended: Vec<_> = self.ended.drain(..count).collect();
        let done = ended.into_iter().map(|ended| self.done(ended)).collect();
        if !self.ended.is_empty() {
            self.signal.raise();
        }
        done
    }

    /// As [`collect`](Self::collect), after a completion or the end of the time limit.
    fn wait(&mut self, limit: usize, time_limit: Option<Duration>) -> CallResult<Vec<FwDone>> {
        let begun = Instant::now();
        loop {
            let done = self.collect(limit);
            let left = time_limit.map(|limit| limit.saturating_sub(begun.elapsed()));
            if !done.is_empty() || limit == 0 || self.in_flight() == 0 || left == Some(Duration::ZERO) {
                return Ok(done);
            }
            self.signal.wait(left)?;
        }
    }

    /// The operations that have not ended.
    fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// The completion, whose bytes the session keeps.
    fn done(&mut self, Ended { tag, code, outcome }: Ended) -> FwDone {
        let mut done = FwDone {
            tag,
            value: ptr::null(),
            value_len: 0,
            scan: ptr::null_mut(),
            items: ptr::null_mut(),
            before: 0,
            status: 0,
            code,
            effect: 0,
            retryable: 0,
        };
        match outcome {
            Ok(finished) => {
                (done.status, done.before) = (finished.status, finished.before);
                if let Some(value) = finished.value {
                    // The bytes of a vector stay in place when the vector moves.
                    (done.value, done.value_len) = (value.as_ptr().cast(), value.len());
                    self.returned_values.push(value);
                }
                if let Some(scan) = finished.scan {
                    done.scan = Box::into_raw(scan);
                }
                if let Some(items) = finished.items {
                    done.items = Box::into_raw(items);
                }
            }
            Err(error) => {
                (done.status, done.effect) = (error.code, error.effect);
                done.retryable = i32::from(error.is_retryable);
                let text = CString::new(error.text.replace('\0', " ")).unwrap_or_default();
                (done.value, done.value_len) = (text.as_ptr().cast(), text.as_bytes().len());
                self.returned.push(text);
            }
        }
        done
    }
}
