//! Options that contradict an existing index.
//!
//! An option counts as given if it differs from its default.

use farwood_index::ordered::{OrderedDescription, System};

/// A given option with which an index was not created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contradiction {
    /// The option.
    pub(crate) what: &'static str,
    /// The given value.
    pub(crate) given: String,
    /// The value of the index.
    pub(crate) stored: String,
}

/// Compares `given` with `stored`, unless it is `default`.
pub(super) fn compare<T: PartialEq>(
    what: &'static str,
    [given, stored, default]: [T; 3],
    show: impl Fn(&T) -> String,
) -> Option<Contradiction> {
    let contradicts = given != default && given != stored;
    contradicts.then(|| Contradiction { what, given: show(&given), stored: show(&stored) })
}

/// Compares a size with that of the index, if it is given.
pub(super) fn compare_bytes(
    what: &'static str,
    given: Option<usize>,
    stored: usize,
) -> Option<Contradiction> {
    compare(what, [given, Some(stored), None], |bytes| format!("{} bytes", bytes.unwrap_or_default()))
}

/// The contradiction of options for another system.
pub(super) fn other_system(given: System, stored: &OrderedDescription) -> Contradiction {
    let stored = match stored {
        OrderedDescription::Sherman(_) => System::Sherman,
        OrderedDescription::Smart(_) => System::Smart,
        OrderedDescription::Sphinx(_) => System::Sphinx,
    };
    let name = |system: System| system.name().to_owned();
    Contradiction { what: "system", given: name(given), stored: name(stored) }
}

/// The name of a variant, or the options of a variant without a name.
pub(super) fn show_variant(name: Option<&str>, options: Vec<(&'static str, String)>) -> String {
    let shown = |(name, value)| format!("{name} {value}");
    name.map_or_else(|| options.into_iter().map(shown).collect::<Vec<_>>().join(", "), ToOwned::to_owned)
}
