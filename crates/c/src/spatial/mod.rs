//! Spatial indexes: rectangles with numbers.

#[allow(unsafe_code)]
mod sys;

pub use sys::*;

use crate::async_cell::AsyncCell;
use crate::code::{
    FW_CONTAINS, FW_COORDINATES_DEGREES, FW_COORDINATES_PLANAR, FW_COORDINATES_UNSTATED, FW_END,
    FW_INTERSECTS, FW_NOT_FOUND, FW_OK, FW_WITHIN,
};
use crate::failure::{CallResult, Failure};
use farwood::spatial::{
    AsyncSpatial, CoordinateSystem, Item, Near, Query, RTree, Rectangle, Relation, Spatial,
};
use std::ffi::c_void;
use std::sync::Arc;
use std::vec;

/// A spatial index. Any number of threads may use it.
pub struct FwSpatial {
    spatial: Arc<Spatial>,
    /// The handle of sessions, once there was one.
    asynchronous: AsyncCell<AsyncSpatial>,
}

/// Items that a search has found. One thread at a time may use it.
pub struct FwItems(vec::IntoIter<Found>);

/// An item, and the square of its distance; 0 for a search of a window.
struct Found {
    item: FwItem,
    distance_squared: f64,
}

/// A rectangle. Its edges are finite numbers, and belong to it.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FwRect {
    /// The least x.
    pub x_min: f64,
    /// The least y.
    pub y_min: f64,
    /// The greatest x, at least `x_min`.
    pub x_max: f64,
    /// The greatest y, at least `y_min`.
    pub y_max: f64,
}

/// A rectangle with a number that the caller chooses. Several items may have equal rectangles, numbers, or both.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FwItem {
    /// The rectangle.
    pub bounds: FwRect,
    /// The number.
    pub id: u64,
}

/// The options of a spatial index. Create it with `fw_spatial_options_default`, or set all bytes to 0 and `size` to
/// `sizeof(fw_spatial_options)`. A field that is 0 has its default.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct FwSpatialOptions {
    /// The size of this struct in bytes.
    pub size: usize,
    /// The largest size of a node in bytes, 384 to 20,544; the default is 1,984.
    pub node_bytes: u64,
    /// The memory node of the tree.
    pub memory_node: u32,
    /// The meaning of the coordinates, such as `FW_COORDINATES_PLANAR`.
    pub coordinates: i32,
}

/// Receives an item. A result other than 0 ends the call with `FW_STOPPED`.
pub type FwItemFn = Option<extern "C" fn(context: *mut c_void, item: &FwItem) -> i32>;

impl FwSpatialOptions {
    fn rtree(&self) -> CallResult<RTree> {
        let coordinates = match self.coordinates {
            FW_COORDINATES_UNSTATED => CoordinateSystem::Unstated,
            FW_COORDINATES_PLANAR => CoordinateSystem::Planar,
            FW_COORDINATES_DEGREES => CoordinateSystem::Degrees,
            other => return Err(Failure::argument(format!("there is no coordinate system {other}"))),
        };
        let node = u16::try_from(self.memory_node);
        let node = node.map_err(|_| Failure::argument("fw_spatial_options.memory_node exceeds 255"))?;
        let options = RTree::new().coordinates(coordinates).memory_node(node);
        Ok(match self.node_bytes {
            0 => options,
            bytes => options.node_bytes(bytes as usize),
        })
    }
}

impl FwRect {
    pub(crate) fn rectangle(&self) -> CallResult<Rectangle> {
        let made = Rectangle::new([self.x_min, self.y_min], [self.x_max, self.y_max]);
        made.map_err(|why| Failure::argument(why.to_string()))
    }
}

impl FwItem {
    pub(crate) fn item(&self) -> CallResult<Item> {
        Ok(Item { bounds: self.bounds.rectangle()?, id: self.id })
    }
}

impl From<Item> for FwItem {
    fn from(item: Item) -> Self {
        let ([x_min, y_min], [x_max, y_max]) = (item.bounds.min(), item.bounds.max());
        Self { bounds: FwRect { x_min, y_min, x_max, y_max }, id: item.id }
    }
}

fn items_of(given: &[FwItem]) -> CallResult<Vec<Item>> {
    given.iter().map(FwItem::item).collect()
}

/// The query of a window.
pub(crate) fn query_of(window: &FwRect, relation: i32) -> CallResult<Query> {
    let relation = match relation {
        FW_INTERSECTS => Relation::Intersects,
        FW_WITHIN => Relation::Within,
        FW_CONTAINS => Relation::Contains,
        other => return Err(Failure::argument(format!("there is no relation {other}"))),
    };
    Ok(Query { window: window.rectangle()?, relation })
}

impl FwSpatial {
    fn of(spatial: Spatial) -> Self {
        Self { spatial: Arc::new(spatial), asynchronous: AsyncCell::new() }
    }

    /// The handle of sessions. The first call starts the thread of the pool.
    pub(crate) fn to_async(&self) -> CallResult<AsyncSpatial> {
        self.asynchronous.get(|| Ok(self.spatial.to_async()?))
    }

    /// Closes the handle. Operations of sessions that have begun end before.
    fn close(self) {
        let started = self.asynchronous.into_inner();
        let finished = started.as_ref().map(AsyncSpatial::finished);
        drop((started, self.spatial));
        if let Some(finished) = finished {
            farwood::runtime::block_on(finished);
        }
    }

    /// Removes items; returns a status for each.
    fn remove_many(&self, items: &[FwItem]) -> CallResult<Vec<i32>> {
        let found = self.spatial.remove_many(&items_of(items)?)?;
        Ok(found.iter().map(|&found| if found { FW_OK } else { FW_NOT_FOUND }).collect())
    }

    /// Gives an item other bounds.
    fn move_to(&self, item: &FwItem, bounds: &FwRect) -> CallResult {
        let (item, bounds) = (item.item()?, bounds.rectangle()?);
        let found = self.spatial.change(|editor| editor.update(&item, bounds))?;
        Ok(if found { FW_OK } else { FW_NOT_FOUND })
    }
}

impl FwItems {
    pub(crate) fn of_search(found: Vec<Item>) -> Self {
        let found = found.into_iter().map(|item| Found { item: item.into(), distance_squared: 0.0 });
        Self(found.collect::<Vec<_>>().into_iter())
    }

    pub(crate) fn of_nearest(found: Vec<Near>) -> Self {
        let found = found
            .into_iter()
            .map(|Near { item, distance_squared }| Found { item: item.into(), distance_squared });
        Self(found.collect::<Vec<_>>().into_iter())
    }

    /// Passes the next item to `receive`.
    fn advance(&mut self, receive: impl FnOnce(Found)) -> i32 {
        match self.0.next() {
            Some(found) => {
                receive(found);
                FW_OK
            }
            None => FW_END,
        }
    }
}
