//! ChooseSubtree (R*-tree, section 4.1).

use crate::catfish::tree::rectangle::Rectangle;
use std::cell::Cell;

/// Children whose overlap is compared: those that grow least (R*-tree, section 4.1).
const CANDIDATES: usize = 32;

/// The kind of a node's children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::catfish::tree) enum Children {
    Leaves,
    InnerNodes,
}

/// The child that takes `new`: of leaves the one whose overlap with the others grows least; of inner nodes, and of
/// equal ones, the one that grows least; then the smallest.
pub(in crate::catfish::tree) fn choose_subtree(
    children: &[Rectangle],
    new: &Rectangle,
    kind: Children,
) -> usize {
    let growth = |child: usize| {
        let area = children[child].area();
        (children[child].union(new).area() - area, area)
    };
    if kind == Children::InnerNodes {
        return least(0..children.len(), |child| {
            let (growth, area) = growth(child);
            [growth, area, 0.0]
        });
    }
    let mut candidates: Vec<_> = (0..children.len()).map(|child| (growth(child), child)).collect();
    if candidates.len() > CANDIDATES {
        candidates.select_nth_unstable_by(CANDIDATES, |one, other| compare(&pair(one), &pair(other)));
        candidates.truncate(CANDIDATES);
    }
    // A child that need not grow adds no overlap, so it is better than every child that must grow.
    let best = Cell::new(f64::MAX);
    let fits = candidates.iter().any(|&(_, child)| children[child].contains(new));
    let chosen = least(0..candidates.len(), |at| {
        let ((growth, area), child) = candidates[at];
        let overlap =
            if fits && growth > 0.0 { f64::MAX } else { overlap_growth(children, child, new, best.get()) };
        best.set(overlap.min(best.get()));
        [overlap, growth, area]
    });
    candidates[chosen].1
}

fn pair(&((growth, area), child): &((f64, f64), usize)) -> [f64; 3] {
    [growth, area, child as f64]
}

/// The increase of the overlap of `child` with the others if it takes `new`, or a part of it that exceeds `most`.
fn overlap_growth(children: &[Rectangle], child: usize, new: &Rectangle, most: f64) -> f64 {
    let (before, after) = (children[child], children[child].union(new));
    if before == after {
        return 0.0;
    }
    let others = children.iter().enumerate().filter(|&(other, _)| other != child);
    let grown = |other| match after.overlap(other) {
        // Most children overlap neither.
        0.0 => 0.0,
        overlap => overlap - before.overlap(other),
    };
    let mut all = 0.0;
    for (_, other) in others {
        all += grown(other);
        if all > most {
            break;
        }
    }
    all
}

fn compare(one: &[f64; 3], other: &[f64; 3]) -> std::cmp::Ordering {
    let mut pairs = one.iter().zip(other).map(|(one, other)| one.total_cmp(other));
    pairs.find(|order| order.is_ne()).unwrap_or(std::cmp::Ordering::Equal)
}

fn least(of: std::ops::Range<usize>, weight: impl Fn(usize) -> [f64; 3]) -> usize {
    let weighed = of.map(|at| (weight(at), at));
    let least = weighed.min_by(|one, other| compare(&one.0, &other.0));
    least.expect("an inner node has children").1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn square(x: f64, y: f64, edge: f64) -> Rectangle {
        Rectangle::new([x, y], [x + edge, y + edge]).unwrap()
    }

    #[test]
    fn a_child_that_contains_the_rectangle_takes_it() {
        let children = [square(0.0, 0.0, 1.0), square(5.0, 5.0, 2.0), square(5.0, 5.0, 1.0)];
        for kind in [Children::Leaves, Children::InnerNodes] {
            let chosen = choose_subtree(&children, &square(5.2, 5.2, 0.1), kind);
            assert_eq!(chosen, 2, "the smallest of those that need not grow");
        }
    }

    #[test]
    fn above_leaves_overlap_weighs_more_than_growth() {
        // Child 0 would grow less, but would then overlap child 1.
        let children = [
            Rectangle::new([0.0, 0.0], [4.0, 1.0]).unwrap(),
            Rectangle::new([4.5, 0.0], [5.0, 1.0]).unwrap(),
            Rectangle::new([4.6, 3.0], [5.6, 4.0]).unwrap(),
        ];
        let new = Rectangle::point([5.6, 1.0]).unwrap();
        assert_eq!(choose_subtree(&children, &new, Children::Leaves), 1);
        let growths = children.map(|child| child.union(&new).area() - child.area());
        assert!(growths[1] < growths[0], "{growths:?}");
        let new = Rectangle::point([5.1, 2.2]).unwrap();
        assert_eq!(choose_subtree(&children, &new, Children::Leaves), 2);
    }

    /// The choice by the definition, without shortcuts.
    fn by_definition(children: &[Rectangle], new: &Rectangle) -> [f64; 3] {
        let weight = |child: usize| {
            let after = children[child].union(new);
            let others = children.iter().enumerate().filter(|&(other, _)| other != child);
            let grown = others.map(|(_, other)| after.overlap(other) - children[child].overlap(other)).sum();
            [grown, after.area() - children[child].area(), children[child].area()]
        };
        (0..children.len()).map(weight).min_by(compare).unwrap()
    }

    proptest! {
        #[test]
        fn the_chosen_child_is_the_best_by_definition(
            edges in prop::collection::vec((0..30i32, 0..30i32, 0..6i32, 0..6i32), 2..CANDIDATES),
            (x, y, width, height) in (0..30i32, 0..30i32, 0..3i32, 0..3i32),
        ) {
            let rectangle = |(x, y, width, height): (i32, i32, i32, i32)| {
                Rectangle::new([x.into(), y.into()], [(x + width).into(), (y + height).into()]).unwrap()
            };
            let children: Vec<_> = edges.into_iter().map(rectangle).collect();
            let new = rectangle((x, y, width, height));
            let chosen = choose_subtree(&children, &new, Children::Leaves);
            let growth = children[chosen].union(&new).area() - children[chosen].area();
            let overlap = overlap_growth(&children, chosen, &new, f64::MAX);
            let chosen = [overlap, growth, children[chosen].area()];
            let best = by_definition(&children, &new);
            prop_assert!(compare(&chosen, &best).is_eq(), "{:?} {:?}", chosen, best);
        }
    }

    #[test]
    fn of_many_children_those_that_grow_least_are_compared() {
        let children: Vec<_> = (0..100).map(|x| square(f64::from(x) * 3.0, 0.0, 1.0)).collect();
        for x in [0, 41, 99] {
            let new = square(f64::from(x) * 3.0 + 0.9, 0.5, 0.2);
            assert_eq!(choose_subtree(&children, &new, Children::Leaves), x as usize);
        }
    }
}
