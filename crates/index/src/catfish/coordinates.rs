//! The meaning of x and y in an index: degrees of longitude and latitude, or a plane.

use super::tree::rectangle::{InvalidRectangle, Rectangle};
use std::fmt;

/// The largest longitude and latitude, in degrees.
const DEGREES_MAX: [f64; 2] = [180.0, 90.0];

/// The meaning of the coordinates of an index. Its creator states it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CoordinateSystem {
    /// The creator did not state it.
    #[default]
    Unstated,
    /// A plane: x and y have no limits, and no rectangle wraps around.
    Planar,
    /// Degrees: x is a longitude from -180 to 180, y a latitude from -90 to 90, and the meridians 180 and -180 are one.
    Degrees,
}

impl CoordinateSystem {
    /// All coordinate systems, in the order of their numbers in the directory.
    pub const ALL: [Self; 3] = [Self::Unstated, Self::Planar, Self::Degrees];

    /// The name, such as "degrees"; `None`: the coordinate system is not stated.
    pub const fn name(self) -> Option<&'static str> {
        match self {
            Self::Unstated => None,
            Self::Planar => Some("planar"),
            Self::Degrees => Some("degrees"),
        }
    }

    /// Refuses a rectangle with an edge that the coordinate system does not have.
    ///
    /// # Errors
    /// [`OutsideDegrees`].
    #[inline]
    pub fn check(self, bounds: &Rectangle) -> Result<(), OutsideDegrees> {
        if self != Self::Degrees {
            return Ok(());
        }
        [bounds.min(), bounds.max()].into_iter().try_for_each(|corner| self.check_point(corner))
    }

    /// Refuses a point with a coordinate that the coordinate system does not have.
    ///
    /// # Errors
    /// [`OutsideDegrees`].
    #[inline]
    pub fn check_point(self, point: [f64; 2]) -> Result<(), OutsideDegrees> {
        let outside = |axis: &usize| self == Self::Degrees && point[*axis].abs() > DEGREES_MAX[*axis];
        match (0..2).find(outside) {
            None => Ok(()),
            Some(axis) => Err(OutsideDegrees { axis, value: point[axis] }),
        }
    }

    /// The window from `min` to `max`, each x and y. In degrees, a window whose least x is greater than its greatest x
    /// crosses the antimeridian: it is two rectangles, first the part west of the antimeridian.
    ///
    /// # Errors
    /// [`InvalidWindow`]: it is not a rectangle of this coordinate system.
    pub fn window(
        self,
        min: [f64; 2],
        max: [f64; 2],
    ) -> Result<(Rectangle, Option<Rectangle>), InvalidWindow> {
        let refused = |source| InvalidWindow::NoRectangle { source, system: self };
        if self != Self::Degrees {
            return Rectangle::new(min, max).map(|window| (window, None)).map_err(refused);
        }
        for corner in [min, max] {
            self.check_point(corner).map_err(InvalidWindow::Outside)?;
        }
        Rectangle::around_globe(min, max).map_err(refused)
    }
}

impl fmt::Display for CoordinateSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name().unwrap_or("not stated"))
    }
}

/// A coordinate that an index of degrees does not have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OutsideDegrees {
    axis: usize,
    value: f64,
}

impl fmt::Display for OutsideDegrees {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, what) = if self.axis == 0 { ("x", "longitude") } else { ("y", "latitude") };
        let most = DEGREES_MAX[self.axis];
        write!(f, "{name} {} is not a {what} from -{most} to {most}, and the index has degrees", self.value)
    }
}

impl std::error::Error for OutsideDegrees {}

/// Edges that are not a window of an index.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum InvalidWindow {
    /// They are not a rectangle, nor a window across the antimeridian.
    NoRectangle {
        /// The reason.
        source: InvalidRectangle,
        /// The coordinate system of the index.
        system: CoordinateSystem,
    },
    /// A coordinate is outside the degrees.
    Outside(OutsideDegrees),
}

impl fmt::Display for InvalidWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Outside(error) => error.fmt(f),
            Self::NoRectangle { source, system } if source.is_inverted_in_x() => {
                source.write_edges(f)?;
                let whose = match system {
                    CoordinateSystem::Planar => "this index is planar",
                    _ => "this index does not state degrees",
                };
                write!(
                    f,
                    "; give the smaller x first: a window across the antimeridian needs an index that was created with \
                     --crs degrees, and {whose}"
                )
            }
            Self::NoRectangle { source, .. } => source.fmt(f),
        }
    }
}

impl std::error::Error for InvalidWindow {}

#[cfg(test)]
mod tests {
    use super::CoordinateSystem::{Degrees, Planar, Unstated};
    use super::*;

    #[test]
    fn only_a_window_of_degrees_crosses_the_antimeridian() {
        let window = |system: CoordinateSystem| system.window([170.0, 0.0], [-170.0, 1.0]);
        let (west, east) = window(Degrees).unwrap();
        assert_eq!((west.max()[0], east.unwrap().min()[0]), (180.0, -180.0));
        for (system, whose) in [(Planar, "is planar"), (Unstated, "does not state degrees")] {
            let refused = window(system).unwrap_err().to_string();
            assert!(refused.contains("x1 170 is greater than x2 -170"), "{refused}");
            assert!(refused.contains("--crs degrees") && refused.ends_with(whose), "{refused}");
        }
        for system in CoordinateSystem::ALL {
            assert_eq!(system.window([1.0; 2], [2.0; 2]).unwrap().1, None);
            let refused = system.window([1.0, 2.0], [2.0, 1.0]).unwrap_err().to_string();
            assert!(refused.contains("y1 2 is greater than y2 1"), "{refused}");
            assert!(system.window([f64::NAN, 0.0], [1.0; 2]).is_err());
        }
    }

    #[test]
    fn degrees_have_limits_and_a_plane_has_none() {
        for (x, y, is_degrees) in [
            (180.0, 90.0, true),
            (-180.0, -90.0, true),
            (180.5, 0.0, false),
            (0.0, -90.001, false),
            (f64::MAX, f64::MIN, false),
        ] {
            let point = Rectangle::point([x, y]).unwrap();
            assert_eq!(Degrees.check(&point).is_ok(), is_degrees, "{x}, {y}");
            assert_eq!(Degrees.window([x, y], [x, y]).is_ok(), is_degrees, "{x}, {y}");
            assert_eq!((Planar.check(&point), Unstated.check(&point)), (Ok(()), Ok(())));
        }
        let refused = Degrees.check_point([1.0, 91.0]).unwrap_err().to_string();
        assert!(refused.contains("y 91 is not a latitude from -90 to 90"), "{refused}");
        assert!(Degrees.window([170.0, 0.0], [-200.0, 1.0]).is_err(), "wrapped, and outside");
    }
}
