//! A geometry taken apart into edges, with a tree over them: the form on which predicates and distances work.

mod edge_tree;
mod locate;

use geo_types::{Coord, Geometry as Shape, LineString, Polygon};

use crate::bounds::Bounds;
use crate::geometry::Geometry;
use crate::orientation::side;
pub(crate) use edge_tree::{Edge, EdgeTree};
pub(crate) use locate::Location;

/// A geometry that is compared with many others.
///
/// Preparing takes time and memory in proportion to the positions. A comparison of a prepared geometry with a small one
/// then takes time in proportion to the small one, to the rings and lines of the large one, and to the logarithm of the
/// large one's positions.
#[derive(Clone, Debug)]
pub struct Prepared {
    pub(crate) tree: EdgeTree,
    pub(crate) chains: Vec<Chain>,
    /// The boundary of the lines: positions at which an odd number of lines end, in the order of x, y.
    pub(crate) line_ends: Vec<Coord<f64>>,
    /// Its points. Lines of no length are points.
    pub(crate) points: Vec<Coord<f64>>,
    bounds: Option<Bounds>,
    dimension: Option<u8>,
    /// Whether its parts may overlap: it is a collection of polygons and something else.
    pub(crate) overlaps_itself: bool,
}

/// A line or a ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chain {
    pub(crate) kind: ChainKind,
    /// Its first position.
    pub(crate) start: Coord<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChainKind {
    Line,
    /// A ring of the polygon of this number.
    Ring(u32),
}

impl From<&Geometry> for Prepared {
    fn from(geometry: &Geometry) -> Self {
        Self::new(geometry)
    }
}

impl Prepared {
    /// Prepares the geometry.
    pub fn new(geometry: &Geometry) -> Self {
        let mut parts = Parts::default();
        parts.add(geometry.shape());
        parts.finish()
    }

    /// Prepares one polygon, whose coordinates are finite.
    pub(crate) fn of_polygon(polygon: &Polygon<f64>) -> Self {
        let mut parts = Parts::default();
        parts.add_polygon(polygon);
        parts.finish()
    }

    /// The smallest box that contains it; `None`: it is empty.
    pub fn bounds(&self) -> Option<Bounds> {
        self.bounds
    }

    /// The largest dimension of its parts: 0 for points, 1 for lines, 2 for polygons; `None`: it is empty.
    pub fn dimension(&self) -> Option<u8> {
        self.dimension
    }

    /// Whether edges of its own may cross each other.
    pub(crate) fn may_cross_itself(&self) -> bool {
        self.overlaps_itself || self.dimension == Some(1)
    }

    /// The single point that it consists of.
    pub(crate) fn as_point(&self) -> Option<Coord<f64>> {
        if self.chains.is_empty() && self.points.len() == 1 { self.points.first().copied() } else { None }
    }
}

/// The edges and points of a geometry while they are collected.
#[derive(Default)]
struct Parts {
    edges: Vec<Edge>,
    chains: Vec<Chain>,
    /// Both ends of every open line.
    line_ends: Vec<Coord<f64>>,
    points: Vec<Coord<f64>>,
    polygons: u32,
    /// Whether a collection contributes parts.
    in_collection: bool,
}

impl Parts {
    fn add(&mut self, shape: &Shape<f64>) {
        match shape {
            Shape::Point(point) => self.points.push(unsigned_zero(point.0)),
            Shape::MultiPoint(points) => {
                self.points.extend(points.iter().map(|point| unsigned_zero(point.0)));
            }
            Shape::LineString(line) => self.add_line(line),
            Shape::MultiLineString(lines) => lines.iter().for_each(|line| self.add_line(line)),
            Shape::Polygon(polygon) => self.add_polygon(polygon),
            Shape::MultiPolygon(polygons) => polygons.iter().for_each(|polygon| self.add_polygon(polygon)),
            Shape::GeometryCollection(parts) => {
                self.in_collection = true;
                parts.iter().for_each(|part| self.add(part));
            }
            Shape::Line(_) | Shape::Rect(_) | Shape::Triangle(_) => {
                unreachable!("`Geometry::new` replaces these types")
            }
        }
    }

    fn add_line(&mut self, line: &LineString<f64>) {
        let positions = distinct(line);
        match positions[..] {
            [] => {}
            [at] => self.points.push(at),
            [first, .., last] => {
                if first != last {
                    self.line_ends.extend([first, last]);
                }
                self.add_chain(ChainKind::Line, &positions);
            }
        }
    }

    fn add_polygon(&mut self, polygon: &Polygon<f64>) {
        let number = self.polygons;
        self.polygons += 1;
        self.add_ring(polygon.exterior(), number, 1.0);
        for hole in polygon.interiors() {
            self.add_ring(hole, number, -1.0);
        }
    }

    /// Adds a ring so that the polygon is on its left. `turn`: positive for a shell, negative for a hole.
    fn add_ring(&mut self, ring: &LineString<f64>, polygon: u32, turn: f64) {
        let mut positions = distinct(ring);
        if positions.len() == 1 {
            self.points.push(positions[0]);
        }
        if positions.len() < 2 {
            return;
        }
        if turn_of(&positions) * turn < 0.0 {
            positions.reverse();
        }
        self.add_chain(ChainKind::Ring(polygon), &positions);
    }

    fn add_chain(&mut self, kind: ChainKind, positions: &[Coord<f64>]) {
        let chain = self.chains.len();
        self.chains.push(Chain { kind, start: positions[0] });
        self.edges.reserve(positions.len());
        self.edges.extend(positions.windows(2).map(|ends| Edge::of_chain(ends[0], ends[1], chain)));
    }

    fn finish(mut self) -> Prepared {
        self.points.sort_by(by_x_then_y);
        self.points.dedup();
        sort_into_tiles(&mut self.points);
        let dimension = match () {
            () if self.polygons > 0 && self.chains.iter().any(|chain| chain.kind != ChainKind::Line) => {
                Some(2)
            }
            () if !self.chains.is_empty() => Some(1),
            () if !self.points.is_empty() => Some(0),
            () => None,
        };
        let overlaps_itself = self.in_collection && dimension == Some(2);
        self.edges.extend(self.points.iter().map(|at| Edge::point(*at)));
        let tree = EdgeTree::new(self.edges);
        let bounds = tree.bounds();
        let line_ends = odd(self.line_ends);
        Prepared {
            tree,
            chains: self.chains,
            line_ends,
            points: self.points,
            bounds,
            dimension,
            overlaps_itself,
        }
    }
}

/// -0 and 0 are one coordinate.
fn unsigned_zero(at: Coord<f64>) -> Coord<f64> {
    Coord { x: at.x + 0.0, y: at.y + 0.0 }
}

/// The positions without repetitions of their predecessor.
fn distinct(line: &LineString<f64>) -> Vec<Coord<f64>> {
    let mut positions: Vec<_> = line.coords().map(|at| unsigned_zero(*at)).collect();
    positions.dedup();
    positions
}

/// The order of x, and of y where x is equal.
pub(crate) fn by_x_then_y(one: &Coord<f64>, other: &Coord<f64>) -> std::cmp::Ordering {
    one.x.total_cmp(&other.x).then(one.y.total_cmp(&other.y))
}

/// The positions that occur an odd number of times, in order.
fn odd(mut positions: Vec<Coord<f64>>) -> Vec<Coord<f64>> {
    positions.sort_by(by_x_then_y);
    positions
        .chunk_by(|one, other| one == other)
        .filter(|equal| equal.len() % 2 == 1)
        .map(|of| of[0])
        .collect()
}

/// Sorts points, which are in the order of x, so that neighbours in the order are near each other: by y in strips of x.
fn sort_into_tiles(points: &mut [Coord<f64>]) {
    let strip = (points.len() as f64).sqrt().ceil() as usize * 3;
    for points in points.chunks_mut(strip.max(1)) {
        points.sort_by(|one, other| one.y.total_cmp(&other.y).then(one.x.total_cmp(&other.x)));
    }
}

/// Positive if the ring turns to the left, negative if it turns to the right: decided at its least position, where a
/// simple ring is convex.
fn turn_of(ring: &[Coord<f64>]) -> f64 {
    let corners = &ring[1..];
    let Some(least) = (0..corners.len()).min_by(|one, other| by_x_then_y(&corners[*one], &corners[*other]))
    else {
        return 0.0;
    };
    let before = corners[(least + corners.len() - 1) % corners.len()];
    let after = corners[(least + 1) % corners.len()];
    match side(before, corners[least], after) {
        0.0 => doubled_area(ring),
        turn => turn,
    }
}

/// Twice the signed area: positive if the ring turns to the left.
fn doubled_area(ring: &[Coord<f64>]) -> f64 {
    let origin = ring[0];
    let cross = |ends: &[Coord<f64>]| {
        (ends[0].x - origin.x) * (ends[1].y - origin.y) - (ends[1].x - origin.x) * (ends[0].y - origin.y)
    };
    ring.windows(2).map(cross).sum()
}
