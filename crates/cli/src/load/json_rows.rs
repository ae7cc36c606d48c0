//! Objects of JSON lines that become entries, as `farwood scan --json` prints them.

use super::args::Args;
use super::rows::Row;
use super::trouble::{Place, Trouble};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;

/// The members of keys and values in the objects.
#[derive(Clone, Debug)]
pub(super) struct EntryMembers {
    key: String,
    /// `None`: `--value` gives the values.
    value: Option<String>,
    /// Whether the command line selects members, so that others are not loaded.
    is_selection: bool,
}

impl EntryMembers {
    /// The members that the command line selects.
    pub(super) fn of(args: &Args) -> Self {
        let name = |given: &Option<String>, default: &str| given.as_deref().unwrap_or(default).to_owned();
        Self {
            key: name(&args.key_column, "key"),
            value: args.value.is_none().then(|| name(&args.value_column, "value")),
            is_selection: args.key_column.is_some() || args.value_column.is_some(),
        }
    }

    /// The entry of a line.
    pub(super) fn row(&self, line: u64, text: &[u8]) -> Result<Row, Trouble> {
        let bad = |why| Trouble::record(Place::Line(line), why);
        let Members(members) = serde_json::from_slice(text)
            .map_err(|error| bad(format!("the line is not a JSON object: {error}")))?;
        let known = |name: &String| *name == self.key || Some(name) == self.value.as_ref();
        if let Some((other, _)) = members.iter().find(|(name, _)| !self.is_selection && !known(name)) {
            return Err(bad(format!(
                "the object has the member '{other}'; select the members of keys and values with --key-column and \
                 --value-column (or --value), the others are not loaded"
            )));
        }
        let member = |name: &String| {
            let mut found = members.iter().filter(|(other, _)| other == name);
            let (_, value) = found.next().ok_or_else(|| format!("the object has no member '{name}'"))?;
            if found.next().is_some() {
                return Err(format!("the object has several members '{name}'"));
            }
            words(value.get()).ok_or_else(|| {
                format!("the member '{name}' is {}; give a text, a number, true or false", value.get())
            })
        };
        let key = member(&self.key).map_err(bad)?;
        let value = self.value.as_ref().map(member).transpose().map_err(bad)?;
        Ok(Row { line, key, value })
    }
}

/// The members of an object in their order: unlike a map, it keeps those with the same name.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(members)
            }
        }
        deserializer.deserialize_map(InOrder).map(Members)
    }
}

/// A text, a number or a truth value, as the command line accepts it; `None`: the value is another one.
fn words(value: &str) -> Option<String> {
    match value.as_bytes().first()? {
        b'"' => serde_json::from_str(value).ok(),
        b'n' | b'[' | b'{' => None,
        _ => Some(value.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(members: &EntryMembers, text: &str) -> String {
        match members.row(3, text.as_bytes()) {
            Ok(Row { key, value, .. }) => format!("{key}={}", value.unwrap_or_default()),
            Err(Trouble::Record { place: Place::Line(3), why }) => why,
            Err(other) => format!("{other:?}"),
        }
    }

    #[test]
    fn objects_are_entries() {
        let plain = EntryMembers { key: "key".into(), value: Some("value".into()), is_selection: false };
        for (text, expected) in [
            (r#"{"key":"a\tb\u0000","value":18446744073709551615}"#, "a\tb\0=18446744073709551615"),
            (r#" {"value": true, "key": -1.50} "#, "-1.50=true"),
            (r#"{"key":"a","key":"b","value":1}"#, "the object has several members 'key'"),
            (r#"{"key":"a"}"#, "the object has no member 'value'"),
            (
                r#"{"key":"a","value":null}"#,
                "the member 'value' is null; give a text, a number, true or false",
            ),
        ] {
            assert_eq!(seen(&plain, text), expected);
        }
        assert!(seen(&plain, r#"{"key":"a","value":1,"more":2}"#).contains("'more'; select"));
        for bad in ["", "[1]", "{", "7", "{\"key\":\"a\",\"value\":1} x", "\u{feff}{}"] {
            assert!(seen(&plain, bad).contains("is not a JSON object"), "{bad}");
        }
        let selected = EntryMembers { key: "id".into(), value: None, is_selection: true };
        assert_eq!(seen(&selected, r#"{"id":7,"value":null}"#), "7=");
    }
}
