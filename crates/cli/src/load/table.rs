//! Rows of TSV and CSV files (RFC 4180).
//!
//! Each row has as many columns as the first one. Quotes must be closed, and must enclose whole fields: a field is
//! accepted only if it and its quotes, written again, are the text of the file.

use super::lines::{self, Appended, LONE_RETURN, Lines};
use super::trouble::{Place, Trouble};
use crate::{size, tsv};
use csv_core::ReadRecordResult;
use std::borrow::Cow;
use std::io::BufRead;

/// Largest number of columns.
const COLUMNS_MAX: usize = 1 << 16;

/// The rows of a file.
pub(super) struct Table<R> {
    lines: Lines<R>,
    parser: csv_core::Reader,
    delimiter: u8,
    /// The number of the last line that was read, from 1.
    line: u64,
    /// The text of the row.
    text: Vec<u8>,
    /// The fields of the line, concatenated.
    fields: Vec<u8>,
    /// The end of each field in `fields`.
    ends: Vec<usize>,
    /// The number of columns of the first row.
    columns: Option<usize>,
}

/// One row.
pub(super) struct TableRow<'t> {
    /// The number of its first line, from 1.
    pub(super) line: u64,
    fields: &'t [u8],
    ends: &'t [usize],
    delimiter: u8,
}

impl TableRow<'_> {
    /// The number of columns.
    pub(super) fn columns(&self) -> usize {
        self.ends.len()
    }

    /// The bytes of the field at `index`; `None` if the row is shorter.
    fn bytes(&self, index: usize) -> Option<&[u8]> {
        let start = if index == 0 { 0 } else { *self.ends.get(index - 1)? };
        self.fields.get(start..*self.ends.get(index)?)
    }

    /// The text of the field at `index`; fields of TSV have escapes.
    pub(super) fn field(&self, index: usize) -> Result<Cow<'_, str>, String> {
        let Some(bytes) = self.bytes(index) else {
            let columns = size::count(self.columns() as u64, "column", "columns");
            return Err(format!("the line has {columns}, and column {} is needed", index + 1));
        };
        let column = |why: &str| format!("column {}: {why}", index + 1);
        let field =
            std::str::from_utf8(bytes).map_err(|_| format!("column {} is not UTF-8 text", index + 1))?;
        if self.delimiter == b'\t' {
            return tsv::unescape(field).map_err(|why| column(&why));
        }
        Ok(Cow::Borrowed(field))
    }
}

/// The parts of a row that the parser has found so far.
enum Parsed {
    /// The end of the row, and of its fields in `ends`.
    Row(usize),
    /// The line is empty.
    Empty,
    /// A quote that a later line must close.
    Open,
}

impl<R: BufRead> Table<R> {
    pub(super) fn new(reader: R, delimiter: u8) -> Self {
        let mut builder = csv_core::ReaderBuilder::new();
        let mut parser = builder.delimiter(delimiter).quoting(delimiter != b'\t').build();
        // The parser removes a byte order mark from its first input, and `input` has removed the one of the file.
        parser.read_record(b"\n", &mut [], &mut []);
        Self {
            lines: Lines::new(reader),
            parser,
            delimiter,
            line: 0,
            text: Vec::new(),
            fields: Vec::new(),
            ends: vec![0; COLUMNS_MAX],
            columns: None,
        }
    }

    /// The next row; `None` at the end of the file.
    pub(super) fn next(&mut self) -> Option<Result<TableRow<'_>, Trouble>> {
        match self.read_row() {
            Ok(None) => None,
            Err(trouble) => Some(Err(trouble)),
            Ok(Some((line, ends))) => {
                let fields = &self.fields;
                let delimiter = self.delimiter;
                Some(Ok(TableRow { line, fields, ends: &self.ends[..ends], delimiter }))
            }
        }
    }

    /// Reads a row; yields the number of its first line, and the number of its fields.
    fn read_row(&mut self) -> Result<Option<(u64, usize)>, Trouble> {
        self.text.clear();
        let (mut first, mut ends, mut fields_bytes) = (self.line + 1, 0, 0);
        loop {
            let start = self.text.len();
            match self.lines.append(&mut self.text)? {
                Appended::End if start == 0 => return Ok(None),
                Appended::End => return Err(open_quote(first)),
                Appended::TooLong if start == 0 && self.delimiter == b'\t' => {
                    self.line += 1;
                    return Err(Trouble::record(Place::Line(first), lines::too_long()));
                }
                Appended::TooLong => return Err(Trouble::rest(Place::Line(first), lines::too_long())),
                Appended::Whole => self.line += 1,
            }
            self.check_returns(first)?;
            match self.parse(first, start, &mut ends, &mut fields_bytes)? {
                Parsed::Row(ends) => return self.accept(first, ends).map(|()| Some((first, ends))),
                Parsed::Open => {}
                Parsed::Empty => {
                    self.text.clear();
                    first = self.line + 1;
                }
            }
        }
    }

    /// Refuses carriage returns without line feeds in a row without quotes; a quoted field may contain them.
    fn check_returns(&self, first: u64) -> Result<(), Trouble> {
        let may_be_quoted = self.delimiter != b'\t' && self.text.contains(&b'"');
        if !may_be_quoted && lines::has_lone_return(&self.text) {
            return Err(Trouble::record(Place::Line(first), LONE_RETURN));
        }
        Ok(())
    }

    /// Parses the last line of the text, which begins at `start`.
    fn parse(
        &mut self,
        first: u64,
        start: usize,
        ends: &mut usize,
        fields_bytes: &mut usize,
    ) -> Result<Parsed, Trouble> {
        match self.text.last() {
            Some(b'\n') => {}
            Some(b'\r') => return Err(Trouble::record(Place::Line(first), LONE_RETURN)),
            _ => self.text.push(b'\n'),
        }
        // Fields without their quotes are never longer than the text.
        if self.fields.len() < self.text.len() {
            self.fields.resize(self.text.len(), 0);
        }
        let (fields, field_ends) = (&mut self.fields[*fields_bytes..], &mut self.ends[*ends..]);
        let (result, read, written, ended) = self.parser.read_record(&self.text[start..], fields, field_ends);
        *fields_bytes += written;
        *ends += ended;
        match result {
            ReadRecordResult::Record if matches!(&self.text[start + read..], b"" | b"\n") => {
                Ok(Parsed::Row(*ends))
            }
            ReadRecordResult::Record => Err(Trouble::record(Place::Line(first), LONE_RETURN)),
            ReadRecordResult::InputEmpty if start == 0 && lines::without_end(&self.text).is_empty() => {
                Ok(Parsed::Empty)
            }
            ReadRecordResult::InputEmpty => Ok(Parsed::Open),
            ReadRecordResult::OutputFull | ReadRecordResult::OutputEndsFull | ReadRecordResult::End => {
                Err(Trouble::rest(Place::Line(first), format!("it has more than {COLUMNS_MAX} columns")))
            }
        }
    }

    /// Checks the number of columns and the quotes of a row.
    fn accept(&mut self, line: u64, ends: usize) -> Result<(), Trouble> {
        let delimiter = self.delimiter;
        let row = TableRow { line, fields: &self.fields, ends: &self.ends[..ends], delimiter };
        let quotes = self.delimiter != b'\t' && self.text.contains(&b'"');
        if quotes && !is_written(&row, &self.text, self.delimiter) {
            let why =
                "a closing quote is followed by text; quote the whole field, and double the quotes in it";
            return Err(Trouble::record(Place::Line(line), why));
        }
        let columns = *self.columns.get_or_insert(ends);
        if columns == ends {
            return Ok(());
        }
        let found = size::count(ends as u64, "column", "columns");
        Err(Trouble::record(
            Place::Line(line),
            format!("the line has {found}, and the first line has {columns}"),
        ))
    }
}

fn open_quote(first: u64) -> Trouble {
    Trouble::rest(
        Place::Line(first),
        "a quote that opens on this line is not closed before the end of the file",
    )
}

/// Whether the fields, quoted as in the text, are the text.
fn is_written(row: &TableRow<'_>, text: &[u8], delimiter: u8) -> bool {
    let mut rest = Some(text);
    for index in 0..row.columns() {
        let field = row.bytes(index).unwrap_or_default();
        let start = if index == 0 { rest } else { rest.and_then(|rest| rest.strip_prefix(&[delimiter])) };
        rest = start.and_then(|start| match start.strip_prefix(b"\"") {
            Some(quoted) => without_quoted(quoted, field),
            None => start.strip_prefix(field),
        });
    }
    rest.is_some_and(|rest| lines::without_end(rest).is_empty())
}

/// The text after a quoted field; `text` begins after the opening quote.
fn without_quoted<'t>(text: &'t [u8], field: &[u8]) -> Option<&'t [u8]> {
    let mut parts = field.split(|&byte| byte == b'"');
    let first = text.strip_prefix(parts.next()?)?;
    let rest = parts.try_fold(first, |rest, part| rest.strip_prefix(b"\"\"")?.strip_prefix(part))?;
    rest.strip_prefix(b"\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str, delimiter: u8) -> Vec<String> {
        let mut table = Table::new(text.as_bytes(), delimiter);
        let mut seen = Vec::new();
        while let Some(row) = table.next() {
            let (text, ends) = match row {
                Ok(row) => {
                    let fields: Vec<_> = (0..row.columns()).map(|index| row.field(index).unwrap()).collect();
                    (format!("{} {}", row.line, fields.join("|")), false)
                }
                Err(Trouble::Record { place, why }) => (format!("{place:?} {why}"), false),
                Err(trouble) => (format!("{trouble:?}"), true),
            };
            seen.push(text);
            if ends {
                break;
            }
        }
        seen
    }

    #[test]
    fn rows_have_fields_and_the_numbers_of_their_lines() {
        assert_eq!(rows("a,b\r\n\n\"c,\nd\",\"e\"\"f\"\ng,", b','), ["1 a|b", "3 c,\nd|e\"f", "5 g|"]);
        assert_eq!(rows("x\t\"a\ny\tb\n", b'\t'), ["1 x|\"a", "2 y|b"]);
        assert_eq!(rows("a,b\"c\n", b','), ["1 a|b\"c"]);
        assert_eq!(rows("a\\tb\t\\n\n", b'\t'), ["1 a\tb|\n"]);
        assert_eq!(rows("a\\tb,\\n\n", b','), ["1 a\\tb|\\n"], "CSV has no escapes");
        assert_eq!(rows("", b','), [""; 0]);
    }

    #[test]
    fn a_carriage_return_at_the_end_of_the_file_is_bad() {
        for (bad, delimiter) in [("1,2\r", b','), ("1\t2\r", b'\t'), ("\"1\",2\r", b',')] {
            assert!(
                rows(bad, delimiter)[0].contains("carriage return"),
                "{bad:?}: {:?}",
                rows(bad, delimiter)
            );
        }
        assert_eq!(rows("\"a\rb\",2\r\n", b','), ["1 a\rb|2"]);
    }

    #[test]
    fn a_quote_that_is_not_closed_ends_the_table() {
        for text in ["k1,v1\nk2,\"v2\nk3,v3\n", "k1,v1\nk2,\"v2", "k1,v1\nk2,\"v2\"\"\n"] {
            let seen = rows(text, b',');
            assert_eq!(seen.len(), 2, "{text:?}: {seen:?}");
            assert!(seen[1].contains("Line(2)") && seen[1].contains("not closed"), "{seen:?}");
        }
    }

    #[test]
    fn rows_that_would_lose_text_are_bad() {
        for (bad, why) in [
            ("\"a\"b,c", "closing quote"),
            ("\"a\" ,c", "closing quote"),
            ("a,b,c", "3 columns"),
            ("a", "1 column,"),
            ("a,b\rc,d", "carriage return"),
            ("\ra,b", "carriage return"),
            ("a,b\r\r", "carriage return"),
            ("\r\r", "carriage return"),
            ("\"a\",b\rc", "carriage return"),
        ] {
            let seen = rows(&format!("1,2\n{bad}\n3,4\n"), b',');
            assert_eq!((seen.len(), seen[0].as_str(), seen[2].as_str()), (3, "1 1|2", "3 3|4"), "{seen:?}");
            assert!(seen[1].contains("Line(2)") && seen[1].contains(why), "{seen:?}");
        }
    }
}
