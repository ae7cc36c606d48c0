//! Parts of the plane, small enough that the records in each fit into memory.

use super::super::index::Spatial;
use crate::error::Result;
use farwood_index::catfish::{Query, Rectangle};

/// Maximum records of the index that has fewer in a tile.
pub(super) const FEWER_MAX: u64 = 4_096;
/// Maximum records of the other.
const MORE_MAX: u64 = 16 * FEWER_MAX;

/// A part of the plane. Tiles that result from halving one share no point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tile {
    /// The least x and y, as positions in the order of all numbers.
    low: [i64; 2],
    /// The greatest, which are in the tile as well.
    high: [i64; 2],
}

/// The position of a number in the order of all numbers, which is its own inverse on bits.
fn order(number: f64) -> i64 {
    flip((number + 0.0).to_bits().cast_signed())
}

fn number(order: i64) -> f64 {
    f64::from_bits(flip(order).cast_unsigned())
}

/// The bits of negative numbers are in the reverse order.
fn flip(bits: i64) -> i64 {
    bits ^ ((bits >> 63).cast_unsigned() >> 1).cast_signed()
}

impl Tile {
    pub(super) fn new(min: [f64; 2], max: [f64; 2]) -> Self {
        Self { low: min.map(order), high: max.map(order) }
    }

    /// The window that contains the tile.
    pub(super) fn window(&self) -> Rectangle {
        let window = Rectangle::new(self.low.map(number), self.high.map(number));
        window.expect("the edges of a tile are finite and in order")
    }

    pub(super) fn contains(&self, point: [f64; 2]) -> bool {
        (0..2).all(|axis| (self.low[axis]..=self.high[axis]).contains(&order(point[axis])))
    }

    /// The two halves along an axis; `None`: it has one coordinate there.
    fn halves(&self, axis: usize) -> Option<[Self; 2]> {
        if self.low[axis] == self.high[axis] {
            return None;
        }
        let middle =
            i64::midpoint(self.low[axis], self.high[axis]).clamp(self.low[axis], self.high[axis] - 1);
        let (mut lower, mut upper) = (*self, *self);
        lower.high[axis] = middle;
        upper.low[axis] = middle + 1;
        Some([lower, upper])
    }

    /// The axes in the order in which the tile is halved: first the longer one.
    fn axes(&self) -> [usize; 2] {
        let length = |axis: usize| self.high[axis].abs_diff(self.low[axis]);
        if length(0) >= length(1) { [0, 1] } else { [1, 0] }
    }
}

/// A tile, and the number of records of each index that intersect it.
type Counted<const N: usize> = (Tile, [u64; N]);

/// The tiles of some indexes, each with the number of records of each index that intersect it.
pub(super) struct Tiles<'t, const N: usize> {
    indexes: [&'t Spatial; N],
    pending: Vec<Counted<N>>,
}

impl<'t, const N: usize> Tiles<'t, N> {
    pub(super) fn new(indexes: [&'t Spatial; N], all: Tile) -> Result<Self> {
        let mut tiles = Self { indexes, pending: Vec::new() };
        let counts = tiles.count(&all)?;
        tiles.pending.push((all, counts));
        Ok(tiles)
    }

    /// The next tile in which every index has records; `None`: there are no more. A tile with more records than the
    /// limits has many that overlap each other.
    pub(super) fn next(&mut self) -> Result<Option<Counted<N>>> {
        while let Some((tile, counts)) = self.pending.pop() {
            let (fewer, more) = counts
                .iter()
                .fold((u64::MAX, 0), |(fewer, more), &count| (fewer.min(count), more.max(count)));
            if fewer == 0 {
                continue;
            }
            let fits = fewer <= FEWER_MAX && more <= MORE_MAX;
            match if fits { None } else { self.split(&tile, counts)? } {
                Some(halves) => self.pending.extend(halves),
                None => return Ok(Some((tile, counts))),
            }
        }
        Ok(None)
    }

    /// The halves of a tile, unless too many records intersect both.
    fn split(&self, tile: &Tile, counts: [u64; N]) -> Result<Option<[Counted<N>; 2]>> {
        for axis in tile.axes() {
            let Some([lower, upper]) = tile.halves(axis) else { continue };
            let (of_lower, of_upper) = (self.count(&lower)?, self.count(&upper)?);
            let after: u64 = of_lower.iter().chain(&of_upper).sum();
            let before: u64 = counts.iter().sum();
            if after <= before + before / 2 {
                return Ok(Some([(upper, of_upper), (lower, of_lower)]));
            }
        }
        Ok(None)
    }

    fn count(&self, tile: &Tile) -> Result<[u64; N]> {
        let query = Query::intersecting(tile.window());
        let mut counts = [0; N];
        for (count, index) in counts.iter_mut().zip(self.indexes) {
            *count = index.count_in(&query)?;
        }
        Ok(counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_share_no_number_and_lose_none() {
        let numbers = [f64::MIN, -7.5, -f64::from_bits(1), -0.0, 0.0, f64::from_bits(1), 1.0, 1e9, f64::MAX];
        let mut tiles = vec![Tile::new([f64::MIN; 2], [f64::MAX; 2])];
        for round in 0..12 {
            for number in numbers {
                let owners = tiles.iter().filter(|tile| tile.contains([number, number])).count();
                assert_eq!(owners, 1, "{number} after {round} rounds");
            }
            tiles = tiles.iter().flat_map(|tile| tile.halves(round % 2).unwrap()).collect();
        }
        assert!(tiles.iter().all(|tile| tile.contains(tile.window().min()) || tile.window().min()[0] == 0.0));
        assert_eq!(Tile::new([1.0; 2], [1.0; 2]).halves(0), None);
    }
}
