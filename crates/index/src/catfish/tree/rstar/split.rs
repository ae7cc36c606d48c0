//! Split (R*-tree, section 4.2): the axis by margins, the distribution by overlap.

use crate::catfish::tree::rectangle::Rectangle;

/// The lower or the upper edge along an axis.
type Edge = fn(&Rectangle, usize) -> f64;
const EDGES: [Edge; 2] = [|of, axis| of.min()[axis], |of, axis| of.max()[axis]];

/// Splits an overfull node: the positions of the entries of the two nodes, at least `least` entries each.
pub(in crate::catfish::tree) fn split(entries: &[Rectangle], least: usize) -> (Vec<usize>, Vec<usize>) {
    assert!(least >= 1 && 2 * least <= entries.len(), "both nodes get at least `least` entries");
    let orders = |axis| EDGES.map(|edge| order_by(entries, axis, edge));
    let margins = |axis: usize| -> f64 {
        orders(axis).iter().flat_map(|order| distributions(entries, order, least)).map(|it| it.margins).sum()
    };
    let axis = usize::from(margins(0) > margins(1));
    let [lower, upper] = orders(axis);
    let best = |order: &[usize]| -> Distribution {
        distributions(entries, order, least).min_by(Distribution::better).expect("there is a distribution")
    };
    let (by_lower, by_upper) = (best(&lower), best(&upper));
    let (mut order, chosen) = match by_upper.better(&by_lower) {
        std::cmp::Ordering::Less => (upper, by_upper),
        _ => (lower, by_lower),
    };
    let other = order.split_off(chosen.first);
    (order, other)
}

fn order_by(entries: &[Rectangle], axis: usize, edge: Edge) -> Vec<usize> {
    let mut order: Vec<_> = (0..entries.len()).collect();
    let key =
        |at: usize| (edge(&entries[at], axis), EDGES[0](&entries[at], axis), EDGES[1](&entries[at], axis));
    order.sort_by(|&one, &other| {
        let (one, other) = (key(one), key(other));
        one.0.total_cmp(&other.0).then(one.1.total_cmp(&other.1)).then(one.2.total_cmp(&other.2))
    });
    order
}

/// A split of an order: the first `first` entries go to one node, the others to the other.
#[derive(Clone, Copy, Debug)]
struct Distribution {
    first: usize,
    margins: f64,
    overlap: f64,
    areas: f64,
}

impl Distribution {
    /// Whether this distribution has less overlap or, if equal, less area.
    fn better(&self, other: &Self) -> std::cmp::Ordering {
        self.overlap.total_cmp(&other.overlap).then(self.areas.total_cmp(&other.areas))
    }
}

/// All M - 2m + 2 distributions of an order.
fn distributions<'r>(
    entries: &'r [Rectangle],
    order: &'r [usize],
    least: usize,
) -> impl Iterator<Item = Distribution> + use<'r> {
    let grow = |bounds: &mut Option<Rectangle>, &at: &usize| {
        let next = bounds.map_or(entries[at], |bounds: Rectangle| bounds.union(&entries[at]));
        *bounds = Some(next);
        Some(next)
    };
    let ahead: Vec<_> = order.iter().scan(None, grow).collect();
    let mut behind: Vec<_> = order.iter().rev().scan(None, grow).collect();
    behind.reverse();
    (least..=entries.len() - least).map(move |first| {
        let (one, other) = (ahead[first - 1], behind[first]);
        Distribution {
            first,
            margins: one.margin() + other.margin(),
            overlap: one.overlap(&other),
            areas: one.area() + other.area(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn two_clusters_are_separated() {
        let square = |x: f64, y: f64| Rectangle::new([x, y], [x + 1.0, y + 1.0]).unwrap();
        let entries: Vec<_> =
            (0..10).map(|at| square(f64::from(at % 5) * 0.1, if at % 2 == 0 { 0.0 } else { 50.0 })).collect();
        let (one, other) = split(&entries, 4);
        assert!(one.iter().all(|at| at % 2 == 0), "{one:?}");
        assert!(other.iter().all(|at| at % 2 == 1), "{other:?}");
    }

    proptest! {
        #[test]
        fn every_entry_is_in_one_of_two_nodes_with_enough(
            points in prop::collection::vec((0.0..1.0f64, 0.0..1.0f64, 0.0..0.1f64), 4..60),
        ) {
            let entries: Vec<_> = points.iter()
                .map(|&(x, y, edge)| Rectangle::new([x, y], [x + edge, y + edge]).unwrap())
                .collect();
            let least = (entries.len() * 2 / 5).max(1);
            let (one, other) = split(&entries, least);
            prop_assert!(one.len() >= least && other.len() >= least);
            let mut all: Vec<_> = one.into_iter().chain(other).collect();
            all.sort_unstable();
            prop_assert_eq!(all, (0..entries.len()).collect::<Vec<_>>());
        }
    }
}
