//! The exported functions of spatial indexes.

use super::{FwItem, FwItemFn, FwItems, FwRect, FwSpatial, FwSpatialOptions, items_of, query_of};
use crate::caller::{CallerStruct, array, give, required, sized, store, text, write_all};
use crate::code::{FW_NOT_FOUND, FW_OK, FW_STOPPED};
use crate::failure::guard;
use crate::pool::FwPool;
use std::ffi::{c_char, c_void};
use std::mem::MaybeUninit;

// SAFETY: the fields are integers, for which every sequence of bytes is a value.
unsafe impl CallerStruct for FwSpatialOptions {}

/// Creates a spatial index and opens it. `options` may be NULL.
///
/// # Safety
/// The arguments are as stated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_spatial_create(
    pool: Option<&FwPool>,
    name: *const c_char,
    options: *const FwSpatialOptions,
    spatial: Option<&mut MaybeUninit<*mut FwSpatial>>,
) -> i32 {
    guard(|| {
        let (pool, out) = (required(pool, "pool")?, required(spatial, "spatial")?);
        // SAFETY: the caller promises a text.
        let name = unsafe { text(name, "name") }?;
        // SAFETY: the caller promises a struct with its size, or null.
        let options = unsafe { sized(options, "options") }?;
        give(out, FwSpatial::of(pool.0.create_spatial(name, &options.rtree()?)?));
        Ok(FW_OK)
    })
}

/// Opens a spatial index.
///
/// # Safety
/// The arguments are as stated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_spatial_open(
    pool: Option<&FwPool>,
    name: *const c_char,
    spatial: Option<&mut MaybeUninit<*mut FwSpatial>>,
) -> i32 {
    guard(|| {
        let (pool, out) = (required(pool, "pool")?, required(spatial, "spatial")?);
        // SAFETY: the caller promises a text.
        let name = unsafe { text(name, "name") }?;
        give(out, FwSpatial::of(pool.0.open_spatial(name)?));
        Ok(FW_OK)
    })
}

/// Closes a handle of a spatial index; NULL is permitted. The process has the index open until it closes the pool and
/// all indexes of it. The call waits for operations of sessions on the handle that have begun.
#[unsafe(no_mangle)]
pub extern "C" fn fw_spatial_close(spatial: Option<Box<FwSpatial>>) -> i32 {
    guard(|| {
        if let Some(spatial) = spatial {
            spatial.close();
        }
        Ok(FW_OK)
    })
}

/// Adds an item. A process that serves the index makes the change; in shared memory this process makes it if there is
/// none. Use `fw_spatial_insert_many` for many items.
#[unsafe(no_mangle)]
pub extern "C" fn fw_spatial_insert(spatial: Option<&FwSpatial>, item: Option<&FwItem>) -> i32 {
    guard(|| {
        required(spatial, "spatial")?.spatial.insert(&required(item, "item")?.item()?)?;
        Ok(FW_OK)
    })
}

/// Removes one item with this rectangle and number. Returns `FW_NOT_FOUND` if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn fw_spatial_remove(spatial: Option<&FwSpatial>, item: Option<&FwItem>) -> i32 {
    guard(|| {
        let found = required(spatial, "spatial")?.spatial.remove(&required(item, "item")?.item()?)?;
        Ok(if found { FW_OK } else { FW_NOT_FOUND })
    })
}

/// Moves an item to other bounds in one atomic step. Returns `FW_NOT_FOUND` if there is no item with its rectangle and
/// number.
#[unsafe(no_mangle)]
pub extern "C" fn fw_spatial_move(
    spatial: Option<&FwSpatial>,
    item: Option<&FwItem>,
    bounds: Option<&FwRect>,
) -> i32 {
    guard(|| {
        let (item, bounds) = (required(item, "item")?, required(bounds, "bounds")?);
        required(spatial, "spatial")?.move_to(item, bounds)
    })
}

/// Adds `count` items in batches, each of which is one change of the index.
///
/// # Safety
/// The arguments are as stated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_spatial_insert_many(
    spatial: Option<&FwSpatial>,
    items: *const FwItem,
    count: usize,
) -> i32 {
    guard(|| {
        // SAFETY: the caller promises `count` items.
        let items = items_of(unsafe { array(items, count, "items") }?)?;
        required(spatial, "spatial")?.spatial.insert_many(&items)?;
        Ok(FW_OK)
    })
}

/// Removes `count` items in batches. `statuses[i]` receives `FW_OK` or `FW_NOT_FOUND`; `statuses` may be NULL.
///
/// # Safety
/// The arguments are as stated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_spatial_remove_many(
    spatial: Option<&FwSpatial>,
    items: *const FwItem,
    count: usize,
    statuses: *mut i32,
) -> i32 {
    guard(|| {
        // SAFETY: the caller promises `count` items.
        let items = unsafe { array(items, count, "items") }?;
        let found = required(spatial, "spatial")?.remove_many(items)?;
        // SAFETY: the caller promises memory for `count` statuses, or null.
        unsafe { write_all(&found, statuses) };
        Ok(FW_OK)
    })
}

/// Loads `count` items into an empty index. `fill_factor` is the part of a node that is filled, 0.5 to 1; 0 stands for
/// 0.8. In shared memory no other process may serve the index; over TCP a process must.
///
/// # Safety
/// The arguments are as stated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_spatial_bulk_load(
    spatial: Option<&FwSpatial>,
    items: *const FwItem,
    count: usize,
    fill_factor: f64,
) -> i32 {
    guard(|| {
        // SAFETY: the caller promises `count` items.
        let items = items_of(unsafe { array(items, count, "items") }?)?;
        let fill_factor = if fill_factor == 0.0 { 0.8 } else { fill_factor };
        required(spatial, "spatial")?.spatial.bulk_load(&items, fill_factor)?;
        Ok(FW_OK)
    })
}

/// Finds the items whose rectangles have the relation `FW_INTERSECTS`, `FW_WITHIN` or `FW_CONTAINS` to the window, as
/// of one moment during the call, in no particular order.
#[unsafe(no_mangle)]
pub extern "C" fn fw_spatial_search(
    spatial: Option<&FwSpatial>,
    window: Option<&FwRect>,
    relation: i32,
    items: Option<&mut MaybeUninit<*mut FwItems>>,
) -> i32 {
    guard(|| {
        let out = required(items, "items")?;
        let query = query_of(required(window, "window")?, relation)?;
        give(out, FwItems::of_search(required(spatial, "spatial")?.spatial.search(&query)?));
        Ok(FW_OK)
    })
}

/// Passes the items that `fw_spatial_search` would find to `receive`.
#[unsafe(no_mangle)]
pub extern "C" fn fw_spatial_search_each(
    spatial: Option<&FwSpatial>,
    window: Option<&FwRect>,
    relation: i32,
    receive: FwItemFn,
    context: *mut c_void,
) -> i32 {
    guard(|| {
        let receive = required(receive, "receive")?;
        let query = query_of(required(window, "window")?, relation)?;
        let found = required(spatial, "spatial")?.spatial.search(&query)?;
        let is_stopped = found.into_iter().any(|item| receive(context, &item.into()) != 0);
        Ok(if is_stopped { FW_STOPPED } else { FW_OK })
    })
}

/// Counts the items that `fw_spatial_search` would find.
#[unsafe(no_mangle)]
pub extern "C" fn fw_spatial_count(
    spatial: Option<&FwSpatial>,
    window: Option<&FwRect>,
    relation: i32,
    count: Option<&mut MaybeUninit<u64>>,
) -> i32 {
    guard(|| {
        let query = query_of(required(window, "window")?, relation)?;
        store(count, required(spatial, "spatial")?.spatial.count(&query)?);
        Ok(FW_OK)
    })
}

/// Finds the `count` items whose rectangles are nearest to a point, nearest first.
#[unsafe(no_mangle)]
pub extern "C" fn fw_spatial_nearest(
    spatial: Option<&FwSpatial>,
    x: f64,
    y: f64,
    count: usize,
    items: Option<&mut MaybeUninit<*mut FwItems>>,
) -> i32 {
    guard(|| {
        let out = required(items, "items")?;
        give(out, FwItems::of_nearest(required(spatial, "spatial")?.spatial.nearest([x, y], count)?));
        Ok(FW_OK)
    })
}

/// Stores the next item, and the square of its distance from the point of `fw_spatial_nearest` (0 for a search of a
/// window). Returns `FW_END` if there is none. Each pointer may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn fw_items_next(
    items: Option<&mut FwItems>,
    item: Option<&mut MaybeUninit<FwItem>>,
    distance_squared: Option<&mut MaybeUninit<f64>>,
) -> i32 {
    guard(|| {
        Ok(required(items, "items")?.advance(|found| {
            store(item, found.item);
            store(distance_squared, found.distance_squared);
        }))
    })
}

/// Stores the number of items that `fw_items_next` has not returned.
#[unsafe(no_mangle)]
pub extern "C" fn fw_items_left(items: Option<&FwItems>, count: Option<&mut MaybeUninit<usize>>) -> i32 {
    guard(|| {
        store(count, required(items, "items")?.0.len());
        Ok(FW_OK)
    })
}

/// Closes the items; NULL is permitted.
#[unsafe(no_mangle)]
pub extern "C" fn fw_items_close(items: Option<Box<FwItems>>) -> i32 {
    guard(|| {
        drop(items);
        Ok(FW_OK)
    })
}
