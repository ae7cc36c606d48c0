//! A sorted list of key prefixes, each with a word, laid out so that a search touches few of the processor's cache
//! lines.
//!
//! ```text
//! | first prefixes of the groups | 8 prefixes | their 8 words | 8 prefixes | ...      64 bytes each
//! ```
//!
//! A binary search over n numbers touches a line for each step but the last three. This one reads the first
//! prefixes of all groups, one line for up to 64 of them, and then one group with the words beside it. A cached
//! node is searched once per operation, and mostly lies outside of the near caches: lines are what a search costs.

use std::cmp::Ordering;

const GROUP: usize = 8;
/// Lines of a group: prefixes and words.
const GROUP_LINES: usize = 2;

#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Line([u64; GROUP]);

impl Line {
    const FULL: Self = Self([u64::MAX; GROUP]);
}

/// A sorted list of prefixes with a word each.
#[derive(Debug)]
pub struct Prefixes {
    lines: Box<[Line]>,
    /// Lines that hold the groups' first prefixes; the groups follow.
    index_lines: u32,
    len: u32,
}

impl Prefixes {
    /// The list, which is sorted by prefix.
    pub fn new(sorted: impl ExactSizeIterator<Item = (u64, u64)>) -> Self {
        let len = sorted.len();
        let groups = len.div_ceil(GROUP);
        let index_lines = groups.div_ceil(GROUP);
        let mut lines = vec![Line::FULL; index_lines + GROUP_LINES * groups];
        for (at, (prefix, word)) in sorted.enumerate() {
            let group = at / GROUP;
            let line = index_lines + GROUP_LINES * group;
            lines[line].0[at % GROUP] = prefix;
            lines[line + 1].0[at % GROUP] = word;
            if at % GROUP == 0 {
                lines[group / GROUP].0[group % GROUP] = prefix;
            }
        }
        Self { lines: lines.into_boxed_slice(), index_lines: index_lines as u32, len: len as u32 }
    }

    /// How many prefixes there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The word of prefix number `at`.
    #[inline]
    pub fn word(&self, at: usize) -> u64 {
        self.group_line(at, 1).0[at % GROUP]
    }

    #[inline]
    fn prefix(&self, at: usize) -> u64 {
        self.group_line(at, 0).0[at % GROUP]
    }

    #[inline]
    fn group_line(&self, at: usize, line: usize) -> &Line {
        &self.lines[self.index_lines as usize + GROUP_LINES * (at / GROUP) + line]
    }

    /// Bytes that the list takes.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.lines)
    }

    /// How many keys of the list are at or below a key, whose prefix is `wanted`. `compare` compares key number
    /// `at` of the list with it in full; it is asked only where the prefixes are equal.
    #[inline]
    pub fn at_or_below(&self, wanted: u64, compare: impl Fn(usize) -> Ordering) -> usize {
        let index = &self.lines[..self.index_lines as usize];
        // What fills the last lines up is the largest number: it counts where that is wanted, and is cut off.
        let started = index.iter().map(|line| count_at_or_below(line, wanted)).sum::<usize>();
        let Some(group) = started.min(self.len().div_ceil(GROUP)).checked_sub(1) else { return 0 };
        let in_group = count_at_or_below(self.group_line(GROUP * group, 0), wanted);
        let at = (GROUP * group + in_group).min(self.len());
        if at > 0 && self.prefix(at - 1) == wanted {
            return self.among_equals(wanted, at, compare);
        }
        at
    }

    /// The same, where the last of the `end` prefixes at or below `wanted` is equal to it.
    #[inline]
    fn among_equals(&self, wanted: u64, end: usize, compare: impl Fn(usize) -> Ordering) -> usize {
        if compare(end - 1) != Ordering::Greater {
            return end;
        }
        let (mut from, mut to) = (0, end - 1);
        while from < to {
            let middle = usize::midpoint(from, to);
            if self.prefix(middle) < wanted || compare(middle) != Ordering::Greater {
                from = middle + 1;
            } else {
                to = middle;
            }
        }
        from
    }
}

#[inline]
fn count_at_or_below(line: &Line, wanted: u64) -> usize {
    line.0.iter().map(|&prefix| usize::from(prefix <= wanted)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_counting_finds() {
        for len in [0, 1, 7, 8, 9, 60, 64, 65, 128, 700] {
            let keys: Vec<(u64, u64)> = (0..len).map(|at| (at / 3 * 2, at % 3)).collect();
            let prefixes = Prefixes::new(keys.iter().copied());
            for wanted in (0..len + 3).flat_map(|prefix| (0..4).map(move |rest| (prefix, rest))) {
                let found = prefixes.at_or_below(wanted.0, |at| keys[at].cmp(&wanted));
                assert_eq!(found, keys.iter().filter(|&&key| key <= wanted).count(), "{len} {wanted:?}");
            }
        }
    }

    #[test]
    fn the_largest_prefix_is_a_prefix_like_any_other() {
        let keys = [3, u64::MAX - 1, u64::MAX];
        let prefixes = Prefixes::new(keys.iter().map(|&key| (key, !key)));
        for (wanted, count) in [(2, 0), (3, 1), (u64::MAX - 1, 2), (u64::MAX, 3)] {
            assert_eq!(prefixes.at_or_below(wanted, |at| keys[at].cmp(&wanted)), count);
            assert!(count == 0 || prefixes.word(count - 1) == !keys[count - 1]);
        }
    }
}
