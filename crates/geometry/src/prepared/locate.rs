//! The location of a point: inside a geometry, on its boundary or outside.

use geo_types::Coord;

use crate::bounds::Bounds;
use crate::orientation::{is_on, side};
use crate::relate::location_at_node;

use super::{ChainKind, Edge, Prepared, by_x_then_y};

/// A location of the nine-intersection model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Location {
    Interior,
    Boundary,
    Exterior,
}

impl Prepared {
    /// The location of `at`. Polygons take precedence over lines, and lines over points; the boundary of lines are the
    /// positions at which an odd number of them ends.
    pub(crate) fn locate(&self, at: Coord<f64>) -> Location {
        if !self.bounds().is_some_and(|bounds| bounds.contains_coord(at)) {
            return Location::Exterior;
        }
        if self.dimension() == Some(2) {
            match self.locate_in_polygons(at) {
                // Two polygons that share an edge contain it in their union.
                Location::Boundary if self.overlaps_itself => return location_at_node(self, at),
                Location::Exterior => {}
                found => return found,
            }
        }
        if self.is_line_end(at) {
            return Location::Boundary;
        }
        let on = |edge: &Edge| {
            edge.chain().is_none_or(|chain| self.chains[chain].kind == ChainKind::Line)
                && is_on(edge.from, edge.to, at)
        };
        let found = self.tree.any(&Bounds::point([at.x, at.y]), &mut |edge| on(&self.tree.edges()[edge]));
        if found { Location::Interior } else { Location::Exterior }
    }

    /// Whether `at` is in the boundary of the lines.
    pub(crate) fn is_line_end(&self, at: Coord<f64>) -> bool {
        self.line_ends.binary_search_by(|end| by_x_then_y(end, &at)).is_ok()
    }

    /// The location of `at` with regard to the polygons alone, by the parity of the edges right of it.
    pub(crate) fn locate_in_polygons(&self, at: Coord<f64>) -> Location {
        if self.overlaps_itself {
            return self.locate_in_polygons_except(at, &[]);
        }
        let mut inside = false;
        let is_on_edge = self.cross_rings(at, &mut |_, hit| match hit {
            Hit::OnEdge => true,
            Hit::Right => {
                inside = !inside;
                false
            }
        });
        match () {
            () if is_on_edge => Location::Boundary,
            () if inside => Location::Interior,
            () => Location::Exterior,
        }
    }

    /// The location of `at` with regard to the polygons except some: interior if it is inside one of them, boundary if
    /// it is on an edge of one and inside none.
    pub(crate) fn locate_in_polygons_except(&self, at: Coord<f64>, except: &[u32]) -> Location {
        let (mut inside, mut on_edge) = (Vec::new(), Vec::new());
        self.cross_rings(at, &mut |polygon, hit| {
            match (hit, inside.iter().position(|one| *one == polygon)) {
                _ if except.contains(&polygon) => {}
                (Hit::OnEdge, _) => on_edge.push(polygon),
                (Hit::Right, Some(position)) => drop(inside.swap_remove(position)),
                (Hit::Right, None) => inside.push(polygon),
            }
            false
        });
        match () {
            () if inside.iter().any(|polygon| !on_edge.contains(polygon)) => Location::Interior,
            () if !on_edge.is_empty() => Location::Boundary,
            () => Location::Exterior,
        }
    }

    /// Whether `test` accepts the polygon of an edge that `at` is on, or that crosses the ray from `at` to the right.
    fn cross_rings(&self, at: Coord<f64>, test: &mut impl FnMut(u32, Hit) -> bool) -> bool {
        let ray = Bounds::new([at.x, at.y], [f64::INFINITY, at.y]);
        self.tree.any(&ray, &mut |edge| {
            let edge = &self.tree.edges()[edge];
            match edge.chain().map(|chain| self.chains[chain].kind) {
                Some(ChainKind::Ring(polygon)) => hit(edge, at).is_some_and(|hit| test(polygon, hit)),
                _ => false,
            }
        })
    }
}

enum Hit {
    /// The point is on the edge.
    OnEdge,
    /// The edge crosses the ray to the right of the point.
    Right,
}

fn hit(edge: &Edge, at: Coord<f64>) -> Option<Hit> {
    let rises = edge.from.y <= at.y && at.y < edge.to.y;
    let falls = edge.to.y <= at.y && at.y < edge.from.y;
    if at.x < edge.from.x.min(edge.to.x) {
        return (rises || falls).then_some(Hit::Right);
    }
    let side = side(edge.from, edge.to, at);
    if side == 0.0 {
        return edge.bounds().contains_coord(at).then_some(Hit::OnEdge);
    }
    (rises && side > 0.0 || falls && side < 0.0).then_some(Hit::Right)
}
