//! Attributes of records: JSON objects without white space between their parts.

use serde_json::value::RawValue;
use std::collections::HashMap;

/// The text of a JSON object without white space outside of strings: names, numbers and strings stay as they are.
///
/// # Errors
/// Describes a text that is not an object.
pub(crate) fn compact(text: &str) -> Result<String, String> {
    // The numbers are not parsed: they may be beyond 64 bits.
    let members = serde_json::from_str::<HashMap<String, &RawValue>>(text);
    match members {
        Ok(_) => Ok(without_space(text)),
        Err(error) if error.is_data() => Err("not a JSON object".to_owned()),
        Err(error) => Err(format!("not JSON: {error}")),
    }
}

fn without_space(text: &str) -> String {
    let (mut compact, mut in_string, mut escaped) = (String::with_capacity(text.len()), false, false);
    for character in text.chars() {
        if in_string || !character.is_ascii_whitespace() {
            compact.push(character);
        }
        if character == '"' && !escaped {
            in_string = !in_string;
        }
        escaped = in_string && character == '\\' && !escaped;
    }
    compact
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_outside_of_strings_is_removed() {
        let text = "{ \"a b\" : 1.50 ,\n \"c\\\" d\": [ 12345678901234567890123, 1e-400, 1e400, \"e  f\" ] }";
        let expected = "{\"a b\":1.50,\"c\\\" d\":[12345678901234567890123,1e-400,1e400,\"e  f\"]}";
        assert_eq!(compact(text), Ok(expected.to_owned()));
        assert!(compact("[1]").is_err() && compact("{").is_err() && compact("").is_err());
    }
}
