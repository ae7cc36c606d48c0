//! The table of a Shapefile (`.dbf`): one row of texts of fixed length for each record of the main file. The reader
//! keeps one row in memory. Rows that are marked as deleted keep their position. The library `dbase` skips such rows,
//! which would assign rows to other records, and reads numbers as doubles.

use super::column_value::ColumnValue;
use super::trouble::{Place, Trouble};
use std::fs::{self, File};
use std::io::{self, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};

/// Bytes of the header before the descriptions of the fields.
const HEADER_BYTES: usize = 32;
/// Bytes of the description of a field.
const FIELD_BYTES: usize = 32;
/// Bytes of the name of a field; shorter names end with a zero.
const NAME_BYTES: usize = 11;
/// The byte after the last description of a field.
const FIELDS_END: u8 = 0x0D;
/// The first byte of a row that is deleted.
const DELETED: u8 = b'*';

/// A table that is read row by row.
pub(super) struct DbfTable<R> {
    reader: R,
    /// The fields, in order.
    pub(super) fields: Vec<DbfField>,
    /// Rows that the header states.
    pub(super) row_count: u32,
    /// The mark of deletion and the values of one row.
    row: Vec<u8>,
    encoding: Encoding,
}

/// A column of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DbfField {
    pub(super) name: String,
    pub(super) kind: DbfKind,
    start: usize,
    end: usize,
}

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DbfKind {
    Text,
    Number,
    Date,
    Boolean,
    /// Memos, whose texts are in another file, and binary types of later versions of the format.
    Other,
}

impl DbfKind {
    /// The letters of the type in the header.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Text => "C",
            Self::Number => "N or F",
            Self::Date => "D",
            Self::Boolean => "L",
            Self::Other => "memo or binary",
        }
    }
}

/// The encoding of the texts.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Encoding {
    /// Nothing states the encoding: texts that are not UTF-8 are ISO-8859-1.
    Unstated,
    Utf8,
    Latin1,
    /// The content of a `.cpg` file with the name of another encoding.
    Other(String),
}

/// The name of the file beside a Shapefile with that extension, in lower or upper case.
pub(super) fn beside(shapefile: &Path, extension: &str) -> Option<PathBuf> {
    if shapefile == Path::new("-") || !shapefile.is_file() {
        return None;
    }
    let names = [extension.to_owned(), extension.to_uppercase()];
    names.into_iter().map(|extension| shapefile.with_extension(extension)).find(|path| path.exists())
}

/// Opens a table, and reads its encoding from the `.cpg` file beside it, if there is one.
pub(super) fn open(path: &Path) -> Result<DbfTable<BufReader<File>>, Trouble> {
    let encoding = match beside(path, "cpg") {
        Some(path) => Encoding::of_name(&fs::read(path)?),
        None => Encoding::Unstated,
    };
    DbfTable::new(BufReader::new(File::open(path)?), encoding)
}

fn damaged(why: &str) -> Trouble {
    Trouble::damaged(format_args!("its .dbf file is damaged: {why}"))
}

/// An end of the file within its header or a row is damage.
fn cut(error: io::Error) -> Trouble {
    match error.kind() {
        ErrorKind::UnexpectedEof => damaged("it ends too early"),
        _ => error.into(),
    }
}

impl<R: Read> DbfTable<R> {
    /// Reads the header.
    fn new(mut reader: R, encoding: Encoding) -> Result<Self, Trouble> {
        let mut start = [0; HEADER_BYTES];
        reader.read_exact(&mut start).map_err(cut)?;
        let [_, _, _, _, a, b, c, d, header_low, header_high, row_low, row_high, ..] = start;
        let header_bytes = usize::from(u16::from_le_bytes([header_low, header_high]));
        let row_bytes = usize::from(u16::from_le_bytes([row_low, row_high]));
        let mut descriptions = vec![0; header_bytes.saturating_sub(HEADER_BYTES)];
        reader.read_exact(&mut descriptions).map_err(cut)?;
        let fields = fields(&descriptions, &encoding)?;
        if fields.last().map_or(1, |field| field.end) != row_bytes {
            return Err(damaged("its header states rows of another length than that of their fields"));
        }
        let row_count = u32::from_le_bytes([a, b, c, d]);
        Ok(Self { reader, fields, row_count, row: vec![0; row_bytes], encoding })
    }

    /// Reads the next row, whose values [`DbfTable::value`] yields.
    pub(super) fn read_row(&mut self) -> Result<(), Trouble> {
        self.reader.read_exact(&mut self.row).map_err(cut)
    }

    /// Whether the row is marked as deleted.
    pub(super) fn is_deleted(&self) -> bool {
        self.row.first() == Some(&DELETED)
    }

    /// The value of a field in the row.
    pub(super) fn value(&self, field: &DbfField) -> Result<ColumnValue, String> {
        let bytes = self.row.get(field.start..field.end).unwrap_or_default();
        let text = self.encoding.decode(bytes)?;
        let text = text.trim_end_matches([' ', '\0']);
        match field.kind {
            DbfKind::Text if text.is_empty() => Ok(ColumnValue::Null),
            DbfKind::Text => Ok(ColumnValue::Text(text.to_owned())),
            // Asterisks are a number that has no value, or is too long for its field.
            DbfKind::Number if text.trim_start_matches([' ', '*']).is_empty() => Ok(ColumnValue::Null),
            DbfKind::Number => ColumnValue::of_decimal(text),
            DbfKind::Date => date(text.trim()),
            DbfKind::Boolean => match text.trim() {
                "T" | "t" | "Y" | "y" => Ok(ColumnValue::Boolean(true)),
                "F" | "f" | "N" | "n" => Ok(ColumnValue::Boolean(false)),
                "" | "?" => Ok(ColumnValue::Null),
                other => Err(format!("'{other}' is not true or false")),
            },
            DbfKind::Other => Err("its type is not supported".to_owned()),
        }
    }
}

/// The fields of a header.
fn fields(descriptions: &[u8], encoding: &Encoding) -> Result<Vec<DbfField>, Trouble> {
    let mut fields: Vec<DbfField> = Vec::new();
    let mut start = 1;
    for description in descriptions.chunks(FIELD_BYTES) {
        if description[0] == FIELDS_END {
            return Ok(fields);
        }
        let Some((name, rest)) = description.split_at_checked(NAME_BYTES).filter(|(_, rest)| rest.len() > 5)
        else {
            break;
        };
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        let name = encoding.decode(name).map_err(|why| {
            Trouble::rest(Place::File, format!("the name of a field of its .dbf file: {why}"))
        })?;
        let name = name.trim().to_owned();
        if fields.iter().any(|field| field.name == name) {
            let why = format!("its .dbf file has two columns with the name '{name}'; rename one");
            return Err(Trouble::rest(Place::File, why));
        }
        let kind = match rest[0] {
            b'C' => DbfKind::Text,
            b'N' | b'F' => DbfKind::Number,
            b'D' => DbfKind::Date,
            b'L' => DbfKind::Boolean,
            _ => DbfKind::Other,
        };
        let end = start + usize::from(rest[5]);
        fields.push(DbfField { name, kind, start, end });
        start = end;
    }
    Err(damaged("the list of its fields has no end"))
}

/// A date of eight digits as ISO 8601; null if it is empty or zero.
fn date(text: &str) -> Result<ColumnValue, String> {
    if text.trim_matches('0').is_empty() {
        return Ok(ColumnValue::Null);
    }
    if text.len() != 8 || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("'{text}' is not a date of eight digits"));
    }
    Ok(ColumnValue::Text(format!("{}-{}-{}", &text[..4], &text[4..6], &text[6..])))
}

impl Encoding {
    /// The encoding that the content of a `.cpg` file names.
    fn of_name(content: &[u8]) -> Self {
        let name = String::from_utf8_lossy(content).trim().to_owned();
        let letters: String = name.to_uppercase().chars().filter(char::is_ascii_alphanumeric).collect();
        match letters.as_str() {
            "" => Self::Unstated,
            "UTF8" | "65001" | "CP65001" => Self::Utf8,
            "ISO88591" | "88591" | "LATIN1" | "28591" => Self::Latin1,
            _ => Self::Other(name),
        }
    }

    fn decode(&self, bytes: &[u8]) -> Result<String, String> {
        match (self, std::str::from_utf8(bytes)) {
            (Self::Latin1, _) | (Self::Unstated, Err(_)) => {
                Ok(bytes.iter().copied().map(char::from).collect())
            }
            (Self::Other(name), _) if !bytes.is_ascii() => Err(format!(
                "its text is in the encoding '{name}' of the .cpg file, which is not supported: convert the Shapefile \
                 with `ogr2ogr -lco ENCODING=UTF-8`"
            )),
            (_, Ok(text)) => Ok(text.to_owned()),
            (_, Err(_)) => Err("its text is not UTF-8, which the .cpg file states".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of a table with columns (type, name, length) and rows of values.
    fn table(columns: &[(u8, &[u8], u8)], rows: &[&[u8]]) -> Vec<u8> {
        let row_bytes = 1 + columns.iter().map(|column| u16::from(column.2)).sum::<u16>();
        let header_bytes = (HEADER_BYTES + FIELD_BYTES * columns.len() + 1) as u16;
        let mut bytes = vec![3, 124, 1, 1];
        bytes.extend((rows.len() as u32).to_le_bytes());
        bytes.extend(header_bytes.to_le_bytes());
        bytes.extend(row_bytes.to_le_bytes());
        bytes.resize(HEADER_BYTES, 0);
        for (kind, name, length) in columns {
            let mut description = name.to_vec();
            description.resize(NAME_BYTES, 0);
            description.extend([*kind, 0, 0, 0, 0, *length]);
            description.resize(FIELD_BYTES, 0);
            bytes.extend(description);
        }
        bytes.push(FIELDS_END);
        bytes.extend(rows.concat());
        bytes
    }

    fn first_value(kind: u8, value: &[u8], encoding: Encoding) -> Result<String, String> {
        let row = [b" ", value].concat();
        let bytes = table(&[(kind, b"a", value.len() as u8)], &[&row]);
        let mut table = DbfTable::new(&bytes[..], encoding).unwrap();
        table.read_row().unwrap();
        table.value(&table.fields[0]).map(|value| value.to_string())
    }

    #[test]
    fn values_have_the_types_of_their_columns() {
        for (kind, value, expected) in [
            (b'C', &b"Oak   "[..], Some("\"Oak\"")),
            (b'C', b" a\0\0", Some("\" a\"")),
            (b'C', b"    ", Some("null")),
            (b'N', b" 12345678901234567890", Some("12345678901234567890")),
            (b'N', b"   -1.50", Some("-1.50")),
            (b'F', b" 1.5e+003", Some("1.5e+003")),
            (b'N', b"     ", Some("null")),
            (b'N', b"*****", Some("null")),
            (b'N', b"1x", None),
            (b'D', b"20240229", Some("\"2024-02-29\"")),
            (b'D', b"        ", Some("null")),
            (b'D', b"00000000", Some("null")),
            (b'D', b"2024-2-9", None),
            (b'L', b"T", Some("true")),
            (b'L', b"n", Some("false")),
            (b'L', b"?", Some("null")),
            (b'L', b"x", None),
            (b'M', b"0000000001", None),
        ] {
            let found = first_value(kind, value, Encoding::Unstated);
            assert_eq!(found.ok().as_deref(), expected, "{}", String::from_utf8_lossy(value));
        }
    }

    #[test]
    fn texts_have_the_encoding_that_the_cpg_file_names() {
        let of = |name: &[u8], bytes: &[u8]| first_value(b'C', bytes, Encoding::of_name(name));
        for name in [&b"UTF-8\r\n"[..], b"utf8", b"65001", b""] {
            assert_eq!(of(name, "Öl".as_bytes()).as_deref(), Ok("\"Öl\""));
        }
        for name in [&b"ISO-8859-1"[..], b"ISO 88591", b"88591", b" "] {
            assert_eq!(of(name, b"\xD6l").as_deref(), Ok("\"Öl\""));
        }
        assert!(of(b"UTF-8", b"\xD6l").unwrap_err().contains("not UTF-8"));
        assert!(of(b"CP1251", b"\xD6l").unwrap_err().contains("'CP1251'"));
        assert_eq!(of(b"CP1251", b"Oil").as_deref(), Ok("\"Oil\""));
    }

    #[test]
    fn damaged_tables_are_refused() {
        let new = |bytes: &[u8]| match DbfTable::new(bytes, Encoding::Unstated).err() {
            Some(Trouble::Rest { why, .. }) => why,
            other => panic!("{other:?}"),
        };
        let good = table(&[(b'C', b"a", 3), (b'N', b"b", 2)], &[b" abc12"]);
        assert!(DbfTable::new(&good[..], Encoding::Unstated).is_ok());
        for end in [0, 10, 40, 96] {
            assert!(new(&good[..end]).contains("ends too early"), "{end}");
        }
        let changed = |at: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            bytes
        };
        assert!(new(&changed(96, 0)).contains("no end"));
        assert!(new(&changed(8, 0)).contains("no end"), "a header without fields");
        assert!(new(&changed(10, 9)).contains("another length"));
        assert!(new(&changed(48, 4)).contains("another length"));
        assert!(new(&changed(64, b'a')).contains("two columns with the name 'a'"));
        let mut cut = DbfTable::new(&good[..good.len() - 1], Encoding::Unstated).unwrap();
        assert!(cut.read_row().is_err());
    }
}
