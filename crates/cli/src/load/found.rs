//! The rectangles of a file, and the rows and features that yield none.

use super::args::Args;
use super::ids::{FileId, Numbering};
use super::trouble::{BadRecords, Place, Trouble};
use crate::Failure;
use farwood::spatial::{Item, Rectangle};

/// The bounds of a row or feature: a rectangle, and a second one if it crosses the antimeridian.
pub(super) type Bounds = (Rectangle, Option<Rectangle>);

/// The content of one row or feature.
#[derive(Debug, PartialEq)]
pub(super) struct Placed {
    /// The number in the file.
    pub(super) id: FileId,
    /// The bounds, or the reason why there are none.
    pub(super) bounds: Result<Bounds, String>,
}

/// The rectangles of a file.
pub(super) struct Found<'a> {
    /// The rectangles, in the order of the file.
    pub(super) items: Vec<Item>,
    /// The bad rows and features.
    pub(super) bad: BadRecords<'a>,
    numbering: Numbering,
}

impl<'a> Found<'a> {
    pub(super) fn new(args: &'a Args) -> Self {
        Self { items: Vec::new(), bad: BadRecords::new(args), numbering: Numbering::new(args.ids) }
    }

    /// Adds the row or feature at `position`, from 1.
    pub(super) fn add(&mut self, place: Place, position: u64, placed: Placed) -> Result<(), Failure> {
        let id = self.numbering.number(position, placed.id);
        match id.and_then(|id| Ok((id, placed.bounds?))) {
            Ok((id, (first, beyond))) => {
                let bounds = [Some(first), beyond].into_iter().flatten();
                self.items.extend(bounds.map(|bounds| Item { bounds, id }));
                Ok(())
            }
            Err(why) => self.bad(Trouble::record(place, why)),
        }
    }

    /// Counts bad input, or ends the load.
    pub(super) fn bad(&mut self, trouble: Trouble) -> Result<(), Failure> {
        self.bad.add(trouble, NOTHING)
    }

    /// The failure of a load that ends.
    pub(super) fn failure(&self, trouble: Trouble) -> Failure {
        self.bad.failure(trouble, NOTHING)
    }
}

/// Rectangles enter the index after the whole file is read.
const NOTHING: &str = "no rectangle is loaded";
