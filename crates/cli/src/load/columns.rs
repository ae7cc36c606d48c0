//! Columns of a table, by number or by the name in the header.

use super::table::Table;
use super::trouble::{Place, Trouble};
use std::borrow::Cow;
use std::collections::HashSet;
use std::io::BufRead;

/// The names in the first line of a table.
pub(super) struct Header(Vec<String>);

impl Header {
    /// Reads the first line. Refuses a name that occurs twice.
    pub(super) fn read<R: BufRead>(table: &mut Table<R>) -> Result<Self, Trouble> {
        let Some(row) = table.next() else {
            return Err(Trouble::rest(
                Place::File,
                "the file is empty, and --header needs a line of column names",
            ));
        };
        // Without a header there is no next row either.
        let row = match row {
            Err(Trouble::Record { place, why }) => return Err(Trouble::Rest { place, why }),
            row => row?,
        };
        let names: Result<Vec<_>, _> =
            (0..row.columns()).map(|index| row.field(index).map(Cow::into_owned)).collect();
        let names = names.map_err(|why| Trouble::rest(Place::Line(row.line), why))?;
        let mut known = HashSet::new();
        match names.iter().find(|name| !known.insert(*name)) {
            Some(name) => {
                Err(Trouble::rest(Place::Line(row.line), format!("the header has two columns '{name}'")))
            }
            None => Ok(Self(names)),
        }
    }

    /// The names, in the order of the columns.
    pub(super) fn names(&self) -> &[String] {
        &self.0
    }
}

/// The index, from 0, of the column with this name or number.
pub(super) fn index(column: &str, header: Option<&Header>) -> Result<usize, String> {
    let by_name = header.and_then(|header| header.0.iter().position(|name| name == column));
    let by_number = column.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    match (by_name, by_number, header) {
        (Some(name), Some(number), _) if name != number => Err(format!(
            "'{column}' is the name of column {} and the number of another column; rename the column",
            name + 1
        )),
        (None, Some(index), Some(Header(names))) if index >= names.len() => {
            Err(format!("there is no column {column}; the header has {}", names.join(", ")))
        }
        (Some(index), ..) | (None, Some(index), _) => Ok(index),
        (None, None, Some(Header(names))) => {
            Err(format!("there is no column '{column}'; the header has {}", names.join(", ")))
        }
        (None, None, None) => {
            Err(format!("'{column}' is not a column number (from 1); to use names, give --header"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(line: &str) -> Result<Header, Trouble> {
        Header::read(&mut Table::new(line.as_bytes(), b','))
    }

    #[test]
    fn columns_have_numbers_or_names() {
        let names = header("id,price,7\n").unwrap();
        for (column, expected) in [("id", 0), ("price", 1), ("1", 0), ("3", 2)] {
            assert_eq!(index(column, Some(&names)), Ok(expected), "{column}");
        }
        assert_eq!(index("9", None), Ok(8));
    }

    #[test]
    fn columns_that_are_not_there_or_not_unique_are_refused() {
        let names = header("id,price,1\n").unwrap();
        for column in ["name", "4", "0"] {
            assert!(index(column, Some(&names)).unwrap_err().contains("id, price, 1"), "{column}");
        }
        assert!(index("1", Some(&names)).unwrap_err().contains("rename"));
        assert!(index("id", None).unwrap_err().contains("--header"));
        assert!(index("0", None).unwrap_err().contains("from 1"));
        for bad in ["", "id,price,id\n", "id,\"price\n"] {
            assert!(matches!(header(bad), Err(Trouble::Rest { .. })), "{bad:?}");
        }
    }
}
