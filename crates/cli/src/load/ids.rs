//! The ids of rectangles and records: those of the file, or the positions in the file.
//!
//! A file has ids for all of its rectangles or for none. Otherwise a position could equal the id of another rectangle.

use super::column_value::ColumnValue;
use farwood::spatial::{IdKind, RecordId};

/// The source of the ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum IdSource {
    /// The ids in the file, or the positions if the file has no ids
    #[default]
    File,
    /// The position of each row or feature in the file, from 1
    Position,
}

/// The id in a row or feature, in both kinds; each with the reason if it is not of that kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileId {
    pub(super) number: Result<u64, String>,
    pub(super) text: Result<String, String>,
}

impl FileId {
    /// The id that a column has. A number is not an id of an index of texts, nor a text one of an index of numbers.
    pub(super) fn of_value(value: Result<ColumnValue, String>) -> Self {
        let refused = |why: String| Self { number: Err(why.clone()), text: Err(why) };
        match value {
            Ok(ColumnValue::Number(digits)) => Self {
                text: Err(format!(
                    "its id {digits} is a number, and the ids of the index are texts: name a column of texts with \
                     --id-column"
                )),
                number: digits
                    .parse()
                    .map_err(|_| format!("its id {digits} is not an integer from 0 to 2^64 - 1")),
            },
            Ok(ColumnValue::Text(text)) => Self {
                number: Err(format!(
                    "its id '{text}' is a text, and the ids of the index are numbers: name a column of integers with \
                     --id-column"
                )),
                text: Ok(text),
            },
            Ok(other) => refused(format!("its id is {other}")),
            Err(why) => refused(format!("its id: {why}")),
        }
    }

    fn of_kind(self, kind: IdKind) -> Result<RecordId, String> {
        match kind {
            IdKind::Repeated | IdKind::Number => self.number.map(RecordId::Number),
            IdKind::Text => self.text.map(|text| RecordId::Text(text.into())),
        }
    }
}

/// The position of the column `name` in a list; `owner` has the columns.
pub(super) fn column_position<'n>(
    mut names: impl Iterator<Item = &'n str> + Clone,
    name: &str,
    owner: &str,
) -> Result<usize, String> {
    let all = names.clone();
    names.position(|other| other == name).ok_or_else(|| {
        format!("there is no column '{name}'; {owner} has {}", all.collect::<Vec<_>>().join(", "))
    })
}

/// The types of columns of a format that can be ids.
pub(super) struct IdTypes {
    pub(super) texts: &'static str,
    pub(super) integers: &'static str,
}

impl IdTypes {
    /// Refuses the column `name` of the type `found` as ids of that kind.
    pub(super) fn refusal(&self, name: &str, found: &str, kind: IdKind) -> String {
        let (ids, wanted) = match kind {
            IdKind::Text => ("texts", self.texts),
            IdKind::Repeated | IdKind::Number => ("numbers", self.integers),
        };
        format!(
            "the column '{name}' has the type {found}, and the ids of the index are {ids}; name a column of {wanted} \
             with --id-column, or omit it to take the positions in the file as ids"
        )
    }
}

/// Chooses the id of each rectangle of a file.
#[derive(Debug, Default)]
pub(super) struct Numbering {
    source: IdSource,
    kind: IdKind,
    /// Whether the first rectangle had an id.
    first: Option<Presence>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    Present,
    Absent,
}

impl Numbering {
    /// The ids of an index of that kind.
    pub(super) fn new(source: IdSource, kind: IdKind) -> Self {
        Self { source, kind, first: None }
    }

    /// Whether the file has no ids, so that the positions are the ids.
    pub(super) fn lacks_ids(&self) -> bool {
        self.first == Some(Presence::Absent)
    }

    /// The id of the rectangle at `position`.
    pub(super) fn id(&mut self, position: u64, id: Option<FileId>) -> Result<RecordId, String> {
        let of_position = match self.kind {
            IdKind::Repeated | IdKind::Number => RecordId::Number(position),
            IdKind::Text => RecordId::from(&*position.to_string()),
        };
        if self.source == IdSource::Position {
            return Ok(of_position);
        }
        let presence = if id.is_some() { Presence::Present } else { Presence::Absent };
        let first = *self.first.get_or_insert(presence);
        match id {
            _ if presence != first => Err(mixed(first)),
            Some(id) => id.of_kind(self.kind).map_err(|why| format!("{why}; {REMEDY}")),
            None => Ok(of_position),
        }
    }
}

/// The remedy for numbers that cannot be parsed.
const REMEDY: &str = "--ids position takes the positions in the file as the ids";

fn mixed(first: Presence) -> String {
    let what = match first {
        Presence::Present => "it has no id, and the first one has an id",
        Presence::Absent => "it has an id, and the first one has none",
    };
    format!("{what}; {REMEDY}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file_id(number: u64) -> FileId {
        FileId { number: Ok(number), text: Err("a number".to_owned()) }
    }

    fn bad() -> FileId {
        FileId { number: Err("its id is 'x'".to_owned()), text: Ok("x".to_owned()) }
    }

    #[test]
    fn a_file_has_numbers_for_all_or_for_none() {
        let mut with = Numbering::new(IdSource::File, IdKind::Repeated);
        assert_eq!(with.id(1, Some(file_id(7))), Ok(RecordId::Number(7)));
        assert!(with.id(2, None).unwrap_err().contains("no id"));
        assert!(with.id(3, Some(bad())).unwrap_err().contains("--ids position"));
        let mut without = Numbering::new(IdSource::File, IdKind::Number);
        assert_eq!(without.id(1, None), Ok(RecordId::Number(1)));
        assert!(without.id(2, Some(file_id(1))).unwrap_err().contains("has an id"));
        assert!(without.lacks_ids() && !with.lacks_ids());
        assert_eq!(without.id(3, None), Ok(RecordId::Number(3)));
    }

    #[test]
    fn an_index_of_texts_takes_texts() {
        let mut texts = Numbering::new(IdSource::File, IdKind::Text);
        assert_eq!(texts.id(1, Some(bad())), Ok(RecordId::from("x")));
        assert!(texts.id(2, Some(file_id(7))).unwrap_err().contains("a number"));
    }

    #[test]
    fn ids_of_columns_are_of_the_kind_of_the_index() {
        let of = |value, kind| FileId::of_value(value).of_kind(kind);
        let number = |digits: &str| Ok(ColumnValue::Number(digits.to_owned()));
        let text = || Ok(ColumnValue::Text("7".to_owned()));
        assert_eq!(of(number("7"), IdKind::Number), Ok(RecordId::Number(7)));
        assert_eq!(of(text(), IdKind::Text), Ok(RecordId::from("7")));
        assert!(of(text(), IdKind::Number).unwrap_err().contains("--id-column"));
        assert!(of(number("7"), IdKind::Text).unwrap_err().contains("--id-column"));
        assert!(of(number("-7"), IdKind::Repeated).unwrap_err().contains("-7 is not an integer from 0"));
        for kind in [IdKind::Number, IdKind::Text] {
            assert_eq!(of(Ok(ColumnValue::Null), kind), Err("its id is null".to_owned()));
            assert_eq!(of(Err("x".to_owned()), kind), Err("its id: x".to_owned()));
        }
    }

    #[test]
    fn positions_replace_all_ids() {
        let mut numbering = Numbering::new(IdSource::Position, IdKind::Repeated);
        let ids = [Some(file_id(7)), None, Some(bad())];
        let numbers: Vec<_> = (1..).zip(ids).map(|(position, id)| numbering.id(position, id)).collect();
        assert_eq!(numbers, [1, 2, 3].map(|number| Ok(RecordId::Number(number))));
    }
}
