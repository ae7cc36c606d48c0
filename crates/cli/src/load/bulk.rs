//! Bulk loads that fail: they add nothing to the index.

use crate::Failure;
use farwood::{Error, Url};

/// The failure of a bulk load into the index at `url`. If memory is missing, it states what the index holds.
pub(super) fn failure(error: Error, url: &Url) -> Failure {
    if !error.is_full() {
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
