//! The codes that calls return, and the constants of their arguments.

use farwood::error::ErrorKind;

/// Incremented when a program that was compiled with an older header no longer works with the library.
pub const FW_ABI_VERSION: i32 = 0;

/// The call has succeeded.
pub const FW_OK: i32 = 0;
/// The key or the item does not exist. Nothing was changed.
pub const FW_NOT_FOUND: i32 = 1;
/// The key exists already. Nothing was changed.
pub const FW_EXISTS: i32 = 2;
/// The result does not fit into the buffer of the caller; its length was stored.
pub const FW_TOO_SMALL: i32 = 3;
/// The iterator has no further entry.
pub const FW_END: i32 = 4;
/// The key has another value than the expected one. Nothing was changed.
pub const FW_MISMATCH: i32 = 5;
/// The entry was stored in the place of another one. Only batches and sessions distinguish it from `FW_OK`.
pub const FW_REPLACED: i32 = 6;
/// A callback has ended the call.
pub const FW_STOPPED: i32 = 7;

/// The pool or the index does not exist.
pub const FW_ERR_NOT_FOUND: i32 = -1;
/// The pool or the index exists already, or the index of a bulk load has entries.
pub const FW_ERR_EXISTS: i32 = -2;
/// The pool, its directory, its client table, the memory of a machine or a file system is full.
pub const FW_ERR_FULL: i32 = -3;
/// Another client holds a lock, the index or the file. The call may succeed later.
pub const FW_ERR_BUSY: i32 = -4;
/// A memory node, the server of an index or etcd does not answer, or was lost. The call may succeed later.
pub const FW_ERR_UNREACHABLE: i32 = -5;
/// The time limit of the call has passed.
pub const FW_ERR_TIMED_OUT: i32 = -6;
/// Another client considered this one crashed and revoked it. Open the pool again.
pub const FW_ERR_REVOKED: i32 = -7;
/// A forked child uses an iterator or a session of its parent, or cannot open the pool of its parent again.
pub const FW_ERR_FORKED: i32 = -8;
/// The operating system, a memory node, the server of an index or etcd denies access.
pub const FW_ERR_PERMISSION_DENIED: i32 = -9;
/// The index stores other types.
pub const FW_ERR_TYPE_MISMATCH: i32 = -10;
/// An argument is invalid: a null pointer, a name, a size, a URL, or a key or value that does not fit.
pub const FW_ERR_INVALID_ARGUMENT: i32 = -11;
/// The pool or the index has another format, or the library was built without what the call needs.
pub const FW_ERR_UNSUPPORTED: i32 = -12;
/// The pool or the index is damaged or lost.
pub const FW_ERR_DAMAGED: i32 = -13;
/// The operating system refuses a call or a resource.
pub const FW_ERR_SYSTEM: i32 = -14;
/// None of the other errors.
pub const FW_ERR_OTHER: i32 = -15;
/// A defect of the library ended the call; the pool may be used further. Report the text of the error.
pub const FW_ERR_PANIC: i32 = -16;

/// The call changes something, and the pool was opened for reading only, or its token permits only reads. Nothing was
/// changed.
pub const FW_ERR_READ_ONLY: i32 = -17;

/// A call that failed has changed nothing.
pub const FW_EFFECT_NONE: i32 = 0;
/// A call that failed may have made its change, wholly or in part.
pub const FW_EFFECT_UNKNOWN: i32 = 1;

/// Keys or values are byte strings.
pub const FW_BYTES: i32 = 0;
/// Keys or values are unsigned numbers of 64 bits, as `fw_key_u64be` encodes them.
pub const FW_U64: i32 = 1;
/// Keys or values are UTF-8 texts without NUL. Their lengths do not contain a NUL at the end.
pub const FW_TEXT: i32 = 2;
/// Keys or values are signed numbers of 64 bits, as `fw_key_i64be` encodes them.
pub const FW_I64: i32 = 3;
/// Keys or values are floating-point numbers of 64 bits, as `fw_key_f64be` encodes them.
pub const FW_F64: i32 = 4;
/// Keys or values are one byte, 0 or 1.
pub const FW_BOOL: i32 = 5;
/// Keys or values are of another type of the library, such as a tuple; this interface treats them as byte strings.
pub const FW_STRUCTURED: i32 = 6;

/// A B-link tree: keys of one length.
pub const FW_BTREE: i32 = 0;
/// A radix tree with a cache of nodes: keys and values of any length.
pub const FW_RADIX: i32 = 1;
/// A radix tree with a hash table and a small filter: keys and values of any length.
pub const FW_HASHED: i32 = 2;
/// A spatial index; `fw_pool_indexes` reports it.
pub const FW_SPATIAL: i32 = 3;
/// An index that this version cannot read; `fw_pool_indexes` reports it.
pub const FW_UNREADABLE: i32 = 4;

/// Of a range: the lower bound itself is not in the range.
pub const FW_LOWER_EXCLUSIVE: u32 = 1;
/// Of a range: the upper bound itself is in the range.
pub const FW_UPPER_INCLUSIVE: u32 = 2;
/// Of a range: the entries are returned by decreasing key.
pub const FW_REVERSE: u32 = 4;
/// Of a range: all entries are read when the scan is opened, as of one moment. B-link trees only, up to 32 leaves.
pub const FW_SNAPSHOT: u32 = 8;

/// Of `fw_pool_options`: all memory is allocated when the pool is created.
pub const FW_RESERVE_MEMORY: u32 = 1;

/// Rectangles that share a point with the window.
pub const FW_INTERSECTS: i32 = 0;
/// Rectangles inside the window.
pub const FW_WITHIN: i32 = 1;
/// Rectangles that contain the window.
pub const FW_CONTAINS: i32 = 2;

/// The meaning of the coordinates is not stated.
pub const FW_COORDINATES_UNSTATED: i32 = 0;
/// The coordinates are those of a plane.
pub const FW_COORDINATES_PLANAR: i32 = 1;
/// The coordinates are degrees: x is a longitude from -180 to 180, y a latitude from -90 to 90.
pub const FW_COORDINATES_DEGREES: i32 = 2;

/// Reads the value of a key.
pub const FW_OP_GET: i32 = 1;
/// Stores a value under a key.
pub const FW_OP_PUT: i32 = 2;
/// Stores a value under a key that does not exist.
pub const FW_OP_INSERT: i32 = 3;
/// Replaces the value of a key that exists.
pub const FW_OP_UPDATE: i32 = 4;
/// Removes a key.
pub const FW_OP_REMOVE: i32 = 5;
/// Replaces the expected value of a key.
pub const FW_OP_COMPARE_EXCHANGE: i32 = 6;
/// Adds to a number.
pub const FW_OP_FETCH_ADD: i32 = 7;
/// Reads the entries of a range.
pub const FW_OP_SCAN: i32 = 8;
/// Finds the items of a window.
pub const FW_OP_SEARCH: i32 = 9;
/// Finds the items nearest to a point.
pub const FW_OP_NEAREST: i32 = 10;
/// Adds an item.
pub const FW_OP_ITEM_INSERT: i32 = 11;
/// Removes an item.
pub const FW_OP_ITEM_REMOVE: i32 = 12;
/// Moves an item to other bounds.
pub const FW_OP_ITEM_MOVE: i32 = 13;

/// The code of an error of the library.
pub(crate) const fn of_kind(kind: ErrorKind) -> i32 {
    match kind {
        ErrorKind::NotFound => FW_ERR_NOT_FOUND,
        ErrorKind::Exists => FW_ERR_EXISTS,
        ErrorKind::Full => FW_ERR_FULL,
        ErrorKind::Busy => FW_ERR_BUSY,
        ErrorKind::Unreachable => FW_ERR_UNREACHABLE,
        ErrorKind::TimedOut => FW_ERR_TIMED_OUT,
        ErrorKind::Revoked => FW_ERR_REVOKED,
        ErrorKind::Forked => FW_ERR_FORKED,
        ErrorKind::PermissionDenied => FW_ERR_PERMISSION_DENIED,
        ErrorKind::TypeMismatch => FW_ERR_TYPE_MISMATCH,
        ErrorKind::InvalidArgument => FW_ERR_INVALID_ARGUMENT,
        ErrorKind::Unsupported => FW_ERR_UNSUPPORTED,
        ErrorKind::Damaged => FW_ERR_DAMAGED,
        ErrorKind::System => FW_ERR_SYSTEM,
        ErrorKind::ReadOnly => FW_ERR_READ_ONLY,
        // `Other`, and kinds of later versions.
        _ => FW_ERR_OTHER,
    }
}

/// The text of a code.
pub(crate) const fn text_of(code: i32) -> &'static std::ffi::CStr {
    match code {
        FW_OK => c"success",
        FW_NOT_FOUND => c"the key or the item does not exist",
        FW_EXISTS => c"the key exists already",
        FW_TOO_SMALL => c"the buffer is too small",
        FW_END => c"there is no further entry",
        FW_MISMATCH => c"the key has another value",
        FW_REPLACED => c"the entry replaced another one",
        FW_STOPPED => c"a callback ended the call",
        FW_ERR_NOT_FOUND => c"the pool or the index does not exist",
        FW_ERR_EXISTS => c"the pool or the index exists already",
        FW_ERR_FULL => c"the pool, a table or a memory is full",
        FW_ERR_BUSY => c"another client holds a lock, the index or the file",
        FW_ERR_UNREACHABLE => c"a memory node or a server does not answer",
        FW_ERR_TIMED_OUT => c"the time limit of the call has passed",
        FW_ERR_REVOKED => c"another client revoked this one",
        FW_ERR_FORKED => c"a forked child uses an object of its parent",
        FW_ERR_PERMISSION_DENIED => c"access is denied",
        FW_ERR_TYPE_MISMATCH => c"the index stores other types",
        FW_ERR_INVALID_ARGUMENT => c"an argument is invalid",
        FW_ERR_UNSUPPORTED => c"the format or the feature is not supported",
        FW_ERR_DAMAGED => c"the pool or the index is damaged",
        FW_ERR_SYSTEM => c"the operating system refused a call",
        FW_ERR_OTHER => c"another error",
        FW_ERR_READ_ONLY => c"the pool was opened for reading only",
        FW_ERR_PANIC => c"a defect of the library ended the call",
        _ => c"an unknown code",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_text_of_its_own() {
        let texts: std::collections::BTreeSet<_> =
            (FW_ERR_READ_ONLY..=FW_STOPPED).map(|code| text_of(code).to_owned()).collect();
        assert_eq!(texts.len(), (FW_STOPPED - FW_ERR_READ_ONLY + 1) as usize);
        assert!(!texts.contains(text_of(FW_ERR_READ_ONLY - 1)));
        assert_eq!(text_of(FW_STOPPED + 1), text_of(FW_ERR_READ_ONLY - 1));
    }
}
