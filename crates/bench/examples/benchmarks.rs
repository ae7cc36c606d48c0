//! Writes `docs/benchmarks.md` from `docs/records`. Run it in the root of the repository.

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use farwood_bench::record::Record;
use farwood_bench::record::lines::measurements;
use farwood_bench::record::page::{page, sections};

/// The measurements of the Python package: the names of their files, the headings, and the methods.
const PYTHON: [(&str, &str, &str); 2] = [
    (
        "python",
        "Python beside Rust, py-lmdb, redis-py and Shapely",
        "\
`crates/python/bench/compare.py`, in the profile of wheels. Rounds of a measurement and of its peer alternate, and a
ratio is that of the medians. Peers convert keys and values as the map does, and look each key up in a transaction of
its own, as the map does. A query of boxes uses all cores; `STRtree` uses one.
",
    ),
    (
        "python-leaks",
        "Python: resident memory over ten million operations of each kind",
        "\
`crates/python/bench/leaks.py`: the resident memory of one process, MiB, before the operations, after a quarter, after
half, and at the end.
",
    ),
];

fn main() -> Result<(), Box<dyn Error>> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let folder = docs.join("records");
    let mut filled = Vec::new();
    for section in sections(&fs::read_to_string(folder.join("commands.txt"))?)? {
        let file = folder.join(format!("{}.jsonl", section.name));
        let text = if file.exists() { fs::read_to_string(&file)? } else { String::new() };
        let records =
            Record::from_json_lines(&text).map_err(|error| format!("{}: {error}", file.display()))?;
        filled.push((section, records));
    }
    let mut text = page(&filled);
    for (name, title, method) in PYTHON {
        let lines = measurements(&fs::read_to_string(folder.join(format!("{name}.jsonl")))?)?;
        write!(text, "\n## {title}\n\n{method}\n```text\n{lines}```\n")?;
    }
    fs::write(docs.join("benchmarks.md"), text)?;
    Ok(())
}
