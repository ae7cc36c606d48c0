//! Loads that fail: what the index holds.

use crate::Failure;
use farwood::error::ErrorKind;
use farwood::{Error, Url};

/// Whether the pool may have lost what was loaded: a memory node or a segment is lost or damaged.
pub(super) fn may_have_lost(failure: &Failure) -> bool {
    matches!(failure.exit_code(), 3 | 8 | 10)
}

/// The failure of a bulk load into the index at `url`. If memory is missing, it states what the index holds.
pub(super) fn failure(error: Error, url: &Url) -> Failure {
    if error.kind() != ErrorKind::Full {
        return error.into();
    }
    let exit_code = error.exit_code();
    let text = format!(
        "{}; the index is still empty, and keeps the memory that it allocated: `farwood drop {}` frees it",
        Failure::from(error).text(),
        url.to_shell_word()
    );
    Failure::Other { text, exit_code }
}
