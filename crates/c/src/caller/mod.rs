//! Memory of the caller.

#[allow(unsafe_code)]
mod sys;

use crate::failure::{CallResult, Failure};
use std::mem::MaybeUninit;
pub(crate) use sys::{
    CallerStruct, array, bytes, fill, optional_bytes, sized, text, text_or_none, write_all,
};

/// The object that a pointer of the caller refers to.
pub(crate) fn required<T>(pointer: Option<T>, name: &str) -> CallResult<T> {
    pointer.ok_or_else(|| Failure::argument(format!("the argument {name} is a null pointer")))
}

/// Gives an object to the caller, who closes it.
pub(crate) fn give<T>(out: &mut MaybeUninit<*mut T>, object: T) {
    out.write(Box::into_raw(Box::new(object)));
}

/// Stores a result if the caller asked for it.
pub(crate) fn store<T>(out: Option<&mut MaybeUninit<T>>, value: T) {
    if let Some(out) = out {
        out.write(value);
    }
}
