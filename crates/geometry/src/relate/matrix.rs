//! The matrix of the dimensionally extended nine-intersection model, and the predicates that it decides.

use std::fmt;

use crate::prepared::Location;

/// The dimensions in which interior, boundary and exterior of two geometries meet (DE-9IM).
///
/// Printed and read row by row, as in GEOS: `F` for no common point, otherwise the dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntersectionMatrix {
    /// For each pair of locations 0: nothing in common, or the dimension plus 1.
    cells: [[u8; 3]; 3],
}

use Location::{Boundary, Exterior, Interior};

impl IntersectionMatrix {
    /// The matrix of two geometries of which nothing is known yet: the exteriors meet.
    pub(crate) fn unrelated() -> Self {
        let mut matrix = Self { cells: [[0; 3]; 3] };
        matrix.meet([Exterior, Exterior], 2);
        matrix
    }

    /// Records that the two locations meet in a set of this dimension.
    pub(crate) fn meet(&mut self, [a, b]: [Location; 2], dimension: u8) {
        let cell = &mut self.cells[a as usize][b as usize];
        *cell = (*cell).max(dimension + 1);
    }

    fn dimension(&self, a: Location, b: Location) -> Option<u8> {
        self.cells[a as usize][b as usize].checked_sub(1)
    }

    fn meets(&self, a: Location, b: Location) -> bool {
        self.dimension(a, b).is_some()
    }

    /// Whether the geometries have a point in common.
    pub fn is_intersects(&self) -> bool {
        [Interior, Boundary].iter().any(|a| [Interior, Boundary].iter().any(|b| self.meets(*a, *b)))
    }

    /// Whether no point of the first is outside the second, and their interiors meet.
    pub fn is_within(&self) -> bool {
        self.meets(Interior, Interior) && self.is_inside()
    }

    /// Whether no point of the second is outside the first, and their interiors meet.
    pub fn is_contains(&self) -> bool {
        self.transposed().is_within()
    }

    /// Whether no point of the second is outside the first.
    pub fn is_covers(&self) -> bool {
        self.transposed().is_covered_by()
    }

    /// Whether no point of the first is outside the second.
    pub fn is_covered_by(&self) -> bool {
        self.is_intersects() && self.is_inside()
    }

    /// Whether they have points in common, and their interiors have none.
    pub fn is_touches(&self) -> bool {
        self.is_intersects() && !self.meets(Interior, Interior)
    }

    /// Whether their interiors meet in the dimension of both, and each has interior outside the other. `dimensions`:
    /// those of the geometries.
    pub fn is_overlaps(&self, dimensions: [Option<u8>; 2]) -> bool {
        let each_outside = self.meets(Interior, Exterior) && self.meets(Exterior, Interior);
        let meeting = match dimensions {
            [Some(1), Some(1)] => self.dimension(Interior, Interior) == Some(1),
            [a, b] => a == b && self.meets(Interior, Interior),
        };
        meeting && each_outside
    }

    /// Whether the one of lower dimension is partly inside the other's interior and partly outside; lines: whether
    /// their interiors meet in points only. `dimensions`: those of the geometries.
    pub fn is_crosses(&self, dimensions: [Option<u8>; 2]) -> bool {
        match dimensions {
            [Some(1), Some(1)] => self.dimension(Interior, Interior) == Some(0),
            [Some(a), Some(b)] if a < b => self.meets(Interior, Interior) && self.meets(Interior, Exterior),
            [Some(a), Some(b)] if a > b => self.meets(Interior, Interior) && self.meets(Exterior, Interior),
            _ => false,
        }
    }

    /// Whether they consist of the same points. `dimensions`: those of the geometries; two empty ones are equal.
    pub fn is_equals(&self, dimensions: [Option<u8>; 2]) -> bool {
        match dimensions {
            [None, None] => true,
            [a, b] => a == b && self.is_within() && self.is_contains(),
        }
    }

    /// Whether no point of the first is outside the second.
    fn is_inside(&self) -> bool {
        !self.meets(Interior, Exterior) && !self.meets(Boundary, Exterior)
    }

    /// The matrix of the second and the first geometry.
    #[must_use]
    pub fn transposed(&self) -> Self {
        let mut cells = [[0; 3]; 3];
        for (a, row) in self.cells.iter().enumerate() {
            for (b, cell) in row.iter().enumerate() {
                cells[b][a] = *cell;
            }
        }
        Self { cells }
    }
}

impl fmt::Display for IntersectionMatrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cells.iter().flatten().try_for_each(|cell| match cell.checked_sub(1) {
            None => f.write_str("F"),
            Some(dimension) => write!(f, "{dimension}"),
        })
    }
}
