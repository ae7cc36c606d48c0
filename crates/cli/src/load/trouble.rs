//! Input that cannot be parsed: an error, or with `--skip-bad` a count.

use super::args::Args;
use crate::failure::shown;
use crate::{Failure, size};
use farwood::internal::printable;
use std::borrow::Cow;
use std::{fmt, io};

/// A position in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The whole file.
    File,
    /// A line, from 1.
    Line(u64),
    /// A feature, from 1.
    Feature(u64),
    /// A feature, from 1, of the text that begins on a line.
    FeatureOnLine {
        /// The feature.
        feature: u64,
        /// The line.
        line: u64,
    },
}

impl Place {
    /// The position, after the name of the file.
    fn after(self, file: &str) -> String {
        match self {
            Self::File => file.to_owned(),
            Self::Line(line) => format!("{file}:{line}"),
            Self::Feature(feature) => format!("{file}, feature {feature}"),
            Self::FeatureOnLine { feature, line } => format!("{file}:{line}, feature {feature}"),
        }
    }

    /// The position, for a report that names the file elsewhere.
    fn name(self) -> String {
        match self {
            Self::File => "the file".to_owned(),
            Self::Line(line) => format!("line {line}"),
            Self::Feature(feature) => format!("feature {feature}"),
            Self::FeatureOnLine { feature, line } => format!("line {line}, feature {feature}"),
        }
    }
}

/// The reason why the input yields no entry or rectangle.
#[derive(Debug)]
pub(super) enum Trouble {
    /// One line or feature is bad; the next one may be good.
    Record {
        /// The position of the record in the file.
        place: Place,
        /// The reason.
        why: String,
    },
    /// From this position on, the input cannot be divided into lines or features.
    Rest {
        /// The position.
        place: Place,
        /// The reason.
        why: String,
    },
    /// The operating system cannot read the file.
    Read(io::Error),
}

impl Trouble {
    /// Creates the error of a record that cannot be loaded.
    pub(super) fn record(place: Place, why: impl Into<String>) -> Self {
        Self::Record { place, why: why.into() }
    }

    /// Input that cannot be divided into records.
    pub(super) fn rest(place: Place, why: impl Into<String>) -> Self {
        Self::Rest { place, why: why.into() }
    }

    /// A file that is damaged, or ends too early.
    pub(super) fn damaged(why: impl fmt::Display) -> Self {
        Self::rest(Place::File, format!("{why}; copy, download or export the file again"))
    }
}

impl From<io::Error> for Trouble {
    fn from(source: io::Error) -> Self {
        Self::Read(source)
    }
}

/// The bad records of a load.
pub(super) struct BadRecords<'a> {
    args: &'a Args,
    count: u64,
    first: Option<String>,
}

impl<'a> BadRecords<'a> {
    pub(super) fn new(args: &'a Args) -> Self {
        Self { args, count: 0, first: None }
    }

    /// The number of bad records.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// The first bad record, and the reason, which may quote the input.
    pub(super) fn first(&self) -> Option<&str> {
        self.first.as_deref()
    }

    /// The first bad record, and the reason, on one line of a message.
    pub(super) fn first_line(&self) -> Option<Cow<'_, str>> {
        self.first().map(printable)
    }

    /// Counts a bad record if `--skip-bad` is given; otherwise the load ends. `loaded` describes the entries that the
    /// index already has then.
    pub(super) fn add(&mut self, trouble: Trouble, loaded: &str) -> Result<(), Failure> {
        match trouble {
            Trouble::Record { place, why } if self.args.skip_bad => {
                self.count += 1;
                self.first.get_or_insert_with(|| format!("{}: {why}", place.name()));
                Ok(())
            }
            trouble => Err(self.failure(trouble, loaded)),
        }
    }

    /// The failure of a load that ends.
    pub(super) fn failure(&self, trouble: Trouble, loaded: &str) -> Failure {
        match trouble {
            Trouble::Read(source) => Failure::file("load", "read", &self.args.file, source),
            Trouble::Rest { place, why } if self.args.skip_bad => {
                let note = "--skip-bad skips lines and features, and not the rest of a file";
                self.refuse(place, &format!("{why}; {note} ({loaded})"))
            }
            Trouble::Rest { place, why } => self.refuse(place, &format!("{why} ({loaded})")),
            Trouble::Record { place, why } => {
                let remedy = "correct it, or skip bad lines and features with --skip-bad";
                self.refuse(place, &format!("{why}; {remedy} ({loaded})"))
            }
        }
    }

    fn refuse(&self, place: Place, why: &str) -> Failure {
        let file = shown(&self.args.file);
        Failure::Usage(format!("load {}: {}: {why}", self.args.url, place.after(&file)))
    }

    /// The count, and the first bad record if there is one.
    pub(super) fn summary(&self) -> String {
        let count = size::count(self.count, "bad line or feature", "bad lines and features");
        match self.first_line() {
            Some(first) => format!("skipped {count}; the first is {first}"),
            None => format!("skipped {count}"),
        }
    }
}
