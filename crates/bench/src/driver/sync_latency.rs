//! The time in which the file system of a folder makes a small write durable.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::time::Instant;

const WRITE_BYTES: usize = 4096;
const WRITES: usize = 200;

/// The median time of a write of 4 KiB to a file in `folder`, and of its `fdatasync`, in microseconds.
pub(crate) fn measure(folder: &Path) -> io::Result<f64> {
    let path = folder.join("sync-latency");
    let mut file = File::create(&path)?;
    // The space has been written before, so a sync writes no metadata.
    file.write_all(&vec![0; WRITE_BYTES * WRITES])?;
    file.sync_all()?;
    let mut file = File::options().write(true).open(&path)?;
    let mut times = Vec::with_capacity(WRITES);
    for _ in 0..WRITES {
        let start = Instant::now();
        file.write_all(&[1; WRITE_BYTES])?;
        file.sync_data()?;
        times.push(start.elapsed().as_nanos() as f64 / 1e3);
    }
    std::fs::remove_file(&path)?;
    times.sort_by(f64::total_cmp);
    Ok(times[WRITES / 2])
}
