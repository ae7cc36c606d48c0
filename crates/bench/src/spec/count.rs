//! Counts on the command line.

/// Reads a count: `1000000`, `1_000_000`, `1000k`, `1M` or `1e9`.
pub fn count(text: &str) -> Result<u64, String> {
    let mut plain = text.replace('_', "");
    if let Some((digits, zeros)) = plain.split_once(['e', 'E'])
        && let (false, Ok(zeros @ 0..20)) = (digits.is_empty(), zeros.parse::<usize>())
    {
        plain = format!("{digits}{}", "0".repeat(zeros));
    }
    let (digits, factor) = match plain.strip_suffix(['k', 'K', 'M', 'G']) {
        Some(digits) if plain.ends_with('M') => (digits, 1_000_000),
        Some(digits) if plain.ends_with('G') => (digits, 1_000_000_000),
        Some(digits) => (digits, 1000),
        None => (&plain[..], 1),
    };
    let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    number.ok_or_else(|| "give a number, optionally followed by k, M or G, such as 10M".to_owned())
}

#[cfg(test)]
mod tests {
    use super::count;

    #[test]
    fn counts_are_parsed() {
        for (text, number) in [
            ("0", 0),
            ("1_000", 1000),
            ("10k", 10_000),
            ("10M", 10_000_000),
            ("1G", 1_000_000_000),
            ("2e9", 2_000_000_000),
        ] {
            assert_eq!(count(text), Ok(number), "{text}");
        }
        for text in ["", "M", "-1", "1.5M", "1MB", "99999999999G", "e9", "1e", "1e-1", "1e25"] {
            assert!(count(text).unwrap_err().contains("10M"), "{text}");
        }
    }
}
