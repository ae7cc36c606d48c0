//! Objects of GeoJSON: the members that state where a feature is. Other members are foreign (RFC 7946 §6.1), and are
//! passed over.

use super::coordinates::Coordinates;
use super::feature::{self, Geometry};
use super::underflow;
use crate::load::found::Placed;
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::Value;
use serde_json::value::RawValue;
use std::fmt;

/// The receiver of the features of a text.
pub(super) trait FeatureSink {
    /// Takes the next feature.
    fn add(&mut self, placed: Placed) -> Result<(), LoadEnded>;

    /// Whether it stores geometries and properties.
    fn keeps_contents(&self) -> bool;
}

/// The texts of members of a feature.
#[derive(Default)]
pub(super) struct Kept {
    /// Its numbers that become 0 in 64 bits are strings.
    pub(super) geometry: Option<String>,
    pub(super) properties: Option<Box<RawValue>>,
}

/// The sink takes no more features.
pub(super) struct LoadEnded;

/// The members of an object that GeoJSON defines.
#[derive(Default)]
pub(super) struct Members {
    pub(super) kind: Option<Value>,
    pub(super) id: Option<Value>,
    pub(super) bbox: Option<Value>,
    /// The geometry of a feature; `None` for null.
    pub(super) geometry: Option<Result<Option<Geometry>, String>>,
    pub(super) coordinates: Option<Coordinates>,
    /// The geometries of a collection, joined.
    pub(super) geometries: Option<Result<Geometry, String>>,
    /// Whether the features of a collection were an array.
    features: Option<Result<(), String>>,
    /// The members whose texts are stored.
    pub(super) kept: Option<Kept>,
    /// The name of a member that occurs twice.
    pub(super) repeated: Option<String>,
}

/// A JSON value that must be an object: its members, `None` for null, or the reason for refusing it.
pub(super) type Object = Result<Option<Members>, String>;

/// Reads a GeoJSON text into a sink: the features of a collection, or the only feature or geometry.
pub(super) struct Document<'s>(pub(super) &'s mut dyn FeatureSink);

impl<'de> DeserializeSeed<'de> for Document<'_> {
    /// The reason for refusing the whole text.
    type Value = Result<(), String>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        let object = deserializer
            .deserialize_any(ObjectVisitor { keeps: self.0.keeps_contents(), sink: Some(&mut *self.0) })?;
        let Ok(Some(mut members)) = object else {
            return Ok(Err("it is not GeoJSON: it must be an object with a type".to_owned()));
        };
        let features = members.features.take();
        let kind = members.kind.as_ref().and_then(Value::as_str).map(str::to_owned);
        match (kind.as_deref(), features) {
            (None, _) => Ok(Err("it is not GeoJSON: it must be an object with a type".to_owned())),
            (Some("FeatureCollection"), None) => Ok(Err("the collection has no features member".to_owned())),
            (Some("FeatureCollection"), Some(features)) => {
                Ok(features.and_then(|()| members.unique().map(drop)))
            }
            (Some(kind), Some(_)) => Ok(Err(format!("it has features, and its type is {kind}"))),
            (Some(kind), None) if !feature::is_type(kind) => {
                Ok(Err(format!("it is not GeoJSON: its type is '{kind}'")))
            }
            (Some(_), None) => {
                self.0.add(feature::placed(Ok(Some(members)))).map_err(ended)?;
                Ok(Ok(()))
            }
        }
    }
}

fn ended<E: serde::de::Error>(_: LoadEnded) -> E {
    E::custom("the load has ended")
}

impl Members {
    /// The members, unless one occurs twice.
    pub(super) fn unique(self) -> Result<Self, String> {
        match self.repeated {
            Some(name) => Err(format!("the member '{name}' occurs twice")),
            None => Ok(self),
        }
    }
}

/// An object without a sink for features.
struct Nested(Object);

impl<'de> Deserialize<'de> for Nested {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ObjectVisitor { sink: None, keeps: false }).map(Self)
    }
}

/// An object of an array; its geometry and properties are kept if the field says so.
struct Element(bool);

impl<'de> DeserializeSeed<'de> for Element {
    type Value = Object;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Object, D::Error> {
        deserializer.deserialize_any(ObjectVisitor { sink: None, keeps: self.0 })
    }
}

/// Reads an object.
struct ObjectVisitor<'s> {
    /// Receives the member `features`.
    sink: Option<&'s mut dyn FeatureSink>,
    /// Whether the texts of geometry and properties are kept.
    keeps: bool,
}

fn not_an_object<T>(what: impl fmt::Display) -> Result<T, String> {
    Err(format!("it is {what}, and not an object"))
}

impl<'de> Visitor<'de> for ObjectVisitor<'_> {
    type Value = Object;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_f64<E>(self, number: f64) -> Result<Object, E> {
        Ok(not_an_object(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Object, E> {
        Ok(not_an_object(number))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Object, E> {
        Ok(not_an_object(number))
    }

    fn visit_str<E>(self, _: &str) -> Result<Object, E> {
        Ok(not_an_object("a string"))
    }

    fn visit_unit<E>(self) -> Result<Object, E> {
        Ok(Ok(None))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Object, A::Error> {
        while elements.next_element::<IgnoredAny>()?.is_some() {}
        Ok(not_an_object("an array"))
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Object, A::Error> {
        let mut members = Members { kept: self.keeps.then(Kept::default), ..Members::default() };
        while let Some(name) = map.next_key::<String>()? {
            let repeats = match (name.as_str(), &mut self.sink) {
                ("type", _) => members.kind.replace(map.next_value()?).is_some(),
                ("id", _) => members.id.replace(map.next_value()?).is_some(),
                ("bbox", _) if self.keeps => {
                    let text: Box<RawValue> = map.next_value()?;
                    let bbox = serde_json::from_str(&underflow::filtered_text(text.get()));
                    members.bbox.replace(bbox.map_err(A::Error::custom)?).is_some()
                }
                ("bbox", _) => members.bbox.replace(map.next_value()?).is_some(),
                ("coordinates", _) => members.coordinates.replace(map.next_value()?).is_some(),
                ("properties", _) if self.keeps => {
                    let text = map.next_value()?;
                    members.kept.as_mut().is_some_and(|kept| kept.properties.replace(text).is_some())
                }
                ("geometry", _) => {
                    let Nested(object) = match &mut members.kept {
                        Some(kept) => {
                            let text: Box<RawValue> = map.next_value()?;
                            let text = underflow::filtered_text(text.get());
                            let nested = serde_json::from_str(&text).map_err(A::Error::custom)?;
                            kept.geometry = Some(text);
                            nested
                        }
                        None => map.next_value()?,
                    };
                    members.geometry.replace(feature::geometry_or_null(object)).is_some()
                }
                ("geometries", _) => {
                    let geometries = map.next_value_seed(ArrayVisitor(Joined(Ok(None))))?;
                    members.geometries.replace(geometries).is_some()
                }
                ("features", Some(sink)) => {
                    let features = map.next_value_seed(ArrayVisitor(Features(&mut **sink)))?;
                    members.features.replace(features).is_some()
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    false
                }
            };
            if repeats {
                members.repeated.get_or_insert(name);
            }
        }
        Ok(Ok(Some(members)))
    }
}

/// The receiver of the objects of an array.
trait Objects {
    /// The result for the whole array.
    type Output;

    /// Whether the texts of geometries and properties are kept.
    fn keeps(&self) -> bool {
        false
    }

    /// Takes the next object.
    fn add(&mut self, object: Object) -> Result<(), LoadEnded>;

    /// Ends the array.
    fn finish(self) -> Result<Self::Output, String>;
}

/// Features, which go to the sink.
struct Features<'s>(&'s mut dyn FeatureSink);

impl Objects for Features<'_> {
    type Output = ();

    fn keeps(&self) -> bool {
        self.0.keeps_contents()
    }

    fn add(&mut self, object: Object) -> Result<(), LoadEnded> {
        self.0.add(feature::placed(object))
    }

    fn finish(self) -> Result<(), String> {
        Ok(())
    }
}

/// Geometries of a collection, which become one.
struct Joined(Result<Option<Geometry>, String>);

impl Objects for Joined {
    type Output = Geometry;

    fn add(&mut self, object: Object) -> Result<(), LoadEnded> {
        let all = std::mem::replace(&mut self.0, Ok(None));
        self.0 = all.and_then(|all| feature::joined(all, object).map(Some));
        Ok(())
    }

    fn finish(self) -> Result<Geometry, String> {
        self.0?.ok_or_else(|| "the collection has no geometries".to_owned())
    }
}

/// Reads an array of objects.
struct ArrayVisitor<O>(O);

impl<'de, O: Objects> DeserializeSeed<'de> for ArrayVisitor<O> {
    type Value = Result<O::Output, String>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

/// The reason for refusing a member that must be an array.
fn not_an_array<T>() -> Result<T, String> {
    Err("the features or geometries are not an array".to_owned())
}

impl<'de, O: Objects> Visitor<'de> for ArrayVisitor<O> {
    type Value = Result<O::Output, String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of objects")
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(not_an_array())
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(not_an_array())
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(not_an_array())
    }

    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(not_an_array())
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(not_an_array())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(not_an_array())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut elements: A) -> Result<Self::Value, A::Error> {
        while let Some(object) = elements.next_element_seed(Element(self.0.keeps()))? {
            self.0.add(object).map_err(|_| A::Error::custom("the load has ended"))?;
        }
        Ok(self.0.finish())
    }
}
