//! The bounds of coordinates, read as a stream.
//!
//! Values that are not coordinates become a reason, and not an error of the parser, so that the parser continues with
//! the next feature. Only true and false are errors of the parser.

use crate::load::shape::Shape;
use crate::search::underflows;
use farwood::spatial::Rectangle;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// The x of the positions nearest to the prime meridian on either side.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Inner {
    /// The least x of 0 or more; infinite: there is none.
    pub(super) east: f64,
    /// The greatest x below 0; infinite: there is none.
    pub(super) west: f64,
}

impl Inner {
    fn of(x: f64) -> Self {
        if x < 0.0 {
            Self { east: f64::INFINITY, west: x }
        } else {
            Self { east: x, west: f64::NEG_INFINITY }
        }
    }

    /// Those of the positions of both.
    pub(super) fn joined(self, other: Self) -> Self {
        Self { east: self.east.min(other.east), west: self.west.max(other.west) }
    }
}

/// Positions of a geometry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Positions {
    /// The nesting depth of the arrays: 1 for one position.
    pub(super) depth: usize,
    /// Its parts are the elements of the outermost array.
    pub(super) shape: Shape,
    pub(super) inner: Inner,
}

/// The coordinates of a geometry, or the reason why they cannot be parsed.
pub(super) struct Coordinates(pub(super) Result<Positions, String>);

impl<'de> Deserialize<'de> for Coordinates {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Element(element) = Element::deserialize(deserializer)?;
        Ok(Self(element.and_then(|part| match part {
            Part::Positions(positions) => Ok(positions),
            Part::Number(number) => Err(format!("the coordinates are the number {number}, and not an array")),
        })))
    }
}

/// A part of coordinates.
#[derive(Debug, PartialEq)]
enum Part {
    Number(f64),
    Positions(Positions),
}

/// An element of an array of coordinates.
struct Element(Result<Part, String>);

impl<'de> Deserialize<'de> for Element {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ElementVisitor).map(Self)
    }
}

struct ElementVisitor;

/// The reason for refusing a value.
fn refused(what: &str) -> Result<Part, String> {
    Err(format!("the coordinates contain {what}"))
}

impl<'de> Visitor<'de> for ElementVisitor {
    type Value = Result<Part, String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("coordinates")
    }

    fn visit_f64<E>(self, number: f64) -> Result<Self::Value, E> {
        Ok(Ok(Part::Number(number)))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
        Ok(Ok(Part::Number(number as f64)))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
        Ok(Ok(Part::Number(number as f64)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        if underflows(text) {
            return Ok(refused(&format!(
                "{text}, which is not 0, and closer to 0 than any number of 64 bits"
            )));
        }
        Ok(refused(&format!("the string '{text}'")))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(refused("null"))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(refused("an object"))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Self::Value, A::Error> {
        let mut array = Ok(Array::Empty);
        while let Some(Element(element)) = elements.next_element()? {
            array = array.and_then(|array| array.with(element?));
        }
        Ok(array.and_then(Array::finish).map(Part::Positions))
    }
}

/// The elements of an array so far.
enum Array {
    Empty,
    /// A position: the numbers, and how many they are.
    Numbers([f64; 3], usize),
    /// Positions, or arrays of them.
    Positions(Positions),
}

impl Array {
    fn with(self, part: Part) -> Result<Self, String> {
        match (self, part) {
            (Self::Empty, Part::Number(number)) => Ok(Self::Numbers([number, 0.0, 0.0], 1)),
            (Self::Numbers(mut numbers, count), Part::Number(number)) => match numbers.get_mut(count) {
                Some(slot) => {
                    *slot = number;
                    Ok(Self::Numbers(numbers, count + 1))
                }
                None => Err("a position has more than 3 numbers".to_owned()),
            },
            (Self::Empty, Part::Positions(one)) => {
                Ok(Self::Positions(Positions { shape: one.shape.as_part(), ..one }))
            }
            (Self::Positions(all), Part::Positions(one)) if all.depth == one.depth => {
                let shape = all.shape.joined(one.shape.as_part());
                Ok(Self::Positions(Positions { shape, inner: all.inner.joined(one.inner), ..all }))
            }
            _ => Err(
                "the coordinates contain positions and numbers in one array, or arrays of different depth"
                    .to_owned(),
            ),
        }
    }

    fn finish(self) -> Result<Positions, String> {
        match self {
            Self::Empty => Err("the geometry has no coordinates, or an empty array among them".to_owned()),
            Self::Numbers([x, ..], 1) => Err(format!("a position has only one number, {x}")),
            Self::Numbers([x, y, _], _) => {
                let bounds = Rectangle::point([x, y]).map_err(|error| error.to_string())?;
                Ok(Positions { depth: 1, shape: Shape::part(bounds), inner: Inner::of(x) })
            }
            Self::Positions(all) => Ok(Positions { depth: all.depth + 1, ..all }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farwood::spatial::CoordinateSystem;

    fn read(text: &str) -> Result<(usize, String), String> {
        let Coordinates(coordinates) = serde_json::from_str(text).unwrap();
        coordinates.map(|positions| {
            (positions.depth, positions.shape.rectangles(CoordinateSystem::Planar).0.to_string())
        })
    }

    #[test]
    fn coordinates_have_bounds_and_a_depth() {
        assert_eq!(read("[1, -2.5]"), Ok((1, "1,-2.5,1,-2.5".to_owned())));
        assert_eq!(read("[[1, 9], [-2, 3, 100]]"), Ok((2, "-2,3,1,9".to_owned())));
        assert_eq!(read("[[[[0,0],[4,5]]],[[[7,1]]]]"), Ok((4, "0,0,7,5".to_owned())));
    }

    #[test]
    fn values_that_are_not_coordinates_are_refused() {
        for (bad, why) in [
            ("[[\"1\",\"2\"],[3,4]]", "the string '1'"),
            ("[[1,2],[null,50],[3,4]]", "null"),
            ("[[1,2],[100]]", "only one number"),
            ("[1,2,3,4]", "more than 3"),
            ("[[1,2],[[3,4]]]", "different depth"),
            ("[[1,2],3]", "in one array"),
            ("[1,[2,3]]", "in one array"),
            ("[]", "no coordinates"),
            ("[[],[[1,2]]]", "empty array"),
            ("[{\"x\":1},{\"y\":2}]", "an object"),
            ("null", "null"),
            ("5", "the number 5"),
        ] {
            assert!(read(bad).unwrap_err().contains(why), "{bad}: {:?}", read(bad));
        }
        assert!(serde_json::from_str::<Coordinates>("[true, 1]").is_err());
    }
}
