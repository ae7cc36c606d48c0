//! Exact queries of records: after the search by rectangles, the geometries in the payloads decide.
//!
//! The payload of a record is that of [`Contents`](super::Contents). A record without a geometry stands for its
//! rectangle. The rectangle of a record must contain its geometry: a query that reads another record fails. Predicates
//! work in the plane, in indexes of degrees as well ([`crate::spatial::geometry`]).
//!
//! | file | content |
//! |---|---|
//! | `candidates` | the records among which the matches are |
//! | `refine` | the geometry of a record |
//! | `within` | distances up to a limit |
//! | `nearest` | the nearest records |
//! | `tile` | parts of the plane, for queries that read two indexes in batches |
//! | `join` | pairs of records of two indexes |

mod candidates;
mod join;
mod nearest;
mod refine;
mod tile;
mod within;

use super::index::Spatial;
use super::many::in_threads;
use crate::error::Result;
use farwood_geometry::{Geometry, Metric, Predicate, Prepared};
use farwood_index::catfish::{CoordinateSystem, Record};
pub use nearest::NearestOptions;
use refine::bounds_of;

impl Spatial {
    /// How the index measures distances unless a call says otherwise: in metres in an index of degrees, otherwise in
    /// the unit of the coordinates.
    pub fn metric(&self) -> Metric {
        match self.coordinates() {
            CoordinateSystem::Degrees => Metric::Sphere,
            CoordinateSystem::Planar | CoordinateSystem::Unstated => Metric::Planar,
        }
    }

    /// Returns the records for which `predicate` holds: the record first, `query` second. They are in no particular
    /// order. [as [`search_records`](Self::search_records) for the records whose rectangles intersect the bounding box
    /// of `query`, or contain it if matches must; of all records for [`Predicate::Disjoint`] and for an empty `query`;
    /// two searches if the antimeridian splits `query` in an index of degrees]
    ///
    /// ```
    /// use farwood::spatial::geometry::{Geometry, Predicate};
    /// use farwood::spatial::{Contents, IdKind, RTree, Record, Rectangle};
    /// use farwood::{Pool, PoolOptions};
    ///
    /// # let url = format!("shm://doc-find-{}", std::process::id());
    /// # Pool::create(url.as_str(), &PoolOptions::new().memory_bytes(64 << 20))?;
    /// # let pool = Pool::open(url.as_str())?;
    /// let config = RTree::new().ids(IdKind::Text);
    /// let parks = pool.create_spatial("parks", &config)?;
    /// let triangle: Geometry = "POLYGON((0 0,4 0,0 4,0 0))".parse().expect("it is WKT");
    /// let contents = Contents { geometry: triangle.to_wkb(), attributes: r#"{"trees":7}"#.to_owned() };
    /// let bounds = Rectangle::new([0.0, 0.0], [4.0, 4.0]).expect("its edges are in order");
    /// parks.put(Record { id: "oak".into(), bounds, payload: contents.encode() })?;
    ///
    /// let at = |x, y| Geometry::point([x, y]).expect("two finite numbers");
    /// assert_eq!(parks.find(Predicate::Contains, &at(1.0, 1.0))?.len(), 1);
    /// assert_eq!(parks.find(Predicate::Contains, &at(3.0, 3.0))?.len(), 0, "in the rectangle, not in the triangle");
    /// # drop((parks, pool));
    /// # Pool::remove(url.as_str())?;
    /// # Ok::<(), farwood::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`search_records`](Self::search_records); [`Error::Geometry`](crate::Error::Geometry): the payload of a
    /// candidate has no geometry that can be used; [`Error::Argument`](crate::Error::Argument): the index has degrees,
    /// and `query` is outside them.
    pub fn find(&self, predicate: Predicate, query: &Geometry) -> Result<Vec<Record>> {
        let prepared = Prepared::new(query);
        let mut found = Vec::new();
        for record in self.candidates(predicate, query)? {
            let is_apart =
                prepared.bounds().is_none_or(|bounds| !bounds.intersects(&bounds_of(&record.bounds)));
            let is_known = predicate == Predicate::Disjoint && is_apart;
            if is_known || predicate.holds(&self.prepared("search", &record)?, &prepared) {
                found.push(record);
            }
        }
        Ok(found)
    }

    /// Returns for each geometry the records that [`find`](Self::find) returns, in threads as
    /// [`search_many`](Self::search_many).
    ///
    /// # Errors
    /// As [`find`](Self::find): the first error of any query.
    pub fn find_many(&self, predicate: Predicate, queries: &[Geometry]) -> Result<Vec<Vec<Record>>> {
        in_threads(queries, |query| self.find(predicate, query))
    }
}
