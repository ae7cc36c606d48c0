//! The operations of a session, as futures of their outcomes.

use crate::caller::required;
use crate::code::{
    FW_EXISTS, FW_MISMATCH, FW_NOT_FOUND, FW_OK, FW_OP_COMPARE_EXCHANGE, FW_OP_FETCH_ADD, FW_OP_GET,
    FW_OP_INSERT, FW_OP_ITEM_INSERT, FW_OP_ITEM_MOVE, FW_OP_ITEM_REMOVE, FW_OP_NEAREST, FW_OP_PUT,
    FW_OP_REMOVE, FW_OP_SCAN, FW_OP_SEARCH, FW_OP_UPDATE, FW_REPLACED,
};
use crate::failure::{CallResult, Failure};
use crate::index::{Encoding, FwIndex, number_of};
use crate::scan::{FwScan, GivenRange, ScanBounds};
use crate::spatial::{FwItem, FwItems, FwRect, FwSpatial, query_of};
use std::pin::Pin;

/// An operation in flight.
pub(super) type RunningOp = Pin<Box<dyn Future<Output = CallResult<Finished>> + Send>>;

/// The result of an operation.
pub(super) struct Finished {
    pub(super) status: i32,
    pub(super) value: Option<Vec<u8>>,
    pub(super) before: i64,
    pub(super) scan: Option<Box<FwScan>>,
    pub(super) items: Option<Box<FwItems>>,
}

/// The arguments of an operation on an ordered index.
#[derive(Default)]
pub(super) struct Arguments<'a> {
    pub(super) code: i32,
    pub(super) key: &'a [u8],
    pub(super) value: Option<&'a [u8]>,
    pub(super) expected: Option<&'a [u8]>,
    pub(super) range: GivenRange<'a>,
    pub(super) number: i64,
}

impl Finished {
    fn of(status: i32) -> Self {
        Self { status, value: None, before: 0, scan: None, items: None }
    }

    fn with_items(items: FwItems) -> Self {
        Self { items: Some(Box::new(items)), ..Self::of(FW_OK) }
    }

    fn with_value(status: i32, value: &[u8], encoding: Encoding) -> Self {
        Self { value: Some(encoding.shown(value).to_vec()), ..Self::of(status) }
    }
}

/// The arguments of an operation on a spatial index.
pub(super) struct SpatialArguments<'a> {
    pub(super) code: i32,
    pub(super) item: Option<&'a FwItem>,
    pub(super) bounds: Option<&'a FwRect>,
    pub(super) number: i64,
}

/// A future of a status that depends on the answer of the library.
fn status(
    answer: impl Future<Output = farwood::Result<bool>> + Send + 'static,
    [met, unmet]: [i32; 2],
) -> RunningOp {
    Box::pin(async move { Ok(Finished::of(if answer.await? { met } else { unmet })) })
}

/// Begins an operation on a spatial index.
pub(super) fn begin_spatial(spatial: &FwSpatial, arguments: &SpatialArguments<'_>) -> CallResult<RunningOp> {
    let &SpatialArguments { code, item, bounds, number } = arguments;
    let item = || required(item, "item")?.item();
    let bounds = || required(bounds, "bounds");
    let handle = spatial.to_async()?;
    match code {
        FW_OP_SEARCH => {
            let relation = i32::try_from(number).unwrap_or(i32::MAX);
            let answer = handle.search(&query_of(bounds()?, relation)?);
            Ok(Box::pin(async move { Ok(Finished::with_items(FwItems::of_search(answer.await?))) }))
        }
        FW_OP_NEAREST => {
            let point = [bounds()?.x_min, bounds()?.y_min];
            let count = usize::try_from(number).map_err(|_| Failure::argument("fw_op.number is negative"))?;
            let answer = handle.nearest(point, count);
            Ok(Box::pin(async move { Ok(Finished::with_items(FwItems::of_nearest(answer.await?))) }))
        }
        FW_OP_ITEM_INSERT => {
            let answer = handle.insert(&item()?);
            Ok(status(async move { answer.await.map(|()| true) }, [FW_OK, FW_NOT_FOUND]))
        }
        FW_OP_ITEM_REMOVE => Ok(status(handle.remove(&item()?), [FW_OK, FW_NOT_FOUND])),
        FW_OP_ITEM_MOVE => {
            let answer = handle.update(&item()?, bounds()?.rectangle()?);
            Ok(status(answer, [FW_OK, FW_NOT_FOUND]))
        }
        other => Err(Failure::argument(format!("a spatial index has no operation {other}"))),
    }
}

/// Begins an operation on an ordered index.
pub(super) fn begin(index: &FwIndex, arguments: &Arguments<'_>) -> CallResult<RunningOp> {
    let &Arguments { code, key, value, .. } = arguments;
    let value = value.unwrap_or_default();
    let handle = index.to_async()?;
    match code {
        FW_OP_GET => get(index, key),
        FW_OP_PUT => {
            let (key, value) = (index.key("put", key)?, index.value("put", value)?);
            Ok(status(handle.put(&*key, &*value), [FW_REPLACED, FW_OK]))
        }
        FW_OP_INSERT => {
            let (key, value) = (index.key("insert", key)?, index.value("insert", value)?);
            Ok(status(handle.insert(&*key, &*value), [FW_OK, FW_EXISTS]))
        }
        FW_OP_UPDATE => {
            let (key, value) = (index.key("update", key)?, index.value("update", value)?);
            Ok(status(handle.update(&*key, &*value), [FW_OK, FW_NOT_FOUND]))
        }
        FW_OP_REMOVE => Ok(status(handle.remove(&*index.key("remove", key)?), [FW_OK, FW_NOT_FOUND])),
        FW_OP_COMPARE_EXCHANGE => compare_exchange(index, arguments),
        FW_OP_FETCH_ADD => fetch_add(index, arguments),
        FW_OP_SCAN => scan(index, &arguments.range),
        other => Err(Failure::argument(format!("an ordered index has no operation {other}"))),
    }
}

fn get(index: &FwIndex, key: &[u8]) -> CallResult<RunningOp> {
    let (answer, values) = (index.to_async()?.get(&*index.key("get", key)?), index.values);
    Ok(Box::pin(async move {
        Ok(match answer.await? {
            Some(value) => Finished::with_value(FW_OK, &value, values),
            None => Finished::of(FW_NOT_FOUND),
        })
    }))
}

fn compare_exchange(index: &FwIndex, arguments: &Arguments<'_>) -> CallResult<RunningOp> {
    const OPERATION: &str = "compare exchange";
    let owned = |value: Option<&[u8]>| -> CallResult<Option<Vec<u8>>> {
        value.map(|value| Ok(index.value(OPERATION, value)?.into_owned())).transpose()
    };
    let (expected, new) = (owned(arguments.expected)?, owned(arguments.value)?);
    let key = index.key(OPERATION, arguments.key)?;
    let (answer, values) =
        (index.to_async()?.compare_exchange(&*key, expected.as_ref(), new.as_ref()), index.values);
    Ok(Box::pin(async move {
        Ok(match answer.await? {
            Ok(()) => Finished::of(FW_OK),
            Err(None) => Finished::of(FW_NOT_FOUND),
            Err(Some(current)) => Finished::with_value(FW_MISMATCH, &current, values),
        })
    }))
}

fn fetch_add(index: &FwIndex, &Arguments { key, number: by, .. }: &Arguments<'_>) -> CallResult<RunningOp> {
    let (add, kind) = (index.addition()?, index.values.kind);
    let key = index.key("fetch add", key)?;
    let answer = index.to_async()?.fetch_update(&*key, move |value| Some(add(value, by)));
    Ok(Box::pin(async move {
        let before = number_of(kind, answer.await?.as_ref())?;
        Ok(Finished { before, ..Finished::of(FW_OK) })
    }))
}

fn scan(index: &FwIndex, range: &GivenRange<'_>) -> CallResult<RunningOp> {
    let shown = FwScan::of_entries(index, Vec::new());
    let finished = |scan| Finished { scan: Some(Box::new(scan)), ..Finished::of(FW_OK) };
    let Some(bounds) = ScanBounds::of(index, range)? else {
        return Ok(Box::pin(async move { Ok(finished(shown)) }));
    };
    let handle = index.to_async()?;
    let answer = if range.is_snapshot() {
        handle.snapshot(bounds.keys(), bounds.direction, bounds.limit)
    } else {
        handle.scan(bounds.keys(), bounds.direction, bounds.limit)
    };
    Ok(Box::pin(async move { Ok(finished(shown.with_entries(answer.await?))) }))
}
