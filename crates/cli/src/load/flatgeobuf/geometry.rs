//! The geometry of a FlatGeobuf feature. Geometries with curves are refused: their coordinates in the file are control
//! points, which do not bound them. A feature is also refused if its type contradicts the header, a part has no
//! coordinates, or its lines (`ends`) do not cover its positions.

use crate::load::found::{Bounds, Found};
use crate::load::geometry::Shaped;
use crate::load::shape::Shape;
use farwood::spatial::Rectangle;
use farwood_geometry::geo_types::{
    Coord, Geometry as Part, LineString, MultiLineString, MultiPoint, MultiPolygon,
};
use farwood_geometry::polygon;
use flatgeobuf::{Feature, Geometry, GeometryType};

/// The shape of a feature and, if the index stores it, the geometry.
pub(super) fn shaped(
    header: GeometryType,
    feature: &Feature<'_>,
    found: &Found<'_>,
) -> Result<Shaped, String> {
    let geometry = feature.geometry().ok_or("the feature has no geometry")?;
    let kind = kind_of(header, geometry.type_())?;
    if !found.wants_contents() {
        return shape_of(&geometry, kind).map(Shaped::without_geometry);
    }
    found.check_positions(count(&geometry))?;
    let bounds = Bounds::Geometry(shape_of(&geometry, kind)?);
    let geometry = farwood_geometry::Geometry::new(geometry_of(&geometry, kind)?);
    Ok(Shaped { geometry: Some(geometry.map_err(|error| error.to_string())?), bounds })
}

/// The number of positions. Parts of a damaged file may share their positions, so that it exceeds what the file has.
fn count(geometry: &Geometry<'_>) -> usize {
    let parts = geometry.parts().into_iter().flat_map(|parts| parts.iter());
    parts.fold(geometry.xy().map_or(0, |edges| edges.len() / 2), |all, part| all.saturating_add(count(&part)))
}

/// The geometry of that type, of which [`shape_of`] accepts the positions and parts.
fn geometry_of(geometry: &Geometry<'_>, kind: GeometryType) -> Result<Part<f64>, String> {
    let parts = || geometry.parts().into_iter().flat_map(|parts| parts.iter());
    let has_parts = parts().next().is_some();
    Ok(match kind {
        GeometryType::Point => {
            let at = positions_of(geometry).first().copied().ok_or("the Point has no position")?;
            Part::Point(at.into())
        }
        GeometryType::MultiPoint => MultiPoint::from(positions_of(geometry)).into(),
        GeometryType::LineString => LineString(positions_of(geometry)).into(),
        GeometryType::MultiLineString => MultiLineString(lines_of(geometry)).into(),
        GeometryType::Polygon | GeometryType::Triangle => polygon_of(geometry)?.into(),
        GeometryType::MultiPolygon if has_parts => {
            let polygons = parts().map(|part| polygon_of(&part));
            MultiPolygon(polygons.collect::<Result<_, _>>()?).into()
        }
        GeometryType::MultiPolygon => MultiPolygon(vec![polygon_of(geometry)?]).into(),
        GeometryType::GeometryCollection => {
            let parts = parts().map(|part| geometry_of(&part, part.type_()));
            Part::GeometryCollection(parts.collect::<Result<Vec<_>, _>>()?.into())
        }
        _ => {
            return Err(format!(
                "an index with records cannot store a {}; convert it to polygons",
                name(kind)
            ));
        }
    })
}

fn polygon_of(geometry: &Geometry<'_>) -> Result<farwood_geometry::geo_types::Polygon<f64>, String> {
    polygon(lines_of(geometry)).map_err(|error| error.to_string())
}

fn positions_of(geometry: &Geometry<'_>) -> Vec<Coord<f64>> {
    let mut edges = geometry.xy().into_iter().flat_map(|edges| edges.iter());
    std::iter::from_fn(|| Some(Coord { x: edges.next()?, y: edges.next()? })).collect()
}

/// The lines or rings: one without `ends`.
fn lines_of(geometry: &Geometry<'_>) -> Vec<LineString<f64>> {
    let positions = positions_of(geometry);
    let Some(ends) = geometry.ends().filter(|ends| !ends.is_empty()) else {
        return vec![LineString(positions)];
    };
    let mut start = 0;
    let line = |end: u32| {
        let line = &positions[start..end as usize];
        start = end as usize;
        LineString(line.to_vec())
    };
    ends.iter().map(line).collect()
}

/// The type of a feature. It need not state the type that the header states.
fn kind_of(header: GeometryType, stated: GeometryType) -> Result<GeometryType, String> {
    match (header, stated) {
        (GeometryType::Unknown, GeometryType::Unknown) => {
            Err("the type of the geometry is not stated".to_owned())
        }
        (GeometryType::Unknown, _) => Ok(stated),
        (_, GeometryType::Unknown) => Ok(header),
        _ if header == stated => Ok(header),
        // The writer of geozero states the type of the last geometry of a collection as the type of the collection.
        (GeometryType::GeometryCollection, _) => check_kind(stated).map(|()| header),
        _ => Err(format!(
            "the geometry is a {}, and the header of the file states {}",
            name(stated),
            name(header)
        )),
    }
}

fn name(kind: GeometryType) -> String {
    kind.variant_name().map_or_else(|| format!("geometry of type {}", kind.0), str::to_owned)
}

/// Refuses types whose coordinates do not bound them, and unknown types.
fn check_kind(kind: GeometryType) -> Result<(), String> {
    if (GeometryType::CircularString.0..=GeometryType::Surface.0).contains(&kind.0) {
        return Err(format!("{} geometries contain curves, which are not supported", name(kind)));
    }
    if kind.0 > GeometryType::Triangle.0 {
        return Err(format!("the geometry has the unknown type {}", kind.0));
    }
    Ok(())
}

/// The shape of a geometry of that type, which has either positions or parts.
fn shape_of(geometry: &Geometry<'_>, kind: GeometryType) -> Result<Shape, String> {
    check_kind(kind)?;
    let has_positions = geometry.xy().is_some_and(|edges| !edges.is_empty());
    let has_parts = geometry.parts().is_some_and(|parts| !parts.is_empty());
    match (has_positions, has_parts) {
        (false, false) => Err("the geometry has no coordinates".to_owned()),
        (true, true) => Err(format!("the {} has positions outside its parts", name(kind))),
        (true, false) if kind == GeometryType::GeometryCollection => {
            Err("the GeometryCollection has positions and no geometries".to_owned())
        }
        (true, false) => positions(geometry, kind),
        (false, true) if geometry.ends().is_some_and(|ends| !ends.is_empty()) => {
            Err("the geometry has ends of lines and no positions".to_owned())
        }
        (false, true) => parts(geometry, kind),
    }
}

/// The shape of a geometry's parts.
fn parts(geometry: &Geometry<'_>, kind: GeometryType) -> Result<Shape, String> {
    let mut shape = None;
    for (part, number) in geometry.parts().into_iter().flat_map(|parts| parts.iter()).zip(1..) {
        let within = |why: String| format!("part {number} of the {}: {why}", name(kind));
        let part_kind = part_kind(kind, part.type_()).map_err(within)?;
        let one = shape_of(&part, part_kind).map_err(within)?;
        let one = if kind == GeometryType::GeometryCollection { one } else { one.as_part() };
        shape = joined(shape, Some(one));
    }
    shape.ok_or_else(|| "the geometry has no coordinates".to_owned())
}

/// The type of a part that states `stated`. Only the geometries of a collection must state their types.
fn part_kind(whole: GeometryType, stated: GeometryType) -> Result<GeometryType, String> {
    let element = match whole {
        GeometryType::GeometryCollection if stated == GeometryType::Unknown => {
            return Err("the type of the geometry is not stated".to_owned());
        }
        GeometryType::GeometryCollection => return Ok(stated),
        GeometryType::MultiPolygon | GeometryType::PolyhedralSurface => GeometryType::Polygon,
        GeometryType::TIN => GeometryType::Triangle,
        _ => return Err("this type has no parts".to_owned()),
    };
    // The writer of geozero states the type of the whole in each part.
    if [GeometryType::Unknown, element, whole].contains(&stated) {
        return Ok(element);
    }
    Err(format!("it is a {}, and not a {}", name(stated), name(element)))
}

fn joined(one: Option<Shape>, other: Option<Shape>) -> Option<Shape> {
    one.into_iter().chain(other).reduce(Shape::joined)
}

/// The shape of a geometry's own positions: each is a part of a MultiPoint, and each line one of a MultiLineString.
fn positions(geometry: &Geometry<'_>, kind: GeometryType) -> Result<Shape, String> {
    check_ends(geometry, kind)?;
    let mut ends = geometry.ends().into_iter().flat_map(|ends| ends.iter()).peekable();
    let (mut shape, mut part, mut count) = (None, None, 0);
    let mut edges = geometry.xy().into_iter().flat_map(|edges| edges.iter());
    while let Some(x) = edges.next() {
        let y = edges.next().ok_or("the geometry has an x without a y")?;
        let point = Rectangle::point([x, y]).map_err(|error| error.to_string())?;
        part = joined(part, Some(Shape::part(point)));
        count += 1;
        let part_ends = match kind {
            GeometryType::MultiPoint => true,
            GeometryType::MultiLineString => ends.next_if_eq(&count).is_some(),
            _ => false,
        };
        if part_ends {
            shape = joined(shape, part.take().map(Shape::as_part));
        }
    }
    joined(shape, part.map(Shape::as_part)).ok_or_else(|| "the geometry has no coordinates".to_owned())
}

/// Checks that the geometry has as many lines and positions as its type permits, and that each line has positions.
fn check_ends(geometry: &Geometry<'_>, kind: GeometryType) -> Result<(), String> {
    let count = geometry.xy().map_or(0, |edges| edges.len()) / 2;
    if kind == GeometryType::Point && count > 1 {
        return Err(format!("the Point has {count} positions"));
    }
    let Some(ends) = geometry.ends().filter(|ends| !ends.is_empty()) else { return Ok(()) };
    let is_one_line =
        matches!(kind, GeometryType::Point | GeometryType::MultiPoint | GeometryType::LineString);
    if is_one_line && ends.len() > 1 {
        return Err(format!("the {} consists of {} lines", name(kind), ends.len()));
    }
    let mut start = 0;
    for (end, number) in ends.iter().map(|end| end as usize).zip(1..) {
        if end <= start || end > count {
            return Err(format!(
                "line {number} of the {} ends at position {end}; it begins at {start}, and the geometry has {count}",
                name(kind)
            ));
        }
        start = end;
    }
    if start < count {
        return Err(format!("the lines of the {} end at position {start} of {count}", name(kind)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_type_of_a_feature_agrees_with_the_header() {
        type Kind = GeometryType;
        assert_eq!(kind_of(Kind::Polygon, Kind::Unknown), Ok(Kind::Polygon));
        assert_eq!(kind_of(Kind::Unknown, Kind::Point), Ok(Kind::Point));
        assert_eq!(kind_of(Kind::GeometryCollection, Kind::Point), Ok(Kind::GeometryCollection));
        for (header, stated) in [
            (Kind::Unknown, Kind::Unknown),
            (Kind::Polygon, Kind::CurvePolygon),
            (Kind::GeometryCollection, Kind::MultiCurve),
            (Kind::Point, GeometryType(200)),
        ] {
            assert!(kind_of(header, stated).is_err(), "{header:?} {stated:?}");
        }
    }

    #[test]
    fn a_part_has_the_type_that_the_whole_permits() {
        type Kind = GeometryType;
        assert_eq!(part_kind(Kind::MultiPolygon, Kind::Unknown), Ok(Kind::Polygon));
        assert_eq!(part_kind(Kind::MultiPolygon, Kind::MultiPolygon), Ok(Kind::Polygon));
        assert_eq!(part_kind(Kind::TIN, Kind::Triangle), Ok(Kind::Triangle));
        for (whole, part) in [
            (Kind::MultiPolygon, Kind::CurvePolygon),
            (Kind::MultiPolygon, Kind::Point),
            (Kind::GeometryCollection, Kind::Unknown),
            (Kind::Point, Kind::Point),
        ] {
            assert!(part_kind(whole, part).is_err(), "{whole:?} {part:?}");
        }
    }
}
