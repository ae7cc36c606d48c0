//! The names of types, whose hashes the directory of a pool records.

use farwood_fabric::directory::type_hash;
use std::fmt;

/// The name of a type of keys or values: a word, `(u64, text)` or `option of u64`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeName(Form);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Word(&'static str),
    Tuple(&'static [TypeName]),
    Option(&'static TypeName),
    /// A name of which only the hash is known.
    Unknown,
}

/// The types of the library that are neither tuples nor options.
static WORDS: [TypeName; 20] = [
    TypeName::new("u8"),
    TypeName::new("u16"),
    TypeName::new("u32"),
    TypeName::new("u64"),
    TypeName::new("u128"),
    TypeName::new("i8"),
    TypeName::new("i16"),
    TypeName::new("i32"),
    TypeName::new("i64"),
    TypeName::new("i128"),
    TypeName::new("f32"),
    TypeName::new("f64"),
    TypeName::new("bool"),
    TypeName::new("()"),
    TypeName::new("bytes"),
    TypeName::new("text"),
    TypeName::new("duration"),
    TypeName::new("time"),
    TypeName::new("postcard"),
    TypeName::new("plain"),
];

static UNKNOWN: TypeName = TypeName(Form::Unknown);

impl TypeName {
    /// A name that the program chooses for its own type.
    pub const fn new(word: &'static str) -> Self {
        Self(Form::Word(word))
    }

    /// The name of a tuple.
    pub const fn tuple(components: &'static [Self]) -> Self {
        Self(Form::Tuple(components))
    }

    /// The name of an optional value.
    pub const fn option(value: &'static Self) -> Self {
        Self(Form::Option(value))
    }

    /// The hash that an index records.
    pub(crate) fn hash(&self) -> u64 {
        type_hash(&self.to_string())
    }

    /// The name with this hash, which may be `candidate` or one of the library.
    pub(crate) fn of_hash(hash: u64, candidate: Option<&'static Self>) -> &'static Self {
        candidate.into_iter().chain(&WORDS).find(|name| name.hash() == hash).unwrap_or(&UNKNOWN)
    }

    /// The bytes of all values of this type, if it is one of the library that is neither a tuple nor an option, and its
    /// values have one length.
    #[cfg(feature = "backup")]
    pub(crate) fn bytes(&self) -> Option<usize> {
        let Form::Word(word) = self.0 else { return None };
        Some(match word {
            "()" => 0,
            "u8" | "i8" | "bool" => 1,
            "u16" | "i16" => 2,
            "u32" | "i32" | "f32" => 4,
            "u64" | "i64" | "f64" => 8,
            "duration" | "time" => 12,
            "u128" | "i128" => 16,
            _ => return None,
        })
    }

    /// Whether only the hash is known.
    pub(crate) fn is_unknown(&self) -> bool {
        self.0 == Form::Unknown
    }
}

impl fmt::Display for TypeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Form::Word(word) => f.write_str(word),
            Form::Tuple([only]) => write!(f, "({only},)"),
            Form::Tuple(components) => {
                for (at, component) in components.iter().enumerate() {
                    write!(f, "{}{component}", if at == 0 { "(" } else { ", " })?;
                }
                f.write_str(")")
            }
            Form::Option(value) => write!(f, "option of {value}"),
            Form::Unknown => f.write_str("custom"),
        }
    }
}
