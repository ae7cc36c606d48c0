//! Paths in code, with `use` groups expanded: `use std::{fs, time::Instant}` yields `std::fs` and
//! `std::time::Instant`.

use super::rust::Token;

/// A path in code.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Path<'a> {
    /// The segments of the path, outermost first.
    pub(super) segments: Vec<&'a str>,
    /// The line of its last segment, counted from 1.
    pub(super) line: usize,
    /// Whether it names a macro that is called.
    pub(super) is_macro: bool,
}

/// Every path of one segment or more.
pub(super) fn paths<'a>(tokens: &[Token<'a>]) -> Vec<Path<'a>> {
    let mut paths = Vec::new();
    // The prefix of the paths inside each open brace: empty, unless the brace opens a `use` group.
    let mut groups: Vec<Vec<&str>> = Vec::new();
    let mut index = 0;
    while index < tokens.len() {
        match tokens[index].text {
            "{" => groups.push(Vec::new()),
            "}" => drop(groups.pop()),
            _ if starts_path(tokens, index) => {
                let mut segments = groups.last().cloned().unwrap_or_default();
                index = extend(&mut segments, tokens, index);
                let follows = |offset: usize| tokens.get(index + offset).map(|token| token.text);
                if follows(1) == Some("::") && follows(2) == Some("{") {
                    groups.push(segments);
                    index += 2;
                } else {
                    let is_macro = follows(1) == Some("!") && follows(2) != Some("=");
                    paths.push(Path { segments, line: tokens[index].line, is_macro });
                }
            }
            _ => {}
        }
        index += 1;
    }
    paths
}

/// Adds the segments of the path at `index`; returns the index of the last one.
fn extend<'a>(segments: &mut Vec<&'a str>, tokens: &[Token<'a>], mut index: usize) -> usize {
    segments.push(tokens[index].text);
    while let [separator, next, ..] = &tokens[index + 1..]
        && separator.text == "::"
        && next.is_word()
    {
        segments.push(next.text);
        index += 2;
    }
    index
}

/// Whether a path begins at `index`: at a word that follows neither a dot nor another segment.
fn starts_path(tokens: &[Token<'_>], index: usize) -> bool {
    let before = |offset: usize| index.checked_sub(offset).map(|at| &tokens[at]);
    let continues = match before(1) {
        Some(token) if token.text == "::" => {
            before(2).is_some_and(|token| token.is_word() || token.text == ">")
        }
        Some(token) => token.text == "." || token.text == "'",
        None => false,
    };
    tokens[index].is_word() && !continues
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::rust::tokens;

    fn spelled(code: &str) -> Vec<String> {
        paths(&tokens(code)).into_iter().map(|path| path.segments.join("::")).collect()
    }

    #[test]
    fn groups_are_expanded() {
        let found = spelled("use std::{fs, io::{self, Read}, time};\nfn f() { a }");
        assert_eq!(found, ["use", "std::fs", "std::io::self", "std::io::Read", "std::time", "fn", "f", "a"]);
    }

    #[test]
    fn a_path_starts_at_its_first_segment() {
        assert_eq!(spelled("a.b(::std::fs::read)"), ["a", "std::fs::read"]);
        assert_eq!(spelled("Vec::<u8>::new"), ["Vec", "u8"]);
    }

    #[test]
    fn macros_are_calls_and_not_comparisons() {
        let tokens = tokens("println!(a != b)");
        let macros: Vec<bool> = paths(&tokens).iter().map(|path| path.is_macro).collect();
        assert_eq!(macros, [true, false, false]);
    }
}
