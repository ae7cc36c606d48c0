//! Values of the columns of FlatGeobuf, GeoPackage, GeoParquet and Shapefile, and the attributes of a record that
//! consist of them.

use serde_json::Value;
use std::fmt;

/// A value of a column, in a type of JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ColumnValue {
    Null,
    Boolean(bool),
    /// The JSON text of a number.
    Number(String),
    Text(String),
}

impl fmt::Display for ColumnValue {
    /// Writes the JSON text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Boolean(value) => value.fmt(f),
            Self::Number(digits) => f.write_str(digits),
            Self::Text(text) => Value::from(text.as_str()).fmt(f),
        }
    }
}

impl ColumnValue {
    /// A number of 32 or 64 bits with the fewest digits that identify it; null for NaN, which JSON does not have.
    ///
    /// # Errors
    /// The number is infinite.
    pub(super) fn of_float<F: Into<f64> + serde::Serialize + Copy>(number: F) -> Result<Self, String> {
        let wide: f64 = number.into();
        if wide.is_nan() {
            return Ok(Self::Null);
        }
        if wide.is_infinite() {
            return Err(format!("it is the number {wide}, which JSON does not have"));
        }
        serde_json::to_string(&number).map(Self::Number).map_err(|error| error.to_string())
    }

    /// A number of decimal digits, which keeps its digits; null for a text of spaces.
    ///
    /// # Errors
    /// The text is not a number.
    pub(super) fn of_decimal(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.is_empty() {
            return Ok(Self::Null);
        }
        let (sign, digits) = match text.strip_prefix('-') {
            Some(digits) => ("-", digits),
            None => ("", text.strip_prefix('+').unwrap_or(text)),
        };
        let not_a_number = || format!("'{text}' is not a number");
        if !digits.strip_prefix('.').unwrap_or(digits).starts_with(|c: char| c.is_ascii_digit()) {
            return Err(not_a_number());
        }
        // JSON has no leading zeros, and a digit on both sides of the point.
        let digits = digits.trim_start_matches('0');
        let digits = digits.strip_suffix('.').unwrap_or(digits);
        let zero = if digits.starts_with(|c: char| c.is_ascii_digit()) { "" } else { "0" };
        let number = format!("{sign}{zero}{digits}");
        match serde_json::from_str::<serde_json::Number>(&number) {
            Ok(_) => Ok(Self::Number(number)),
            Err(_) => Err(not_a_number()),
        }
    }
}

/// The attributes of a record: a JSON object with a member for each column, in their order. Without columns it is the
/// empty text.
///
/// # Errors
/// The name of the first column whose value cannot be stored, and the reason.
pub(super) fn attributes<'n>(
    columns: impl IntoIterator<Item = (&'n str, Result<ColumnValue, String>)>,
) -> Result<String, String> {
    let mut members = String::new();
    for (name, value) in columns {
        let value = value.map_err(|why| format!("column '{name}': {why}"))?;
        let separator = if members.is_empty() { '{' } else { ',' };
        members.push(separator);
        members.push_str(&Value::from(name).to_string());
        members.push(':');
        members.push_str(&value.to_string());
    }
    if !members.is_empty() {
        members.push('}');
    }
    Ok(members)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_have_the_types_and_the_order_of_the_columns() {
        let values = [
            ("b \"x\"", ColumnValue::Text("a\n\"b\"".to_owned())),
            ("n", ColumnValue::Number("12345678901234567890123".to_owned())),
            ("a", ColumnValue::Boolean(true)),
            ("0", ColumnValue::Null),
        ];
        let object = attributes(values.map(|(name, value)| (name, Ok(value)))).unwrap();
        let expected =
            "{\"b \\\"x\\\"\":\"a\\n\\\"b\\\"\",\"n\":12345678901234567890123,\"a\":true,\"0\":null}";
        assert_eq!(object, expected);
        assert_eq!(attributes([]), Ok(String::new()));
        assert_eq!(attributes([("a", Err("it is x".to_owned()))]), Err("column 'a': it is x".to_owned()));
    }

    #[test]
    fn decimal_numbers_keep_their_digits() {
        for (text, expected) in [
            ("  12", Some("12")),
            ("-1.50", Some("-1.50")),
            ("+7", Some("7")),
            (".5", Some("0.5")),
            ("-.5", Some("-0.5")),
            ("5.", Some("5")),
            ("007", Some("7")),
            ("0", Some("0")),
            ("0.0", Some("0.0")),
            ("1.5e+02", Some("1.5e+02")),
            ("12345678901234567890123", Some("12345678901234567890123")),
            ("1e400", None),
            ("x", None),
            ("- 5", None),
            ("1,5", None),
            ("--5", None),
            ("-", None),
            (".", None),
            ("e5", None),
        ] {
            let number = ColumnValue::of_decimal(text).ok();
            assert_eq!(number, expected.map(|digits| ColumnValue::Number(digits.to_owned())), "{text}");
        }
        assert_eq!(ColumnValue::of_decimal("   "), Ok(ColumnValue::Null));
    }

    #[test]
    fn floating_point_numbers_have_the_digits_that_identify_them() {
        let of = |number: Result<ColumnValue, String>| number.map(|number| number.to_string());
        assert_eq!(of(ColumnValue::of_float(0.1_f32)).as_deref(), Ok("0.1"));
        assert_eq!(of(ColumnValue::of_float(-2.5)).as_deref(), Ok("-2.5"));
        assert_eq!(of(ColumnValue::of_float(f64::NAN)).as_deref(), Ok("null"));
        assert!(of(ColumnValue::of_float(f32::INFINITY)).unwrap_err().contains("number inf"));
    }
}
