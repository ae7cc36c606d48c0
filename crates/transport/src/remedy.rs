//! Remedies at the ends of error texts.

use std::fmt::Display;

/// Returns the end of the text of an error with `remedy`.
pub(crate) fn suffix(remedy: Option<impl Display>) -> String {
    remedy.map_or_else(String::new, |remedy| format!("; {remedy}"))
}

/// Returns the text of `error` without `suffix`, its end.
pub(crate) fn without(error: &impl Display, suffix: &str) -> String {
    let text = error.to_string();
    text.strip_suffix(suffix).unwrap_or(&text).to_owned()
}

/// Asserts that the text of `error` is its description and its remedy.
#[cfg(test)]
pub(crate) fn assert_in_text(
    error: &impl std::error::Error,
    description: &str,
    remedy: Option<impl Display>,
) {
    assert_eq!(error.to_string(), format!("{description}{}", suffix(remedy)));
    assert!(error.source().is_none(), "the text contains that of the cause");
}
