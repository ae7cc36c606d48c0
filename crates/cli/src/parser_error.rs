//! Errors of clap on stderr: control characters of the command line, the environment or the configuration file are
//! escaped.

use clap::Error;
use clap::builder::StyledStr;
use clap::error::ContextValue;
use farwood::internal::printable;
use std::borrow::Cow;
use std::io::{self, Write};

/// Prints an error of clap, in color if the terminal supports it. Clap's text of a value with control characters has no
/// color, because a control sequence of the value could not be distinguished from those of the colors.
pub(crate) fn print(error: &Error, words: &mut dyn Write) -> io::Result<()> {
    let Some(text) = escaped(error) else { return error.print() };
    text.lines().try_for_each(|line| writeln!(words, "{}", printable(line)))
}

/// The text with its control characters escaped; `None` if there are none.
fn escaped(error: &Error) -> Option<String> {
    let mut quoted = quoted(error);
    quoted.retain(|text| matches!(printable(text), Cow::Owned(_)));
    if quoted.is_empty() {
        return None;
    }
    // A longer text may contain a shorter one.
    quoted.sort_by_key(|text| std::cmp::Reverse(text.len()));
    let styled = error.render().ansi().to_string();
    let text = quoted.iter().fold(styled, |styled, text| styled.replace(text, &printable(text)));
    // Without the control sequences of the colors.
    Some(StyledStr::from(text).to_string())
}

/// The texts that the error quotes.
fn quoted(error: &Error) -> Vec<String> {
    let mut quoted: Vec<String> = std::error::Error::source(error).iter().map(ToString::to_string).collect();
    for (_, value) in error.context() {
        match value {
            ContextValue::String(text) => quoted.push(text.clone()),
            ContextValue::Strings(texts) => quoted.extend(texts.iter().cloned()),
            _ => {}
        }
    }
    quoted
}
