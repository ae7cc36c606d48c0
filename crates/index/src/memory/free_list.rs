//! Free slots of a compute node, by kind.

use super::slot::{MemorySlot, SlotKind};
use std::collections::{BTreeMap, VecDeque};

/// Bytes of used slots of one kind that a compute node keeps for itself; it passes the surplus to other compute nodes.
const KEPT_BYTES_MAX: usize = 256 << 10;
/// Least and greatest number of slots of one kind that a compute node keeps.
const KEPT: std::ops::RangeInclusive<usize> = 4..=256;

/// Least bytes of a surplus that is passed on although it does not fill a list: each list takes a slot for itself.
const SURPLUS_BYTES_MIN: usize = 1 << 20;

/// The slots that an allocation accepts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// All.
    All,
    /// Slots that never held a linked object, to which no stale pointer leads.
    New,
}

/// The free slots that a compute node passes to other compute nodes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Give {
    /// The slots above the number that it keeps of each kind.
    Surplus,
    /// All.
    All,
}

/// Free slots, by kind.
#[derive(Debug, Default)]
pub struct FreeList(BTreeMap<SlotKind, FreeSlots>);

#[derive(Debug, Default)]
struct FreeSlots {
    /// Slots that never held a linked object.
    new: Vec<MemorySlot<()>>,
    /// Slots that held a linked object; the last is reused first.
    used: VecDeque<MemorySlot<()>>,
}

impl FreeSlots {
    fn take(&mut self, which: Which) -> Option<MemorySlot<()>> {
        let used = match which {
            Which::All => self.used.pop_back(),
            Which::New => None,
        };
        used.or_else(|| self.new.pop())
    }
}

impl FreeList {
    /// Removes a slot of that kind.
    pub fn take(&mut self, kind: SlotKind, which: Which) -> Option<MemorySlot<()>> {
        self.0.get_mut(&kind)?.take(which)
    }

    /// Removes the smallest slot that is larger than `kind`, holds objects of the same kind, and has at most
    /// `bytes_max` bytes.
    pub fn take_larger(&mut self, kind: SlotKind, bytes_max: u32) -> Option<MemorySlot<()>> {
        let least = SlotKind { bytes: kind.bytes + 1, of: 0 };
        let fitting = self.0.range_mut(least..).take_while(|(larger, _)| larger.bytes <= bytes_max);
        let mut same = fitting.filter(|(larger, _)| larger.of == kind.of);
        same.find_map(|(_, slots)| slots.take(Which::All))
    }

    /// Removes the largest slot that is not larger than `kind` and holds objects of the same kind.
    pub fn take_at_most(&mut self, kind: SlotKind) -> Option<MemorySlot<()>> {
        let mut same = self.0.range_mut(..=kind).rev().filter(|(smaller, _)| smaller.of == kind.of);
        same.find_map(|(_, slots)| slots.take(Which::All))
    }

    /// Whether there is a slot of that kind.
    pub fn has(&self, kind: SlotKind, which: Which) -> bool {
        self.0
            .get(&kind)
            .is_some_and(|slots| !slots.new.is_empty() || (which == Which::All && !slots.used.is_empty()))
    }

    /// Adds a slot, as the first of its kind to be reused.
    pub fn put(&mut self, slot: MemorySlot<()>) {
        let slots = self.0.entry(slot.kind).or_default();
        match slot.version {
            None => slots.new.push(slot),
            Some(_) => slots.used.push_back(slot),
        }
    }

    /// Adds a slot, as the last of its kind to be reused.
    pub fn put_last(&mut self, slot: MemorySlot<()>) {
        let slots = self.0.entry(slot.kind).or_default();
        match slot.version {
            None => slots.new.push(slot),
            Some(_) => slots.used.push_front(slot),
        }
    }

    /// Removes up to `count` used slots, first those that would be reused last; of a small surplus none.
    pub fn give(&mut self, give: Give, count: usize) -> Vec<MemorySlot<()>> {
        let kept = |kind: &SlotKind| match give {
            Give::All => 0,
            Give::Surplus => (KEPT_BYTES_MAX / kind.bytes as usize).clamp(*KEPT.start(), *KEPT.end()),
        };
        let surplus_of = |kind: &SlotKind, slots: &FreeSlots| slots.used.len().saturating_sub(kept(kind));
        let mut given = Vec::new();
        if give == Give::Surplus {
            let surplus = self.0.iter().map(|(kind, slots)| (surplus_of(kind, slots), kind.bytes as usize));
            let (slots, bytes) =
                surplus.fold((0, 0), |(slots, bytes), (more, each)| (slots + more, bytes + more * each));
            if slots < count && bytes < SURPLUS_BYTES_MIN {
                return given;
            }
        }
        for (kind, slots) in &mut self.0 {
            let surplus = surplus_of(kind, slots).min(count - given.len());
            given.extend(slots.used.drain(..surplus));
        }
        given
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farwood_fabric::{Memory, NodeId, Remote};

    const SMALL: SlotKind = SlotKind { bytes: 256, of: 0 };
    const LARGE: SlotKind = SlotKind { bytes: 1 << 20, of: 1 };

    fn slot(number: u64, kind: SlotKind, version: Option<u32>) -> MemorySlot<()> {
        let at = Remote::new(NodeId(0), Memory::Host, number << 20).expect("it is not 0");
        MemorySlot { at, version, is_zero: false, kind }
    }

    #[test]
    fn a_slot_keeps_its_kind_and_the_last_freed_is_reused_first() {
        let mut free = FreeList::default();
        free.put(slot(1, SMALL, Some(7)));
        free.put(slot(2, SMALL, Some(8)));
        free.put(slot(3, SMALL, None));
        free.put_last(slot(4, SMALL, Some(9)));
        assert!(!free.has(LARGE, Which::All) && free.has(SMALL, Which::New));
        assert!(free.take(LARGE, Which::All).is_none());
        assert_eq!(free.take(SMALL, Which::New).expect("one").version, None);
        let left: Vec<_> =
            std::iter::from_fn(|| free.take(SMALL, Which::All)).map(|slot| slot.version).collect();
        assert_eq!(left, [Some(8), Some(7), Some(9)]);
    }

    #[test]
    fn a_larger_slot_is_of_the_same_kind_and_the_smallest_that_fits() {
        let kind = |bytes, of| SlotKind { bytes, of };
        let mut free = FreeList::default();
        for (number, kind) in (1..).zip([kind(64, 2), kind(96, 1), kind(128, 2), kind(256, 2), kind(512, 2)])
        {
            free.put(slot(number, kind, Some(0)));
        }
        let mut larger = |bytes_max| free.take_larger(kind(64, 2), bytes_max).map(|slot| slot.kind.bytes);
        assert_eq!(
            [larger(256), larger(256), larger(256), larger(512)],
            [Some(128), Some(256), None, Some(512)]
        );
        assert!(free.has(kind(64, 2), Which::All) && free.has(kind(96, 1), Which::All));
    }

    #[test]
    fn a_small_surplus_is_kept_because_each_list_takes_a_slot() {
        let mut free = FreeList::default();
        (1..=256 + 39).for_each(|number| free.put(slot(number, SMALL, Some(0))));
        assert_eq!(free.give(Give::Surplus, 40).len(), 0);
        free.put(slot(400, SMALL, Some(0)));
        assert_eq!(free.give(Give::Surplus, 40).len(), 40);
    }

    #[test]
    fn only_used_slots_are_shared_and_some_of_each_kind_are_kept() {
        let mut free = FreeList::default();
        for number in 1..=300 {
            free.put(slot(number, SMALL, Some(0)));
        }
        for number in 301..=310 {
            free.put(slot(number, LARGE, Some(0)));
            free.put(slot(number + 10, LARGE, None));
        }
        assert_eq!(free.give(Give::Surplus, 40).len(), 40);
        assert_eq!(free.give(Give::Surplus, 1000).len(), 4 + 6);
        assert_eq!(free.give(Give::Surplus, 1000).len(), 0);
        assert_eq!(free.give(Give::All, 1000).len(), 256 + 4);
        assert!(free.has(LARGE, Which::New), "slots that never held a linked object stay");
    }
}
