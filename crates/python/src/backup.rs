//! Backups: the program's progress function is called with the GIL, and the rest runs without it.

use crate::errors::raise;
use crate::flags::Consistent;
use crate::pool::PoolHandle;
use crate::wait::{interrupt, keep_exception, without_gil};
use farwood::backup::{
    BackupSummary, Dump, ImageProgress, Restore, RestoredPool, RestoredStructure, SavedPool,
};
use farwood::index::Interrupt;
use farwood::{BTree, Hashed, Radix};
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The progress function of the program, as `tqdm.update`: it is called with the number since the call before.
struct Reporter {
    progress: Option<Py<PyAny>>,
    reported: AtomicU64,
    /// The function has raised an exception, which ends the call.
    failed: Arc<AtomicBool>,
}

impl Reporter {
    fn new(progress: Option<Py<PyAny>>) -> Self {
        Self { progress, reported: AtomicU64::new(0), failed: Arc::default() }
    }

    fn report(&self, total: u64) {
        let before = self.reported.swap(total, Ordering::Relaxed);
        // The next index begins at 0.
        let more = total.checked_sub(before).unwrap_or(total);
        let Some(progress) = self.progress.as_ref().filter(|_| more > 0) else { return };
        if let Err(error) = Python::attach(|py| progress.call1(py, (more,)).map(drop)) {
            self.failed.store(true, Ordering::Relaxed);
            keep_exception(error);
        }
    }

    /// Whether the call is to end: because of the function, or of a signal.
    fn interrupt(&self) -> Interrupt {
        let (failed, signals) = (Arc::clone(&self.failed), interrupt());
        Arc::new(move || failed.load(Ordering::Relaxed) || signals())
    }
}

/// The names of the indexes with the numbers of their entries.
fn counts(summary: BackupSummary) -> Vec<(String, u64)> {
    summary.indexes.into_iter().map(|index| (index.name, index.entries)).collect()
}

/// Writes indexes of a pool to a file.
#[pyfunction]
pub(crate) fn dump(
    py: Python<'_>,
    pool: &PoolHandle,
    path: PathBuf,
    indexes: Vec<String>,
    consistent: Consistent,
    progress: Option<Py<PyAny>>,
) -> PyResult<Vec<(String, u64)>> {
    let pool = pool.handle()?;
    let reporter = Reporter::new(progress);
    let summary = without_gil(py, || {
        let dump = Dump::of(&pool).interrupt(reporter.interrupt()).progress(|at| reporter.report(at.entries));
        let dump = if consistent.0 { dump.consistent() } else { dump };
        indexes.into_iter().fold(dump, Dump::index).to_file(path)
    });
    summary.map(counts)
}

/// Creates indexes of a file in a pool.
#[pyfunction]
#[pyo3(signature = (pool, path, indexes, rename, structure, key_bytes, value_bytes, progress))]
#[expect(clippy::too_many_arguments, reason = "Python passes them by name")]
pub(crate) fn restore(
    py: Python<'_>,
    pool: &PoolHandle,
    path: PathBuf,
    indexes: Vec<String>,
    rename: Vec<(String, String)>,
    structure: Option<&str>,
    key_bytes: Option<usize>,
    value_bytes: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Vec<(String, u64)>> {
    let pool = pool.handle()?;
    let structure = structure.map(|name| structure_of(py, name, key_bytes, value_bytes)).transpose()?;
    if structure.is_none() && (key_bytes.is_some() || value_bytes.is_some()) {
        let text = "key_bytes and value_bytes are options of structure=\"btree\"; add it, or omit them";
        return Err(raise(py, "InvalidArgument", (text,)));
    }
    let reporter = Reporter::new(progress);
    let summary = without_gil(py, || {
        let mut restore = Restore::into(&pool).interrupt(reporter.interrupt());
        restore = restore.progress(|at| reporter.report(at.entries));
        restore = indexes.into_iter().fold(restore, Restore::index);
        restore = rename.into_iter().fold(restore, |restore, (name, to)| restore.rename(name, to));
        structure.into_iter().fold(restore, Restore::structure).from_file(path)
    });
    summary.map(counts)
}

fn structure_of(
    py: Python<'_>,
    name: &str,
    key_bytes: Option<usize>,
    value_bytes: Option<usize>,
) -> PyResult<RestoredStructure> {
    let sizes = key_bytes.is_some() || value_bytes.is_some();
    Ok(match name {
        "btree" => {
            let options = key_bytes.into_iter().fold(BTree::new(), BTree::key_bytes);
            value_bytes.into_iter().fold(options, BTree::value_bytes).into()
        }
        "radix" if !sizes => Radix::new().into(),
        "hashed" if !sizes => Hashed::new().into(),
        _ => {
            let text = format!(
                "{name:?} is no structure with these options; give \"btree\", or \"radix\" or \"hashed\" without \
                 lengths"
            );
            return Err(raise(py, "InvalidArgument", (text,)));
        }
    })
}

/// Writes the memory of a pool to a file; returns the bytes of memory.
#[pyfunction]
pub(crate) fn save(py: Python<'_>, url: String, path: PathBuf, progress: Option<Py<PyAny>>) -> PyResult<u64> {
    let reporter = Reporter::new(progress);
    let report = |at: ImageProgress| reporter.report(at.memory_bytes);
    without_gil(py, || SavedPool::at(url).interrupt(reporter.interrupt()).progress(report).to_file(path))
        .map(|saved| saved.memory_bytes)
}

/// Creates a pool from a file that [`save`] has written; returns the bytes of memory.
#[pyfunction]
pub(crate) fn restore_pool(
    py: Python<'_>,
    path: PathBuf,
    url: String,
    progress: Option<Py<PyAny>>,
) -> PyResult<u64> {
    let reporter = Reporter::new(progress);
    let report = |at: ImageProgress| reporter.report(at.memory_bytes);
    without_gil(py, || RestoredPool::at(url).interrupt(reporter.interrupt()).progress(report).from_file(path))
        .map(|restored| restored.memory_bytes)
}
