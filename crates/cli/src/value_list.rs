//! Lists and ranges of option values: `8,16`, `8..64*2`, `0..0.9+0.3`.

use std::fmt::Display;
use std::str::FromStr;

/// Most values of a list.
pub(crate) const VALUES_MAX: usize = 10_000;

/// The values of an option.
#[derive(Clone, Debug)]
pub(crate) struct ValueList<T>(pub(crate) Vec<T>);

impl<T: FromStr<Err: Display>> FromStr for ValueList<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<ValueList<T>, String> {
        let all = values(text)?;
        all.iter()
            .map(|value| value.parse().map_err(|error: T::Err| error.to_string()))
            .collect::<Result<_, _>>()
            .map(ValueList)
    }
}

/// Reads a list of counts from `least` to `most`. For clap's `value_parser`.
pub(crate) fn counts(least: u64, most: u64) -> impl Fn(&str) -> Result<ValueList<u64>, String> + Clone {
    let count = super::size::between::<u64>(least, most);
    move |text| values(text)?.iter().map(|value| count(value)).collect::<Result<_, _>>().map(ValueList)
}

/// The values of an option: a list, a range, or one value.
pub(crate) fn values(text: &str) -> Result<Vec<String>, String> {
    let lists: Result<Vec<_>, _> = text.split(',').map(range).collect();
    Ok(lists?.concat())
}

/// The values of a range, or one value.
fn range(text: &str) -> Result<Vec<String>, String> {
    let Some((first, rest)) = text.split_once("..") else { return Ok(vec![text.to_owned()]) };
    let refused = || {
        let forms = "give a range as 8..256*2 or 0..0.9+0.3, with a factor above 1 or a step above 0, and with a \
                     last value that is not below the first";
        format!("'{text}' is no range; {forms}")
    };
    let number = |text: &str| text.parse::<f64>().map_err(|_| refused());
    let (last, by, is_factor) = match (rest.split_once('*'), rest.split_once('+')) {
        (Some((last, by)), _) => (number(last)?, number(by)?, true),
        (None, Some((last, by))) => (number(last)?, number(by)?, false),
        (None, None) => return Err(refused()),
    };
    let first = number(first)?;
    let is_valid = if is_factor { by > 1.0 && first > 0.0 } else { by > 0.0 };
    if !is_valid || !last.is_finite() || first > last {
        return Err(refused());
    }
    let value = |number: u32| {
        let number = f64::from(number);
        if is_factor { first * by.powf(number) } else { first + by * number }
    };
    // A sum of steps can miss the last value by a rounding error.
    let within = |value: &f64| *value <= last * (1.0 + 1e-9);
    let all = (0..=VALUES_MAX as u32).map(value).take_while(within);
    Ok(all.map(|value| format!("{}", (value * 1e9).round() / 1e9)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(text: &str) -> Vec<String> {
        values(text).unwrap_or_default()
    }

    #[test]
    fn values_are_lists_and_ranges() {
        assert_eq!(listed("8,16"), ["8", "16"]);
        assert_eq!(listed("8..64*2"), ["8", "16", "32", "64"]);
        assert_eq!(listed("0..0.9+0.3"), ["0", "0.3", "0.6", "0.9"]);
        assert_eq!(listed("1,4..6+1"), ["1", "4", "5", "6"]);
        assert_eq!(listed("ycsb-a"), ["ycsb-a"]);
        for bad in ["8..64", "8..64*1", "64..8*2", "0..8*2", "1..2+0", "a..b*2", "1..inf+1"] {
            assert!(values(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn counts_have_bounds() {
        assert_eq!(counts(1, 64)("1..64*4").map(|list| list.0), Ok(vec![1, 4, 16, 64]));
        assert_eq!(counts(1, 64)("8,65").map(|list| list.0), Err("give 1 to 64".to_owned()));
    }
}
