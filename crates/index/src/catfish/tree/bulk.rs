//! Bulk loading by sort-tile-recursive (Leutenegger, Lopez, Edgington, ICDE 1997). All functions are pure.
//!
//! Rectangles are sorted by the x of their centres and cut into vertical slices; each slice is sorted by y and cut
//! into nodes; the nodes of a level are the rectangles of the next level. The sizes of slices, and of nodes in a
//! level, differ by one at most, so no node holds too few entries.

use super::layout::{Entry, Layout};

/// Entries per node at a fill of `fill` (0 to 1), but enough that every node has its minimum.
pub(in crate::catfish) fn entries_per_node(layout: &Layout, fill: f64) -> usize {
    let wanted = (layout.entries_max() as f64 * fill).round() as usize;
    wanted.clamp(2 * layout.entries_least(), layout.entries_max())
}

/// Cuts the entries of a level into nodes of at most `per_node` entries, and sorts `entries` by node; yields the length
/// of each node.
pub(in crate::catfish) fn tile(entries: &mut [Entry], per_node: usize) -> Vec<usize> {
    let nodes = entries.len().div_ceil(per_node).max(1);
    let slices = nodes.isqrt() + usize::from(nodes.isqrt().pow(2) < nodes);
    let by = |axis: usize| {
        move |one: &Entry, other: &Entry| one.bounds.centre()[axis].total_cmp(&other.bounds.centre()[axis])
    };
    entries.sort_unstable_by(by(0));
    let mut lengths = Vec::with_capacity(nodes);
    let mut rest = entries;
    for slice in equal_parts(rest.len(), slices) {
        let (slice, after) = rest.split_at_mut(slice);
        slice.sort_unstable_by(by(1));
        lengths.extend(equal_parts(slice.len(), slice.len().div_ceil(per_node)));
        rest = after;
    }
    lengths
}

/// Divides `whole` into `parts` parts that differ by one at most.
fn equal_parts(whole: usize, parts: usize) -> impl Iterator<Item = usize> {
    (0..parts).map(move |part| (part + 1) * whole / parts - part * whole / parts)
}

#[cfg(test)]
mod tests {
    use super::super::layout::Scheme;
    use super::super::rectangle::Rectangle;
    use super::*;
    use farwood_fabric::NodeId;

    #[test]
    fn every_node_holds_a_legal_number_of_entries() {
        for blocks in [1, 2, 6] {
            let layout =
                Layout { blocks, node: NodeId(0), index: 1, scheme: Scheme::Lines, ring_bytes: 1024 };
            for fill in [0.5, 0.8, 1.0] {
                let per_node = entries_per_node(&layout, fill);
                for count in (1..400).chain([5_000, 12_345]) {
                    let entry = |at: usize| {
                        let point = [(at * 7919 % 1009) as f64, (at * 104_729 % 997) as f64];
                        Entry { bounds: Rectangle::point(point).unwrap(), word: at as u64 }
                    };
                    let mut entries: Vec<_> = (0..count).map(entry).collect();
                    let lengths = tile(&mut entries, per_node);
                    assert_eq!(lengths.iter().sum::<usize>(), count);
                    assert!(lengths.iter().all(|&length| length <= per_node), "{count}: {lengths:?}");
                    let least = layout.entries_least();
                    let enough = |&length: &usize| length >= least || lengths.len() == 1;
                    assert!(lengths.iter().all(enough), "{blocks} blocks, {count}: {lengths:?}");
                }
            }
        }
    }

    #[test]
    fn neighbours_share_a_node() {
        let entry = |at: usize| Entry {
            bounds: Rectangle::point([(at % 10) as f64, (at / 10) as f64]).unwrap(),
            word: at as u64,
        };
        let mut entries: Vec<_> = (0..100).map(entry).collect();
        let lengths = tile(&mut entries, 25);
        assert_eq!(lengths, [25; 4]);
        let area: f64 = entries
            .chunks(25)
            .map(|node| Rectangle::around(node.iter().map(|entry| &entry.bounds)).unwrap().area())
            .sum();
        assert!(area <= 4.0 * 4.0 * 5.0, "{area}");
    }
}
