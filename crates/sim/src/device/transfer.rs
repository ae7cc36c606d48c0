//! Transfers: the times at which lines are copied, and the copies.
//!
//! The lines of a transfer are copied one after the other within a window of time. If no other verb accesses the same
//! bytes in that window, the order is not observable, and all lines are copied at the end of the window. An overlapping
//! access switches the transfer to copies by line: lines whose time has passed are copied now, and each other line gets
//! its own event. An exhaustive run copies every transfer by line, with the same result.

use super::{Device, OpenTransfer, PostedVerb, TransferAccess, VerbKind};
use crate::queue::{Event, Key};
use crate::stages::pcie::TransferWindow;
use farwood_fabric::{Address, Memory, Op};
use std::ops::Range;

const LINE: u64 = 64;

impl Device {
    /// Begins a transfer that takes index in `window`.
    pub(super) fn open_transfer(&mut self, verb: Key, window: TransferWindow) {
        let rotation = self.rotation(verb);
        let posted = &mut self.verbs[verb as usize];
        (posted.window, posted.open, posted.rotation) = (window, true, rotation);
        let (at, nic) = (posted.at, posted.nics.server);
        let access =
            if posted.kind == VerbKind::Write { TransferAccess::Write } else { TransferAccess::Read };
        let end = at.offset() + u64::from(posted.bytes);
        let transfer = OpenTransfer { verb, start: at.offset(), end, access, nic, to: window.to };
        let met = self.split_overlapping(at, (end - at.offset()) as usize, access);
        self.memory[usize::from(at.node().0)].open.push(transfer);
        if met || self.exhaustive {
            self.copies_by_line(verb);
        }
        self.queue.at(window.to, Event::TransferEnd(verb));
    }

    /// Accesses `bytes` bytes at `at` at once, now.
    #[inline]
    pub(crate) fn touch(&mut self, at: Address, bytes: usize) {
        if at.memory() == Memory::Host {
            self.split_overlapping(at, bytes, TransferAccess::Write);
        }
    }

    /// Switches the transfers in progress that conflict with an access to copies by line; yields whether there are
    /// any.
    fn split_overlapping(&mut self, at: Address, bytes: usize, access: TransferAccess) -> bool {
        let node = usize::from(at.node().0);
        let mut met = false;
        for index in 0..self.memory[node].open.len() {
            let other = self.memory[node].open[index];
            if (access == TransferAccess::Write || other.access == TransferAccess::Write)
                && other.overlaps(at, bytes)
            {
                met = true;
                self.copies_by_line(other.verb);
            }
        }
        met
    }

    /// The time at which all earlier overlapping WRITEs are placed, which a READ or atomic must see.
    pub(super) fn writes_before(&self, verb: Key) -> u64 {
        let PostedVerb { at, bytes, nics, .. } = self.verbs[verb as usize];
        if !self.kept.arrival_sees_write || at.memory() == Memory::Device {
            return 0;
        }
        let open = &self.memory[usize::from(at.node().0)].open;
        // WRITEs through another NIC are not ordered with this verb.
        let before = open.iter().filter(|other| {
            other.access == TransferAccess::Write
                && other.nic == nics.server
                && other.overlaps(at, bytes as usize)
        });
        before.map(|other| other.to + 1).max().unwrap_or(0)
    }

    /// Copies each remaining line of the transfer at its own time.
    fn copies_by_line(&mut self, verb: Key) {
        let posted = &mut self.verbs[verb as usize];
        if std::mem::replace(&mut posted.copies_by_line, true) {
            return;
        }
        let number = posted.number;
        for line in 0..self.lines(verb) {
            let time = self.line_time(verb, line);
            if time <= self.queue.now {
                self.copy_line(verb, line);
            } else {
                self.queue.line_at(time, number, verb, line);
            }
        }
    }

    /// The number of pieces of a transfer: lines, or words on a device that tears lines.
    fn lines(&self, verb: Key) -> u32 {
        let posted = &self.verbs[verb as usize];
        let (start, end, piece) =
            (posted.at.offset(), posted.at.offset() + u64::from(posted.bytes), self.piece());
        (end.div_ceil(piece) - start / piece).max(1) as u32
    }

    fn piece(&self) -> u64 {
        if self.kept.whole_bytes >= LINE as usize { LINE } else { 8 }
    }

    /// The time at which piece number `line` of a transfer is copied. If the memory node's processors do the copying,
    /// READs go downward, against the direction of WRITEs.
    fn line_time(&self, verb: Key, line: u32) -> u64 {
        let PostedVerb { window, rotation, kind, .. } = &self.verbs[verb as usize];
        let lines = u64::from(self.lines(verb));
        let position = match (u64::from(line) + rotation) % lines {
            position if *kind == VerbKind::Read && self.kept.cpu_sees_write => lines - 1 - position,
            position => position,
        };
        window.from + (window.to - window.from) * position / (lines - 1).max(1)
    }

    /// The number of pieces by which the order of copying is rotated: 0 for copies in upward order.
    fn rotation(&mut self, verb: Key) -> u64 {
        let posted = &self.verbs[verb as usize];
        let upward = match posted.kind {
            VerbKind::Write => self.kept.write_upward,
            _ => posted.bytes as usize <= self.kept.version_pair_bytes_max.max(self.piece() as usize),
        };
        let lines = u64::from(self.lines(verb));
        if upward || lines < 2 { 0 } else { self.random.below(lines) }
    }

    /// The bytes of a piece, relative to the transfer.
    fn line_range(&self, verb: Key, line: u32) -> Range<usize> {
        let posted = &self.verbs[verb as usize];
        let (start, end) = (posted.at.offset(), posted.at.offset() + u64::from(posted.bytes));
        let first = start / self.piece() + u64::from(line);
        let (from, to) = ((first * self.piece()).max(start), ((first + 1) * self.piece()).min(end));
        (from - start) as usize..(to - start) as usize
    }

    /// Copies one piece.
    pub(super) fn copy_line(&mut self, verb: Key, line: u32) {
        let range = self.line_range(verb, line);
        self.copy(verb, range);
    }

    /// Copies a whole transfer now.
    pub(super) fn copy_at_once(&mut self, verb: Key) {
        let PostedVerb { at, bytes, .. } = self.verbs[verb as usize];
        self.touch(at, bytes as usize);
        self.copy(verb, 0..bytes as usize);
        self.placed(verb);
    }

    #[inline]
    fn copy(&mut self, verb: Key, range: Range<usize>) {
        let posted = &self.verbs[verb as usize];
        let node = &mut self.memory[usize::from(posted.at.node().0)];
        let memory = match posted.at.memory() {
            Memory::Host => &mut *node.host,
            Memory::Device => &mut node.device,
        };
        let start = posted.at.offset() as usize;
        let far = &mut memory[start + range.start..start + range.end];
        if posted.abandoned {
            return;
        }
        if let Some(kept) = &posted.kept {
            far.copy_from_slice(&kept[range]);
            return;
        }
        let Some(posted_doorbell) = self.doorbells.get_mut(posted.doorbell_key as usize) else { return };
        let Some(doorbell) = &mut posted_doorbell.doorbell else { return };
        let (requests, payload) = doorbell.parts_mut();
        match &mut requests[posted.index as usize].op {
            Op::Read { into } => into[range].copy_from_slice(far),
            Op::Write { data, .. } => far.copy_from_slice(&payload[data.clone()][range]),
            _ => unreachable!("an atomic is not a transfer"),
        }
    }

    /// Ends a transfer.
    pub(super) fn end_transfer(&mut self, verb: Key) {
        let PostedVerb { copies_by_line, at, bytes, kind, .. } = self.verbs[verb as usize];
        if !copies_by_line {
            self.copy(verb, 0..bytes as usize);
        }
        let open = &mut self.memory[usize::from(at.node().0)].open;
        let index = open.iter().position(|other| other.verb == verb).expect("an open transfer is listed");
        open.swap_remove(index);
        self.verbs[verb as usize].open = false;
        if kind == VerbKind::Read {
            if !self.verbs[verb as usize].is_answered_in_packets() {
                self.answer(verb);
            }
        } else {
            self.placed(verb);
            self.forget(verb);
        }
    }

    /// Stops a WRITE of a crashed writer: the remaining pieces are not placed.
    pub(super) fn abandon_transfer(&mut self, verb: Key) {
        self.copies_by_line(verb);
        self.verbs[verb as usize].abandoned = true;
    }

    /// Delivers the immediate of a WRITE that is placed.
    fn placed(&mut self, verb: Key) {
        let PostedVerb { at, immediate, abandoned, .. } = self.verbs[verb as usize];
        if !abandoned {
            self.deliver(at, immediate);
        }
    }
}
