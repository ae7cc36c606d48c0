//! Forced reinsertion (R*-tree, section 4.3): which entries of an overfull node are reinserted.

use crate::catfish::tree::rectangle::Rectangle;

/// The `count` entries whose centres lie farthest from the centre of all, nearest first ("close reinsert").
pub(in crate::catfish::tree) fn farthest(entries: &[Rectangle], count: usize) -> Vec<usize> {
    let centre = Rectangle::around(entries).expect("an overfull node has entries").centre();
    let distance = |at: &usize| {
        let [x, y] = entries[*at].centre();
        (x - centre[0]).powi(2) + (y - centre[1]).powi(2)
    };
    let mut order: Vec<_> = (0..entries.len()).collect();
    order.sort_by(|one, other| distance(one).total_cmp(&distance(other)));
    order.split_off(entries.len() - count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_farthest_are_chosen_nearest_first() {
        let entries = [0.0, 10.0, 4.0, 5.0, 6.0, 9.5].map(|x| Rectangle::point([x, 0.0]).unwrap());
        assert_eq!(farthest(&entries, 3), [5, 0, 1]);
    }
}
