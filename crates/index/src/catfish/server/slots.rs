//! The server's memory for nodes: slots that hold no node of the tree, and the time from which each may hold another
//! node.
//!
//! A slot that a commit retired is not used again at once, because readers may still traverse an older tree:
//!
//! * the server's own searches hold a snapshot, and no slot of a held tree is used again;
//! * clients register no snapshot. They detect a reused slot by its generation, and restart. The delay only makes
//!   restarts rare: [`NodeSlots::REUSE_DELAY_NS`] is hundreds of times the duration of a search by READs.

use std::collections::VecDeque;

/// A slot that a commit retired.
#[derive(Clone, Copy, Debug)]
struct RetiredSlot {
    offset: u64,
    /// The first commit whose tree does not contain the slot.
    commit: u64,
    /// Time of that commit.
    since: u64,
}

/// Slots without a node of the current tree.
#[derive(Debug, Default)]
pub(super) struct NodeSlots {
    /// Slots to which no reader has a reference.
    free: Vec<u64>,
    /// Slots that readers may still read, in the order in which they were retired.
    retired: VecDeque<RetiredSlot>,
    /// Held trees, in the order of their commits, with the number of their holders. A tree without holders is removed
    /// when those before it are.
    held: VecDeque<(u64, usize)>,
}

impl NodeSlots {
    /// Time before a retired slot is used again, nanoseconds. A server that commits continuously keeps about as many
    /// retired slots as it fills in that time, some tens of megabytes at most.
    pub(super) const REUSE_DELAY_NS: u64 = 10_000_000;

    /// Slots that only removals take while the pool is full: a removal copies one node of each level of both trees.
    pub(super) const RESERVED: usize = 16;

    /// Adds free slots.
    pub(super) fn add(&mut self, offsets: impl IntoIterator<Item = u64>) {
        self.free.extend(offsets);
    }

    /// Takes `count` slots at the time `now`, and leaves `reserve` or more; `None`: there are fewer, and none is taken.
    pub(super) fn take(
        &mut self,
        (count, reserve): (usize, usize),
        now: u64,
        delay_ns: u64,
    ) -> Option<Vec<u64>> {
        if self.unused() < count + reserve {
            return None;
        }
        let oldest = self.held.iter().find(|(_, times)| *times > 0).map_or(u64::MAX, |(commit, _)| *commit);
        let reusable =
            |slot: &&RetiredSlot| slot.commit <= oldest && slot.since.saturating_add(delay_ns) <= now;
        let reused = self.retired.iter().take(count).take_while(reusable).count();
        if reused + self.free.len() < count {
            return None;
        }
        let mut taken: Vec<_> = self.retired.drain(..reused).map(|slot| slot.offset).collect();
        taken.extend(self.free.drain(self.free.len() - (count - reused)..));
        Some(taken)
    }

    /// Retires slots that the tree does not contain from commit `commit` on.
    pub(super) fn retire(&mut self, offsets: impl IntoIterator<Item = u64>, commit: u64, now: u64) {
        self.retired.extend(offsets.into_iter().map(|offset| RetiredSlot { offset, commit, since: now }));
    }

    /// Holds the tree of a commit, the newest one.
    pub(super) fn hold(&mut self, commit: u64) {
        match self.held.back_mut() {
            Some((newest, times)) if *newest == commit => *times += 1,
            newest => {
                debug_assert!(newest.is_none_or(|(newest, _)| *newest < commit), "commits ascend");
                self.held.push_back((commit, 1));
            }
        }
    }

    /// Releases a tree that was held.
    pub(super) fn release(&mut self, commit: u64) {
        let held = self.held.iter_mut().rev().find(|(held, _)| *held == commit);
        let times = &mut held.expect("the tree was held").1;
        debug_assert!(*times > 0, "each hold is released once");
        *times -= 1;
        while self.held.len() > 1 && self.held.front().is_some_and(|(_, times)| *times == 0) {
            self.held.pop_front();
        }
    }

    /// Slots that hold no node of the tree.
    pub(super) fn unused(&self) -> usize {
        self.free.len() + self.retired.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retired_slot_is_reused_after_a_delay_and_not_while_its_tree_is_held() {
        let mut slots = NodeSlots::default();
        slots.add([64]);
        slots.retire([128, 192], 1, 1000);
        slots.hold(0);
        assert_eq!(slots.take((2, 0), 5000, 100), None, "the tree before commit 1 is held");
        slots.hold(1);
        slots.release(0);
        assert_eq!(slots.take((3, 0), 1050, 100), None, "the delay has not passed");
        assert_eq!(slots.take((2, 2), 1100, 100), None, "one of three would be left");
        assert_eq!(slots.take((2, 1), 1100, 100), Some(vec![128, 192]));
        assert_eq!((slots.take((1, 0), 1100, 100), slots.unused()), (Some(vec![64]), 0));
    }
}
