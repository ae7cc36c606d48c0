//! Versions, and the texts of codes and errors.

#[allow(unsafe_code)]
mod sys;

pub use sys::*;

use std::ffi::CStr;

/// The version of the library.
const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
    Ok(version) => version,
    Err(_) => panic!("a version contains no NUL"),
};

/// The largest beginning of `text` that has at most `limit` bytes.
fn beginning(text: &str, limit: usize) -> &str {
    &text[..text.floor_char_boundary(limit)]
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(super::beginning("été", 1), "");
        assert_eq!(super::beginning("été", 3), "ét");
        assert_eq!(super::beginning("été", 9), "été");
    }
}
