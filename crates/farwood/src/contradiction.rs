//! Options that contradict an existing index.
//!
//! An option counts as given if it differs from its default.

use crate::options::{IndexOptions, SmartOptions, SphinxOptions};
use farwood_index::consistency::Consistency;
use farwood_index::lock::LockWidth;
use farwood_index::ordered::{OrderedDescription, System};
use farwood_index::sherman::layout::Values;
use farwood_index::sherman::{ShermanFeatures, ShermanVariant};
use farwood_index::{smart, sphinx};

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
fn compare<T: PartialEq>(
    what: &'static str,
    [given, stored, default]: [T; 3],
    show: impl Fn(&T) -> String,
) -> Option<Contradiction> {
    let contradicts = given != default && given != stored;
    contradicts.then(|| Contradiction { what, given: show(&given), stored: show(&stored) })
}

fn bytes(what: &'static str, given: Option<usize>, stored: usize) -> Option<Contradiction> {
    compare(what, [given, Some(stored), None], |bytes| format!("{} bytes", bytes.unwrap_or_default()))
}

/// The contradiction of options for another system.
fn other_system(given: System, stored: &OrderedDescription) -> Contradiction {
    let stored = match stored {
        OrderedDescription::Sherman(_) => System::Sherman,
        OrderedDescription::Smart(_) => System::Smart,
        OrderedDescription::Sphinx(_) => System::Sphinx,
    };
    let name = |system: System| system.name().to_owned();
    Contradiction { what: "system", given: name(given), stored: name(stored) }
}

pub(crate) fn of_sherman(given: &IndexOptions, stored: &OrderedDescription) -> Option<Contradiction> {
    let OrderedDescription::Sherman(stored) = stored else {
        return Some(other_system(System::Sherman, stored));
    };
    let (layout, default) = (&stored.layout, IndexOptions::default());
    let values = |values: &Values| match values {
        Values::Fixed => "of one length".to_owned(),
        Values::AnyLength => "of any length".to_owned(),
    };
    let lock = |width: &LockWidth| match width {
        LockWidth::Word => "64 bits".to_owned(),
        LockWidth::Packed => "16 bits".to_owned(),
    };
    bytes("key length", given.key_bytes, layout.key_bytes)
        .or_else(|| compare("length of values", [given.values, layout.values, default.values], values))
        .or_else(|| bytes("value length", given.value_bytes, layout.value_bytes))
        .or_else(|| {
            bytes(
                "node size",
                (given.node_bytes != default.node_bytes).then_some(given.node_bytes),
                layout.slot_bytes,
            )
        })
        .or_else(|| {
            let variants = [given.variant, stored.options, default.variant].map(with_word_locks);
            compare("variant", variants, sherman_variant)
        })
        .or_else(|| {
            compare("size of locks", [given.lock_width, stored.options.lock.width, default.lock_width], lock)
        })
        .or_else(|| {
            let schemes = [given.consistency, layout.consistency, default.consistency];
            compare("consistency scheme", schemes, |scheme: &Consistency| scheme.name().to_owned())
        })
}

/// The options with the default size of locks, which is compared by itself.
fn with_word_locks(mut options: ShermanFeatures) -> ShermanFeatures {
    options.lock.width = LockWidth::Word;
    options
}

fn sherman_variant(options: &ShermanFeatures) -> String {
    let variant =
        ShermanVariant::ALL.iter().find(|(variant, _)| with_word_locks(variant.features()) == *options);
    variant.map_or_else(|| options_shown(options.describe()), |(_, name)| (*name).to_owned())
}

pub(crate) fn of_smart(given: &SmartOptions, stored: &OrderedDescription) -> Option<Contradiction> {
    let OrderedDescription::Smart(stored) = stored else {
        return Some(other_system(System::Smart, stored));
    };
    let variants = [given.variant, stored.options, SmartOptions::default().variant];
    compare("variant", variants, |options: &smart::SmartFeatures| {
        options
            .variant()
            .map_or_else(|| options_shown(options.describe()), |variant| variant.name().to_owned())
    })
}

pub(crate) fn of_sphinx(given: &SphinxOptions, stored: &OrderedDescription) -> Option<Contradiction> {
    let OrderedDescription::Sphinx(stored) = stored else {
        return Some(other_system(System::Sphinx, stored));
    };
    let variants = [given.variant, stored.options, SphinxOptions::default().variant];
    compare("variant", variants, |options: &sphinx::SphinxFeatures| {
        options
            .variant()
            .map_or_else(|| options_shown(options.describe()), |variant| variant.name().to_owned())
    })
}

/// The options of a variant without a name.
fn options_shown(options: Vec<(&'static str, String)>) -> String {
    let shown: Vec<_> = options.into_iter().map(|(name, value)| format!("{name} {value}")).collect();
    shown.join(", ")
}
