//! Keys and values as JSON.

use farwood::types::Kind;
use serde_json::Value;

/// The form of numbers of 64 bits in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Numbers {
    /// Numbers.
    Plain,
    /// Strings of digits. Many readers of JSON round numbers above 2^53.
    Strings,
}

impl Numbers {
    /// A number as JSON.
    pub(crate) fn json(self, number: u64) -> Value {
        match self {
            Self::Plain => number.into(),
            Self::Strings => number.to_string().into(),
        }
    }

    /// An integer in decimal digits as JSON: a number if 64 bits can hold it.
    pub(crate) fn integer(self, digits: &str) -> Value {
        let number = || {
            let unsigned = digits.parse::<u64>().map(Value::from);
            unsigned.or_else(|_| digits.parse::<i64>().map(Value::from)).ok()
        };
        let number = match self {
            Self::Plain => number(),
            Self::Strings => None,
        };
        number.unwrap_or_else(|| digits.into())
    }

    /// A key or value as JSON: a number, `true`, `false`, or the text that the command line accepts for it.
    pub(crate) fn entry(self, kind: Kind, bytes: &[u8]) -> Value {
        let shown = kind.show(bytes);
        let number = |parsed: Option<Value>| match self {
            Self::Plain => parsed,
            Self::Strings => None,
        };
        let parsed = match kind {
            Kind::U64 => number(shown.parse::<u64>().ok().map(Value::from)),
            Kind::I64 => number(shown.parse::<i64>().ok().map(Value::from)),
            // JSON has no infinities and no NaN: they are strings.
            Kind::F64 => shown.parse::<f64>().ok().filter(|number| number.is_finite()).map(Value::from),
            Kind::Bool => shown.parse::<bool>().ok().map(Value::from),
            _ => None,
        };
        parsed.unwrap_or_else(|| shown.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_values_have_the_types_of_json() {
        let of = |kind: Kind, words: &str, numbers: Numbers| {
            let bytes = kind.read(words, farwood::types::Width::UpTo(100)).unwrap();
            numbers.entry(kind, &bytes).to_string()
        };
        for (kind, words, plain, strings) in [
            (Kind::U64, "18446744073709551615", "18446744073709551615", "\"18446744073709551615\""),
            (Kind::I64, "-7", "-7", "\"-7\""),
            (Kind::F64, "-0.5", "-0.5", "-0.5"),
            (Kind::F64, "inf", "\"inf\"", "\"inf\""),
            (Kind::Bool, "true", "true", "true"),
            (Kind::Text, "7", "\"7\"", "\"7\""),
            (Kind::Bytes, "00ff", "\"00ff\"", "\"00ff\""),
        ] {
            assert_eq!(of(kind, words, Numbers::Plain), plain, "{kind}");
            assert_eq!(of(kind, words, Numbers::Strings), strings, "{kind}");
        }
    }
}
