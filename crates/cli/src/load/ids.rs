//! The numbers of rectangles: those of the file, or the positions in the file.
//!
//! A file has numbers for all of its rectangles or for none. Otherwise a position could equal the number of another
//! rectangle.

/// The source of the numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum IdSource {
    /// The numbers in the file, or the positions if the file has no numbers
    #[default]
    File,
    /// The position of each row or feature in the file, from 1
    Position,
}

/// The number in a row or feature: `None` if there is none, and the reason if it cannot be the number of a rectangle.
pub(super) type FileId = Option<Result<u64, String>>;

/// Chooses the number of each rectangle of a file.
#[derive(Debug, Default)]
pub(super) struct Numbering {
    source: IdSource,
    /// Whether the first rectangle had a number.
    first: Option<Presence>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    Present,
    Absent,
}

impl Numbering {
    pub(super) fn new(source: IdSource) -> Self {
        Self { source, first: None }
    }

    /// The number of the rectangle at `position`.
    pub(super) fn number(&mut self, position: u64, id: FileId) -> Result<u64, String> {
        if self.source == IdSource::Position {
            return Ok(position);
        }
        let presence = if id.is_some() { Presence::Present } else { Presence::Absent };
        let first = *self.first.get_or_insert(presence);
        match id {
            _ if presence != first => Err(mixed(first)),
            Some(id) => id.map_err(|why| format!("{why}; {REMEDY}")),
            None => Ok(position),
        }
    }
}

/// The remedy for numbers that cannot be parsed.
const REMEDY: &str = "--ids position numbers all rectangles by their position in the file";

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

    #[test]
    fn a_file_has_numbers_for_all_or_for_none() {
        let mut with = Numbering::new(IdSource::File);
        assert_eq!(with.number(1, Some(Ok(7))), Ok(7));
        assert!(with.number(2, None).unwrap_err().contains("no id"));
        assert!(
            with.number(3, Some(Err("its id is 'x'".to_owned()))).unwrap_err().contains("--ids position")
        );
        let mut without = Numbering::new(IdSource::File);
        assert_eq!(without.number(1, None), Ok(1));
        assert!(without.number(2, Some(Ok(1))).unwrap_err().contains("has an id"));
        assert_eq!(without.number(3, None), Ok(3));
    }

    #[test]
    fn positions_replace_all_numbers() {
        let mut numbering = Numbering::new(IdSource::Position);
        let ids = [Some(Ok(7)), None, Some(Err("its id is 'x'".to_owned()))];
        let numbers: Vec<_> = (1..).zip(ids).map(|(position, id)| numbering.number(position, id)).collect();
        assert_eq!(numbers, [Ok(1), Ok(2), Ok(3)]);
    }
}
