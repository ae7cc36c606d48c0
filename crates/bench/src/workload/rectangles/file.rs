//! Rectangles from a file: four numbers per row, separated by commas, tabs or spaces.

use std::io::{BufRead as _, BufReader};
use std::path::Path;

use farwood::internal::small_file;
use farwood_index::catfish::{Item, Rectangle};

use crate::{Error, Result};

/// Reads up to `most` rows of least x, least y, greatest x, greatest y; further columns are ignored. Items are numbered
/// by their rows. A first row without numbers is a heading.
///
/// # Errors
/// A file that is not a regular file or cannot be read, or a row that is not a rectangle.
pub fn read_file(file: &Path, most: u64) -> Result<Vec<Item>> {
    let read = |source| Error::Read { option: "--rectangles-file", file: file.to_owned(), source };
    let mut items = Vec::new();
    for (row, line) in BufReader::new(small_file::open(file).map_err(read)?.0).lines().enumerate() {
        if items.len() as u64 == most {
            break;
        }
        let line = line.map_err(read)?;
        match rectangle(&line) {
            Ok(Some(bounds)) => items.push(Item { bounds, id: items.len() as u64 }),
            Ok(None) => {}
            Err(_) if row == 0 => {}
            Err(what) => {
                let problem = format!("{}, row {}: {what}", file.display(), row + 1);
                let remedy = "a row has least x, least y, greatest x, greatest y";
                return Err(Error::parameter("--rectangles-file", problem, remedy));
            }
        }
    }
    if items.is_empty() {
        let problem = format!("{} has no rectangle", file.display());
        return Err(Error::parameter("--rectangles-file", problem, "give a file with rectangles"));
    }
    Ok(items)
}

/// The rectangle of a row; `None` for an empty row.
fn rectangle(line: &str) -> std::result::Result<Option<Rectangle>, String> {
    let is_between = |c: char| c == ',' || c.is_whitespace();
    let mut numbers = line.split(is_between).filter(|text| !text.is_empty()).peekable();
    if numbers.peek().is_none() {
        return Ok(None);
    }
    let mut edge = || {
        let text = numbers.next().ok_or("it has fewer than four numbers")?;
        let number = text.parse::<f64>().map_err(|_| format!("'{text}' is not a number"))?;
        let mut digits = text.bytes().take_while(|byte| !matches!(byte, b'e' | b'E'));
        if number == 0.0 && digits.any(|byte| matches!(byte, b'1'..=b'9')) {
            return Err(format!("'{text}' is not 0, and closer to 0 than any number of 64 bits"));
        }
        Ok(number)
    };
    let [min_x, min_y, max_x, max_y] = [edge()?, edge()?, edge()?, edge()?];
    Rectangle::new([min_x, min_y], [max_x, max_y]).map(Some).map_err(|why| why.to_string())
}
