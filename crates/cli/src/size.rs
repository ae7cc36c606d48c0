//! Sizes such as `8GiB`, `256KiB` or `4096`, and counts with their noun.

use farwood::Pool;
use farwood::spatial::IdKind;
use std::num::IntErrorKind;

/// The units, with their bytes.
const UNITS: [(&str, u64); 9] = [
    ("", 1),
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("K", 1 << 10),
    ("M", 1 << 20),
    ("G", 1 << 30),
];

/// Reads a size in bytes. For clap's `value_parser`.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let factor = UNITS.iter().find(|(name, _)| *name == unit.trim_start()).map(|(_, factor)| *factor);
    let (Ok(number), Some(factor)) = (number.parse::<u64>(), factor) else {
        return Err("give a number followed by B, KiB, MiB, GiB or TiB, such as 256KiB".to_owned());
    };
    number.checked_mul(factor).ok_or_else(|| "the size exceeds 2^64 bytes".to_owned())
}

/// Reads a count from `least` to `most`. For clap's `value_parser`.
pub(crate) fn between<N>(least: u64, most: u64) -> impl Fn(&str) -> Result<N, String> + Clone
where
    N: TryFrom<u64>,
{
    move |text| {
        let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(format!("this is not a number; give {least} to {most}"));
        }
        let number = text.parse().ok().filter(|number| (least..=most).contains(number));
        number.and_then(|number| N::try_from(number).ok()).ok_or_else(|| format!("give {least} to {most}"))
    }
}

/// Reads a count of at least 1. For clap's `value_parser`.
pub(crate) fn at_least_one(text: &str) -> Result<usize, String> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse::<usize>() {
        Ok(0) => Err("give at least 1, or omit the option".to_owned()),
        Ok(number) => Ok(number),
        Err(error) if *error.kind() == IntErrorKind::PosOverflow => Err("give a smaller number".to_owned()),
        Err(_) if is_number => Err("give an integer from 1".to_owned()),
        Err(_) => Err("this is not a number; give an integer from 1".to_owned()),
    }
}

/// A number of memory nodes of a pool.
pub(crate) fn memory_nodes(text: &str) -> Result<u16, String> {
    let nodes = text.parse().ok().filter(|nodes| (1..=Pool::MEMORY_NODES_MAX).contains(nodes));
    nodes.ok_or_else(|| format!("a pool has 1 to {} memory nodes, not {text}", Pool::MEMORY_NODES_MAX))
}

/// A size in the largest unit that gives a number of at least 1.
pub(crate) fn show(bytes: u64) -> String {
    for (name, factor) in [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)] {
        if bytes >= factor {
            let decimals = usize::from(!bytes.is_multiple_of(factor));
            return format!("{:.decimals$} {name}", bytes as f64 / factor as f64);
        }
    }
    format!("{bytes} B")
}

/// A count with its noun: "1 node", "2 nodes".
pub(crate) fn count(number: u64, one: &str, many: &str) -> String {
    let what = if number == 1 { one } else { many };
    format!("{number} {what}")
}

/// The noun for what a spatial index with those ids holds: of one, and of several.
pub(crate) fn spatial_noun(ids: IdKind) -> (&'static str, &'static str) {
    if ids.is_unique() { ("record", "records") } else { ("rectangle", "rectangles") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("256KiB", 256 << 10),
            ("8GiB", 8 << 30),
            ("1 MiB", 1 << 20),
            ("2G", 2 << 30),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "GiB", "-1", "1.5GiB", "8GB", "1kib", "99999999999TiB"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn counts_outside_their_range_are_refused() {
        let parse = between::<u16>(1, 1024);
        assert_eq!((parse("1"), parse("1024")), (Ok(1), Ok(1024)));
        for text in ["0", "1025", "-1", "99999999999999999999999"] {
            assert_eq!(parse(text), Err("give 1 to 1024".to_owned()), "{text}");
        }
        assert!(parse("many").unwrap_err().contains("not a number; give 1 to 1024"));
    }

    #[test]
    fn sizes_are_shown() {
        for (bytes, text) in [(17, "17 B"), (1 << 30, "1 GiB"), (1536, "1.5 KiB"), (8 << 20, "8 MiB")] {
            assert_eq!(show(bytes), text);
        }
    }
}
