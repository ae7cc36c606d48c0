//! Quoting of URLs for a shell.

/// A URL quoted for a shell.
pub(crate) fn shell_word(url: &str) -> String {
    if url.contains('?') { format!("'{}'", url.replace('\'', r"'\''")) } else { url.to_owned() }
}
