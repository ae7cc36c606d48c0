//! The columns of a FlatGeobuf file, and their values in a feature.

use crate::load::args::Args;
use crate::load::column_value::{self, ColumnValue};
use crate::load::found::Found;
use crate::load::ids::{FileId, IdTypes, column_position};
use farwood::spatial::IdKind;
use flatgeobuf::{ColumnType, Feature, Header};
use std::collections::HashSet;

/// The columns of a file, and those that the load needs.
pub(super) struct Columns {
    /// All columns; empty if the load needs none.
    all: Vec<Column>,
    /// The index of the column of ids.
    id: Option<usize>,
    /// The indexes of the columns that are attributes.
    attributes: Vec<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Column {
    name: String,
    kind: ColumnType,
}

impl Columns {
    /// The columns that a header describes.
    pub(super) fn of(header: &Header<'_>, args: &Args, found: &mut Found<'_>) -> Result<Self, String> {
        if args.id_column.is_none() && !found.wants_contents() {
            return Ok(Self { all: Vec::new(), id: None, attributes: Vec::new() });
        }
        let (mut all, mut names) = (Vec::new(), HashSet::new());
        for column in header.columns().into_iter().flat_map(|columns| columns.iter()) {
            let (name, kind) = (column.name(), column.type_());
            if !names.insert(name) {
                return Err(format!("it has two columns with the name '{name}'; rename one"));
            }
            if kind.variant_name().is_none() {
                return Err(format!("the column '{name}' has the unknown type {}", kind.0));
            }
            all.push(Column { name: name.to_owned(), kind });
        }
        let id = args.id_column.as_deref().map(|name| id_index(&all, name, found.kind())).transpose()?;
        let mut attributes = Vec::new();
        for (index, column) in all.iter().enumerate().filter(|(index, _)| Some(*index) != id) {
            match column.kind {
                _ if !found.wants_contents() => {}
                ColumnType::Binary => found.leave_out(&column.name),
                _ => attributes.push(index),
            }
        }
        Ok(Self { all, id, attributes })
    }

    /// The id of a feature, and its attributes or the reason why it is bad.
    pub(super) fn values(&self, feature: &Feature<'_>) -> (Option<FileId>, Result<String, String>) {
        if self.all.is_empty() {
            return (None, Ok(String::new()));
        }
        if feature.columns().is_some_and(|columns| !columns.is_empty()) {
            return self.refused("the feature has columns of its own, which are not supported".to_owned());
        }
        let bytes = feature.properties().map_or(&[][..], |properties| properties.bytes());
        match self.parse(bytes) {
            Ok(values) => {
                let id = self.id.map(|index| FileId::of_value(values[index].clone()));
                let attributes = self.attributes.iter();
                let attributes =
                    attributes.map(|index| (self.all[*index].name.as_str(), values[*index].clone()));
                (id, column_value::attributes(attributes))
            }
            Err(why) => self.refused(format!("its properties are damaged: {why}")),
        }
    }

    fn refused(&self, why: String) -> (Option<FileId>, Result<String, String>) {
        (self.id.map(|_| FileId::of_value(Err(why.clone()))), Err(why))
    }

    /// The value of every column; null if the feature has none. The outer error is one of the bytes.
    fn parse(&self, bytes: &[u8]) -> Result<Vec<Result<ColumnValue, String>>, String> {
        let mut values = vec![None; self.all.len()];
        let mut rest = Bytes(bytes);
        // Some writers add a byte after the last binary value.
        while rest.0.len() > 1 {
            let index = usize::from(u16::from_le_bytes(rest.take()?));
            let column = self.all.get(index).ok_or_else(|| {
                format!("they have a value of column {}, and the file has {}", index + 1, self.all.len())
            })?;
            if values[index].replace(rest.value(column.kind)?).is_some() {
                return Err(format!("they have two values of the column '{}'", column.name));
            }
        }
        Ok(values.into_iter().map(|value| value.unwrap_or(Ok(ColumnValue::Null))).collect())
    }
}

const ID_TYPES: IdTypes = IdTypes { texts: "texts (String)", integers: "integers (Byte to ULong)" };

/// The index of the column of ids of that kind.
fn id_index(columns: &[Column], name: &str, kind: IdKind) -> Result<usize, String> {
    let index = column_position(columns.iter().map(|column| column.name.as_str()), name, "the file")?;
    let found = columns[index].kind;
    let is_right = match kind {
        IdKind::Text => found == ColumnType::String,
        IdKind::Repeated | IdKind::Number => is_integer(found),
    };
    if !is_right {
        return Err(ID_TYPES.refusal(name, found.variant_name().unwrap_or_default(), kind));
    }
    Ok(index)
}

fn is_integer(kind: ColumnType) -> bool {
    matches!(
        kind,
        ColumnType::Byte
            | ColumnType::UByte
            | ColumnType::Short
            | ColumnType::UShort
            | ColumnType::Int
            | ColumnType::UInt
            | ColumnType::Long
            | ColumnType::ULong
    )
}

/// The bytes of properties that are not read yet.
struct Bytes<'b>(&'b [u8]);

impl<'b> Bytes<'b> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let (taken, rest) = self.0.split_first_chunk().ok_or("they end within a value")?;
        self.0 = rest;
        Ok(*taken)
    }

    /// Bytes after their number.
    fn take_counted(&mut self) -> Result<&'b [u8], String> {
        let count = u32::from_le_bytes(self.take()?) as usize;
        let (taken, rest) = self.0.split_at_checked(count).ok_or("they end within a value")?;
        self.0 = rest;
        Ok(taken)
    }

    /// The next value, in a column of that type. The outer error is one of the bytes.
    fn value(&mut self, kind: ColumnType) -> Result<Result<ColumnValue, String>, String> {
        let number = |digits: String| Ok(ColumnValue::Number(digits));
        Ok(match kind {
            ColumnType::Byte => number(i8::from_le_bytes(self.take()?).to_string()),
            ColumnType::UByte => number(u8::from_le_bytes(self.take()?).to_string()),
            ColumnType::Bool => Ok(ColumnValue::Boolean(self.take()? != [0])),
            ColumnType::Short => number(i16::from_le_bytes(self.take()?).to_string()),
            ColumnType::UShort => number(u16::from_le_bytes(self.take()?).to_string()),
            ColumnType::Int => number(i32::from_le_bytes(self.take()?).to_string()),
            ColumnType::UInt => number(u32::from_le_bytes(self.take()?).to_string()),
            ColumnType::Long => number(i64::from_le_bytes(self.take()?).to_string()),
            ColumnType::ULong => number(u64::from_le_bytes(self.take()?).to_string()),
            ColumnType::Float => ColumnValue::of_float(f32::from_le_bytes(self.take()?)),
            ColumnType::Double => ColumnValue::of_float(f64::from_le_bytes(self.take()?)),
            ColumnType::Binary => {
                self.take_counted()?;
                Ok(ColumnValue::Null)
            }
            // String, Json and DateTime, which is ISO 8601.
            _ => match std::str::from_utf8(self.take_counted()?) {
                Ok(text) => Ok(ColumnValue::Text(text.to_owned())),
                Err(_) => Err("its text is not UTF-8".to_owned()),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(kinds: &[ColumnType]) -> Columns {
        let column =
            |(number, kind): (usize, &ColumnType)| Column { name: format!("c{number}"), kind: *kind };
        let all: Vec<_> = kinds.iter().enumerate().map(column).collect();
        Columns { attributes: (0..all.len()).collect(), all, id: None }
    }

    /// The attributes of these values, each after the number of its column.
    fn parsed(kinds: &[ColumnType], values: &[(u16, &[u8])]) -> Result<String, String> {
        let bytes = values.iter().flat_map(|(column, value)| [&column.to_le_bytes()[..], value].concat());
        let columns = columns(kinds);
        let values = columns.parse(&bytes.collect::<Vec<_>>())?;
        column_value::attributes(columns.all.iter().map(|column| column.name.as_str()).zip(values))
    }

    #[test]
    fn values_have_the_types_of_their_columns() {
        type Kind = ColumnType;
        for (kind, value, expected) in [
            (Kind::Byte, &[0xFF][..], "-1"),
            (Kind::UByte, &[0xFF], "255"),
            (Kind::Bool, &[1], "true"),
            (Kind::Short, &(-300_i16).to_le_bytes(), "-300"),
            (Kind::UShort, &60_000_u16.to_le_bytes(), "60000"),
            (Kind::Int, &(-70_000_i32).to_le_bytes(), "-70000"),
            (Kind::UInt, &u32::MAX.to_le_bytes(), "4294967295"),
            (Kind::Long, &i64::MIN.to_le_bytes(), "-9223372036854775808"),
            (Kind::ULong, &u64::MAX.to_le_bytes(), "18446744073709551615"),
            (Kind::Float, &0.1_f32.to_le_bytes(), "0.1"),
            (Kind::Double, &f64::NAN.to_le_bytes(), "null"),
            (Kind::String, b"\x03\0\0\0\xC3\x96l", "\"Öl\""),
            (Kind::Json, b"\x02\0\0\0[]", "\"[]\""),
            (Kind::DateTime, b"\x0A\0\0\x002024-02-29", "\"2024-02-29\""),
        ] {
            let attributes = parsed(&[Kind::Int, kind], &[(1, value)]);
            assert_eq!(attributes, Ok(format!("{{\"c0\":null,\"c1\":{expected}}}")), "{kind:?}");
        }
        let after_binary = parsed(&[Kind::Binary, Kind::Bool], &[(0, b"\x02\0\0\0ab"), (1, &[0])]);
        assert_eq!(after_binary.as_deref(), Ok("{\"c0\":null,\"c1\":false}"));
    }

    #[test]
    fn properties_that_are_damaged_are_refused() {
        type Kind = ColumnType;
        for (kind, values, why) in [
            (Kind::Int, &[(1, &[0; 4][..])][..], "a value of column 2, and the file has 1"),
            (Kind::Int, &[(0, &[0; 3])], "end within a value"),
            (Kind::Int, &[(0, &[0; 4]), (0, &[0; 4])], "two values of the column 'c0'"),
            (Kind::String, &[(0, b"\x03\0\0\0ab")], "end within a value"),
            (Kind::String, &[(0, b"\xFF\xFF\xFF\xFFab")], "end within a value"),
            (Kind::String, &[(0, b"\x01\0\0\0\xFF")], "column 'c0': its text is not UTF-8"),
            (Kind::Double, &[(0, &f64::INFINITY.to_le_bytes())], "column 'c0': it is the number inf"),
        ] {
            let refused = parsed(&[kind], values).unwrap_err();
            assert!(refused.contains(why), "{why}: {refused}");
        }
    }
}
