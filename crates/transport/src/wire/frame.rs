//! Frames: a header and a body.

use super::{Code, FRAME_BYTES_MAX, FrameKind, HEADER_BYTES};
use farwood_fabric::printable;
use std::fmt;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The reason why bytes are not a valid frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// The length is invalid.
    Length(u32),
    /// The kind is unknown.
    Kind(u8),
    /// The body is shorter or longer than its frame declares.
    Body,
    /// The verb is unknown, or its length is invalid.
    Verb,
    /// The magic number is wrong.
    Magic(u64),
    /// The control is unknown.
    Control(u8),
    /// A frame of this kind is not allowed here.
    UnexpectedFrame(FrameKind),
    /// The cut is too far ahead of the clock of the memory node.
    Cut(u64),
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length(bytes) => write!(f, "a frame cannot have {bytes} bytes"),
            Self::Kind(kind) => write!(f, "there is no frame of kind {kind}"),
            Self::Body => f.write_str("a body does not have the length that its frame declares"),
            Self::Verb => f.write_str("an invalid verb"),
            Self::Magic(magic) => {
                write!(f, "magic {magic:#018x}: the peer does not use Farwood's protocol")
            }
            Self::Control(code) => write!(f, "there is no control {code}"),
            Self::UnexpectedFrame(kind) => write!(f, "an unexpected frame of kind {kind:?}"),
            Self::Cut(cut) => write!(
                f,
                "the cut {cut} is more than 100 years ahead of the clock of this memory node; set the clock"
            ),
        }
    }
}

/// A frame's header on the wire.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Header {
    bytes: U32,
    kind: u8,
    code: u8,
    count: U16,
    tag: U64,
    cut: U64,
}

/// A frame in the receive buffer.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// The kind.
    pub kind: FrameKind,
    /// See the map.
    pub code: u8,
    /// See the map.
    pub count: u16,
    /// Chosen by the sender of the request.
    pub tag: u64,
    /// The highest number of a cut that the sender knows.
    pub cut: u64,
    /// The bytes after the header.
    pub body: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Decodes the first frame in `bytes`; `None` if it is incomplete.
    ///
    /// # Errors
    /// [`Malformed`]: the following bytes cannot be decoded either.
    #[inline]
    pub fn first(bytes: &'a [u8]) -> Result<Option<Self>, Malformed> {
        let Ok((header, _)) = Header::ref_from_prefix(bytes) else {
            return check_start(bytes).map(|()| None);
        };
        let length = header.bytes.get();
        let kind = check(length, header.kind)?;
        let Some(body) = bytes.get(HEADER_BYTES..length as usize) else { return Ok(None) };
        let (count, tag, cut) = (header.count.get(), header.tag.get(), header.cut.get());
        Ok(Some(Self { kind, code: header.code, count, tag, cut, body }))
    }

    /// Returns the length of the first frame if it is known, and otherwise that of its header, for sizing the receive
    /// buffer.
    pub fn announced(bytes: &[u8]) -> usize {
        Header::ref_from_prefix(bytes).map_or(HEADER_BYTES, |(header, _)| header.bytes.get() as usize)
    }

    /// Returns the bytes of the whole frame.
    #[inline]
    pub fn bytes(&self) -> usize {
        HEADER_BYTES + self.body.len()
    }

    /// Returns the text of a refusal, with escapes and invalid UTF-8 replaced.
    pub fn text(&self) -> String {
        let text = self.body.get(..usize::from(self.count)).unwrap_or(self.body);
        printable(&String::from_utf8_lossy(text)).into_owned()
    }

    /// Returns the words of a control or its answer.
    ///
    /// # Errors
    /// [`Malformed::Body`].
    pub fn words(&self) -> Result<[u64; 4], Malformed> {
        let words = <[U64; 4]>::ref_from_bytes(self.body).map_err(|_| Malformed::Body)?;
        Ok(words.map(U64::get))
    }
}

#[inline]
fn check(length: u32, kind: u8) -> Result<FrameKind, Malformed> {
    let fits = length as usize >= HEADER_BYTES && length as usize <= FRAME_BYTES_MAX;
    if !fits || !length.is_multiple_of(8) {
        return Err(Malformed::Length(length));
    }
    FrameKind::from_byte(kind).ok_or(Malformed::Kind(kind))
}

/// Checks the start of an incomplete header: a peer with another protocol may send no more.
fn check_start(bytes: &[u8]) -> Result<(), Malformed> {
    match bytes {
        &[a, b, c, d, kind, ..] => check(u32::from_le_bytes([a, b, c, d]), kind).map(|_| ()),
        _ => Ok(()),
    }
}

/// Returns the first three words of a frame without a cut, for frames that are built of words.
#[inline]
pub fn header_words(bytes: usize, kind: FrameKind, code: u8, count: u16, tag: u64) -> [u64; 3] {
    zerocopy::transmute!(header(bytes, kind, code, count, tag))
}

/// The word of a frame that has the cut.
pub const CUT_WORD: usize = 2;

/// Puts the cut into a complete frame.
#[inline]
pub fn put_cut(frame: &mut [u8], cut: u64) {
    frame[8 * CUT_WORD..8 * CUT_WORD + 8].copy_from_slice(&cut.to_le_bytes());
}

pub(super) fn header(bytes: usize, kind: FrameKind, code: u8, count: u16, tag: u64) -> Header {
    assert!(bytes <= FRAME_BYTES_MAX && bytes.is_multiple_of(8), "a frame of {bytes} bytes");
    Header {
        bytes: U32::new(bytes as u32),
        kind: kind as u8,
        code,
        count: U16::new(count),
        tag: U64::new(tag),
        cut: U64::ZERO,
    }
}

/// Appends a frame of `kind` with `body`, padded to a multiple of 8.
pub fn put_frame(out: &mut Vec<u8>, kind: FrameKind, code: u8, count: u16, tag: u64, body: &[u8]) {
    let bytes = HEADER_BYTES + body.len().next_multiple_of(8);
    out.extend_from_slice(header(bytes, kind, code, count, tag).as_bytes());
    out.extend_from_slice(body);
    pad(out, body.len());
}

/// Appends a frame with a text, truncated to its limit.
pub fn put_text(out: &mut Vec<u8>, kind: FrameKind, code: Code, tag: u64, text: &str) {
    const TEXT_BYTES_MAX: usize = 1000;
    let text = &text.as_bytes()[..text.len().min(TEXT_BYTES_MAX)];
    put_frame(out, kind, code as u8, text.len() as u16, tag, text);
}

/// Appends a control, or the answer to one.
pub fn put_words(out: &mut Vec<u8>, kind: FrameKind, code: u8, tag: u64, words: [u64; 4]) {
    put_frame(out, kind, code, 0, tag, words.map(U64::new).as_bytes());
}

pub(super) fn pad(out: &mut Vec<u8>, bytes: usize) {
    const ZERO: [u8; 8] = [0; 8];
    out.extend_from_slice(&ZERO[..bytes.next_multiple_of(8) - bytes]);
}

const _: () = assert!(size_of::<Header>() == HEADER_BYTES);
