//! What every command is given, and how it opens the index that the command line names.

use crate::Failure;
use farwood::spatial::Spatial;
use farwood::{Error, Index, LockWidth, Pool, Url};
use std::io::{self, Write};

/// How data is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// For people.
    Text,
    /// `--json`: one object, or one per line.
    Json,
}

/// What a command is given besides its arguments.
pub(crate) struct Context<'a> {
    /// Data: stdout, buffered, flushed when the command is done.
    pub(crate) out: &'a mut dyn Write,
    /// Words: stderr.
    pub(crate) words: &'a mut dyn Write,
    /// How data is printed.
    pub(crate) format: Format,
    /// Whether stderr is a terminal, so that progress may be shown there.
    pub(crate) progress: bool,
    /// The command's options that are on the command line, by their names in its `Args`.
    pub(crate) given: Vec<String>,
}

impl Context<'_> {
    /// Prints one JSON value on a line.
    pub(crate) fn json(&mut self, value: &serde_json::Value) -> io::Result<()> {
        writeln!(self.out, "{value}")
    }

    /// Whether the option is on the command line, and does not only come from the environment, the configuration
    /// file or its default.
    pub(crate) fn is_given(&self, option: &str) -> bool {
        self.given.iter().any(|given| given == option)
    }

    /// The first of these options that is on the command line, as it is written there.
    pub(crate) fn first_given(&self, options: &[&str]) -> Option<String> {
        let given = options.iter().find(|option| self.is_given(option))?;
        Some(format!("--{}", given.replace('_', "-")))
    }
}

/// An index whose types are known at run time.
pub(crate) type Untyped = Index<Vec<u8>, Vec<u8>>;

/// The index's name in a URL that must have one.
pub(crate) fn index_of(url: &Url) -> Result<&str, Failure> {
    url.index().ok_or_else(|| {
        Failure::Usage(format!("{url} is a pool, and an index is meant: write {}", url.index_url("INDEX")))
    })
}

/// An index of either kind.
pub(crate) enum Opened {
    /// Of keys and values.
    Ordered(Untyped),
    /// Of rectangles.
    Spatial(Box<Spatial>),
}

/// Opens the index that the command line names, of whichever kind it is.
pub(crate) fn open_any(url: &Url, context: &mut Context<'_>) -> Result<Opened, Failure> {
    let name = index_of(url)?;
    let pool = Pool::find(url.pool_url())?;
    if pool.is_spatial(name)? {
        return Ok(Opened::Spatial(Box::new(pool.open_spatial(name)?)));
    }
    let index = pool.open_untyped(name)?;
    warn_of_locks(&index, context)?;
    Ok(Opened::Ordered(index))
}

/// Opens the ordered index that the command line names.
pub(crate) fn open(url: &Url, context: &mut Context<'_>) -> Result<Untyped, Failure> {
    match open_any(url, context)? {
        Opened::Ordered(index) => Ok(index),
        Opened::Spatial(_) => Err(Failure::Usage(format!(
            "{url}: it holds rectangles; `farwood search` finds them, put and del take NUMBER X1,Y1,X2,Y2"
        ))),
    }
}

/// Tells whoever uses an index with 16-bit locks what these cannot do.
pub(crate) fn warn_of_locks(index: &Untyped, context: &mut Context<'_>) -> io::Result<()> {
    if index.stats().layout.lock_width == LockWidth::Word {
        return Ok(());
    }
    writeln!(
        context.words,
        "{}: its locks of 16 bits name no epoch: one that a client dies with cannot be taken from it; for \
         reproduction only",
        index.url()
    )
}

/// The bytes of a "key" or a "value" that the command line says.
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
