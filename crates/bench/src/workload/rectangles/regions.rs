//! The order in which the paper inserts the rectangles of rea02 (Catfish §V-C): regions in random order, and in each
//! region row by row from north to south, each row from west to east.

use crate::workload::random::Generator;
use farwood_index::catfish::Item;

/// Rectangles of a region.
const REGION: usize = 20_000;
/// Rectangles of a row: regions have as many rows.
const ROW: usize = REGION.isqrt();
/// Makes the order of the regions another random sequence than the choice of windows.
const ORDER_SEED: u64 = 0x72_6561_3032;

/// The rectangles in that order. A region is a cell of a grid, whose columns have the same number of rectangles.
pub(crate) fn in_regions(items: &[Item], seed: u64) -> Vec<Item> {
    let mut items = items.to_vec();
    let columns = items.len().div_ceil(REGION).isqrt().max(1);
    let column = items.len().div_ceil(columns).max(1);
    sort_by(&mut items, |[x, _]| x);
    let mut regions: Vec<Vec<Item>> = Vec::new();
    for column in items.chunks_mut(column) {
        sort_by(column, |[_, y]| -y);
        regions.extend(column.chunks_mut(REGION).map(|region| {
            region.chunks_mut(ROW).for_each(|row| sort_by(row, |[x, _]| x));
            region.to_vec()
        }));
    }
    Generator::for_client(seed ^ ORDER_SEED, 0).shuffle(&mut regions);
    regions.concat()
}

fn sort_by(items: &mut [Item], key: impl Fn([f64; 2]) -> f64) {
    items.sort_by(|one, other| key(one.bounds.centre()).total_cmp(&key(other.bounds.centre())));
}

#[cfg(test)]
mod tests {
    use super::super::RectangleSource;
    use super::*;

    #[test]
    fn regions_are_in_random_order_and_their_rows_from_north_to_south() {
        let items = RectangleSource::Uniform(9 * REGION as u64).items(7).unwrap();
        let ordered = in_regions(&items, 7);
        let mut ids: Vec<_> = ordered.iter().map(|item| item.id).collect();
        ids.sort_unstable();
        assert!(ids.into_iter().eq(0..9 * REGION as u64), "every rectangle occurs once");
        assert_ne!(ordered, in_regions(&items, 8), "the seed decides the order of the regions");
        let centre = |item: &Item| item.bounds.centre();
        for region in ordered.chunks(REGION) {
            let width = |axis: usize| {
                let of = region.iter().map(|item| centre(item)[axis]);
                of.clone().fold(f64::MIN, f64::max) - of.fold(f64::MAX, f64::min)
            };
            assert!(width(0) < 0.36 && width(1) < 0.36, "a region is a ninth of the square");
            let rows: Vec<_> = region.chunks(ROW).collect();
            assert!(rows.iter().all(|row| row.is_sorted_by_key(|item| centre(item)[0])));
            let south = |row: &[Item]| row.iter().map(|item| centre(item)[1]).fold(f64::MAX, f64::min);
            let north = |row: &[Item]| row.iter().map(|item| centre(item)[1]).fold(f64::MIN, f64::max);
            assert!(rows.windows(2).all(|rows| south(rows[0]) >= north(rows[1])));
        }
    }
}
