//! Spatial indexes.

use crate::errors::closed;
use crate::query_order::along_curve;
use crate::wait::without_gil;
use farwood::spatial::{Editor, Item, Near, Query, Rectangle, SearchSink};
use numpy::{PyArray1, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock};
use std::thread;

/// Rectangles or queries of a call between two checks of signals.
const CHUNK: usize = 1 << 16;
/// The least number of queries of a thread: a thread costs as much as some searches.
const QUERIES_MIN: usize = 64;

type Ids<'py> = Bound<'py, PyArray1<i64>>;

/// A spatial index of rectangles with numbers.
#[pyclass(frozen, subclass, name = "Spatial", module = "farwood._farwood")]
pub(crate) struct SpatialHandle {
    index: RwLock<Option<Arc<farwood::spatial::Spatial>>>,
    url: String,
}

impl SpatialHandle {
    pub(crate) fn new(index: farwood::spatial::Spatial) -> Self {
        let url = index.url();
        Self { index: RwLock::new(Some(Arc::new(index))), url }
    }

    fn handle(&self) -> PyResult<Arc<farwood::spatial::Spatial>> {
        let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
        index.clone().ok_or_else(|| closed("index"))
    }
}

/// The rectangle of `[min x, min y, max x, max y]`.
fn rectangle(corners: [f64; 4]) -> PyResult<Rectangle> {
    let [x0, y0, x1, y1] = corners;
    Rectangle::new([x0, y0], [x1, y1])
        .map_err(|why| PyValueError::new_err(format!("{why}; give (min x, min y, max x, max y)")))
}

/// The rectangles of an array with four columns.
fn rectangles(boxes: &PyReadonlyArray2<'_, f64>) -> PyResult<Vec<Rectangle>> {
    let boxes = boxes.as_array();
    if boxes.ncols() != 4 {
        let text = format!(
            "an array of rectangles has 4 columns (min x, min y, max x, max y), not {}",
            boxes.ncols()
        );
        return Err(PyValueError::new_err(text));
    }
    boxes.rows().into_iter().map(|row| rectangle([row[0], row[1], row[2], row[3]])).collect()
}

fn number(id: i64) -> PyResult<u64> {
    u64::try_from(id).map_err(|_| PyValueError::new_err(format!("id {id}: give 0 to 2**63 - 1")))
}

/// The items of an array of ids and one of rectangles.
fn items(ids: &PyReadonlyArray1<'_, i64>, boxes: &PyReadonlyArray2<'_, f64>) -> PyResult<Vec<Item>> {
    let (ids, bounds) = (ids.as_array(), rectangles(boxes)?);
    if ids.len() != bounds.len() {
        let text =
            format!("{} ids have {} rectangles; give as many rectangles as ids", ids.len(), bounds.len());
        return Err(PyValueError::new_err(text));
    }
    bounds.into_iter().zip(ids).map(|(bounds, &id)| Ok(Item { bounds, id: number(id)? })).collect()
}

/// A position in an array.
fn position(at: usize) -> i64 {
    (at as u64).cast_signed()
}

fn to_python(items: &[Item]) -> Vec<i64> {
    items.iter().map(|item| item.id.cast_signed()).collect()
}

/// The ids that the queries of one thread have found.
#[derive(Default)]
struct FoundIds {
    ids: Vec<i64>,
    /// The position of each query that has found any, and the range of its ids.
    spans: Vec<(usize, Range<usize>)>,
    /// The ids of the queries before the present one.
    begun: usize,
}

impl SearchSink for FoundIds {
    fn restart(&mut self) {
        self.ids.truncate(self.begun);
    }

    fn item(&mut self, item: Item) {
        self.ids.push(item.id.cast_signed());
    }
}

impl FoundIds {
    /// Runs the queries of the rectangles at `positions`.
    fn search(
        index: &farwood::spatial::Spatial,
        rectangles: &[Rectangle],
        positions: &[usize],
    ) -> farwood::Result<Self> {
        let mut found = Self::default();
        for &at in positions {
            found.begun = found.ids.len();
            index.search_into(&Query::intersecting(rectangles[at]), &mut found)?;
            if found.ids.len() > found.begun {
                found.spans.push((at, found.begun..found.ids.len()));
            }
        }
        Ok(found)
    }
}

/// Searches by as many threads as the machine has processors.
fn search_parts(
    index: &farwood::spatial::Spatial,
    rectangles: &[Rectangle],
) -> farwood::Result<Vec<FoundIds>> {
    let positions = along_curve(rectangles);
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let threads = processors.min(rectangles.len() / QUERIES_MIN).max(1);
    if threads == 1 {
        return Ok(vec![FoundIds::search(index, rectangles, &positions)?]);
    }
    thread::scope(|scope| {
        let mut parts = positions.chunks(positions.len().div_ceil(threads));
        let first = parts.next().unwrap_or_default();
        let others: Vec<_> = parts
            .map(|part| {
                let search = || FoundIds::search(index, rectangles, part);
                // The system may refuse a thread.
                thread::Builder::new().spawn_scoped(scope, search).map_err(|_| part)
            })
            .collect();
        let here = FoundIds::search(index, rectangles, first);
        let found_there = others.into_iter().map(|thread| match thread {
            Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(part) => FoundIds::search(index, rectangles, part),
        });
        std::iter::once(here).chain(found_there).collect()
    })
}

/// The ids of all queries in the order of the queries, each with the position of its query.
#[derive(Default)]
struct Pairs {
    positions: Vec<i64>,
    ids: Vec<i64>,
}

impl Pairs {
    /// Adds the ids of `queries` queries, of which `first` is the position of the first.
    fn add(&mut self, found: &[FoundIds], first: usize, queries: usize) {
        let mut by_query: Vec<&[i64]> = vec![&[]; queries];
        for part in found {
            for (at, span) in &part.spans {
                by_query[*at] = &part.ids[span.clone()];
            }
        }
        for (at, ids) in (first..).zip(by_query) {
            self.positions.resize(self.positions.len() + ids.len(), position(at));
            self.ids.extend_from_slice(ids);
        }
    }
}

#[pymethods]
impl SpatialHandle {
    /// Another object of the same index: the package's class derives from it.
    #[new]
    fn of(opened: &Bound<'_, Self>) -> PyResult<Self> {
        let opened = opened.get();
        Ok(Self { index: RwLock::new(Some(opened.handle()?)), url: opened.url.clone() })
    }

    /// The URL of the pool and the name of the index.
    #[getter]
    fn url(&self) -> &str {
        &self.url
    }

    /// Whether `close` was called.
    #[getter]
    fn closed(&self) -> bool {
        self.index.read().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// Closes the index in this process. May be called twice.
    fn close(&self, py: Python<'_>) {
        py.detach(|| {
            let index = self.index.write().unwrap_or_else(PoisonError::into_inner).take();
            drop(index);
        });
    }

    /// The number of rectangles. Reads all leaves.
    #[pyo3(name = "_count_all")]
    fn count_all(&self, py: Python<'_>) -> PyResult<u64> {
        let index = self.handle()?;
        without_gil(py, || index.count_all())
    }

    #[pyo3(name = "_is_empty_now")]
    fn is_empty_now(&self, py: Python<'_>) -> PyResult<bool> {
        let index = self.handle()?;
        without_gil(py, || index.is_empty())
    }

    /// Adds rectangles.
    #[pyo3(name = "_insert_boxes")]
    fn insert_boxes(
        &self,
        py: Python<'_>,
        ids: PyReadonlyArray1<'_, i64>,
        boxes: PyReadonlyArray2<'_, f64>,
    ) -> PyResult<()> {
        let (index, items) = (self.handle()?, items(&ids, &boxes)?);
        for part in items.chunks(CHUNK) {
            without_gil(py, || index.insert_many(part))?;
            py.check_signals()?;
        }
        Ok(())
    }

    /// Removes rectangles; returns for each whether it was present.
    #[pyo3(name = "_remove_boxes")]
    fn remove_boxes<'py>(
        &self,
        py: Python<'py>,
        ids: PyReadonlyArray1<'_, i64>,
        boxes: PyReadonlyArray2<'_, f64>,
    ) -> PyResult<Bound<'py, PyArray1<bool>>> {
        let (index, items) = (self.handle()?, items(&ids, &boxes)?);
        let mut found = Vec::with_capacity(items.len());
        for part in items.chunks(CHUNK) {
            found.extend(without_gil(py, || index.remove_many(part))?);
            py.check_signals()?;
        }
        Ok(PyArray1::from_vec(py, found))
    }

    /// Moves a rectangle; returns whether it was present.
    #[pyo3(name = "_move_box")]
    fn move_box(&self, py: Python<'_>, id: i64, old: [f64; 4], new: [f64; 4]) -> PyResult<bool> {
        let (index, item, bounds) =
            (self.handle()?, Item { bounds: rectangle(old)?, id: number(id)? }, rectangle(new)?);
        without_gil(py, || index.change(|editor: &mut Editor<'_>| editor.update(&item, bounds)))
    }

    /// Loads rectangles into the empty index.
    #[pyo3(name = "_load_boxes")]
    fn load_boxes(
        &self,
        py: Python<'_>,
        ids: PyReadonlyArray1<'_, i64>,
        boxes: PyReadonlyArray2<'_, f64>,
        fill: f64,
    ) -> PyResult<()> {
        let (index, items) = (self.handle()?, items(&ids, &boxes)?);
        without_gil(py, || index.bulk_load(&items, fill))
    }

    /// The ids of the rectangles that intersect one.
    #[pyo3(name = "_query_box")]
    fn query_box<'py>(&self, py: Python<'py>, corners: [f64; 4]) -> PyResult<Ids<'py>> {
        let (index, query) = (self.handle()?, Query::intersecting(rectangle(corners)?));
        let found = without_gil(py, || index.search(&query))?;
        Ok(PyArray1::from_vec(py, to_python(&found)))
    }

    /// For each of many rectangles the ids of those that intersect it: positions of the queries, and ids.
    #[pyo3(name = "_query_boxes")]
    fn query_boxes<'py>(
        &self,
        py: Python<'py>,
        boxes: PyReadonlyArray2<'_, f64>,
    ) -> PyResult<(Ids<'py>, Ids<'py>)> {
        let (index, windows) = (self.handle()?, rectangles(&boxes)?);
        let mut pairs = Pairs::default();
        for (number, part) in windows.chunks(CHUNK).enumerate() {
            let found = without_gil(py, || search_parts(&index, part))?;
            pairs.add(&found, number * CHUNK, part.len());
            py.check_signals()?;
        }
        Ok((PyArray1::from_vec(py, pairs.positions), PyArray1::from_vec(py, pairs.ids)))
    }

    /// The ids and rectangles that intersect one, for exact tests.
    #[pyo3(name = "_items_in")]
    fn items_in<'py>(
        &self,
        py: Python<'py>,
        corners: [f64; 4],
    ) -> PyResult<(Ids<'py>, Bound<'py, PyArray1<f64>>)> {
        let (index, query) = (self.handle()?, Query::intersecting(rectangle(corners)?));
        let found = without_gil(py, || index.search(&query))?;
        let bounds = found.iter().flat_map(|item| {
            let ([x0, y0], [x1, y1]) = (item.bounds.min(), item.bounds.max());
            [x0, y0, x1, y1]
        });
        let bounds = bounds.collect();
        Ok((PyArray1::from_vec(py, to_python(&found)), PyArray1::from_vec(py, bounds)))
    }

    /// The ids nearest to each point and their distances, `count` for each: positions of the points, ids, distances.
    #[pyo3(name = "_nearest_to")]
    fn nearest_to<'py>(
        &self,
        py: Python<'py>,
        points: PyReadonlyArray2<'_, f64>,
        count: usize,
    ) -> PyResult<(Ids<'py>, Ids<'py>, Bound<'py, PyArray1<f64>>)> {
        let (index, points) = (self.handle()?, points.as_array().to_owned());
        if points.ncols() != 2 {
            return Err(PyValueError::new_err("an array of points has 2 columns (x, y)"));
        }
        let (mut positions, mut ids, mut distances) = (Vec::new(), Vec::new(), Vec::new());
        for (at, point) in points.rows().into_iter().enumerate() {
            let point = [point[0], point[1]];
            let found: Vec<Near> = without_gil(py, || index.nearest(point, count))?;
            for near in found {
                positions.push(position(at));
                ids.push(near.item.id.cast_signed());
                distances.push(near.distance_squared.sqrt());
            }
            py.check_signals()?;
        }
        let arrays = (PyArray1::from_vec(py, positions), PyArray1::from_vec(py, ids));
        Ok((arrays.0, arrays.1, PyArray1::from_vec(py, distances)))
    }
}
