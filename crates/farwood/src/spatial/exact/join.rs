//! Pairs of records of two indexes.
//!
//! The plane is divided into tiles. Records that intersect have a common point in exactly one tile: the lower left
//! corner of the intersection of their rectangles. A tile with many records of one index and few of the other is
//! searched once for each of the few, otherwise the records of both are read, and a line sweeps over them.

use super::super::index::Spatial;
use super::tile::{Tile, Tiles};
use crate::argument::Call;
use crate::error::Result;
use farwood_geometry::{Predicate, Prepared};
use farwood_index::catfish::{CoordinateSystem, Query, Record, RecordId, Rectangle};
use std::ops::ControlFlow;

/// The records of one index for each of the other above which a tile is searched once for each of the other.
const RATIO_MIN: u64 = 16;
/// Records that are always read at once.
const AT_ONCE: u64 = 256;

impl Spatial {
    /// Calls `found` with each record of this index and each of `other` for which the predicate holds, until it breaks.
    /// The pairs are in no particular order. Items of an index without records stand for their rectangles, with empty
    /// payloads.
    ///
    /// The call reads both indexes in batches of up to 4,096 records and of up to 65,536 of the other index, or more
    /// where more rectangles overlap each other. Each batch is of a version of its own: a pair of which a record
    /// changes during the call may be missed or repeated. [for each batch two counts, and a search of both indexes, or
    /// a search of one and one search of the other for each of its records; [`Predicate::Disjoint`]: all records of
    /// `other` for each batch of this index]
    ///
    /// # Errors
    /// As [`find`](Self::find); [`Error::Argument`](crate::Error::Argument): one index has degrees, and the other is
    /// planar.
    pub fn join(
        &self,
        other: &Self,
        predicate: Predicate,
        mut found: impl FnMut(&Record, &Record) -> ControlFlow<()>,
    ) -> Result<()> {
        self.check_coordinates(other)?;
        let mut join = Join { indexes: [self, other], predicate, found: &mut found };
        // A call that broke is done.
        let _ = if predicate == Predicate::Disjoint { join.all_pairs()? } else { join.in_tiles()? };
        Ok(())
    }

    fn check_coordinates(&self, other: &Self) -> Result<()> {
        use CoordinateSystem::{Degrees, Planar};
        match (self.coordinates(), other.coordinates()) {
            (Degrees, Planar) | (Planar, Degrees) => {
                let remedy = format!("those of {} are {}", other.url(), other.coordinates());
                let value = self.coordinates().to_string();
                Err(Call { operation: "join", url: self.url() }.refused("coordinate system", value, remedy))
            }
            _ => Ok(()),
        }
    }

    /// The part of the plane in which its rectangles are.
    fn plane(&self) -> Tile {
        match self.coordinates() {
            CoordinateSystem::Degrees => Tile::new([-180.0, -90.0], [180.0, 90.0]),
            CoordinateSystem::Planar | CoordinateSystem::Unstated => Tile::new([f64::MIN; 2], [f64::MAX; 2]),
        }
    }

    /// The records that intersect a window, or the items as records.
    fn rows(&self, window: Rectangle) -> Result<Vec<Record>> {
        let query = Query::intersecting(window);
        if self.ids().is_unique() {
            return self.records_in(&query);
        }
        let record = |(id, bounds)| Record { id: RecordId::Number(id), bounds, payload: Vec::new() };
        Ok(self.search(&query)?.into_iter().map(|item| record((item.id, item.bounds))).collect())
    }
}

type Flow = Result<ControlFlow<()>>;

struct Join<'j> {
    indexes: [&'j Spatial; 2],
    predicate: Predicate,
    found: &'j mut dyn FnMut(&Record, &Record) -> ControlFlow<()>,
}

/// Ends the function if `$flow` breaks.
macro_rules! proceed {
    ($flow:expr) => {
        if $flow.is_break() {
            return Ok(ControlFlow::Break(()));
        }
    };
}

impl Join<'_> {
    /// Finds pairs that intersect.
    fn in_tiles(&mut self) -> Flow {
        // Intersections are in both planes.
        let [one, other] = self.indexes;
        let all = if one.coordinates() == CoordinateSystem::Degrees { one.plane() } else { other.plane() };
        let mut tiles = Tiles::new(self.indexes, all)?;
        while let Some((tile, [one, other])) = tiles.next()? {
            let (fewer, more) = (one.min(other), one.max(other));
            if more > AT_ONCE && more >= RATIO_MIN * fewer {
                proceed!(self.search_for_each(&tile, usize::from(other < one))?);
            } else {
                proceed!(self.sweep(&tile)?);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Finds the pairs of a tile by a search for each record of the index `few`.
    fn search_for_each(&mut self, tile: &Tile, few: usize) -> Flow {
        let [few_index, many_index] = [self.indexes[few], self.indexes[1 - few]];
        for record in few_index.rows(tile.window())? {
            let Some(window) = intersection(&record.bounds, &tile.window()) else { continue };
            let prepared = few_index.prepared("join", &record)?;
            for partner in many_index.rows(window)? {
                if !tile.contains(corner(&record.bounds, &partner.bounds)) {
                    continue;
                }
                let partner_prepared = many_index.prepared("join", &partner)?;
                let (one, other) = ((&record, &prepared), (&partner, &partner_prepared));
                proceed!(if few == 0 { self.compare(one, other) } else { self.compare(other, one) });
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Reads the records of a tile, and finds their pairs by sweeping a vertical line over both.
    fn sweep(&mut self, tile: &Tile) -> Flow {
        let [mut one, mut other] = [Batch::read(self.indexes[0], tile)?, Batch::read(self.indexes[1], tile)?];
        let (mut at_one, mut at_other) = (0, 0);
        while let (Some(left), Some(right)) = (one.records.get(at_one), other.records.get(at_other)) {
            let is_one = left.bounds.min()[0] <= right.bounds.min()[0];
            let (reach, from) =
                if is_one { (left.bounds.max()[0], at_other) } else { (right.bounds.max()[0], at_one) };
            let others = if is_one { &other } else { &one };
            let to = from + others.records[from..].partition_point(|record| record.bounds.min()[0] <= reach);
            for partner in from..to {
                let (left, right) = if is_one { (at_one, partner) } else { (partner, at_other) };
                let (left_box, right_box) = (one.records[left].bounds, other.records[right].bounds);
                if left_box.intersects(&right_box) && tile.contains(corner(&left_box, &right_box)) {
                    one.prepare(left)?;
                    other.prepare(right)?;
                    let (Some(left), Some(right)) = (one.get(left), other.get(right)) else { continue };
                    proceed!(self.compare(left, right));
                }
            }
            if is_one {
                at_one += 1;
            } else {
                at_other += 1;
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Compares all records with all.
    fn all_pairs(&mut self) -> Flow {
        let [one, other] = self.indexes;
        let mut tiles = Tiles::new([one], one.plane())?;
        while let Some((tile, _)) = tiles.next()? {
            let mut batch = Batch::owned(one, &tile)?;
            let mut others = Tiles::new([other], other.plane())?;
            while let Some((tile, _)) = others.next()? {
                let mut partners = Batch::owned(other, &tile)?;
                for left in 0..batch.records.len() {
                    batch.prepare(left)?;
                    for right in 0..partners.records.len() {
                        partners.prepare(right)?;
                        let (Some(left), Some(right)) = (batch.get(left), partners.get(right)) else {
                            continue;
                        };
                        proceed!(self.compare(left, right));
                    }
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn compare(&mut self, one: (&Record, &Prepared), other: (&Record, &Prepared)) -> ControlFlow<()> {
        if self.predicate.holds(one.1, other.1) {
            (self.found)(one.0, other.0)
        } else {
            ControlFlow::Continue(())
        }
    }
}

/// Records of a tile in the order of their least x, and the geometries of those that were compared.
struct Batch<'b> {
    index: &'b Spatial,
    records: Vec<Record>,
    prepared: Vec<Option<Prepared>>,
}

impl<'b> Batch<'b> {
    /// The records that intersect the tile.
    fn read(index: &'b Spatial, tile: &Tile) -> Result<Self> {
        let mut records = index.rows(tile.window())?;
        records.sort_by(|one, other| one.bounds.min()[0].total_cmp(&other.bounds.min()[0]));
        let prepared = records.iter().map(|_| None).collect();
        Ok(Self { index, records, prepared })
    }

    /// The records whose lower left corners are in the tile.
    fn owned(index: &'b Spatial, tile: &Tile) -> Result<Self> {
        let mut batch = Self::read(index, tile)?;
        batch.records.retain(|record| tile.contains(record.bounds.min()));
        Ok(batch)
    }

    fn prepare(&mut self, at: usize) -> Result<()> {
        if self.prepared[at].is_none() {
            self.prepared[at] = Some(self.index.prepared("join", &self.records[at])?);
        }
        Ok(())
    }

    /// A record whose geometry is prepared.
    fn get(&self, at: usize) -> Option<(&Record, &Prepared)> {
        Some((&self.records[at], self.prepared[at].as_ref()?))
    }
}

/// The lower left corner of the intersection of two rectangles that intersect.
fn corner(one: &Rectangle, other: &Rectangle) -> [f64; 2] {
    [0, 1].map(|axis| one.min()[axis].max(other.min()[axis]))
}

fn intersection(one: &Rectangle, other: &Rectangle) -> Option<Rectangle> {
    let max = [0, 1].map(|axis| one.max()[axis].min(other.max()[axis]));
    Rectangle::new(corner(one, other), max).ok()
}
