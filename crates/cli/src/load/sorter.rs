//! Entries that a bulk load sorts in memory.

/// Entries to be sorted.
#[derive(Default)]
pub(super) struct Sorter {
    bytes: Vec<u8>,
    /// The ends of the key and of the value of each entry.
    ends: Vec<(usize, usize)>,
    /// Numbers of entries by increasing key, each key once, its last entry.
    order: Vec<usize>,
}

impl Sorter {
    pub(super) fn push(&mut self, key: &[u8], value: &[u8]) {
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.ends.push((key_end, self.bytes.len()));
    }

    pub(super) fn count(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn bytes(&self) -> u64 {
        (self.bytes.len() + size_of_val(&*self.ends)) as u64
    }

    fn entry(&self, at: usize) -> (&[u8], &[u8]) {
        let start = if at == 0 { 0 } else { self.ends[at - 1].1 };
        let (key_end, end) = self.ends[at];
        (&self.bytes[start..key_end], &self.bytes[key_end..end])
    }

    pub(super) fn sort(&mut self) {
        let mut order: Vec<usize> = (0..self.count()).collect();
        // Of equal keys the later entry comes first, and is the one that is kept.
        order.sort_unstable_by(|&a, &b| self.entry(a).0.cmp(self.entry(b).0).then(b.cmp(&a)));
        order.dedup_by(|later, kept| self.entry(*later).0 == self.entry(*kept).0);
        self.order = order;
    }

    pub(super) fn in_order(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.order.iter().map(|&at| self.entry(at))
    }

    pub(super) fn in_order_of_arrival(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        (0..self.count()).map(|at| self.entry(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_sorted_and_the_last_of_a_key_stays() {
        let mut sorter = Sorter::default();
        for (key, value) in [(3, 1), (1, 2), (3, 3), (2, 4), (1, 5)] {
            sorter.push(&[key], &[value]);
        }
        sorter.sort();
        let entries: Vec<_> = sorter.in_order().map(|(key, value)| (key[0], value[0])).collect();
        assert_eq!(entries, [(1, 5), (2, 4), (3, 3)]);
        // One byte of key, one byte of value, and two words for their ends.
        assert_eq!((sorter.count(), sorter.bytes()), (5, 5 * (2 + 16)));
    }
}
