//! The surroundings of a point at which edges meet: the edges around it, the sectors between them, and the location of
//! each in both geometries.
//!
//! All comparisons of directions use the positions of the geometries themselves, so that they are exact.

use std::cmp::Ordering;

use geo_types::Coord;

use super::matrix::IntersectionMatrix;
use crate::bounds::Bounds;
use crate::orientation::{is_on, side};
use crate::prepared::{ChainKind, Edge, Location, Prepared};

/// A part of an edge that leaves the node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spoke {
    toward: Coord<f64>,
    /// The geometry, 0 or 1.
    of: usize,
    kind: SpokeKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SpokeKind {
    Line,
    /// An edge of a polygon's ring, with the polygon on the left of the direction away from the node.
    PolygonLeft(u32),
    /// The same with the polygon on the right.
    PolygonRight(u32),
}

impl Spoke {
    /// A point in its direction.
    pub(super) fn toward(&self) -> Coord<f64> {
        self.toward
    }
}

impl SpokeKind {
    fn polygon(self) -> Option<u32> {
        match self {
            Self::Line => None,
            Self::PolygonLeft(polygon) | Self::PolygonRight(polygon) => Some(polygon),
        }
    }
}

/// The two spokes of an edge that passes a node: first the one toward its end.
pub(super) fn passing(geometry: &Prepared, of: usize, edge: &Edge) -> Option<[Spoke; 2]> {
    let kind = geometry.chains[edge.chain()?].kind;
    let (forward, backward) = match kind {
        ChainKind::Line => (SpokeKind::Line, SpokeKind::Line),
        ChainKind::Ring(polygon) => (SpokeKind::PolygonLeft(polygon), SpokeKind::PolygonRight(polygon)),
    };
    Some([Spoke { toward: edge.to, of, kind: forward }, Spoke { toward: edge.from, of, kind: backward }])
}

/// The spokes of all edges of a geometry that contain `at`.
fn spokes(geometry: &Prepared, of: usize, at: Coord<f64>, found: &mut Vec<Spoke>) {
    geometry.tree.for_each(&Bounds::point([at.x, at.y]), |edge| {
        let edge = &geometry.tree.edges()[edge];
        if edge.chain().is_some() && is_on(edge.from, edge.to, at) {
            let both = passing(geometry, of, edge).into_iter().flatten();
            found.extend(both.filter(|spoke| spoke.toward != at));
        }
    });
}

/// Compares the directions from `centre` to two other points, counter-clockwise from that of the x axis.
fn by_angle(centre: Coord<f64>, one: Coord<f64>, other: Coord<f64>) -> Ordering {
    let is_lower = |p: Coord<f64>| (p.y, p.x) < (centre.y, centre.x);
    is_lower(one).cmp(&is_lower(other)).then_with(|| {
        let side = side(centre, one, other);
        0.0_f64.partial_cmp(&side).unwrap_or(Ordering::Equal)
    })
}

/// A point at which edges meet, with its spokes in groups of equal direction, counter-clockwise.
pub(super) struct Surroundings {
    groups: Vec<Vec<Spoke>>,
    /// The location of the point by ends of lines and by points alone, in each geometry.
    lineal: [Location; 2],
    /// Whether polygons without a spoke here cover the point, in each geometry.
    covered: [bool; 2],
}

impl Surroundings {
    /// The surroundings of a position of one of the geometries.
    pub(super) fn of_position(geometries: [&Prepared; 2], at: Coord<f64>) -> Self {
        let mut found = Vec::new();
        for (of, geometry) in geometries.into_iter().enumerate() {
            spokes(geometry, of, at, &mut found);
        }
        found.sort_by(|one, other| by_angle(at, one.toward, other.toward));
        let equal = |one: &Spoke, other: &Spoke| by_angle(at, one.toward, other.toward) == Ordering::Equal;
        let groups: Vec<Vec<Spoke>> = found.chunk_by(equal).map(<[Spoke]>::to_vec).collect();
        let lineal = [0, 1].map(|of| lineal(geometries[of], at, of, &found));
        let covered = [0, 1].map(|of| is_covered(geometries[of], at, of, &found));
        Self { groups, lineal, covered }
    }

    /// The surroundings of the point at which two edges cross. `groups`: the spokes of the edges and of those along
    /// them, in four directions, counter-clockwise. `at`: nearly the point.
    pub(super) fn of_crossing(geometries: [&Prepared; 2], groups: Vec<Vec<Spoke>>, at: Coord<f64>) -> Self {
        let spokes: Vec<Spoke> = groups.iter().flatten().copied().collect();
        let has_spoke = |of: usize| spokes.iter().any(|spoke| spoke.of == of);
        let lineal = [0, 1].map(|of| if has_spoke(of) { Location::Interior } else { Location::Exterior });
        let covered = [0, 1].map(|of| is_covered(geometries[of], at, of, &spokes));
        Self { groups, lineal, covered }
    }

    /// Records the point, the directions and the sectors.
    pub(super) fn record(&self, matrix: &mut IntersectionMatrix) {
        let [a, b] = [0, 1].map(|of| self.locations(of));
        matrix.meet([a.point, b.point], 0);
        for (a, b) in a.directions.iter().zip(&b.directions) {
            matrix.meet([*a, *b], 1);
        }
        for (a, b) in a.sectors.iter().zip(&b.sectors) {
            matrix.meet([*a, *b], 2);
        }
    }

    /// The locations in one geometry.
    fn locations(&self, of: usize) -> NodeLocations {
        let sectors = self.covered_sectors(of);
        let count = self.groups.len();
        let direction = |(at, group): (usize, &Vec<Spoke>)| {
            let (before, after) = (sectors[(at + count - 1) % count], sectors[at]);
            let mut kinds = group.iter().filter(|spoke| spoke.of == of).map(|spoke| spoke.kind);
            let first = kinds.next();
            match first {
                _ if before && after => Location::Interior,
                None => Location::Exterior,
                Some(SpokeKind::Line) if kinds.all(|kind| kind == SpokeKind::Line) => Location::Interior,
                Some(_) => Location::Boundary,
            }
        };
        let directions: Vec<_> = self.groups.iter().enumerate().map(direction).collect();
        let has_ring = self.spokes(of).any(|spoke| spoke.kind != SpokeKind::Line);
        let point = match () {
            () if !sectors.is_empty() && sectors.iter().all(|inside| *inside) => Location::Interior,
            () if has_ring => Location::Boundary,
            () => self.lineal[of],
        };
        let sectors = sectors.into_iter();
        let sectors =
            sectors.map(|inside| if inside { Location::Interior } else { Location::Exterior }).collect();
        NodeLocations { point, directions, sectors }
    }

    fn spokes(&self, of: usize) -> impl Iterator<Item = &Spoke> {
        self.groups.iter().flatten().filter(move |spoke| spoke.of == of)
    }

    /// Whether a polygon of the geometry covers each sector. Sector n follows direction n.
    fn covered_sectors(&self, of: usize) -> Vec<bool> {
        let mut polygons: Vec<(u32, bool)> = Vec::new();
        for spoke in self.spokes(of) {
            if let Some(polygon) = spoke.kind.polygon()
                && polygons.iter().all(|(other, _)| *other != polygon)
            {
                polygons.push((polygon, false));
            }
        }
        // The last direction that changes a polygon decides about the sector before the first direction.
        for (polygon, inside) in &mut polygons {
            for group in &self.groups {
                *inside = after_direction(group, of, *polygon).unwrap_or(*inside);
            }
        }
        let mut sectors = Vec::with_capacity(self.groups.len());
        for group in &self.groups {
            for (polygon, inside) in &mut polygons {
                *inside = after_direction(group, of, *polygon).unwrap_or(*inside);
            }
            sectors.push(self.covered[of] || polygons.iter().any(|(_, inside)| *inside));
        }
        sectors
    }
}

/// Locations at a node in one geometry.
struct NodeLocations {
    point: Location,
    directions: Vec<Location>,
    sectors: Vec<Location>,
}

/// Whether the polygon covers the sector after the direction; `None`: the direction has no edge of it, or an edge on
/// both sides.
fn after_direction(group: &[Spoke], of: usize, polygon: u32) -> Option<bool> {
    let has = |kind: SpokeKind| group.iter().any(|spoke| spoke.of == of && spoke.kind == kind);
    match (has(SpokeKind::PolygonLeft(polygon)), has(SpokeKind::PolygonRight(polygon))) {
        (true, false) => Some(true),
        (false, true) => Some(false),
        _ => None,
    }
}

/// The location of a node by lines and points.
fn lineal(geometry: &Prepared, at: Coord<f64>, of: usize, spokes: &[Spoke]) -> Location {
    let has_line = spokes.iter().any(|spoke| spoke.of == of && spoke.kind == SpokeKind::Line);
    match () {
        () if geometry.is_line_end(at) => Location::Boundary,
        () if has_line => Location::Interior,
        () if geometry.has_point(at) => Location::Interior,
        () => Location::Exterior,
    }
}

/// Whether polygons without a spoke at the node cover it.
fn is_covered(geometry: &Prepared, at: Coord<f64>, of: usize, spokes: &[Spoke]) -> bool {
    if geometry.dimension() != Some(2) || !geometry.bounds().is_some_and(|bounds| bounds.contains_coord(at)) {
        return false;
    }
    let of_geometry = spokes.iter().filter(|spoke| spoke.of == of);
    let except: Vec<u32> = of_geometry.filter_map(|spoke| spoke.kind.polygon()).collect();
    if geometry.overlaps_itself {
        return geometry.locate_in_polygons_except(at, &except) == Location::Interior;
    }
    // Polygons that do not overlap do not cover an edge of each other.
    except.is_empty() && geometry.locate_in_polygons(at) == Location::Interior
}

/// The location of a position on the edge of a polygon in a geometry whose parts may overlap.
pub(crate) fn location_at_node(geometry: &Prepared, at: Coord<f64>) -> Location {
    Surroundings::of_position([geometry, geometry], at).locations(0).point
}
