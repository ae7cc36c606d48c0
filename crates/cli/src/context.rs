//! The context of a command, and functions that open the index named on the command line.

use crate::Failure;
use crate::access::find;
use crate::show::Numbers;
use crate::size;
use crate::tsv;
use farwood::papers::LockWidth;
use farwood::spatial::Spatial;
use farwood::{Access, Error, Index, Url};
use serde_json::json;
use std::io::{self, Write};

/// The format of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// Text.
    Text,
    /// `--json`: one object, or one per line.
    Json,
}

/// The context of a command, besides its arguments.
pub(crate) struct Context<'a> {
    /// Results: stdout, buffered, flushed when the command is done.
    pub(crate) out: &'a mut dyn Write,
    /// Messages: stderr.
    pub(crate) messages: &'a mut dyn Write,
    /// The format of results.
    pub(crate) format: Format,
    /// The form of numbers of 64 bits in JSON.
    pub(crate) numbers: Numbers,
    /// Whether stderr is a terminal, so that the command may show progress there.
    pub(crate) progress: bool,
    /// The options on the command line, by their names in the command's `Args`.
    pub(crate) given: Vec<String>,
}

impl Context<'_> {
    /// Prints one JSON value on a line.
    pub(crate) fn json(&mut self, value: &impl serde::Serialize) -> io::Result<()> {
        let text = serde_json::to_string(value)?;
        writeln!(self.out, "{text}")
    }

    /// Prints an entry on a line: key, tab and value with escapes, or a JSON object.
    pub(crate) fn entry(&mut self, index: &Untyped, key: &[u8], value: &[u8]) -> io::Result<()> {
        let ([key_kind, value_kind], numbers) = (index.kinds(), self.numbers);
        if self.format == Format::Json {
            let (key, value) = (numbers.entry(key_kind, key), numbers.entry(value_kind, value));
            return self.json(&json!({ "key": key, "value": value }));
        }
        write!(self.out, "{}", tsv::escape(&key_kind.show(key)))?;
        if index.value_width().most() > 0 {
            write!(self.out, "\t{}", tsv::escape(&value_kind.show(value)))?;
        }
        writeln!(self.out)
    }

    /// Whether the option is on the command line: not in the environment or the configuration file, and not a
    /// default.
    pub(crate) fn is_given(&self, option: &str) -> bool {
        self.given.iter().any(|given| given == option)
    }

    /// The first of these options on the command line, as the user writes it.
    pub(crate) fn first_given(&self, options: &[&str]) -> Option<String> {
        let given = options.iter().find(|option| self.is_given(option))?;
        Some(format!("--{}", given.replace('_', "-")))
    }
}

/// An index whose types are known only at run time.
pub(crate) type Untyped = Index<Vec<u8>, Vec<u8>>;

/// The index in a URL that must name one.
pub(crate) fn index_of(url: &Url) -> Result<&str, Failure> {
    url.index().ok_or_else(|| {
        Failure::Usage(format!(
            "{url} names a pool, and this command needs an index: write {}",
            url.index_url("INDEX")
        ))
    })
}

/// An ordered or spatial index.
pub(crate) enum Opened<I = Untyped> {
    /// An index of keys and values.
    Ordered(I),
    /// An index of rectangles.
    Spatial(Box<Spatial>),
}

/// Opens the index named on the command line, ordered or spatial.
pub(crate) fn open_any(url: &Url, access: Access, context: &mut Context<'_>) -> Result<Opened, Failure> {
    let opened = open_silently(url, access)?;
    if let Opened::Ordered(index) = &opened {
        warn_of_locks(index, context)?;
    }
    Ok(opened)
}

/// Opens an index, ordered or spatial, without a warning.
pub(crate) fn open_silently(url: &Url, access: Access) -> Result<Opened, Failure> {
    let name = index_of(url)?;
    let pool = find(url.pool_url(), access)?;
    if pool.is_spatial(name)? {
        let index = pool.open_spatial(name)?.with_search(url.search_options())?;
        return Ok(Opened::Spatial(Box::new(index)));
    }
    refuse_search_parameters(url)?;
    Ok(Opened::Ordered(pool.open_untyped(name)?))
}

/// Refuses the parameters of searches in the URL of an index of keys.
pub(crate) fn refuse_search_parameters(url: &Url) -> Result<(), Failure> {
    match url.search_parameter() {
        None => Ok(()),
        Some(parameter) => Err(Failure::Usage(format!(
            "{url}: this index holds keys, and '{parameter}' is for spatial indexes; omit it"
        ))),
    }
}

impl<I> Opened<I> {
    /// The index of keys and values.
    ///
    /// # Errors
    /// Refuses a spatial index.
    pub(crate) fn into_ordered(self, url: &Url) -> Result<I, Failure> {
        match self {
            Self::Ordered(index) => Ok(index),
            Self::Spatial(index) => {
                let contents = size::spatial_noun(index.ids()).1;
                let instead = if index.ids().is_unique() {
                    "get, put and del with an ID"
                } else {
                    "put and del with NUMBER X1,Y1,X2,Y2"
                };
                let text = format!("{url}: this index holds {contents}; use `farwood search`, or {instead}");
                Err(Failure::Usage(text))
            }
        }
    }
}

/// Warns about the limits of an index with locks of 16 bits.
pub(crate) fn warn_of_locks(index: &Untyped, context: &mut Context<'_>) -> io::Result<()> {
    if index.stats().layout.lock_width == LockWidth::Word {
        return Ok(());
    }
    writeln!(
        context.messages,
        "{}: this index has locks of 16 bits: the lock of a crashed client cannot be taken over; use them only to \
         reproduce the paper",
        index.url()
    )
}

/// Converts a key (`what` is "key") or a value (any other `what`) of the command line to bytes.
pub(crate) fn read(
    index: &Untyped,
    operation: &'static str,
    what: &'static str,
    words: &str,
) -> Result<Vec<u8>, Failure> {
    let [keys, values] = index.kinds();
    let (kind, width) = match what {
        "key" => (keys, index.key_width()),
        _ => (values, index.value_width()),
    };
    let unfit = |why| Failure::Farwood(Error::Unfit { operation, url: index.url(), what, why });
    kind.read(words, width).map_err(unfit)
}
