//! The server's memory for nodes: rooms that hold no node of the tree, and when they may hold another.
//!
//! A room that a commit left rests before it is used again, for the sake of readers who still go through an older
//! tree:
//!
//! * the server's own searches hold a snapshot, and no room of a tree that is held is used;
//! * clients hold nothing and find out by the generation, and begin again. That they rarely have to is all that a rest
//!   is for: [`Rooms::REST_NS`] is many times what a search takes.

use std::collections::VecDeque;

/// A room that a commit left.
#[derive(Clone, Copy, Debug)]
struct Left {
    offset: u64,
    /// The first tree that it is no part of.
    commit: u64,
    /// When.
    since: u64,
}

/// Rooms without a node of the tree.
#[derive(Debug, Default)]
pub(super) struct Rooms {
    /// Rooms that no reader knows.
    free: Vec<u64>,
    /// Rooms that readers may be on their way to, in the order in which they were left.
    resting: VecDeque<Left>,
    /// Trees that are held, in the order of their numbers, with how often. One that nobody holds any
    /// more goes when those before it have gone.
    held: VecDeque<(u64, usize)>,
}

impl Rooms {
    /// How long a room rests, nanoseconds: hundreds of times what a search by READs takes. A server that commits all
    /// the time keeps about as many rooms resting as it fills in that time, some tens of megabytes at most.
    pub(super) const REST_NS: u64 = 10_000_000;

    /// Adds rooms that nobody knows.
    pub(super) fn add(&mut self, offsets: impl IntoIterator<Item = u64>) {
        self.free.extend(offsets);
    }

    /// `count` rooms, at the time `now`; `None`: there are not so many, and none is taken.
    pub(super) fn take(&mut self, count: usize, now: u64, rest_ns: u64) -> Option<Vec<u64>> {
        let oldest = self.held.iter().find(|(_, times)| *times > 0).map_or(u64::MAX, |(commit, _)| *commit);
        let rested = |left: &&Left| left.commit <= oldest && left.since.saturating_add(rest_ns) <= now;
        let again = self.resting.iter().take(count).take_while(rested).count();
        if again + self.free.len() < count {
            return None;
        }
        let mut taken: Vec<_> = self.resting.drain(..again).map(|left| left.offset).collect();
        taken.extend(self.free.drain(self.free.len() - (count - again)..));
        Some(taken)
    }

    /// Takes back rooms that are no part of the tree from commit `commit` on.
    pub(super) fn leave(&mut self, offsets: impl IntoIterator<Item = u64>, commit: u64, now: u64) {
        self.resting.extend(offsets.into_iter().map(|offset| Left { offset, commit, since: now }));
    }

    /// Holds the tree of a commit, the newest one.
    pub(super) fn hold(&mut self, commit: u64) {
        match self.held.back_mut() {
            Some((newest, times)) if *newest == commit => *times += 1,
            _ => self.held.push_back((commit, 1)),
        }
    }

    /// Lets go of a tree that was held.
    pub(super) fn let_go(&mut self, commit: u64) {
        let held = self.held.iter_mut().rev().find(|(held, _)| *held == commit);
        held.expect("it was held").1 -= 1;
        while self.held.len() > 1 && self.held.front().is_some_and(|(_, times)| *times == 0) {
            self.held.pop_front();
        }
    }

    /// Rooms that hold no node of the tree.
    pub(super) fn spare(&self) -> usize {
        self.free.len() + self.resting.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_room_rests_and_no_room_of_a_held_tree_is_used() {
        let mut rooms = Rooms::default();
        rooms.add([64]);
        rooms.leave([128, 192], 1, 1000);
        rooms.hold(0);
        assert_eq!(rooms.take(2, 5000, 100), None, "the tree before commit 1 is held");
        rooms.hold(1);
        rooms.let_go(0);
        assert_eq!(rooms.take(3, 1050, 100), None, "they still rest");
        assert_eq!(rooms.take(2, 1100, 100), Some(vec![128, 192]));
        assert_eq!((rooms.take(1, 1100, 100), rooms.spare()), (Some(vec![64]), 0));
    }
}
