//! Requests: a sequence of verbs.

use super::frame::{Frame, header, pad, put_cut};
use super::{FRAME_BYTES_MAX, FrameKind, HEADER_BYTES, Malformed, VERB_BYTES, VERB_DATA_MAX};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// One verb of a request, in the receive buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireVerb<'a> {
    /// A remote pointer, as an unchecked word.
    pub at: u64,
    /// The operation and its operands.
    pub op: WireOp<'a>,
}

/// The operation of a verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireOp<'a> {
    /// READ of that many bytes.
    Read(usize),
    /// WRITE, with or without an immediate.
    Write(&'a [u8], Option<u32>),
    /// Compare and swap.
    Cas {
        /// Expected word.
        compare: u64,
        /// New word.
        swap: u64,
    },
    /// Compare and swap of the bits in the masks.
    MaskedCas {
        /// Expected bits, their mask, new bits, their mask.
        words: [u64; 4],
    },
    /// Fetch and add.
    Faa(u64),
}

impl WireOp<'_> {
    /// The word after the atomic, if it was `old` before.
    pub fn word_after(&self, old: u64) -> u64 {
        match *self {
            Self::Cas { compare, swap } if old == compare => swap,
            Self::MaskedCas { words: [compare, compare_mask, swap, swap_mask] }
                if old & compare_mask == compare & compare_mask =>
            {
                old & !swap_mask | swap & swap_mask
            }
            Self::Faa(add) => old.wrapping_add(add),
            Self::Cas { .. } | Self::MaskedCas { .. } | Self::Read(_) | Self::Write(..) => old,
        }
    }

    /// The name of the verb if it changes memory, or what a server observes.
    pub fn changes(&self) -> Option<&'static str> {
        match self {
            Self::Read(_) => None,
            Self::Write(_, None) => Some("WRITE"),
            Self::Write(_, Some(_)) => Some("WRITE_WITH_IMM"),
            Self::Cas { .. } => Some("CAS"),
            Self::MaskedCas { .. } => Some("masked CAS"),
            Self::Faa(_) => Some("FAA"),
        }
    }

    /// Returns the bytes of the answer in a reply.
    #[inline]
    pub fn answer_bytes(&self) -> usize {
        match self {
            Self::Read(bytes) => bytes.next_multiple_of(8),
            Self::Write(..) => 0,
            Self::Cas { .. } | Self::MaskedCas { .. } | Self::Faa(_) => 8,
        }
    }

    /// Returns the bytes of the verb in a request.
    #[inline]
    pub fn request_bytes(&self) -> usize {
        VERB_BYTES
            + match self {
                Self::Read(_) => 0,
                Self::Write(data, immediate) => {
                    data.len().next_multiple_of(8) + if immediate.is_some() { 8 } else { 0 }
                }
                Self::Cas { .. } => 16,
                Self::MaskedCas { .. } => 32,
                Self::Faa(_) => 8,
            }
    }
}

const READ: u8 = 1;
const WRITE: u8 = 2;
const WRITE_IMM: u8 = 3;
const CAS: u8 = 4;
const MASKED_CAS: u8 = 5;
const FAA: u8 = 6;

/// A verb's header on the wire.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct VerbHead {
    op: u8,
    zero: [u8; 3],
    bytes: U32,
    at: U64,
}

impl<'a> Frame<'a> {
    /// Returns the verbs of a request.
    #[inline]
    pub fn verbs(&self) -> Verbs<'a> {
        Verbs::new(self.body, self.count)
    }
}

/// The verbs of a request, one after the other. Ends after the first invalid verb, and with an error if the
/// body does not end with the last verb.
#[derive(Clone, Debug)]
pub struct Verbs<'a> {
    rest: &'a [u8],
    left: u16,
}

impl<'a> Verbs<'a> {
    #[inline]
    pub(super) fn new(body: &'a [u8], count: u16) -> Self {
        Self { rest: body, left: count }
    }

    #[inline]
    fn take(&mut self) -> Result<WireVerb<'a>, Malformed> {
        let (head, rest) = VerbHead::ref_from_prefix(self.rest).map_err(|_| Malformed::Body)?;
        self.rest = rest;
        let bytes = head.bytes.get() as usize;
        let atomic = matches!(head.op, CAS | MASKED_CAS | FAA);
        if head.zero != [0; 3] || bytes > VERB_DATA_MAX || (atomic && bytes != 8) {
            return Err(Malformed::Verb);
        }
        let op = match head.op {
            READ => WireOp::Read(bytes),
            WRITE => WireOp::Write(self.data(bytes)?, None),
            WRITE_IMM => {
                let immediate = u32::try_from(self.word()?).map_err(|_| Malformed::Verb)?;
                WireOp::Write(self.data(bytes)?, Some(immediate))
            }
            CAS => WireOp::Cas { compare: self.word()?, swap: self.word()? },
            MASKED_CAS => {
                WireOp::MaskedCas { words: [self.word()?, self.word()?, self.word()?, self.word()?] }
            }
            FAA => WireOp::Faa(self.word()?),
            _ => return Err(Malformed::Verb),
        };
        Ok(WireVerb { at: head.at.get(), op })
    }

    #[inline]
    fn word(&mut self) -> Result<u64, Malformed> {
        let (word, rest) = U64::ref_from_prefix(self.rest).map_err(|_| Malformed::Body)?;
        self.rest = rest;
        Ok(word.get())
    }

    #[inline]
    fn data(&mut self, bytes: usize) -> Result<&'a [u8], Malformed> {
        let (data, rest) = self.rest.split_at_checked(bytes.next_multiple_of(8)).ok_or(Malformed::Body)?;
        self.rest = rest;
        Ok(&data[..bytes])
    }
}

impl<'a> Iterator for Verbs<'a> {
    type Item = Result<WireVerb<'a>, Malformed>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            let rest = std::mem::take(&mut self.rest);
            return (!rest.is_empty()).then_some(Err(Malformed::Body));
        }
        self.left -= 1;
        let taken = self.take();
        if taken.is_err() {
            (self.left, self.rest) = (0, &[]);
        }
        Some(taken)
    }
}

/// A request under construction at the end of a buffer.
#[derive(Debug)]
pub struct RequestFrame<'o> {
    out: &'o mut Vec<u8>,
    start: usize,
    count: u16,
    answer_bytes: usize,
}

impl<'o> RequestFrame<'o> {
    /// Begins a request.
    pub fn begin(out: &'o mut Vec<u8>) -> Self {
        let start = out.len();
        out.extend_from_slice(&[0; HEADER_BYTES]);
        Self { out, start, count: 0, answer_bytes: HEADER_BYTES }
    }

    /// Whether a verb fits into this frame, and its answer into the reply.
    #[inline]
    pub fn fits(&self, op: &WireOp<'_>) -> bool {
        let bytes = self.out.len() - self.start + op.request_bytes();
        let answers = self.answer_bytes + op.answer_bytes();
        bytes <= FRAME_BYTES_MAX && answers <= FRAME_BYTES_MAX && self.count < u16::MAX
    }

    /// Adds a verb, which must fit.
    pub fn push(&mut self, verb: WireVerb<'_>) {
        debug_assert!(self.fits(&verb.op));
        self.answer_bytes += verb.op.answer_bytes();
        self.count += 1;
        let (op, bytes) = match verb.op {
            WireOp::Read(bytes) => (READ, bytes),
            WireOp::Write(data, None) => (WRITE, data.len()),
            WireOp::Write(data, Some(_)) => (WRITE_IMM, data.len()),
            WireOp::Cas { .. } => (CAS, 8),
            WireOp::MaskedCas { .. } => (MASKED_CAS, 8),
            WireOp::Faa(_) => (FAA, 8),
        };
        assert!(bytes <= VERB_DATA_MAX, "a verb of {bytes} bytes");
        let head = VerbHead { op, zero: [0; 3], bytes: U32::new(bytes as u32), at: U64::new(verb.at) };
        self.out.extend_from_slice(head.as_bytes());
        match verb.op {
            WireOp::Read(_) => {}
            WireOp::Write(data, immediate) => {
                if let Some(immediate) = immediate {
                    self.words(&[immediate.into()]);
                }
                self.out.extend_from_slice(data);
                pad(self.out, data.len());
            }
            WireOp::Cas { compare, swap } => self.words(&[compare, swap]),
            WireOp::MaskedCas { words } => self.words(&words),
            WireOp::Faa(add) => self.words(&[add]),
        }
    }

    fn words(&mut self, words: &[u64]) {
        for word in words {
            self.out.extend_from_slice(&word.to_le_bytes());
        }
    }

    /// Ends the request; `cut` is the highest cut that its sender knows.
    pub fn end(self, tag: u64, cut: u64) {
        let bytes = self.out.len() - self.start;
        let header = header(bytes, FrameKind::Request, 0, self.count, tag);
        let head = &mut self.out[self.start..self.start + HEADER_BYTES];
        head.copy_from_slice(header.as_bytes());
        put_cut(head, cut);
    }
}

const _: () = assert!(size_of::<VerbHead>() == VERB_BYTES);
