//! `farwood incr`: adds to an integer.

use super::timeout::TimeoutArgs;
use super::{Context, Failure, Format, Outcome, Untyped, read};
use farwood::types::{Counter, Kind, Unfit, Width};
use farwood::{Access, Error, Url};
use serde_json::json;
use std::fmt::Display;
use std::num::{IntErrorKind, ParseIntError};

/// Add to the number under a key, in one atomic step
///
/// Prints the new value. A key that does not exist counts as 0. If the sum is beyond the type of the values, the
/// command stores nothing, prints nothing on stdout and exits with code 1. The values of the index must be integers.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  farwood incr shm://demo/visits 7\n  farwood incr shm://demo/stock apple -3\n  \
    farwood incr shm://demo/visits 7 10 --json\n  farwood incr tcp://host-a:7470/visits 7 --timeout 2"
)]
pub(crate) struct Args {
    /// shm://POOL/INDEX
    url: Url,
    /// The key
    #[arg(allow_hyphen_values = true)]
    key: String,
    /// The integer to add, which may be negative
    #[arg(allow_negative_numbers = true, default_value = "1", value_parser = integer)]
    by: i128,
    #[command(flatten)]
    timeout: TimeoutArgs,
}

/// Reads an integer. For clap's `value_parser`.
fn integer(text: &str) -> Result<i128, String> {
    if text.starts_with('+') {
        return Err("give an integer without a plus sign, such as 5 or -5".to_owned());
    }
    text.parse().map_err(|error: ParseIntError| match error.kind() {
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => {
            "give an integer of at most 128 bits".to_owned()
        }
        _ => "give an integer, such as 5 or -5".to_owned(),
    })
}

/// A type of integers.
trait Integer: Counter + Display {
    /// The least and the greatest value.
    const RANGE: [Self; 2];

    /// The sum; `None` if it is beyond the type.
    fn plus(self, by: i128) -> Option<Self>;
}

/// The sum of a number that 128 bits with a sign can hold.
fn sum<T: Into<i128> + TryFrom<i128>>(own: T, by: i128) -> Option<T> {
    own.into().checked_add(by).and_then(|sum| T::try_from(sum).ok())
}

macro_rules! integers {
    ($($integer:ident: $sum:expr),+) => {
        $(impl Integer for $integer {
            const RANGE: [Self; 2] = [Self::MIN, Self::MAX];

            fn plus(self, by: i128) -> Option<Self> {
                $sum(self, by)
            }
        })+

        /// The addition to integers of the type `name`.
        fn addition_to(name: &str) -> Option<Add> {
            match name {
                $(stringify!($integer) => Some(add::<$integer>),)+
                _ => None,
            }
        }
    };
}

integers!(
    u8: sum, u16: sum, u32: sum, u64: sum, u128: u128::checked_add_signed,
    i8: sum, i16: sum, i32: sum, i64: sum, i128: sum
);

/// An addition: the value before, the sum unless it is beyond the type, and the values of the type.
struct Added {
    current: String,
    sum: Option<String>,
    range: [String; 2],
}

type Add = fn(&Untyped, &[u8], i128) -> farwood::Result<Added>;

/// The name of the type of integers, and its addition; `None` if the values are not integers.
fn addition(index: &Untyped) -> Option<(String, Add)> {
    let values = index.stats().layout.values;
    let name = match values.kind {
        kind @ (Kind::U64 | Kind::I64) => kind.to_string(),
        Kind::Structured => values.name?.to_string(),
        _ => return None,
    };
    let add = addition_to(&name)?;
    Some((name, add))
}

/// The value before, and the sum with its encoding unless it is beyond the type.
type Next<T> = (T, Option<(T, Vec<u8>)>);

fn next<T: Integer>(stored: Option<&Vec<u8>>, by: i128, width: Width) -> Result<Next<T>, Unfit> {
    let current = stored.map_or(Ok(T::ZERO), |bytes| T::decode(bytes))?;
    let encoded = |sum: T| Ok((sum, sum.encode(width)?.as_ref().to_vec()));
    Ok((current, current.plus(by).map(encoded).transpose()?))
}

/// Adds to the value of a key, unless the sum is beyond the type.
fn add<T: Integer>(index: &Untyped, key: &[u8], by: i128) -> farwood::Result<Added> {
    let width = index.value_width();
    let mut last = Ok((T::ZERO, None));
    index.fetch_update(key, |stored| {
        last = next(stored, by, width);
        match &last {
            Ok((_, Some((_, bytes)))) => Some(bytes.clone()),
            // The value does not change, and an absent key stays absent.
            Ok((_, None)) | Err(_) => stored.cloned(),
        }
    })?;
    let unfit = |why| Error::Unfit { operation: "incr", url: index.url(), what: "value", why };
    let (current, sum): Next<T> = last.map_err(unfit)?;
    Ok(Added {
        current: current.to_string(),
        sum: sum.map(|(sum, _)| sum.to_string()),
        range: T::RANGE.map(|bound| bound.to_string()),
    })
}

pub(crate) fn run(args: &Args, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    let index = args.timeout.open("incr", &args.url, Access::ReadWrite, context)?.into_ordered(&args.url)?;
    let Some((name, add)) = addition(&index) else {
        return Err(Failure::Usage(format!(
            "incr {}: the values of this index have the type {}, and only integers can be added to; create an index \
             with --values u64 or --values i64",
            args.url,
            index.stats().layout.values
        )));
    };
    let key = read(&index, "incr", "key", &args.key)?;
    let Added { current, sum, range: [least, greatest] } = add(&index, &key, args.by)?;
    if context.format == Format::Json {
        let numbers = context.numbers;
        let key = numbers.entry(index.kinds()[0], &key);
        context.json(&match &sum {
            Some(sum) => json!({ "key": key, "value": numbers.integer(sum) }),
            None => json!({ "key": key, "value": null, "current": numbers.integer(&current) }),
        })?;
    } else if let Some(sum) = &sum {
        writeln!(context.out, "{sum}")?;
    }
    if sum.is_some() {
        return Ok(Outcome::Done);
    }
    writeln!(
        context.messages,
        "incr {}: the value of the key '{}' is {current}, and the sum with {} is beyond the values of {name}, {least} \
         to {greatest}; nothing was stored",
        args.url, args.key, args.by
    )?;
    Ok(Outcome::Negative)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_beyond_the_type_is_refused() {
        assert_eq!(5_u64.plus(-5), Some(0));
        assert_eq!(5_u64.plus(-6), None);
        assert_eq!(u64::MAX.plus(1), None);
        assert_eq!(0_u64.plus(i128::from(u64::MAX)), Some(u64::MAX));
        assert_eq!(i64::MIN.plus(-1), None);
        assert_eq!(i64::MIN.plus(i128::from(u64::MAX)), Some(i64::MAX));
        assert_eq!(250_u8.plus(6), None);
        assert_eq!(u128::MAX.plus(1), None);
        assert_eq!(i128::MIN.plus(-1), None);
        assert_eq!(7_u64.plus(i128::MAX), None);
    }
}
