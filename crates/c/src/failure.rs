//! Failures of calls: the text of the last error of each thread, and the border that no panic crosses.

use crate::code::{FW_EFFECT_NONE, FW_EFFECT_UNKNOWN, FW_ERR_INVALID_ARGUMENT, FW_ERR_PANIC, of_kind};
use farwood::Error;
use farwood::error::Effect;
use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A failure of a call.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The library has failed.
    Library(Box<Error>),
    /// This package has refused the call, with a code and a text.
    Refused(i32, String),
}

/// The outcome of a call: a code of 0 or more, or the failure.
pub(crate) type CallResult<T = i32> = Result<T, Failure>;

/// The last error of a thread.
#[derive(Clone, Debug)]
pub(crate) struct LastError {
    /// The code.
    pub(crate) code: i32,
    /// The text, with the remedy.
    pub(crate) text: String,
    /// Whether the call may have made its change: `FW_EFFECT_NONE` or `FW_EFFECT_UNKNOWN`.
    pub(crate) effect: i32,
    /// Whether the same call may succeed later.
    pub(crate) is_retryable: bool,
}

impl LastError {
    /// The state of a thread without an error.
    const NONE: Self = Self { code: 0, text: String::new(), effect: FW_EFFECT_NONE, is_retryable: false };

    fn of_panic(text: String) -> Self {
        Self { code: FW_ERR_PANIC, text, effect: FW_EFFECT_UNKNOWN, is_retryable: false }
    }
}

thread_local! {
    static LAST: RefCell<LastError> = const { RefCell::new(LastError::NONE) };
}

/// Names of the library in remedies, and those of this interface. A longer name is before its beginning.
const NAMES: [(&str, &str); 23] = [
    ("Pool::create_index", "fw_index_create"),
    ("Pool::create_spatial", "fw_spatial_create"),
    ("Pool::create", "fw_pool_create"),
    ("Pool::drop_index", "fw_index_drop"),
    ("Pool::indexes", "fw_pool_indexes"),
    ("Pool::open", "fw_pool_open"),
    ("Pool::remove_by_force", "fw_pool_remove_by_force"),
    ("Pool::remove", "fw_pool_remove"),
    ("Pool::stats", "fw_pool_stats_json"),
    ("Pool::sweep_clients", "farwood doctor"),
    ("PoolOptions::memory_bytes", "fw_pool_options.memory_bytes"),
    ("PoolOptions::group", "fw_pool_options.group"),
    ("Index::with_timeout", "fw_index_options.timeout_ms"),
    ("Index::check", "farwood check"),
    ("Spatial::check", "farwood check"),
    ("Spatial::serve", "farwood serve --spatial"),
    ("MemoryNode::start", "farwood serve"),
    ("MemoryNode::stop", "end `farwood serve`"),
    ("doctor::examine", "farwood doctor"),
    ("NodeSpec::host_bytes", "farwood serve --memory"),
    ("Pool::grow_memory", "farwood grow --memory"),
    ("drop all handles", "close all handles"),
    ("drop the handles", "close the handles"),
];

impl Failure {
    /// Refuses an argument.
    pub(crate) fn argument(text: impl Into<String>) -> Self {
        Self::Refused(FW_ERR_INVALID_ARGUMENT, text.into())
    }

    /// The error that the caller sees.
    pub(crate) fn describe(self) -> LastError {
        match self {
            Self::Refused(code, text) => LastError { code, text, ..LastError::NONE },
            Self::Library(error) => LastError {
                code: of_kind(error.kind()),
                text: with_remedy(&error),
                effect: match error.effect() {
                    Effect::None => FW_EFFECT_NONE,
                    Effect::Unknown => FW_EFFECT_UNKNOWN,
                },
                is_retryable: error.is_retryable(),
            },
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Library(Box::new(error))
    }
}

/// The text of an error, and its remedy with the names of this interface.
fn with_remedy(error: &Error) -> String {
    let Some(help) = error.help() else { return error.to_string() };
    let mut remedy = help.to_owned();
    for (name, own) in NAMES {
        remedy = remedy.replace(name, own);
    }
    format!("{error}; {remedy}")
}

/// Executes a call: a failure or a panic becomes a code below 0 and the last error of the thread.
pub(crate) fn guard(call: impl FnOnce() -> CallResult) -> i32 {
    let error = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(code)) => return code,
        Ok(Err(failure)) => failure.describe(),
        Err(panic) => LastError::of_panic(panic_text(&*panic)),
    };
    remember(error)
}

/// Executes a part of a call whose failure does not end the call.
pub(crate) fn guard_part<T>(part: impl FnOnce() -> CallResult<T>) -> Result<T, LastError> {
    match catch_unwind(AssertUnwindSafe(part)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(failure)) => Err(failure.describe()),
        Err(panic) => Err(LastError::of_panic(panic_text(&*panic))),
    }
}

/// Stores the last error of this thread; returns its code. While the thread ends, the error is lost.
fn remember(error: LastError) -> i32 {
    let code = error.code;
    let _ = LAST.try_with(|last| *last.borrow_mut() = error);
    code
}

/// The last error of this thread.
pub(crate) fn last() -> LastError {
    LAST.try_with(|last| last.borrow().clone()).unwrap_or(LastError::NONE)
}

/// The message of a panic.
fn panic_text(panic: &(dyn Any + Send)) -> String {
    let message =
        panic.downcast_ref::<&str>().copied().or(panic.downcast_ref::<String>().map(String::as_str));
    format!("a defect of the library ended the call: {}", message.unwrap_or("no message"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::{FW_ERR_NOT_FOUND, FW_OK};

    #[test]
    fn a_panic_becomes_a_code() {
        assert_eq!(guard(|| panic!("number {}", 7)), FW_ERR_PANIC);
        assert!(last().text.ends_with("number 7"));
        assert_eq!(guard(|| Ok(FW_OK)), FW_OK);
    }

    #[test]
    fn a_remedy_names_functions_of_c() {
        let open = || farwood::Pool::open("shm://nowhere-at-all").map(|_| FW_OK);
        assert_eq!(guard(|| Ok(open()?)), FW_ERR_NOT_FOUND);
        assert!(last().text.contains("fw_pool_create") && !last().text.contains("::"), "{}", last().text);
    }
}
