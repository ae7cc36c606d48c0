//! Opening the file of a load.

use super::trouble::{Place, Trouble};
use crate::{Context, Failure};
use indicatif::{ProgressBar, ProgressStyle};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;

/// Bytes of the file in memory at a time.
const BUFFER_BYTES: usize = 1 << 20;

/// An open file.
pub(super) type Reader = BufReader<Box<dyn Read>>;

/// Opens a file, or stdin for `-`, with a progress bar.
pub(super) fn open(path: &Path, context: &Context<'_>) -> Result<(Reader, ProgressBar), Failure> {
    let failed = |source| Failure::file("load", "open", path, source);
    let (reader, bytes): (Box<dyn Read>, _) = if path == Path::new("-") {
        (Box::new(io::stdin()), None)
    } else {
        let file = File::open(path).map_err(failed)?;
        let data = file.metadata().map_err(failed)?;
        (Box::new(file), data.is_file().then_some(data.len()))
    };
    let progress = match (context.progress, bytes) {
        (false, _) => ProgressBar::hidden(),
        (true, Some(bytes)) => {
            ProgressBar::new(bytes).with_style(style("{wide_bar} {bytes}/{total_bytes} {eta} {msg}"))
        }
        (true, None) => ProgressBar::new_spinner().with_style(style("{spinner} {bytes} {msg}")),
    };
    let reader: Box<dyn Read> = Box::new(progress.wrap_read(reader));
    Ok((BufReader::with_capacity(BUFFER_BYTES, reader), progress))
}

/// Turns the progress bar of a file into one of `count` entries, which are written.
pub(super) fn writing(progress: &ProgressBar, count: u64) {
    progress.reset();
    progress.set_length(count);
    progress.set_style(style("{wide_bar} {pos}/{len} entries {eta} {msg}"));
    progress.set_message("writing");
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// The text of a file, without the byte order mark of UTF-8. Refuses UTF-16.
pub(super) fn text(mut reader: impl BufRead) -> Result<impl BufRead, Trouble> {
    let mut start = Vec::new();
    reader.by_ref().take(3).read_to_end(&mut start)?;
    match start.as_slice() {
        [0xFF, 0xFE, ..] | [0xFE, 0xFF, ..] => {
            return Err(Trouble::rest(Place::File, "the file is UTF-16 text; convert it to UTF-8"));
        }
        [0xEF, 0xBB, 0xBF] => start.clear(),
        _ => {}
    }
    Ok(Cursor::new(start).chain(reader))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_order_mark_is_not_data() {
        for (bytes, expected) in [("\u{feff}ant", "ant"), ("a\u{feff}", "a\u{feff}"), ("", ""), ("ab", "ab")]
        {
            let mut seen = String::new();
            text(bytes.as_bytes()).unwrap().read_to_string(&mut seen).unwrap();
            assert_eq!(seen, expected);
        }
        assert!(text(&b"\xFF\xFEa\0"[..]).is_err() && text(&b"\xFE\xFF\0a"[..]).is_err());
    }
}
