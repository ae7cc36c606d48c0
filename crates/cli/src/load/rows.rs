//! Rows of text, TSV and CSV files that become entries, with the numbers of their lines.

use super::args::Args;
use super::columns::{self, Header};
use super::lines::{self, Appended, LONE_RETURN, Lines};
use super::table::{Table, TableRow};
use super::trouble::{Place, Trouble};
use crate::size;
use std::borrow::Cow;
use std::io::BufRead;

/// One line that may become an entry.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Row {
    /// The line's number, from 1.
    pub(super) line: u64,
    /// The text of the key.
    pub(super) key: String,
    /// The text of the value, if the file has a column of values.
    pub(super) value: Option<String>,
}

/// Rows, one after the other.
pub(super) type Rows = dyn Iterator<Item = Result<Row, Trouble>>;

/// The rows of a text file: one key per line. Empty lines are not rows.
pub(super) fn text(reader: impl BufRead) -> impl Iterator<Item = Result<Row, Trouble>> {
    lines(reader, text_row)
}

/// The rows that `parse` reads from lines with their numbers. Empty lines are not rows.
pub(super) fn lines(
    reader: impl BufRead,
    parse: impl Fn(u64, &[u8]) -> Result<Row, Trouble>,
) -> impl Iterator<Item = Result<Row, Trouble>> {
    let (mut lines, mut line, mut text) = (Lines::new(reader), 0, Vec::new());
    std::iter::from_fn(move || {
        loop {
            text.clear();
            let appended = match lines.append(&mut text) {
                Ok(Appended::End) => return None,
                Ok(appended) => appended,
                Err(error) => return Some(Err(Trouble::Read(error))),
            };
            line += 1;
            if appended == Appended::TooLong {
                return Some(Err(Trouble::record(Place::Line(line), lines::too_long())));
            }
            if lines::has_lone_return(&text) {
                return Some(Err(Trouble::record(Place::Line(line), LONE_RETURN)));
            }
            let contents = lines::without_end(&text);
            if !contents.is_empty() {
                return Some(parse(line, contents));
            }
        }
    })
}

fn text_row(line: u64, key: &[u8]) -> Result<Row, Trouble> {
    match std::str::from_utf8(key) {
        Ok(key) => Ok(Row { line, key: key.to_owned(), value: None }),
        Err(_) => Err(Trouble::record(Place::Line(line), "the line is not UTF-8 text")),
    }
}

/// The columns of keys and values in a table.
pub(super) struct EntryColumns<'a> {
    /// The column of keys, by number or name.
    key: Option<&'a str>,
    /// The column of values, by number or name.
    value: Option<&'a str>,
    /// The source of the values.
    values: Values,
}

/// The source of the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Values {
    /// A column.
    Column,
    /// `--value`.
    Constant,
}

impl<'a> EntryColumns<'a> {
    /// The columns that the command line selects.
    pub(super) fn of(args: &'a Args) -> Self {
        let values = if args.value.is_some() { Values::Constant } else { Values::Column };
        Self { key: args.key_column.as_deref(), value: args.value_column.as_deref(), values }
    }

    /// Maximum number of columns if the command line selects none: the load would ignore further columns.
    fn columns_max(&self) -> Option<usize> {
        match (self.key, self.value, self.values) {
            (None, None, Values::Column) => Some(2),
            (None, None, Values::Constant) => Some(1),
            _ => None,
        }
    }
}

/// The rows of a TSV or CSV file. Without a header, the first row decides whether the columns must be selected.
pub(super) fn table<R: BufRead>(
    mut table: Table<R>,
    header: Option<&Header>,
    columns: &EntryColumns<'_>,
) -> Result<impl Iterator<Item = Result<Row, Trouble>> + use<R>, String> {
    let key = columns::index(columns.key.unwrap_or("1"), header)?;
    let value = match columns.values {
        Values::Column => Some(columns::index(columns.value.unwrap_or("2"), header)?),
        Values::Constant => None,
    };
    if value == Some(key) {
        return Err(format!(
            "column {} would be the key and the value; select different columns with --key-column and --value-column, \
             or give --value",
            key + 1
        ));
    }
    let columns_max = columns.columns_max();
    Ok(std::iter::from_fn(move || {
        let row = match table.next()? {
            Ok(row) => row,
            Err(trouble) => return Some(Err(trouble)),
        };
        Some(check_columns(&row, columns_max).and_then(|()| entry(&row, key, value)))
    }))
}

/// Refuses columns that would be ignored although the command line does not say so.
fn check_columns(row: &TableRow<'_>, columns_max: Option<usize>) -> Result<(), Trouble> {
    match columns_max {
        Some(most) if row.columns() > most => {
            let found = size::count(row.columns() as u64, "column", "columns");
            let why = format!(
                "the file has {found}; select those of the keys and the values with --key-column and --value-column \
                 (or --value), the others are not loaded"
            );
            Err(Trouble::rest(Place::Line(row.line), why))
        }
        _ => Ok(()),
    }
}

fn entry(row: &TableRow<'_>, key: usize, value: Option<usize>) -> Result<Row, Trouble> {
    let field = |index: usize| {
        let field = row.field(index).map(Cow::into_owned);
        field.map_err(|why| Trouble::record(Place::Line(row.line), why))
    };
    Ok(Row { line: row.line, key: field(key)?, value: value.map(field).transpose()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(rows: impl Iterator<Item = Result<Row, Trouble>>) -> Vec<String> {
        let show = |row: Result<Row, Trouble>| match row {
            Ok(row) => format!("{} {} {}", row.line, row.key, row.value.unwrap_or_default()),
            Err(Trouble::Record { place: Place::Line(line), why }) => format!("{line}! {why}"),
            Err(trouble) => format!("{trouble:?}"),
        };
        rows.map(show).collect()
    }

    #[test]
    fn text_has_one_key_per_line() {
        let rows = seen(text(&b"ant\r\n\nbee bee\n\xff\ncat"[..]));
        assert_eq!(rows, ["1 ant ", "3 bee bee ", "4! the line is not UTF-8 text", "5 cat "]);
        for bad in ["ant\rbee\n", "\rant\n", "ant\r\r\n", "\r\r\n", "ant\r"] {
            assert!(seen(text(bad.as_bytes()))[0].contains("1! it contains a carriage return"), "{bad:?}");
        }
    }

    /// The rows of a file, whose first line is `header` if there is one.
    fn rows_of(header: Option<&str>, file: &str, key: Option<&str>, value: Option<&str>) -> Vec<String> {
        let text = header.map_or_else(|| file.to_owned(), |header| format!("{header}\n{file}"));
        let mut source = Table::new(text.as_bytes(), b',');
        let header = header.map(|_| Header::read(&mut source).unwrap());
        let columns = EntryColumns { key, value, values: Values::Column };
        match table(source, header.as_ref(), &columns) {
            Ok(rows) => seen(rows),
            Err(why) => vec![why],
        }
    }

    #[test]
    fn columns_have_numbers_or_names() {
        let rows = rows_of(Some("price,id"), "3,\"a,b\"\n\"5\",c\n", Some("id"), Some("price"));
        assert_eq!(rows, ["2 a,b 3", "3 c 5"]);
        assert_eq!(rows_of(None, "x,y,z\n", Some("3"), Some("1")), ["1 z x"]);
        assert_eq!(
            rows_of(None, "x,y\n", Some("3"), None),
            ["1! the line has 2 columns, and column 3 is needed"]
        );
    }

    #[test]
    fn a_column_that_no_option_selects_is_refused() {
        let rows = rows_of(None, "x,y,z\n", None, None);
        assert!(rows[0].contains("3 columns") && rows[0].contains("--key-column"), "{rows:?}");
        assert_eq!(rows_of(None, "x,y,z\n", None, Some("2")), ["1 x y"]);
    }
}
