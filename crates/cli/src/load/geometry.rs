//! The shape of a geometry that a library reads: WKT, WKB.
//!
//! Curves are refused: their positions are control points, which do not bound them.

use super::shape::Shape;
use farwood::spatial::Rectangle;
use geozero::GeomProcessor;
use geozero::error::{GeozeroError, Result as GeozeroResult};

/// Largest nesting depth of collections: readers recurse.
pub(super) const DEPTH_MAX: usize = 32;

/// Whether a geometry is not a part of another one, in the signatures of [`GeomProcessor`].
type Tagged = bool;

/// Collects the shape of one geometry.
#[derive(Default)]
pub(super) struct ShapeBuilder {
    /// The parts that have ended.
    shape: Option<Shape>,
    /// The part in progress.
    part: Option<Shape>,
    /// Whether lines are rings of a polygon.
    in_polygon: bool,
    /// Whether each position is a part.
    in_points: bool,
    depth: usize,
    /// The reason why the geometry is refused.
    refusal: Option<String>,
}

fn joined(one: Option<Shape>, other: Option<Shape>) -> Option<Shape> {
    one.into_iter().chain(other).reduce(Shape::joined)
}

impl ShapeBuilder {
    fn refuse(&mut self, why: impl Into<String>) -> GeozeroResult<()> {
        self.refusal = Some(why.into());
        Err(GeozeroError::GeometryFormat)
    }

    fn refuse_curves(&mut self) -> GeozeroResult<()> {
        self.refuse("the geometry contains curves, which are not supported")
    }

    fn end_part(&mut self) {
        self.shape = joined(self.shape, self.part.take().map(Shape::as_part));
    }
}

impl GeomProcessor for ShapeBuilder {
    fn xy(&mut self, x: f64, y: f64, _: usize) -> GeozeroResult<()> {
        match Rectangle::point([x, y]) {
            Ok(point) => self.part = joined(self.part, Some(Shape::part(point))),
            Err(error) => return self.refuse(error.to_string()),
        }
        if self.in_points {
            self.end_part();
        }
        Ok(())
    }

    fn empty_point(&mut self, _: usize) -> GeozeroResult<()> {
        Ok(())
    }

    fn point_end(&mut self, _: usize) -> GeozeroResult<()> {
        self.end_part();
        Ok(())
    }

    fn multipoint_begin(&mut self, _: usize, _: usize) -> GeozeroResult<()> {
        self.in_points = true;
        Ok(())
    }

    fn multipoint_end(&mut self, _: usize) -> GeozeroResult<()> {
        self.in_points = false;
        Ok(())
    }

    fn linestring_end(&mut self, _: Tagged, _: usize) -> GeozeroResult<()> {
        if !self.in_polygon {
            self.end_part();
        }
        Ok(())
    }

    fn polygon_begin(&mut self, _: Tagged, _: usize, _: usize) -> GeozeroResult<()> {
        self.in_polygon = true;
        Ok(())
    }

    fn polygon_end(&mut self, _: Tagged, _: usize) -> GeozeroResult<()> {
        self.in_polygon = false;
        self.end_part();
        Ok(())
    }

    fn geometrycollection_begin(&mut self, _: usize, _: usize) -> GeozeroResult<()> {
        self.depth += 1;
        if self.depth > DEPTH_MAX { self.refuse(too_deep()) } else { Ok(()) }
    }

    fn geometrycollection_end(&mut self, _: usize) -> GeozeroResult<()> {
        self.depth -= 1;
        Ok(())
    }

    fn circularstring_begin(&mut self, _: usize, _: usize) -> GeozeroResult<()> {
        self.refuse_curves()
    }

    fn compoundcurve_begin(&mut self, _: usize, _: usize) -> GeozeroResult<()> {
        self.refuse_curves()
    }

    fn curvepolygon_begin(&mut self, _: usize, _: usize) -> GeozeroResult<()> {
        self.refuse_curves()
    }

    fn multicurve_begin(&mut self, _: usize, _: usize) -> GeozeroResult<()> {
        self.refuse_curves()
    }

    fn multisurface_begin(&mut self, _: usize, _: usize) -> GeozeroResult<()> {
        self.refuse_curves()
    }
}

/// The reason for refusing collections in collections.
pub(super) fn too_deep() -> String {
    format!("its collections are nested more than {DEPTH_MAX} deep")
}

/// The shape of the geometry that `read` passes to a processor. `format` names its format, for errors.
///
/// # Errors
/// The reason why the geometry has no bounds.
pub(super) fn shape(
    format: &str,
    read: impl FnOnce(&mut ShapeBuilder) -> GeozeroResult<()>,
) -> Result<Shape, String> {
    let mut builder = ShapeBuilder::default();
    match (read(&mut builder), builder.refusal) {
        (_, Some(why)) => Err(why),
        (Err(GeozeroError::Geometry(why)), None) => Err(format!("it is not {format}: {why}")),
        (Err(GeozeroError::IoError(_)), None) => Err(format!("the {format} ends too early")),
        (Err(_), None) => Err(format!("it is not {format}")),
        (Ok(()), None) => builder.shape.ok_or_else(|| "the geometry has no coordinates".to_owned()),
    }
}
