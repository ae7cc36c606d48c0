//! The names of pools and their files: memory node `I` of pool `NAME` is the file `farwood.NAME.I`, and its journal
//! `farwood.NAME.ID.journal`, with the pool's identity as 16 hexadecimal digits.
//!
//! A segment under construction is `.farwood.NAME.I.new`. Names may contain dots: the node follows the last one. As no
//! name starts with a dot, a file belongs to at most one pool.

use super::error::ShmError;
use std::fmt;
use std::str::FromStr;

const CHARACTERS_MAX: usize = 64;
const PREFIX: &str = "farwood.";
const DRAFT_PREFIX: &str = ".farwood.";
const DRAFT_SUFFIX: &str = ".new";
const JOURNAL_SUFFIX: &str = ".journal";

/// A valid name of a pool: 1 to 64 of `A-Z a-z 0-9 . _ -`, the first not a dot.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolName(String);

impl PoolName {
    /// Returns the name of an anonymous pool in errors. No file has it.
    pub fn anonymous(number: u64) -> Self {
        Self(format!("anonymous-{number}"))
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the file name of a published segment.
    pub(super) fn segment_file(&self, node: u16) -> String {
        format!("{PREFIX}{self}.{node}")
    }

    /// Returns the file name of a segment under construction.
    pub(super) fn draft_file(&self, node: u16) -> String {
        format!("{DRAFT_PREFIX}{self}.{node}{DRAFT_SUFFIX}")
    }

    /// Returns the file name of the journal of the pool with this identity.
    pub(super) fn journal_file(&self, pool: u64) -> String {
        format!("{PREFIX}{self}.{pool:016x}{JOURNAL_SUFFIX}")
    }

    /// Returns whether a file is a journal of a pool of this name.
    pub(super) fn is_journal(&self, file: &str) -> bool {
        let number = file.strip_prefix(PREFIX).and_then(|rest| rest.strip_prefix(self.as_str()));
        let number = number.and_then(|rest| rest.strip_prefix('.')?.strip_suffix(JOURNAL_SUFFIX));
        number.is_some_and(|number| number.len() == 16 && number.bytes().all(|byte| byte.is_ascii_hexdigit()))
    }

    /// Returns the pool and the node of a segment's file name.
    pub(super) fn of_segment(file: &str) -> Option<(Self, u16)> {
        Self::with_node(file.strip_prefix(PREFIX)?)
    }

    /// Returns the pool and the node of a draft's file name.
    pub(super) fn of_draft(file: &str) -> Option<(Self, u16)> {
        Self::with_node(file.strip_prefix(DRAFT_PREFIX)?.strip_suffix(DRAFT_SUFFIX)?)
    }

    /// Parses `NAME.I`, where `I` has no leading zeros or signs.
    fn with_node(text: &str) -> Option<(Self, u16)> {
        let (name, digits) = text.rsplit_once('.')?;
        let node: u16 = digits.parse().ok()?;
        if node.to_string() != digits {
            return None;
        }
        Some((name.parse().ok()?, node))
    }
}

impl FromStr for PoolName {
    type Err = ShmError;

    fn from_str(name: &str) -> Result<Self, ShmError> {
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let reason = if name.is_empty() {
            "it is empty"
        } else if name.len() > CHARACTERS_MAX {
            "it is too long"
        } else if name.starts_with('.') {
            "it starts with a dot"
        } else if !name.bytes().all(legal) {
            "it holds a character that is not allowed"
        } else {
            return Ok(Self(name.to_owned()));
        };
        Err(ShmError::BadName { name: name.to_owned(), reason })
    }
}

impl fmt::Display for PoolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn valid_names_are_accepted() {
        let longest = "x".repeat(64);
        for name in ["demo", "a", "A.b_c-9", "1", "-", "presence", longest.as_str()] {
            assert_eq!(name.parse::<PoolName>().unwrap().as_str(), name);
        }
    }

    #[test]
    fn bad_names_are_refused_with_the_reason() {
        let long = "x".repeat(65);
        let cases = [
            ("", "empty"),
            (long.as_str(), "too long"),
            (".hidden", "starts with a dot"),
            ("..", "starts with a dot"),
            ("a/b", "not allowed"),
            ("a b", "not allowed"),
            ("naïve", "not allowed"),
            ("a\0", "not allowed"),
        ];
        for (name, reason) in cases {
            let text = name.parse::<PoolName>().unwrap_err().to_string();
            assert!(text.contains(reason), "{name:?}: {text}");
        }
    }

    #[test]
    fn other_files_belong_to_no_pool() {
        for file in ["farwood", "farwood.demo", "farwood.demo.x", "farwood.demo.01", "farwood.demo.65536"] {
            assert_eq!(PoolName::of_segment(file), None, "{file}");
        }
        for file in
            [".farwood.demo.0.new", "farwood..0", "farwood..a.0", "sem.farwood.demo.0", "farwood.demo.+1"]
        {
            assert_eq!(PoolName::of_segment(file), None, "{file}");
        }
        assert_eq!(PoolName::of_draft("farwood.demo.0.new"), None);
    }

    proptest! {
        #[test]
        fn the_name_of_a_file_identifies_its_pool(name in "[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}", node: u16) {
            let name: PoolName = name.parse().unwrap();
            let file = name.segment_file(node);
            prop_assert_eq!(PoolName::of_segment(&file), Some((name.clone(), node)));
            prop_assert_eq!(PoolName::of_draft(&file), None);
            let draft = name.draft_file(node);
            prop_assert_eq!(PoolName::of_draft(&draft), Some((name, node)));
            prop_assert_eq!(PoolName::of_segment(&draft), None);
        }
    }
}
