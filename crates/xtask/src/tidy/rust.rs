//! A Rust file for rules: its tokens, its comments, and the lines that are compiled for tests only.

use std::ops::RangeInclusive;

use super::lexer::{TextKind, only};

/// A word, `::`, or one other character of code.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token<'a> {
    /// The token itself.
    pub(super) text: &'a str,
    /// The line of the token, counted from 1.
    pub(super) line: usize,
}

impl Token<'_> {
    /// Whether it is an identifier or a keyword.
    pub(super) fn is_word(&self) -> bool {
        self.text.starts_with(|first: char| first.is_alphabetic() || first == '_')
    }
}

/// The tokens of a Rust file.
#[derive(Debug)]
pub(super) struct Rust {
    code: String,
    comments: String,
    tests: Vec<RangeInclusive<usize>>,
}

impl Rust {
    pub(super) fn new(path: &str, text: &str) -> Self {
        let code = only(TextKind::Code, text);
        let comments = only(TextKind::Comment, text);
        let tests = if is_test_file(path) { vec![1..=usize::MAX] } else { test_lines(&tokens(&code)) };
        Self { code, comments, tests }
    }

    /// The code, token by token.
    pub(super) fn tokens(&self) -> Vec<Token<'_>> {
        tokens(&self.code)
    }

    /// The code outside tests, token by token.
    pub(super) fn tokens_outside_tests(&self) -> Vec<Token<'_>> {
        self.tokens().into_iter().filter(|token| !self.is_test(token.line)).collect()
    }

    /// Whether a line is compiled for tests only.
    pub(super) fn is_test(&self, line: usize) -> bool {
        self.tests.iter().any(|lines| lines.contains(&line))
    }

    /// Names of the modules in other files that test code declares.
    pub(super) fn test_modules(&self) -> Vec<&str> {
        let tokens = self.tokens();
        let declared = tokens.windows(3).filter(|three| three[0].text == "mod" && three[2].text == ";");
        declared.filter(|three| self.is_test(three[0].line)).map(|three| three[1].text).collect()
    }

    /// Marks every line as compiled for tests only.
    pub(super) fn mark_as_test(&mut self) {
        self.tests = vec![1..=usize::MAX];
    }

    /// Comments by line, counted from 1. Everything else is blank.
    pub(super) fn comments(&self) -> impl Iterator<Item = (usize, &str)> {
        self.comments.lines().enumerate().map(|(index, line)| (index + 1, line))
    }
}

/// The tokens of masked code.
pub(super) fn tokens(code: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    for (index, line) in code.lines().enumerate() {
        let mut rest = line.trim_start();
        while let Some(first) = rest.chars().next() {
            let is_word = |c: char| c.is_alphanumeric() || c == '_';
            let length = match first {
                first if is_word(first) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
                ':' if rest.starts_with("::") => 2,
                other => other.len_utf8(),
            };
            tokens.push(Token { text: &rest[..length], line: index + 1 });
            rest = rest[length..].trim_start();
        }
    }
    tokens
}

/// The index of the token that closes the bracket at `open`; the last token if none does.
pub(super) fn closing(tokens: &[Token<'_>], open: usize) -> usize {
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate().skip(open) {
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return index;
        }
    }
    tokens.len().saturating_sub(1)
}

/// The index of the opening brace or semicolon that ends the head of the item at `from`.
pub(super) fn head_end(tokens: &[Token<'_>], from: usize) -> Option<usize> {
    let mut index = from;
    while index < tokens.len() {
        match tokens[index].text {
            // `<{` opens a constant argument, not a body.
            "{" if tokens[index - 1].text != "<" => return Some(index),
            // A closing brace ends the item that contains this one, such as the struct of a field.
            ";" | "}" => return Some(index),
            "(" | "[" | "{" => index = closing(tokens, index),
            _ => {}
        }
        index += 1;
    }
    None
}

fn is_test_file(path: &str) -> bool {
    let mut parts = path.split('/');
    parts.any(|part| matches!(part, "tests" | "benches" | "examples" | "tests.rs"))
}

/// The lines of items under an attribute such as `#[test]`, `#[cfg(test)]` or `#[cfg(any(test, fuzzing))]`.
fn test_lines(tokens: &[Token<'_>]) -> Vec<RangeInclusive<usize>> {
    let mut ranges = Vec::new();
    let mut index = 0;
    while index + 2 < tokens.len() {
        let inner = tokens[index + 1].text == "!";
        let open = index + 1 + usize::from(inner);
        if tokens[index].text != "#" || tokens[open].text != "[" {
            index += 1;
            continue;
        }
        let close = closing(tokens, open);
        let has = |word| tokens[open..close].iter().any(|token| token.text == word);
        let start = tokens[index].line;
        index = close + 1;
        if !has("test") || has("not") || !matches!(tokens[open + 1].text, "test" | "cfg") {
            continue;
        }
        if inner {
            return vec![1..=usize::MAX];
        }
        let end = head_end(tokens, index).map_or(tokens.len() - 1, |end| closing(tokens, end));
        ranges.push(start..=tokens[end].line);
        index = end + 1;
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_items_are_recognised() {
        let module = "#[cfg(test)]\nmod t {\n fn b() { \"}\"; }\n}\n";
        let text = format!("fn a() {{}}\n{module}fn c() {{}}\n#[cfg(test)]\nuse d;\nfn e() {{}}\n");
        let rust = Rust::new("crates/a/src/lib.rs", &text);
        let outside: Vec<usize> = (1..=9).filter(|line| !rust.is_test(*line)).collect();
        assert_eq!(outside, [1, 6, 9]);
    }

    #[test]
    fn a_field_for_tests_does_not_extend_beyond_its_struct() {
        let rust = Rust::new("crates/a/src/lib.rs", "struct A {\n #[cfg(test)]\n b: u8,\n}\nfn c() {}\n");
        assert!(rust.is_test(3) && !rust.is_test(5));
    }

    #[test]
    fn code_without_tests_is_not_a_test() {
        let rust =
            Rust::new("crates/a/src/lib.rs", "#[cfg(not(test))]\nfn a() {}\n#[derive(Clone)]\nstruct B;\n");
        assert!((1..=4).all(|line| !rust.is_test(line)));
    }

    #[test]
    fn test_files_are_tests() {
        assert!(Rust::new("crates/a/tests/b.rs", "fn a() {}").is_test(1));
        assert!(Rust::new("crates/a/src/tests.rs", "fn a() {}").is_test(1));
        assert!(Rust::new("crates/a/src/b.rs", "#![cfg(test)]\nfn a() {}").is_test(2));
    }

    #[test]
    fn tokens_carry_their_lines() {
        let tokens: Vec<_> =
            tokens("a::b!\n(é_1)").into_iter().map(|token| (token.text, token.line)).collect();
        assert_eq!(tokens, [("a", 1), ("::", 1), ("b", 1), ("!", 1), ("(", 2), ("é_1", 2), (")", 2)]);
    }
}
