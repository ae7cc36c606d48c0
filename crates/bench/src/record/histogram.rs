//! Exact counts of the values of a cost. Costs have few different values.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Values and the number of times that each was counted, in increasing order of the values.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Counts {
    sorted: Vec<(u64, u64)>,
}

impl Counts {
    /// Counts `value` `times` times.
    #[inline]
    pub(super) fn add(&mut self, value: u64, times: u64) {
        match self.sorted.binary_search_by_key(&value, |(known, _)| *known) {
            Ok(at) => self.sorted[at].1 += times,
            Err(at) => self.sorted.insert(at, (value, times)),
        }
    }

    /// Adds other counts.
    pub(super) fn merge(&mut self, other: &Counts) {
        for (value, times) in &other.sorted {
            self.add(*value, *times);
        }
    }

    /// The largest value; 0 if there is none.
    pub(super) fn max(&self) -> u64 {
        self.sorted.last().map_or(0, |(value, _)| *value)
    }

    /// The smallest value that at least `percent` % of the counted values do not exceed; 0 if there is none.
    pub(super) fn quantile(&self, percent: u64) -> u64 {
        let total: u64 = self.sorted.iter().map(|(_, times)| times).sum();
        let wanted = (total * percent).div_ceil(100);
        let mut seen = 0;
        let found = self.sorted.iter().find(|(_, times)| {
            seen += times;
            seen >= wanted
        });
        found.map_or(0, |(value, _)| *value)
    }

    /// Values and their counts; values above `max` count as `max`.
    pub(super) fn histogram(&self, max: u64) -> BTreeMap<u64, u64> {
        let mut histogram = BTreeMap::new();
        for (value, times) in &self.sorted {
            *histogram.entry((*value).min(max)).or_default() += times;
        }
        histogram
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_counts_have_the_quantiles_of_all_values() {
        let (mut one, mut two) = (Counts::default(), Counts::default());
        for i in 0..1000 {
            if i % 2 == 0 { &mut one } else { &mut two }.add(if i < 985 { 4 } else { 400 + i }, 1);
        }
        one.merge(&two);
        assert_eq!((one.quantile(50), one.quantile(99), one.max()), (4, 1389, 1399));
        assert_eq!(one.histogram(65), BTreeMap::from([(4, 985), (65, 15)]));
        assert_eq!(one.histogram(u64::MAX).len(), 16);
        assert_eq!((Counts::default().quantile(99), Counts::default().max()), (0, 0));
    }
}
