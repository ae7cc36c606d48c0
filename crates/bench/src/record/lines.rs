//! Measurements of programs outside the laboratory: lines of JSON with a name and figures, as text.

use crate::{Error, Result};
use serde_json::{Map, Value};
use std::fmt::Write as _;

/// A paragraph of text for each line of `text`: the name, and the figures below it.
///
/// # Errors
/// A line that is not a JSON object with a `name`.
pub fn measurements(text: &str) -> Result<String> {
    let mut page = String::new();
    for line in text.lines() {
        let wrong = || Error::Record(format!("'{line}' is not a measurement: a JSON object with a name"));
        let mut figures: Map<String, Value> = serde_json::from_str(line).map_err(|_| wrong())?;
        let Some(Value::String(name)) = figures.remove("name") else { return Err(wrong()) };
        let shown: Vec<String> =
            figures.iter().map(|(key, value)| format!("{key} {}", shown(value))).collect();
        let _ = writeln!(page, "{name}\n    {}", shown.join("; "));
    }
    Ok(page)
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string().replace(',', ", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measurement_is_a_name_and_its_figures() {
        let text = "{\"name\": \"d[k]\", \"per_s\": 5, \"mib\": [1.5, 2.0], \"linux\": \"6.1\"}\n";
        assert_eq!(measurements(text).unwrap(), "d[k]\n    linux 6.1; mib [1.5, 2.0]; per_s 5\n");
        for wrong in ["{", "{\"per_s\": 1}", "[1]"] {
            assert!(measurements(wrong).unwrap_err().to_string().contains("is not a measurement"), "{wrong}");
        }
    }
}
