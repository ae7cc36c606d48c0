//! Checks of numbers that callers pass.

use crate::error::{Error, Result};
use farwood_fabric::ByteCount;
#[cfg(feature = "spatial")]
use farwood_index::catfish::{CoordinateSystem, OutsideDegrees, Rectangle};
use farwood_index::consistency::Consistency;

/// The fill factors of a bulk load, the same as of `farwood load --fill`.
const FILL: std::ops::RangeInclusive<f64> = 0.5..=1.0;

/// The largest budget of a cache: 1 TiB. A tree allocates a part of the budget, or all of it, when it is opened.
const CACHE_BYTES_MAX: usize = 1 << 40;

/// The object of a call, for its errors.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// The operation.
    pub(crate) operation: &'static str,
    /// The index.
    pub(crate) url: String,
}

impl Call {
    /// Refuses a fill factor that would make a tree of nearly empty nodes.
    pub(crate) fn check_fill(self, fill: f64) -> Result<()> {
        if FILL.contains(&fill) {
            return Ok(());
        }
        Err(self.refused("fill factor", fill.to_string(), "give 0.5 to 1"))
    }

    /// Refuses a cache of more than [`CACHE_BYTES_MAX`].
    pub(crate) fn check_cache(self, cache_bytes: usize) -> Result<()> {
        if cache_bytes <= CACHE_BYTES_MAX {
            return Ok(());
        }
        let remedy = format!("give at most {}", ByteCount(CACHE_BYTES_MAX as u64));
        Err(self.refused("cache budget", ByteCount(cache_bytes as u64).to_string(), remedy))
    }

    /// Refuses a scheme that does not detect bytes that changed at rest.
    pub(crate) fn check_scheme(self, scheme: Consistency) -> Result<()> {
        match scheme {
            Consistency::Checksum => Ok(()),
            Consistency::Versions | Consistency::ByteVersions => Err(self.refused(
                "consistency scheme",
                scheme.name().to_owned(),
                "create the index with checksums",
            )),
        }
    }

    /// Refuses a point without finite coordinates.
    #[cfg(feature = "spatial")]
    pub(crate) fn check_point(self, point: [f64; 2]) -> Result<()> {
        if point.iter().all(|coordinate| coordinate.is_finite()) {
            return Ok(());
        }
        Err(self.refused("point", format!("{},{}", point[0], point[1]), "give two finite numbers"))
    }

    /// Refuses a rectangle that the coordinate system of the index does not have.
    #[cfg(feature = "spatial")]
    pub(crate) fn check_bounds(
        self,
        what: &'static str,
        bounds: &Rectangle,
        system: CoordinateSystem,
    ) -> Result<()> {
        let refused = |why: OutsideDegrees| self.refused(what, bounds.to_string(), why.to_string());
        system.check(bounds).map_err(refused)
    }

    /// Refuses a distance that is negative or NaN.
    #[cfg(feature = "geometry")]
    pub(crate) fn check_distance(self, what: &'static str, distance: f64) -> Result<()> {
        if distance >= 0.0 {
            return Ok(());
        }
        Err(self.refused(what, distance.to_string(), "give 0 or more"))
    }

    /// Refuses a number outside 1 to `most`.
    #[cfg(feature = "spatial")]
    pub(crate) fn check_count(self, what: &'static str, count: usize, most: usize) -> Result<()> {
        if (1..=most).contains(&count) {
            return Ok(());
        }
        Err(self.refused(what, count.to_string(), format!("give 1 to {most}")))
    }

    pub(crate) fn refused(self, what: &'static str, value: String, remedy: impl Into<String>) -> Error {
        let Self { operation, url } = self;
        Error::Argument { operation, url, what, value, remedy: remedy.into() }
    }
}
