//! The windows in which a filter by bounding boxes finds everything near a box.

use super::Metric;
use super::sphere::EARTH_RADIUS_M;
use crate::bounds::Bounds;

/// A relative margin for rounding.
const MARGIN: f64 = 1e-12;
/// The same for degrees, absolute: less than 1 um.
const MARGIN_DEGREES: f64 = 1e-11;

impl Metric {
    /// One or two windows that the bounding box of each geometry within `distance` of something in `bounds` intersects.
    ///
    /// In metres, a second window covers the other side of the antimeridian, and windows around a pole have all
    /// longitudes; the longitudes of the geometries are from -180 to 180.
    pub fn windows(self, bounds: &Bounds, distance: f64) -> (Bounds, Option<Bounds>) {
        match self {
            Self::Planar => {
                let least = |edge: f64| edge - distance - edge.abs().max(distance) * MARGIN;
                let greatest = |edge: f64| edge + distance + edge.abs().max(distance) * MARGIN;
                (Bounds::new(bounds.min.map(least), bounds.max.map(greatest)), None)
            }
            Self::Sphere => windows_on_sphere(bounds, distance),
        }
    }
}

fn windows_on_sphere(bounds: &Bounds, distance: f64) -> (Bounds, Option<Bounds>) {
    let angle = distance / EARTH_RADIUS_M * (1.0 + MARGIN);
    let degrees = angle.to_degrees() + MARGIN_DEGREES;
    let (south, north) = ((bounds.min[1] - degrees).max(-90.0), (bounds.max[1] + degrees).min(90.0));
    let latitude = bounds.min[1].abs().max(bounds.max[1].abs());
    let window = |west: f64, east: f64| Bounds::new([west, south], [east, north]);
    let all = (window(-180.0, 180.0), None);
    if latitude + degrees >= 90.0 {
        return all;
    }
    // The meridians that touch the circle around a point of the greatest latitude.
    let reach = (angle.sin() / latitude.to_radians().cos()).min(1.0).asin().to_degrees() + MARGIN_DEGREES;
    let (west, east) = (bounds.min[0] - reach, bounds.max[0] + reach);
    match () {
        () if east - west >= 360.0 || reach.is_nan() => all,
        () if west <= -180.0 => (window(west + 360.0, 180.0), Some(window(-180.0, east))),
        () if east >= 180.0 => (window(west, 180.0), Some(window(-180.0, east - 360.0))),
        () => (window(west, east), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_grows_by_the_distance() {
        let (window, second) = Metric::Planar.windows(&Bounds::new([0.0, 1.0], [2.0, 3.0]), 10.0);
        assert!(window.contains(&Bounds::new([-10.0, -9.0], [12.0, 13.0])) && second.is_none());
        assert!(Bounds::new([-10.1, -9.1], [12.1, 13.1]).contains(&window));
    }

    #[test]
    fn windows_on_the_sphere_wrap_at_the_antimeridian_and_widen_at_the_poles() {
        let degree = 1f64.to_radians() * EARTH_RADIUS_M;
        let (east, west) = Metric::Sphere.windows(&Bounds::point([179.5, 60.0]), degree);
        let west = west.expect("the circle crosses the antimeridian");
        // The circle of one degree reaches two degrees of longitude at a latitude of 60.
        assert!((east.min[0] - 177.5).abs() < 0.01 && (east.max[0] - 180.0).abs() < 1e-9, "{east:?}");
        assert!((west.min[0] + 180.0).abs() < 1e-9 && (west.max[0] + 178.5).abs() < 0.01, "{west:?}");
        let (pole, none) = Metric::Sphere.windows(&Bounds::point([10.0, 89.5]), degree);
        assert!(none.is_none() && pole.contains(&Bounds::new([-180.0, 88.51], [180.0, 90.0])), "{pole:?}");
        let (plain, none) = Metric::Sphere.windows(&Bounds::point([10.0, 0.0]), degree);
        assert!(none.is_none() && plain.max[0] < 11.01, "{plain:?}");
    }
}
