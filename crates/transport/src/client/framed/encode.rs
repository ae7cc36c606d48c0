//! The frames of a doorbell, and the assignment of their answers. All functions are pure.
//!
//! The verbs for one memory node are encoded in order, in as few frames as possible, mostly one. If there are several
//! frames, each is sent after the answer to the one before it, so that a chain stops at a failed verb. A READ or WRITE
//! that exceeds the limit of one verb is divided into pieces, by increasing address.

use crate::client::post::bytes_of;
use crate::wire::{Code, Malformed, RequestFrame, VERB_DATA_MAX, WireOp, WireVerb};
use farwood_fabric::{Doorbell, FabricError, NodeId, Op, Remote, Request};

/// The position up to which the verbs for one memory node were sent: the next request, and its next byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cursor {
    request: usize,
    offset: usize,
}

/// Returns whether a doorbell's verbs may need more than one frame for a node. Such verbs are checked before they are
/// sent.
pub(crate) fn is_large(doorbell: &Doorbell) -> bool {
    let bytes: usize = doorbell.requests().iter().map(|request| 40 + bytes_of(&request.op)).sum();
    bytes > 3 * VERB_DATA_MAX || doorbell.requests().len() > usize::from(u16::MAX)
}

/// Returns the piece of a request that begins at the cursor, and the cursor after it.
fn piece<'a>(request: &'a Request, payload: &'a [u8], at: Cursor) -> (WireVerb<'a>, Cursor) {
    let all = bytes_of(&request.op);
    let bytes = (all - at.offset).min(VERB_DATA_MAX);
    let last = at.offset + bytes == all;
    let op = match &request.op {
        Op::Read { .. } => WireOp::Read(bytes),
        Op::Write { data, immediate } => {
            let from = data.start + at.offset;
            WireOp::Write(&payload[from..from + bytes], immediate.filter(|_| last))
        }
        Op::Cas { compare, swap, .. } => WireOp::Cas { compare: *compare, swap: *swap },
        Op::MaskedCas { compare, compare_mask, swap, swap_mask, .. } => {
            WireOp::MaskedCas { words: [*compare, *compare_mask, *swap, *swap_mask] }
        }
        Op::Faa { add, .. } => WireOp::Faa(*add),
    };
    let word = Remote::<u8>::at(request.at).word() + at.offset as u64;
    (WireVerb { at: word, op }, if last { at.after() } else { Cursor { offset: at.offset + bytes, ..at } })
}

impl Cursor {
    fn after(self) -> Self {
        Self { request: self.request + 1, offset: 0 }
    }

    /// Moves to the next request for `node`; `None`: there is none.
    fn seek<'r>(&mut self, node: NodeId, requests: &'r [Request]) -> Option<&'r Request> {
        while let Some(request) = requests.get(self.request) {
            if request.at.node() == node {
                return Some(request);
            }
            *self = self.after();
        }
        None
    }

    /// Returns whether nothing for `node` is left.
    pub(crate) fn is_done(mut self, node: NodeId, doorbell: &Doorbell) -> bool {
        self.seek(node, doorbell.requests()).is_none()
    }

    /// Appends a frame with the verbs for `node` from the cursor on; returns the cursor after them.
    pub(crate) fn encode(
        self,
        node: NodeId,
        doorbell: &Doorbell,
        [tag, cut]: [u64; 2],
        out: &mut Vec<u8>,
    ) -> Self {
        let mut at = self;
        let mut frame = RequestFrame::begin(out);
        while let Some(request) = at.seek(node, doorbell.requests()) {
            let (verb, next) = piece(request, doorbell.payload(), at);
            if !frame.fits(&verb.op) {
                break;
            }
            frame.push(verb);
            at = next;
        }
        frame.end(tag, cut);
        at
    }

    /// Takes the answers to the next `verbs` verbs out of `body`; returns the cursor after them.
    ///
    /// # Errors
    /// [`Malformed`], if the answers do not match the verbs.
    pub(crate) fn answer(
        self,
        node: NodeId,
        doorbell: &mut Doorbell,
        verbs: AnsweredVerbs,
        mut body: &[u8],
    ) -> Result<Self, Malformed> {
        let (requests, payload) = doorbell.parts_mut();
        let (mut at, mut answered) = (self, 0);
        loop {
            let more = at.seek(node, requests).is_some();
            if verbs.are_done(answered, at) || !more {
                break;
            }
            let (verb, next) = piece(&requests[at.request], payload, at);
            let (answer, rest) = body.split_at_checked(verb.op.answer_bytes()).ok_or(Malformed::Body)?;
            take(&mut requests[at.request].op, at.offset, answer);
            (body, at, answered) = (rest, next, answered + 1);
        }
        let complete = body.is_empty() && verbs.are_done(answered, at);
        if complete { Ok(at) } else { Err(Malformed::Body) }
    }

    /// Returns the error of the verb at the cursor.
    pub(crate) fn failed(mut self, node: NodeId, doorbell: &Doorbell, code: Code) -> Option<FabricError> {
        let request = self.seek(node, doorbell.requests())?;
        let (at, bytes) = (request.at, bytes_of(&request.op));
        Some(if code == Code::Misaligned {
            FabricError::Misaligned { at }
        } else {
            FabricError::OutOfRange { at, bytes }
        })
    }
}

/// The verbs that an answer covers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AnsweredVerbs {
    /// All verbs up to the cursor.
    UpTo(Cursor),
    /// That many verbs.
    Count(u16),
}

impl AnsweredVerbs {
    fn are_done(self, answered: u32, at: Cursor) -> bool {
        match self {
            Self::UpTo(end) => at == end,
            Self::Count(count) => answered == u32::from(count),
        }
    }
}

/// Stores an answer in its verb.
fn take(op: &mut Op, offset: usize, answer: &[u8]) {
    match op {
        Op::Read { into } => {
            let words = into.words_mut()[offset / 8..].iter_mut();
            for (word, bytes) in words.zip(answer.as_chunks().0) {
                *word = u64::from_ne_bytes(*bytes);
            }
        }
        Op::Cas { old, .. } | Op::MaskedCas { old, .. } | Op::Faa { old, .. } => {
            *old = u64::from_le_bytes(answer.try_into().expect("an atomic's answer is a word"));
        }
        Op::Write { .. } => {}
    }
}
