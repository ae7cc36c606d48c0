//! Execution of a doorbell by a [`Loopback`](super::Loopback), correctly or with a fault.

use super::time::YieldOnce;
use super::{Bug, Copying, World};
use farwood_fabric::{Address, Capability, ChainFlag, ClientId, Doorbell, FabricError, Op, Request};
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;
use std::rc::Rc;

/// The number of actions of clients after which a late WRITE takes effect.
const LATE_ACTIONS: u64 = 40;

/// A WRITE that was answered and has not taken effect yet.
pub(super) struct LateWrite {
    by: ClientId,
    at: Address,
    bytes: Vec<u8>,
    due: u64,
}

/// A WRITE in progress whose bytes are copied in ascending address order.
pub(super) struct Writing {
    at: Address,
    bytes: usize,
    /// Bytes that are stored so far.
    stored_bytes: usize,
}

impl World {
    /// Executes the chains of a doorbell, one after the other.
    pub(super) async fn execute(
        self: &Rc<Self>,
        by: ClientId,
        doorbell: &mut Doorbell,
    ) -> Result<(), FabricError> {
        self.check_all(doorbell)?;
        let (requests, payload) = doorbell.parts_mut();
        self.progress();
        self.apply_late_writes(by, requests);
        for chain in requests.chunk_by_mut(|_, next| next.link != ChainFlag::First) {
            let mut order: Vec<usize> = (0..chain.len()).collect();
            self.reorder(chain, &mut order);
            for index in order {
                self.execute_one(by, &mut chain[index], payload).await;
            }
        }
        Ok(())
    }

    /// Puts the verbs of a chain in the order in which a faulty fabric executes them.
    fn reorder(&self, chain: &[Request], order: &mut [usize]) {
        let faults = &self.settings.faults;
        if self.settings.bug == Some(Bug::ChainReversed) {
            order.reverse();
        }
        for second in 1..chain.len() {
            let ops = (&chain[second - 1].op, &chain[second].op);
            let swap = match ops {
                (Op::Write { .. }, Op::Write { .. }) => faults.write_overtakes,
                (Op::Write { .. }, _) => false,
                (_, Op::Read { .. }) => faults.read_overtakes && chain[second].link == ChainFlag::Then,
                _ => false,
            };
            if swap {
                order.swap(second - 1, second);
            }
        }
    }

    /// Checks the verbs of a doorbell before any is executed.
    pub(super) fn check_all(&self, doorbell: &Doorbell) -> Result<(), FabricError> {
        doorbell.requests().iter().try_for_each(|request| self.check(request))
    }

    fn check(&self, request: &Request) -> Result<(), FabricError> {
        let (bytes, atomic) = match &request.op {
            Op::Read { into } => (into.len(), false),
            Op::Write { data, .. } => (data.len(), false),
            Op::MaskedCas { .. } if !self.settings.promises.masked_cas => {
                return Err(FabricError::Missing(Capability::MaskedCas));
            }
            Op::Cas { .. } | Op::MaskedCas { .. } | Op::Faa { .. } => (8, true),
        };
        let checked = self.settings.bug != Some(Bug::AlignmentUnchecked);
        if atomic && checked && !request.at.offset().is_multiple_of(8) {
            return Err(FabricError::Misaligned { at: request.at });
        }
        self.range(request.at, bytes).map(|_| ())
    }

    /// The byte range, within the memory that `at` names, of `bytes` bytes at `at`. Fails if the memory ends earlier.
    pub(super) fn range(&self, at: Address, bytes: usize) -> Result<Range<usize>, FabricError> {
        let mut state = self.state.borrow_mut();
        let outside = FabricError::OutOfRange { at, bytes };
        let Some(node) = state.nodes.get_mut(usize::from(at.node().0)) else { return Err(outside) };
        let size = node.memory(at.memory()).len();
        let (start, end) = (at.offset() as usize, (at.offset() as usize).saturating_add(bytes));
        if end <= size {
            return Ok(start..end);
        }
        if self.settings.bug == Some(Bug::RangeUnchecked) && bytes <= size {
            return Ok(size - bytes..size);
        }
        Err(outside)
    }

    async fn execute_one(self: &Rc<Self>, by: ClientId, request: &mut Request, payload: &[u8]) {
        let at = request.at;
        match &mut request.op {
            Op::Read { into } => self.read(at, into).await,
            Op::Write { data, immediate } => {
                let early = immediate.is_some() && self.settings.bug == Some(Bug::ImmediateFirst);
                if early {
                    self.deliver(at, *immediate);
                    YieldOnce::new(self).await;
                }
                self.write(by, at, &payload[data.clone()]).await;
                if !early {
                    self.deliver(at, *immediate);
                }
            }
            atomic => self.atomic(at, atomic).await,
        }
        if self.settings.faults.read_overtakes || self.settings.faults.write_overtakes {
            self.maybe_yield().await;
        }
    }

    fn deliver(&self, at: Address, immediate: Option<u32>) {
        let mut state = self.state.borrow_mut();
        state.nodes[usize::from(at.node().0)].immediates.extend(immediate);
    }

    async fn read(self: &Rc<Self>, at: Address, into: &mut [u8]) {
        let wanted = match self.settings.bug {
            Some(Bug::ReadShort) if into.len() > 8 => into.len() - 8,
            _ => into.len(),
        };
        let mut seen = BTreeSet::new();
        for piece in self.pieces(self.settings.faults.reads, at, wanted) {
            if piece.start != 0 || piece.end != wanted {
                self.maybe_yield().await;
            }
            while self.would_overtake(at, &piece, &mut seen) {
                YieldOnce::new(self).await;
            }
            self.load(at, piece.start, &mut into[piece]);
        }
    }

    async fn write(self: &Rc<Self>, by: ClientId, at: Address, bytes: &[u8]) {
        if self.settings.faults.write_is_late {
            let mut state = self.state.borrow_mut();
            let due = state.progress + LATE_ACTIONS;
            state.late_writes.push_back(LateWrite { by, at, bytes: bytes.to_vec(), due });
            return;
        }
        let number = self.begin_write(at, bytes.len());
        for piece in self.pieces(self.settings.faults.writes, at, bytes.len()) {
            if piece.start != 0 || piece.end != bytes.len() {
                self.maybe_yield().await;
            }
            self.store(at, piece.start, &bytes[piece.clone()]);
            self.advance_write(number, piece.end);
        }
        let unaligned = !(at.offset() as usize + bytes.len()).is_multiple_of(8);
        if self.settings.bug == Some(Bug::NeighbourCleared) && unaligned {
            self.store(at, bytes.len(), &[0]);
        }
    }

    fn begin_write(&self, at: Address, bytes: usize) -> u64 {
        let mut state = self.state.borrow_mut();
        let number = state.posts;
        state.posts += 1;
        if self.settings.faults.reads_stay_behind {
            state.writing.insert(number, Writing { at, bytes, stored_bytes: 0 });
        }
        number
    }

    fn advance_write(&self, number: u64, stored_bytes: usize) {
        let mut state = self.state.borrow_mut();
        if let Some(writing) = state.writing.get_mut(&number) {
            writing.stored_bytes = stored_bytes;
            if stored_bytes == writing.bytes {
                state.writing.remove(&number);
            }
        }
    }

    /// Whether a READ of `piece` would pass a WRITE in progress: the READ has already seen bytes of that WRITE, and
    /// would now read bytes that the WRITE has not stored yet. `seen` collects the WRITEs of which the READ has seen
    /// bytes.
    fn would_overtake(&self, at: Address, piece: &Range<usize>, seen: &mut BTreeSet<u64>) -> bool {
        let state = self.state.borrow();
        let (start, end) = (at.offset() + piece.start as u64, at.offset() + piece.end as u64);
        let mut overtakes = false;
        for (number, writing) in &state.writing {
            let (write_start, write_end) = (writing.at.offset(), writing.at.offset() + writing.bytes as u64);
            let same_memory = writing.at.node() == at.node() && writing.at.memory() == at.memory();
            if !same_memory || end <= write_start || start >= write_end {
                continue;
            }
            if end.min(write_end) <= write_start + writing.stored_bytes as u64 {
                seen.insert(*number);
            } else {
                overtakes |= seen.contains(number);
            }
        }
        overtakes
    }

    /// Applies the late WRITEs that are due, and those of the client `by` whose range its `requests` overlap, because
    /// a client sees its own WRITEs.
    fn apply_late_writes(&self, by: ClientId, requests: &[Request]) {
        let mut state = self.state.borrow_mut();
        let progress = state.progress;
        let overlaps = |write: &LateWrite| requests.iter().any(|request| overlap(write, request));
        let is_due = |write: &LateWrite| write.due <= progress || write.by == by && overlaps(write);
        let (due, rest): (VecDeque<_>, VecDeque<_>) = state.late_writes.drain(..).partition(is_due);
        state.late_writes = rest;
        drop(state);
        for write in due {
            self.store(write.at, 0, &write.bytes);
        }
    }

    /// The pieces of a transfer, in the order in which they are copied.
    fn pieces(&self, copying: Copying, at: Address, bytes: usize) -> Vec<Range<usize>> {
        let piece_bytes = self.settings.faults.piece_bytes;
        if copying == Copying::Whole {
            return std::iter::once(0..bytes).collect();
        }
        let mut pieces = Vec::new();
        let mut start = 0;
        while start < bytes {
            let offset = at.offset() as usize + start;
            let end = bytes.min(start + piece_bytes - offset % piece_bytes);
            pieces.push(start..end);
            start = end;
        }
        if copying == Copying::Downward {
            pieces.reverse();
        }
        pieces
    }

    async fn atomic(self: &Rc<Self>, at: Address, op: &mut Op) {
        let faults = &self.settings.faults;
        let leaves_gap = faults.atomic_loses_writes || faults.atomic_races || faults.failed_cas_stores;
        if leaves_gap && !faults.atomic_races {
            while !self.state.borrow_mut().busy.insert(at) {
                YieldOnce::new(self).await;
            }
        }
        let mut word = [0; 8];
        self.load(at, 0, &mut word);
        let before = u64::from_le_bytes(word);
        if leaves_gap {
            self.maybe_yield().await;
        }
        let kept = faults.failed_cas_stores.then_some(before);
        if let Some(after) = answer(op, before, self.settings.bug).or(kept) {
            self.store(at, 0, &after.to_le_bytes());
        }
        self.state.borrow_mut().busy.remove(&at);
    }

    fn load(&self, at: Address, from: usize, into: &mut [u8]) {
        let range = self.range(at, from + into.len()).expect("the range was checked");
        let mut state = self.state.borrow_mut();
        let memory = state.nodes[usize::from(at.node().0)].memory(at.memory());
        into.copy_from_slice(&memory[range][from..]);
    }

    fn store(&self, at: Address, from: usize, bytes: &[u8]) {
        let Ok(range) = self.range(at, from + bytes.len()) else { return };
        let mut state = self.state.borrow_mut();
        let memory = state.nodes[usize::from(at.node().0)].memory(at.memory());
        memory[range][from..].copy_from_slice(bytes);
    }
}

fn overlap(write: &LateWrite, request: &Request) -> bool {
    let bytes = match &request.op {
        Op::Read { into } => into.len(),
        Op::Write { data, .. } => data.len(),
        _ => 8,
    };
    let (a, b) = (write.at, request.at);
    let same = a.node() == b.node() && a.memory() == b.memory();
    same && a.offset() < b.offset() + bytes as u64 && b.offset() < a.offset() + write.bytes.len() as u64
}

/// Sets the result of an atomic that read `before`, and returns the word to store, if any.
fn answer(op: &mut Op, before: u64, bug: Option<Bug>) -> Option<u64> {
    match op {
        Op::Cas { compare, swap, old } => {
            *old = if bug == Some(Bug::CasReportsSuccess) { *compare } else { before };
            (*compare == before || bug == Some(Bug::CasAlwaysSwaps)).then_some(*swap)
        }
        Op::MaskedCas { compare, compare_mask, swap, swap_mask, old } => {
            *old = before;
            let all = bug == Some(Bug::MaskIgnored);
            let (compare_mask, swap_mask) =
                if all { (u64::MAX, u64::MAX) } else { (*compare_mask, *swap_mask) };
            ((before ^ *compare) & compare_mask == 0).then_some(before & !swap_mask | *swap & swap_mask)
        }
        Op::Faa { add, old } => {
            *old = before;
            Some(match bug {
                Some(Bug::AddSaturates) => before.saturating_add(*add),
                _ => before.wrapping_add(*add),
            })
        }
        Op::Read { .. } | Op::Write { .. } => unreachable!("an atomic"),
    }
}
