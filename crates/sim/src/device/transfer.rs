//! Transfers: when which line is copied, and that it is.
//!
//! A transfer has a window of time in which its lines are copied, one after the other. As long as nothing else touches
//! its bytes in that window, nobody can tell when which line was copied, and all are copied when it ends. What does
//! touch them turns it into a transfer by line: lines whose time has passed are copied now, and each of the others has
//! an event of its own. An exhaustive run copies every transfer by line; the outcome is the same.

use super::{Device, Flying, Kind, OpenTransfer};
use crate::queue::{Event, Key};
use crate::stations::pcie::Window;
use farwood_fabric::{Address, Memory, Op};
use std::ops::Range;

const LINE: u64 = 64;

impl Device {
    /// Begins a transfer that takes place in `window`.
    pub(super) fn open_transfer(&mut self, verb: Key, window: Window) {
        let shuffle = self.shuffle(verb);
        let flying = &mut self.verbs[verb as usize];
        (flying.window, flying.open, flying.shuffle) = (window, true, shuffle);
        let (at, nic, writes) = (flying.at, flying.nics.server, flying.kind == Kind::Write);
        let end = at.offset() + u64::from(flying.bytes);
        let transfer = OpenTransfer { verb, start: at.offset(), end, writes, nic, to: window.to };
        let met = self.meet(at, (end - at.offset()) as usize, writes);
        self.memory[usize::from(at.node().0)].open.push(transfer);
        if met || self.exhaustive {
            self.by_line(verb);
        }
        self.queue.at(window.to, Event::TransferEnd(verb));
    }

    /// Somebody reads or writes `bytes` bytes at `at` in one go, now.
    #[inline]
    pub(crate) fn touch(&mut self, at: Address, bytes: usize) {
        if at.memory() == Memory::Host {
            self.meet(at, bytes, true);
        }
    }

    /// Lets the open transfers that share bytes with these go on line by line, if one of both writes; yields whether
    /// there were any.
    fn meet(&mut self, at: Address, bytes: usize, writes: bool) -> bool {
        let node = usize::from(at.node().0);
        let mut met = false;
        for place in 0..self.memory[node].open.len() {
            let other = self.memory[node].open[place];
            if (writes || other.writes) && other.overlaps(at, bytes) {
                met = true;
                self.by_line(other.verb);
            }
        }
        met
    }

    /// When the WRITEs are placed that came before this READ or atomic and share bytes with it: it must see them.
    pub(super) fn writes_before(&self, verb: Key) -> u64 {
        let Flying { at, bytes, nics, .. } = self.verbs[verb as usize];
        if !self.kept.arrival_sees_write || at.memory() == Memory::Device {
            return 0;
        }
        let open = &self.memory[usize::from(at.node().0)].open;
        // Another NIC's WRITEs are no business of this one.
        let before = open
            .iter()
            .filter(|other| other.writes && other.nic == nics.server && other.overlaps(at, bytes as usize));
        before.map(|other| other.to + 1).max().unwrap_or(0)
    }

    /// From now on, every line of the transfer is copied in its own time.
    fn by_line(&mut self, verb: Key) {
        let flying = &mut self.verbs[verb as usize];
        if std::mem::replace(&mut flying.by_line, true) {
            return;
        }
        let number = flying.number;
        for line in 0..self.lines(verb) {
            let time = self.line_time(verb, line);
            if time <= self.queue.now {
                self.copy_line(verb, line);
            } else {
                self.queue.line_at(time, number, verb, line);
            }
        }
    }

    /// How many pieces a transfer has. Lines are whole where that is kept; otherwise words are.
    fn lines(&self, verb: Key) -> u32 {
        let flying = &self.verbs[verb as usize];
        let (start, end, piece) =
            (flying.at.offset(), flying.at.offset() + u64::from(flying.bytes), self.piece());
        (end.div_ceil(piece) - start / piece).max(1) as u32
    }

    fn piece(&self) -> u64 {
        if self.kept.whole_bytes >= LINE as usize { LINE } else { 8 }
    }

    /// When piece number `line` of a transfer, counted upward, is copied. Where the memory node's own processors do the
    /// copying, READs go downward, against the direction of WRITEs.
    fn line_time(&self, verb: Key, line: u32) -> u64 {
        let Flying { window, shuffle, kind, .. } = &self.verbs[verb as usize];
        let lines = u64::from(self.lines(verb));
        let turn = match (u64::from(line) + shuffle) % lines {
            turn if *kind == Kind::Read && self.kept.cpu_sees_write => lines - 1 - turn,
            turn => turn,
        };
        window.from + (window.to - window.from) * turn / (lines - 1).max(1)
    }

    /// By how many pieces the order of a transfer's is turned: none where they are copied upward.
    fn shuffle(&mut self, verb: Key) -> u64 {
        let flying = &self.verbs[verb as usize];
        let upward = match flying.kind {
            Kind::Write => self.kept.write_upward,
            _ => flying.bytes as usize <= self.kept.version_pair_bytes_max.max(self.piece() as usize),
        };
        let lines = u64::from(self.lines(verb));
        if upward || lines < 2 { 0 } else { self.chance.below(lines) }
    }

    /// The bytes of a piece, counted from the transfer's first.
    fn line_range(&self, verb: Key, line: u32) -> Range<usize> {
        let flying = &self.verbs[verb as usize];
        let (start, end) = (flying.at.offset(), flying.at.offset() + u64::from(flying.bytes));
        let first = start / self.piece() + u64::from(line);
        let (from, to) = ((first * self.piece()).max(start), ((first + 1) * self.piece()).min(end));
        (from - start) as usize..(to - start) as usize
    }

    /// Copies one piece.
    pub(super) fn copy_line(&mut self, verb: Key, line: u32) {
        let range = self.line_range(verb, line);
        self.copy(verb, range);
    }

    /// Copies all of a transfer now.
    pub(super) fn copy_at_once(&mut self, verb: Key) {
        let Flying { at, bytes, .. } = self.verbs[verb as usize];
        self.touch(at, bytes as usize);
        self.copy(verb, 0..bytes as usize);
        self.placed(verb);
    }

    #[inline]
    fn copy(&mut self, verb: Key, range: Range<usize>) {
        let flying = &self.verbs[verb as usize];
        let node = &mut self.memory[usize::from(flying.at.node().0)];
        let memory = match flying.at.memory() {
            Memory::Host => &mut *node.host,
            Memory::Device => &mut node.device,
        };
        let start = flying.at.offset() as usize;
        let far = &mut memory[start + range.start..start + range.end];
        if flying.abandoned {
            return;
        }
        if let Some(kept) = &flying.kept {
            far.copy_from_slice(&kept[range]);
            return;
        }
        let Some(flight) = self.flights.get_mut(flying.flight as usize) else { return };
        let Some(doorbell) = &mut flight.doorbell else { return };
        let (requests, payload) = doorbell.parts_mut();
        match &mut requests[flying.index as usize].op {
            Op::Read { into } => into[range].copy_from_slice(far),
            Op::Write { data, .. } => far.copy_from_slice(&payload[data.clone()][range]),
            _ => unreachable!("atomics are no transfers"),
        }
    }

    /// The last line's time has come.
    pub(super) fn end_transfer(&mut self, verb: Key) {
        let Flying { by_line, at, bytes, kind, .. } = self.verbs[verb as usize];
        if !by_line {
            self.copy(verb, 0..bytes as usize);
        }
        let open = &mut self.memory[usize::from(at.node().0)].open;
        let place = open.iter().position(|other| other.verb == verb).expect("an open transfer is listed");
        open.swap_remove(place);
        self.verbs[verb as usize].open = false;
        if kind == Kind::Read {
            self.answer(verb);
        } else {
            self.placed(verb);
            self.retire(verb);
        }
    }

    /// The writer is gone, and what is not placed yet never will be: some pieces are, the rest is not.
    pub(super) fn abandon_transfer(&mut self, verb: Key) {
        self.by_line(verb);
        self.verbs[verb as usize].abandoned = true;
    }

    /// A WRITE's bytes are all there: its immediate may be seen.
    fn placed(&mut self, verb: Key) {
        let Flying { at, immediate, abandoned, .. } = self.verbs[verb as usize];
        if !abandoned {
            self.deliver(at, immediate);
        }
    }
}
