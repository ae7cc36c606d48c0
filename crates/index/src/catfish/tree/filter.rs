//! The entries of a node that match a query: the step that all searches share, whatever memory they read the node from.
//! All functions are pure.

use super::layout::{BLOCK_ENTRIES, Entry, LINE_WORDS, NodeWords, entry_of, words_of_entry};
use super::rectangle::{Query, Rectangle, Relation};

/// Limits for the edges of an entry: its lower edges are at most `lower_max`, its upper edges at least `upper_min`,
/// and it lies in `within`.
#[derive(Clone, Copy, Debug)]
struct Limits {
    lower_max: [f64; 2],
    upper_min: [f64; 2],
    within: Option<Rectangle>,
}

impl Limits {
    fn of(query: &Query, level: u8) -> Self {
        let (min, max) = (query.window.min(), query.window.max());
        match (query.relation, level) {
            (Relation::Contains, _) => Self { lower_max: min, upper_min: max, within: None },
            (Relation::Within, 0) => Self { lower_max: max, upper_min: min, within: Some(query.window) },
            _ => Self { lower_max: max, upper_min: min, within: None },
        }
    }
}

/// Calls `found` with the positions of the entries of a node of `level` that the query needs, in ascending order: in a
/// leaf the items that match, in an inner node the children that may contain one.
#[inline]
pub(in crate::catfish) fn matching(
    node: &impl NodeWords,
    (level, entries): (u8, usize),
    query: &Query,
    mut found: impl FnMut(usize),
) {
    let limits = Limits::of(query, level);
    let mut first = 0;
    while first < entries {
        let mut hits = hits_of_block(node, first, &limits);
        while hits != 0 {
            let entry = first + hits.trailing_zeros() as usize;
            hits &= hits - 1;
            if limits.within.is_none_or(|window| window.contains(&entry_of(node, entry).bounds)) {
                found(entry);
            }
        }
        first += BLOCK_ENTRIES;
    }
}

/// One bit for each position of a block: set if the entry is within the limits. The bits of empty positions are 0.
#[expect(
    clippy::inline_always,
    reason = "searches take 12 to 20 % longer if this and the loads of lines are calls"
)]
#[inline(always)]
fn hits_of_block(node: &impl NodeWords, first: usize, limits: &Limits) -> u32 {
    let [min_x, min_y, max_x, max_y, _] = words_of_entry(first);
    let along = |axis: usize, lower: usize, upper: usize| {
        let (lower, upper) = (node.line(lower / LINE_WORDS), node.line(upper / LINE_WORDS));
        let keeps = |lane: usize| {
            (f64::from_bits(lower[lane]) <= limits.lower_max[axis])
                & (f64::from_bits(upper[lane]) >= limits.upper_min[axis])
        };
        (0..BLOCK_ENTRIES).fold(0, |hits, lane| hits | (u32::from(keeps(lane)) << lane))
    };
    // Bulk-loaded nodes are sorted by y, so most of their blocks are skipped after half of the work.
    let hits = along(1, min_y, max_y);
    if hits == 0 { 0 } else { hits & along(0, min_x, max_x) }
}

/// The entries of a node.
pub(in crate::catfish) fn entries<N: NodeWords>(node: &N, count: usize) -> impl Iterator<Item = Entry> + '_ {
    (0..count).map(|entry| entry_of(node, entry))
}

#[cfg(test)]
mod tests {
    use super::super::layout::{Layout, NodeRef, Scheme, image};
    use super::*;
    use farwood_fabric::NodeId;
    use proptest::prelude::*;

    fn rectangles(count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Rectangle>> {
        let edge = || (-10..10i32, 0..6i32);
        prop::collection::vec((edge(), edge()), count).prop_map(|edges| {
            let rectangle = |((x, width), (y, height)): ((i32, i32), (i32, i32))| {
                Rectangle::new([x.into(), y.into()], [(x + width).into(), (y + height).into()]).unwrap()
            };
            edges.into_iter().map(rectangle).collect()
        })
    }

    proptest! {
        #[test]
        fn a_node_is_searched_as_a_list_would_be(
            bounds in rectangles(0..42),
            window in rectangles(1..2),
            level in 0..2u8,
        ) {
            let layout = Layout { blocks: 6, node: NodeId(0), index: 1, scheme: Scheme::Lines, ring_bytes: 1024 };
            let all: Vec<_> = bounds.iter().zip(500..).map(|(&bounds, word)| Entry { bounds, word }).collect();
            let words = image(&layout, NodeRef::new(64, 1), level, &all);
            let bytes: Vec<_> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            for relation in [Relation::Intersects, Relation::Within, Relation::Contains] {
                let query = Query { window: window[0], relation };
                let mut found = Vec::new();
                matching(&bytes.as_slice(), (level, all.len()), &query, |position| found.push(position as u64 + 500));
                let wanted = all.iter().filter(|entry| match level {
                    0 => query.matches(&entry.bounds),
                    _ => query.may_be_in(&entry.bounds),
                });
                prop_assert_eq!(found, wanted.map(|entry| entry.word).collect::<Vec<_>>());
            }
        }
    }
}
