//! Rooms that a compute node has and does not use, by kind.

use crate::memory::slot::{Room, RoomKind};
use std::collections::{BTreeMap, VecDeque};

/// Bytes of emptied rooms of one kind that a compute node keeps; those above it are for all.
const KEPT_BYTES_MAX: usize = 256 << 10;
/// How many of one kind it keeps, at most and at least.
const KEPT: std::ops::RangeInclusive<usize> = 4..=256;

/// Which rooms will do.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// Any.
    All,
    /// Those that no old pointer leads to.
    New,
}

/// What emptied rooms are to be given away.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Give {
    /// Those above what is kept of each kind.
    Surplus,
    /// All.
    All,
}

/// Rooms, by kind.
#[derive(Debug, Default)]
pub struct Spare(BTreeMap<RoomKind, OfKind>);

#[derive(Debug, Default)]
struct OfKind {
    /// Nothing that was linked ever lay there.
    new: Vec<Room<()>>,
    /// The last is filled first.
    emptied: VecDeque<Room<()>>,
}

impl OfKind {
    fn take(&mut self, which: Which) -> Option<Room<()>> {
        let emptied = match which {
            Which::All => self.emptied.pop_back(),
            Which::New => None,
        };
        emptied.or_else(|| self.new.pop())
    }
}

impl Spare {
    /// A room of that kind.
    pub fn take(&mut self, kind: RoomKind, which: Which) -> Option<Room<()>> {
        self.0.get_mut(&kind)?.take(which)
    }

    /// Whether there is a room of that kind.
    pub fn has(&self, kind: RoomKind, which: Which) -> bool {
        self.0
            .get(&kind)
            .is_some_and(|rooms| !rooms.new.is_empty() || (which == Which::All && !rooms.emptied.is_empty()))
    }

    /// Adds a room, to be the next of its kind.
    pub fn put(&mut self, room: Room<()>) {
        let rooms = self.0.entry(room.kind).or_default();
        match room.version {
            None => rooms.new.push(room),
            Some(_) => rooms.emptied.push_back(room),
        }
    }

    /// Adds a room, to be the last of its kind.
    pub fn put_last(&mut self, room: Room<()>) {
        let rooms = self.0.entry(room.kind).or_default();
        match room.version {
            None => rooms.new.push(room),
            Some(_) => rooms.emptied.push_front(room),
        }
    }

    /// Takes up to `count` of the emptied rooms, those first that would be filled last.
    pub fn give(&mut self, give: Give, count: usize) -> Vec<Room<()>> {
        let mut given = Vec::new();
        for (kind, rooms) in &mut self.0 {
            let kept = match give {
                Give::All => 0,
                Give::Surplus => (KEPT_BYTES_MAX / kind.bytes as usize).clamp(*KEPT.start(), *KEPT.end()),
            };
            let surplus = rooms.emptied.len().saturating_sub(kept).min(count - given.len());
            given.extend(rooms.emptied.drain(..surplus));
        }
        given
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farwood_fabric::{Memory, NodeId, Remote};

    const SMALL: RoomKind = RoomKind { bytes: 256, of: 0 };
    const LARGE: RoomKind = RoomKind { bytes: 1 << 20, of: 1 };

    fn room(number: u64, kind: RoomKind, version: Option<u32>) -> Room<()> {
        let at = Remote::new(NodeId(0), Memory::Host, number << 20).expect("it is not 0");
        Room { at, version, kind }
    }

    #[test]
    fn rooms_are_of_their_kind_and_the_last_emptied_is_the_first_filled() {
        let mut spare = Spare::default();
        spare.put(room(1, SMALL, Some(7)));
        spare.put(room(2, SMALL, Some(8)));
        spare.put(room(3, SMALL, None));
        spare.put_last(room(4, SMALL, Some(9)));
        assert!(!spare.has(LARGE, Which::All) && spare.has(SMALL, Which::New));
        assert!(spare.take(LARGE, Which::All).is_none());
        assert_eq!(spare.take(SMALL, Which::New).expect("one").version, None);
        let left: Vec<_> =
            std::iter::from_fn(|| spare.take(SMALL, Which::All)).map(|room| room.version).collect();
        assert_eq!(left, [Some(8), Some(7), Some(9)]);
    }

    #[test]
    fn only_emptied_rooms_are_given_and_some_of_each_kind_are_kept() {
        let mut spare = Spare::default();
        for number in 1..=300 {
            spare.put(room(number, SMALL, Some(0)));
        }
        for number in 301..=310 {
            spare.put(room(number, LARGE, Some(0)));
            spare.put(room(number + 10, LARGE, None));
        }
        assert_eq!(spare.give(Give::Surplus, 40).len(), 40);
        assert_eq!(spare.give(Give::Surplus, 1000).len(), 4 + 6);
        assert_eq!(spare.give(Give::Surplus, 1000).len(), 0);
        assert_eq!(spare.give(Give::All, 1000).len(), 256 + 4);
        assert!(spare.has(LARGE, Which::New), "what was never linked stays");
    }
}
