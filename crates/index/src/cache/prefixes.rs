//! A sorted list of key prefixes, each with an item, in a layout for searches that touch few cache lines of the CPU and
//! learn their addresses early.
//!
//! ```text
//! in the list itself     | pointer to groups    | first prefixes of the first 8 groups |
//! elsewhere, per group   | 8 prefixes           | their 8 items                        |      64 bytes each
//! ```
//!
//! A binary search over n numbers touches one line in each step but the last three, one after the other. This search
//! reads the first prefixes of all groups, which lie beside the list's header for up to 64 items, and then one group
//! with its items. An operation searches a cached node once, and the node mostly is outside of the L1 and L2 caches:
//! dependent cache misses dominate the cost of a search.

use std::cmp::Ordering;

const GROUP: usize = 8;

/// Eight prefixes; unused ones are the largest number.
type Line = [u64; GROUP];

const UNUSED: Line = [u64::MAX; GROUP];

#[derive(Debug)]
#[repr(C, align(128))]
struct Group<T> {
    prefixes: Line,
    items: [Option<T>; GROUP],
}

/// A sorted list of prefixes with an item each.
#[derive(Debug)]
#[repr(C)]
pub struct Prefixes<T> {
    groups: Box<[Group<T>]>,
    /// The first prefixes of the groups after the eighth.
    more: Box<[Line]>,
    len: usize,
    /// The first prefixes of the first eight groups.
    first: Line,
}

impl<T> Prefixes<T> {
    /// Builds the list from items that are sorted by prefix.
    pub fn new(sorted: impl ExactSizeIterator<Item = (u64, T)>) -> Self {
        let len = sorted.len();
        let mut groups: Vec<Group<T>> = Vec::with_capacity(len.div_ceil(GROUP));
        for (at, (prefix, item)) in sorted.enumerate() {
            if at % GROUP == 0 {
                groups.push(Group { prefixes: UNUSED, items: [const { None }; GROUP] });
            }
            let group = groups.last_mut().expect("one was just added");
            group.prefixes[at % GROUP] = prefix;
            group.items[at % GROUP] = Some(item);
        }
        let mut index = groups.chunks(GROUP).map(|groups| {
            let mut line = UNUSED;
            line.iter_mut().zip(groups).for_each(|(first, group)| *first = group.prefixes[0]);
            line
        });
        let first = index.next().unwrap_or(UNUSED);
        Self { more: index.collect(), first, groups: groups.into_boxed_slice(), len }
    }

    /// The number of prefixes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The item of prefix number `at`.
    #[inline]
    pub fn get(&self, at: usize) -> Option<&T> {
        self.groups.get(at / GROUP)?.items[at % GROUP].as_ref()
    }

    /// All items, in order.
    pub fn items(&self) -> impl Iterator<Item = &T> {
        self.groups.iter().flat_map(|group| group.items.iter().flatten())
    }

    #[inline]
    fn prefix(&self, at: usize) -> u64 {
        self.groups[at / GROUP].prefixes[at % GROUP]
    }

    /// Bytes of the list outside of this struct.
    pub fn bytes(&self) -> usize {
        Self::bytes_for(self.len)
    }

    /// Bytes outside of this struct of a list of `len` items.
    pub fn bytes_for(len: usize) -> usize {
        let groups = len.div_ceil(GROUP);
        let lines = groups.div_ceil(GROUP).saturating_sub(1);
        groups * size_of::<Group<T>>() + lines * size_of::<Line>()
    }

    /// The number of keys at or below a key with the prefix `wanted`. `compare` compares the whole key of item number
    /// `at` with that key; it is called only where the prefixes are equal.
    #[inline]
    pub fn at_or_below(&self, wanted: u64, compare: impl Fn(usize) -> Ordering) -> usize {
        // Unused entries of the last lines are the largest number: they count if that is wanted, and are cut off.
        let more = self.more.iter().map(|line| count_at_or_below(line, wanted)).sum::<usize>();
        let started = count_at_or_below(&self.first, wanted) + more;
        let Some(group) = started.min(self.groups.len()).checked_sub(1) else { return 0 };
        let in_group = count_at_or_below(&self.groups[group].prefixes, wanted);
        let at = (GROUP * group + in_group).min(self.len);
        if at > 0 && self.prefix(at - 1) == wanted {
            return self.among_equals(wanted, at, compare);
        }
        at
    }

    /// As [`at_or_below`](Self::at_or_below), where the last of the `end` prefixes at or below `wanted` is equal to it.
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
    line.iter().map(|&prefix| usize::from(prefix <= wanted)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_counting_finds() {
        for len in [0, 1, 7, 8, 9, 60, 64, 65, 128, 129, 700] {
            let keys: Vec<(u64, u64)> = (0..len).map(|at| (at / 3 * 2, at % 3)).collect();
            let prefixes = Prefixes::new(keys.iter().copied());
            for wanted in (0..len + 3).flat_map(|prefix| (0..4).map(move |rest| (prefix, rest))) {
                let found = prefixes.at_or_below(wanted.0, |at| keys[at].cmp(&wanted));
                assert_eq!(found, keys.iter().filter(|&&key| key <= wanted).count(), "{len} {wanted:?}");
            }
            assert!(prefixes.items().eq(keys.iter().map(|key| &key.1)));
            assert_eq!((prefixes.len() as u64, prefixes.get(len as usize)), (len, None));
        }
    }

    #[test]
    fn the_largest_prefix_is_a_prefix_like_any_other() {
        let keys = [3, u64::MAX - 1, u64::MAX];
        let prefixes = Prefixes::new(keys.iter().map(|&key| (key, !key)));
        for (wanted, count) in [(2, 0), (3, 1), (u64::MAX - 1, 2), (u64::MAX, 3)] {
            assert_eq!(prefixes.at_or_below(wanted, |at| keys[at].cmp(&wanted)), count);
            assert!(count == 0 || prefixes.get(count - 1) == Some(&!keys[count - 1]));
        }
    }
}
