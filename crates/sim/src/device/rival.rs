//! A rival: whoever is about to change a word of device memory by CAS finds that somebody was faster, once; the next
//! time the same client wins.
//!
//! The rival is no client. It puts its word where a CAS would have won, and soon after puts back what was there: as if
//! it had taken a lock and released it.

use super::{Device, Kind};
use crate::queue::{Event, Key};
use farwood_fabric::{Address, Memory, Op};
use slab::Slab;

/// Who is faster.
#[derive(Debug)]
pub(crate) struct Rival {
    /// What it puts into the word.
    word: u64,
    /// For how long, nanoseconds.
    nanoseconds: u64,
    /// Where it has put it, and what was there.
    held: Slab<(Address, u64)>,
}

impl Rival {
    pub(crate) fn new(word: u64, nanoseconds: u64) -> Self {
        Self { word, nanoseconds, held: Slab::new() }
    }
}

impl Device {
    /// Lets the rival take the word of a CAS that is about to win, unless that client lost it to the rival before.
    pub(super) fn outrun(&mut self, verb: Key) {
        let flying = &self.verbs[verb as usize];
        let (at, client, kind) = (flying.at, flying.client as usize, flying.kind);
        if self.rival.is_none() || self.rules_ended || kind != Kind::Atomic || at.memory() != Memory::Device {
            return;
        }
        let before = self.word(at);
        let wins = matches!(self.op(verb).0, Op::Cas { compare, .. } if *compare == before);
        if !wins || self.connections[client].outrun_at.take() == Some(at) {
            return;
        }
        self.connections[client].outrun_at = Some(at);
        self.met.outrun += 1;
        let Some(rival) = &mut self.rival else { unreachable!("it was there above") };
        let (word, time) = (rival.word, self.queue.now + rival.nanoseconds);
        let held = rival.held.insert((at, before));
        self.queue.at(time, Event::Withdraw(held as Key));
        self.set_word(at, word);
    }

    /// The rival puts back what it found.
    pub(super) fn withdraw(&mut self, held: Key) {
        let Some(rival) = &mut self.rival else { unreachable!("whoever holds is there") };
        let ((at, before), word) = (rival.held.remove(held as usize), rival.word);
        if self.word(at) == word {
            self.set_word(at, before);
        }
    }
}
