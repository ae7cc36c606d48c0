//! Rows of text, TSV and CSV files, with the numbers of their lines.

use crate::size;
use std::io::{self, BufRead};

/// One line that may become an entry.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Row {
    /// The line's number, from 1.
    pub(crate) line: u64,
    /// The key's words.
    pub(crate) key: String,
    /// The value's words, if the file has a column of values.
    pub(crate) value: Option<String>,
}

/// Why there is no row.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The line is bad; the next one may be good.
    Line {
        /// The line's number, from 1.
        line: u64,
        /// Why it is invalid.
        why: String,
    },
    /// The file cannot be read any further.
    Read(io::Error),
}

/// Rows, one after the other.
pub(crate) type Rows = dyn Iterator<Item = Result<Row, Trouble>>;

/// The rows of a text file: one key per line, empty lines passed over.
pub(crate) fn lines(reader: Box<dyn BufRead>) -> impl Iterator<Item = Result<Row, Trouble>> {
    reader.split(b'\n').zip(1..).filter_map(|(text, line)| {
        let mut text = match text {
            Ok(text) => text,
            Err(error) => return Some(Err(Trouble::Read(error))),
        };
        if text.last() == Some(&b'\r') {
            text.pop();
        }
        if text.is_empty() {
            return None;
        }
        Some(match String::from_utf8(text) {
            Ok(key) => Ok(Row { line, key, value: None }),
            Err(_) => Err(Trouble::Line { line, why: "the line is not UTF-8 text".to_owned() }),
        })
    })
}

/// Which columns of a table are wanted, and how they are written.
pub(crate) struct Columns<'a> {
    /// The column separator. With a tab, quotes have no special meaning.
    pub(crate) delimiter: u8,
    /// Whether the first line names the columns.
    pub(crate) header: bool,
    /// The column of keys, by number or name.
    pub(crate) key: &'a str,
    /// The column of values, if there is one.
    pub(crate) value: Option<&'a str>,
}

/// The rows of a TSV or CSV file.
pub(crate) fn table(
    reader: Box<dyn BufRead>,
    columns: &Columns<'_>,
) -> Result<impl Iterator<Item = Result<Row, Trouble>> + use<>, String> {
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(columns.delimiter)
        .quoting(columns.delimiter != b'\t')
        .has_headers(columns.header)
        .flexible(true)
        .from_reader(reader);
    let names: Option<Vec<String>> = if columns.header {
        let names = reader.byte_headers().map_err(|error| format!("the first line: {error}"))?;
        Some(names.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect())
    } else {
        None
    };
    let key = column(columns.key, names.as_deref())?;
    let value = columns.value.map(|value| column(value, names.as_deref())).transpose()?;
    Ok(reader.into_byte_records().map(move |record| match record {
        Ok(record) => row(&record, key, value),
        Err(error) => Err(trouble(error)),
    }))
}

/// The position, from 0, of the column with this name or number. `names`: those in the header, if there is one.
fn column(name: &str, names: Option<&[String]>) -> Result<usize, String> {
    if let Some(at) = names.unwrap_or_default().iter().position(|known| known == name) {
        return Ok(at);
    }
    match (name.parse::<usize>(), names) {
        (Ok(number), _) if number > 0 => Ok(number - 1),
        (_, Some(names)) => Err(format!("there is no column '{name}'; the header has {}", names.join(", "))),
        (_, None) => Err(format!("'{name}' is not a column number (from 1); to use names, give --header")),
    }
}

fn row(record: &csv::ByteRecord, key: usize, value: Option<usize>) -> Result<Row, Trouble> {
    let line = record.position().map_or(0, csv::Position::line);
    let field = |at: usize| match record.get(at).map(|field| String::from_utf8(field.to_vec())) {
        Some(Ok(field)) => Ok(field),
        Some(Err(_)) => Err(Trouble::Line { line, why: format!("column {} is not UTF-8 text", at + 1) }),
        None => {
            let columns = size::count(record.len() as u64, "column", "columns");
            let why = format!("the line has {columns}, and column {} is needed", at + 1);
            Err(Trouble::Line { line, why })
        }
    };
    Ok(Row { line, key: field(key)?, value: value.map(field).transpose()? })
}

fn trouble(error: csv::Error) -> Trouble {
    let line = error.position().map_or(0, csv::Position::line);
    let why = error.to_string();
    match error.into_kind() {
        csv::ErrorKind::Io(error) => Trouble::Read(error),
        _ => Trouble::Line { line, why },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boxed(text: &'static [u8]) -> Box<dyn BufRead> {
        Box::new(text)
    }

    fn seen(rows: impl Iterator<Item = Result<Row, Trouble>>) -> Vec<String> {
        let show = |row: Result<Row, Trouble>| match row {
            Ok(row) => format!("{} {} {}", row.line, row.key, row.value.unwrap_or_default()),
            Err(Trouble::Line { line, why }) => format!("{line}! {why}"),
            Err(Trouble::Read(error)) => error.to_string(),
        };
        rows.map(show).collect()
    }

    #[test]
    fn text_has_one_key_per_line() {
        let rows = seen(lines(boxed(b"ant\r\n\nbee bee\n\xff\ncat")));
        assert_eq!(rows, ["1 ant ", "3 bee bee ", "4! the line is not UTF-8 text", "5 cat "]);
    }

    #[test]
    fn columns_have_numbers_or_names() {
        let columns = Columns { delimiter: b',', header: true, key: "id", value: Some("price") };
        let rows = table(boxed(b"price,id\n3,\"a,b\"\n4\n\"5\",c\n"), &columns).unwrap();
        assert_eq!(seen(rows), ["2 a,b 3", "3! the line has 1 column, and column 2 is needed", "4 c 5"]);
        let columns = Columns { delimiter: b'\t', header: false, key: "2", value: None };
        let rows = table(boxed(b"x\t\"a\ny\tb\n"), &columns).unwrap();
        assert_eq!(seen(rows), ["1 \"a ", "2 b "]);
    }

    #[test]
    fn columns_that_are_not_there_are_refused() {
        let refused = |header, key| {
            let columns = Columns { delimiter: b',', header, key, value: None };
            table(boxed(b"id,price\n"), &columns).err().unwrap_or_default()
        };
        assert!(refused(true, "name").contains("id, price"));
        assert!(refused(false, "id").contains("--header"));
        assert!(refused(false, "0").contains("from 1"));
    }
}
