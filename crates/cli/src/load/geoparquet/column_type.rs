//! The types of columns whose values JSON can hold.

use super::iso8601::{self, SecondPart, TimeZone};
use crate::load::column_value::ColumnValue;
use parquet::basic::{ConvertedType, LogicalType, TimeUnit, Type};
use parquet::schema::types::ColumnDescriptor;

/// The greatest number of digits after the point of a decimal number, of which 128 bits hold 38.
const SCALE_MAX: usize = 38;

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ColumnType {
    Boolean,
    Float,
    Text,
    Integer(IntegerType),
    /// A decimal number with that many digits after the point, as bytes.
    Decimal(usize),
}

/// The meaning of integers of 32 or 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IntegerType {
    Signed,
    Unsigned,
    /// A number of units of the last of that many digits after the point.
    Decimal(usize),
    /// Days.
    Date,
    Time(SecondPart),
    Timestamp(SecondPart, TimeZone),
}

impl ColumnType {
    /// The type of a column; `None` if it is nested, repeated, binary or of a type that is not read.
    pub(super) fn of(column: &ColumnDescriptor) -> Option<Self> {
        if column.max_rep_level() > 0 || column.path().parts().len() != 1 {
            return None;
        }
        let scale = || usize::try_from(column.type_scale()).ok().filter(|scale| *scale <= SCALE_MAX);
        match (column.physical_type(), column.converted_type()) {
            (Type::BOOLEAN, _) => Some(Self::Boolean),
            (Type::FLOAT | Type::DOUBLE, _) => Some(Self::Float),
            (Type::BYTE_ARRAY, ConvertedType::UTF8 | ConvertedType::ENUM | ConvertedType::JSON) => {
                Some(Self::Text)
            }
            (Type::BYTE_ARRAY | Type::FIXED_LEN_BYTE_ARRAY, ConvertedType::DECIMAL) => {
                Some(Self::Decimal(scale()?))
            }
            (Type::INT32 | Type::INT64, ConvertedType::DECIMAL) => {
                Some(Self::Integer(IntegerType::Decimal(scale()?)))
            }
            (Type::INT32 | Type::INT64, converted) => {
                Some(Self::Integer(IntegerType::of(column.logical_type_ref(), converted)))
            }
            _ => None,
        }
    }

    /// The value of bytes in a column of this type.
    pub(super) fn of_bytes(self, bytes: &[u8]) -> Result<ColumnValue, String> {
        if let Self::Decimal(scale) = self {
            return decimal_bytes(bytes).map(|number| decimal(number, scale));
        }
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(ColumnValue::Text(text.to_owned())),
            Err(_) => Err("its text is not UTF-8".to_owned()),
        }
    }
}

impl IntegerType {
    fn of(logical: Option<&LogicalType>, converted: ConvertedType) -> Self {
        match (logical, converted) {
            (Some(LogicalType::Time(time)), _) => Self::Time(part(time.unit)),
            (Some(LogicalType::Timestamp(time)), _) => {
                let zone = if time.is_adjusted_to_u_t_c { TimeZone::Utc } else { TimeZone::Unstated };
                Self::Timestamp(part(time.unit), zone)
            }
            (_, ConvertedType::DATE) => Self::Date,
            (_, ConvertedType::TIME_MILLIS) => Self::Time(SecondPart::Millis),
            (_, ConvertedType::TIME_MICROS) => Self::Time(SecondPart::Micros),
            (_, ConvertedType::TIMESTAMP_MILLIS) => Self::Timestamp(SecondPart::Millis, TimeZone::Utc),
            (_, ConvertedType::TIMESTAMP_MICROS) => Self::Timestamp(SecondPart::Micros, TimeZone::Utc),
            (
                _,
                ConvertedType::UINT_8
                | ConvertedType::UINT_16
                | ConvertedType::UINT_32
                | ConvertedType::UINT_64,
            ) => Self::Unsigned,
            _ => Self::Signed,
        }
    }

    /// The value of an integer of 32 bits in a column of this type.
    pub(super) fn of_int32(self, number: i32) -> Result<ColumnValue, String> {
        match self {
            Self::Unsigned => Ok(ColumnValue::Number((number as u32).to_string())),
            _ => self.of_int64(i64::from(number)),
        }
    }

    /// The value of an integer of 64 bits in a column of this type.
    pub(super) fn of_int64(self, number: i64) -> Result<ColumnValue, String> {
        Ok(match self {
            Self::Signed => ColumnValue::Number(number.to_string()),
            Self::Unsigned => ColumnValue::Number((number as u64).to_string()),
            Self::Decimal(scale) => decimal(i128::from(number), scale),
            Self::Date => ColumnValue::Text(iso8601::date(number)?),
            Self::Time(part) => ColumnValue::Text(iso8601::time(number, part)?),
            Self::Timestamp(part, zone) => ColumnValue::Text(iso8601::timestamp(number, part, zone)?),
        })
    }
}

fn part(unit: TimeUnit) -> SecondPart {
    match unit {
        TimeUnit::MILLIS => SecondPart::Millis,
        TimeUnit::MICROS => SecondPart::Micros,
        TimeUnit::NANOS => SecondPart::Nanos,
    }
}

/// A number with that many digits after the point.
fn decimal(number: i128, scale: usize) -> ColumnValue {
    let sign = if number < 0 { "-" } else { "" };
    let digits = format!("{:0width$}", number.unsigned_abs(), width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    let point = if scale == 0 { "" } else { "." };
    ColumnValue::Number(format!("{sign}{whole}{point}{fraction}"))
}

/// A number in two's complement, the most significant byte first.
fn decimal_bytes(bytes: &[u8]) -> Result<i128, String> {
    if bytes.len() > size_of::<i128>() {
        return Err(format!("a decimal number has {} bytes; at most 16 are supported", bytes.len()));
    }
    let sign = if bytes.first().is_some_and(|first| first & 0x80 != 0) { -1 } else { 0 };
    Ok(bytes.iter().fold(sign, |number, byte| number << 8 | i128::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::schema::parser::parse_message_type;
    use parquet::schema::types::SchemaDescriptor;
    use std::sync::Arc;

    fn types(fields: &str) -> Vec<Option<ColumnType>> {
        let schema = parse_message_type(&format!("message m {{ {fields} }}")).unwrap();
        let schema = SchemaDescriptor::new(Arc::new(schema));
        schema.columns().iter().map(|column| ColumnType::of(column)).collect()
    }

    #[test]
    fn columns_have_the_types_of_the_schema() {
        let integer = |kind| Some(ColumnType::Integer(kind));
        let timestamp = |part, zone| integer(IntegerType::Timestamp(part, zone));
        for (fields, expected) in [
            ("optional boolean a;", Some(ColumnType::Boolean)),
            ("optional float a;", Some(ColumnType::Float)),
            ("optional binary a (STRING);", Some(ColumnType::Text)),
            ("optional binary a (UTF8);", Some(ColumnType::Text)),
            ("optional int32 a (INTEGER(8,true));", integer(IntegerType::Signed)),
            ("optional int64 a (UINT_64);", integer(IntegerType::Unsigned)),
            ("optional int32 a (DATE);", integer(IntegerType::Date)),
            ("optional int64 a (TIME(NANOS,true));", integer(IntegerType::Time(SecondPart::Nanos))),
            ("optional int64 a (TIMESTAMP_MILLIS);", timestamp(SecondPart::Millis, TimeZone::Utc)),
            (
                "optional int64 a (TIMESTAMP(MICROS,false));",
                timestamp(SecondPart::Micros, TimeZone::Unstated),
            ),
            ("optional int32 a (DECIMAL(9,2));", integer(IntegerType::Decimal(2))),
            ("optional fixed_len_byte_array (16) a (DECIMAL(38,4));", Some(ColumnType::Decimal(4))),
            ("optional binary a;", None),
            ("optional int96 a;", None),
            ("optional fixed_len_byte_array (16) a (UUID);", None),
            ("repeated int32 a;", None),
            ("optional group a { required double xmin; }", None),
        ] {
            assert_eq!(types(fields), [expected], "{fields}");
        }
    }

    #[test]
    fn decimal_numbers_keep_their_digits() {
        let of = |number, scale| decimal(number, scale).to_string();
        for (number, scale, expected) in [
            (1250, 2, "12.50"),
            (-5, 2, "-0.05"),
            (0, 3, "0.000"),
            (-17, 0, "-17"),
            (i128::MAX, 0, &i128::MAX.to_string()),
        ] {
            assert_eq!(of(number, scale), expected);
        }
        assert_eq!(decimal_bytes(&[0xFF, 0x38]), Ok(-200));
        assert_eq!(decimal_bytes(&[0x00, 0xC8]), Ok(200));
        assert_eq!(decimal_bytes(&i128::MIN.to_be_bytes()), Ok(i128::MIN));
        assert!(decimal_bytes(&[0; 17]).is_err());
    }

    #[test]
    fn unsigned_integers_are_not_negative() {
        assert_eq!(IntegerType::Unsigned.of_int32(-1).unwrap().to_string(), u32::MAX.to_string());
        assert_eq!(IntegerType::Unsigned.of_int64(-1).unwrap().to_string(), u64::MAX.to_string());
        assert_eq!(IntegerType::Signed.of_int32(-1).unwrap().to_string(), "-1");
    }
}
