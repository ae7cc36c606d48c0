//! Parts of the commands `dump`, `save` and `restore`.

use crate::failure::shown;
use crate::{Context, Failure, size};
use farwood::backup::{BackupSummary, ImageProgress};
use farwood::error::ShmError;
use farwood::index::Interrupt;
use farwood::{Error, Url};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::fmt;
use std::io::{self, IsTerminal as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A progress bar of a file: of `bytes`, if they are known.
pub(crate) fn progress_of(context: &Context<'_>, bytes: Option<u64>) -> ProgressBar {
    let style =
        |template| ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    match (context.progress, bytes) {
        (false, _) => ProgressBar::hidden(),
        (true, Some(bytes)) => ProgressBar::new(bytes)
            .with_style(style("{wide_bar} {bytes}/{total_bytes} {elapsed} {eta} {msg}")),
        (true, None) => ProgressBar::no_length().with_style(style("{spinner} {bytes} {elapsed} {msg}")),
    }
}

/// The failure to open the pool of `command`. If there is none, the remedy of the library, to create one, is replaced.
pub(crate) fn not_opened(command: &str, url: &Url, error: Error, remedy: &str) -> Failure {
    let exit_code = error.exit_code();
    match error {
        Error::Pool { source: ShmError::NotFound { pool, path }, .. } => {
            let path = shown(&path);
            let text = format!(
                "{command} {url}: no pool '{pool}' on this machine ({path} does not exist); {remedy}"
            );
            Failure::Other { text, exit_code }
        }
        error => error.into(),
    }
}

/// Whether a command names stdin or stdout in place of a file.
pub(crate) fn is_stream(file: &Path) -> bool {
    file == Path::new("-")
}

/// Refuses to write a backup of `url` to a terminal.
pub(crate) fn refuse_terminal(command: &str, url: &Url, option: &str) -> Result<(), Failure> {
    if !io::stdout().is_terminal() {
        return Ok(());
    }
    Err(Failure::Usage(format!(
        "{command} {url}: a backup is no text, and stdout is a terminal; give {option}"
    )))
}

/// The remedy for a pool that should exist.
pub(crate) const LIST_POOLS: &str = "`farwood doctor` lists the pools";

/// Ends a dump, a save or a restore at the first SIGINT or SIGTERM, so that it removes what is incomplete.
pub(crate) fn signals() -> io::Result<Interrupt> {
    let arrived = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&arrived))?;
    }
    Ok(Arc::new(move || arrived.load(Ordering::Relaxed)))
}

/// The figures of a dump or a restore.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figures<'a> {
    pub(crate) summary: &'a BackupSummary,
    pub(crate) seconds: f64,
}

impl Figures<'_> {
    fn entries(&self) -> u64 {
        self.summary.indexes.iter().map(|index| index.entries).sum()
    }

    pub(crate) fn json(&self) -> Value {
        let index =
            |index: &farwood::backup::IndexSummary| json!({ "name": index.name, "entries": index.entries });
        json!({
            "indexes": self.summary.indexes.iter().map(index).collect::<Vec<_>>(),
            "entries": self.entries(),
            "bytes": self.summary.bytes,
            "seconds": self.seconds,
        })
    }
}

impl fmt::Display for Figures<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}, {}, {}, {:.1} s",
            size::count(self.summary.indexes.len() as u64, "index", "indexes"),
            size::count(self.entries(), "entry", "entries"),
            size::show(self.summary.bytes),
            self.seconds
        )
    }
}

/// The figures of the image of a pool.
pub(crate) fn image_json(figures: &ImageProgress, seconds: f64) -> Value {
    json!({ "memory_bytes": figures.memory_bytes, "bytes": figures.file_bytes, "seconds": seconds })
}

/// The same as text.
pub(crate) fn image_text(figures: &ImageProgress, seconds: f64) -> String {
    format!(
        "{} of memory, {}, {seconds:.1} s",
        size::show(figures.memory_bytes),
        size::show(figures.file_bytes)
    )
}
