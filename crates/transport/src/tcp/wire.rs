//! The wire: what compute nodes and memory nodes say to each other over a stream of bytes. Pure: bytes in, bytes out.
//!
//! Frames follow each other without gaps. All numbers are little endian. What arrives is looked at where it lies;
//! nothing is copied but by who executes it.
//!
//! # Map
//!
//! ```text
//! every frame, both ways
//! +  0   4   bytes of the frame, with this header: a multiple of 8, 16 to 1,048,576
//! +  4   1   kind, below
//! +  5   1   code: which control, why refused, failed or ended; else 0
//! +  6   2   count: verbs of a request; verbs executed before the one that failed; bytes of a text; else 0
//! +  8   8   tag: chosen by who asks, returned with the answer
//! + 16  ..   body, by kind
//!
//! kind  body                                                                            sent by
//!    1  hello: below. The first frame of a connection, and only the first               compute node
//!    2  welcome: below                                                                  memory node
//!    3  refused: a text. The connection ends                                            memory node
//!    4  request: `count` verbs for this memory node, executed in their order            compute node
//!    5  reply: for each READ its bytes, filled up to a multiple of 8; for each atomic   memory node
//!       the word that was there, 8 bytes; for each WRITE nothing
//!    6  failed: `count` verbs were executed, the next was not, and none after it;       memory node
//!       as a reply to those that were
//!    7  control: `code` says which; four words                                          compute node
//!    8  answer to a control: code 0 and four words, or another code and a text          memory node
//!    9  goodbye: everything before it was answered; the connection ends                 memory node
//!
//! hello, 48 bytes and the token
//! +  0   8   magic "FARWIRE\0"
//! +  8   4   version, 1
//! + 12   4   0
//! + 16   8   identity of the pool; 0: whichever this is
//! + 24   2   number of the memory node in it; 65535: whichever this is
//! + 26   2   1: the next two fields name a compute node; 0: none yet
//! + 28   2   slot of the client table
//! + 30   2   bytes of the token
//! + 32   4   epoch of the slot
//! + 36   4   0
//! + 40   8   line: of connections with the same identity and line, the newest lives
//! + 48  ..   token, filled up to a multiple of 8
//!
//! welcome, 56 bytes
//! +  0   8   magic "FARWIRE\0"
//! +  8   4   version, 1
//! + 12   4   0: no pool yet, 1: part of a pool that is being formed, 2: part of a whole pool
//! + 16   8   identity of the pool, or 0
//! + 24   2   number of this memory node, or 0
//! + 26   2   memory nodes of the pool, or 0
//! + 28   4   0
//! + 32   8   host memory, bytes
//! + 40   8   device memory, bytes
//! + 48   8   incarnation: drawn at every start of the memory node
//!
//! verb, 16 bytes and its operands
//! +  0   1   1 READ, 2 WRITE, 3 WRITE_WITH_IMM, 4 CAS, 5 masked CAS, 6 FAA
//! +  1   3   0
//! +  4   4   bytes that it reads or writes; 8 for atomics
//! +  8   8   remote pointer
//! + 16  ..   WRITE: the bytes, filled up to a multiple of 8
//!            WRITE_WITH_IMM: the immediate, 8 bytes, then as WRITE
//!            CAS: compare 8, swap 8
//!            masked CAS: compare 8, its mask 8, swap 8, its mask 8
//!            FAA: add 8
//! ```

use farwood_fabric::ClientId;
use std::fmt;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// "FARWIRE\0", read as a little-endian word.
pub const MAGIC: u64 = u64::from_le_bytes(*b"FARWIRE\0");
/// Version of everything that the map above shows.
pub const VERSION: u32 = 1;
/// Bytes of the largest frame. Bounds what a connection can make either side keep.
pub const FRAME_BYTES_MAX: usize = 1 << 20;
/// Bytes of a frame's header.
pub const HEADER_BYTES: usize = 16;
/// Bytes of a verb without its operands.
pub const VERB_BYTES: usize = 16;
/// Bytes of the largest READ or WRITE of one verb; four fit a frame with all that is around them.
pub const VERB_DATA_MAX: usize = 240 << 10;
/// Bytes of the longest token.
pub const TOKEN_BYTES_MAX: usize = 1024;
/// The number of a node that is not known yet.
pub const ANY_NODE: u16 = u16::MAX;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A compute node introduces itself.
    Hello = 1,
    /// A memory node lets it in.
    Welcome = 2,
    /// A memory node does not let it in.
    Refused = 3,
    /// Verbs.
    Request = 4,
    /// Their answers.
    Reply = 5,
    /// One of them could not be executed.
    Failed = 6,
    /// Something that is no verb.
    Control = 7,
    /// What came of it.
    Answer = 8,
    /// The memory node stops.
    Goodbye = 9,
}

impl Kind {
    const ALL: [Self; 9] = [
        Self::Hello,
        Self::Welcome,
        Self::Refused,
        Self::Request,
        Self::Reply,
        Self::Failed,
        Self::Control,
        Self::Answer,
        Self::Goodbye,
    ];

    fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.get(usize::from(byte).checked_sub(1)?).copied()
    }
}

/// Why a verb, a control or a connection was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Code {
    /// Outside the node's memory, or another node's.
    OutOfRange = 1,
    /// Not a multiple of eight.
    Misaligned = 2,
    /// The queue of immediates is full: the rest may be sent again.
    QueueFull = 3,
    /// No memory behind the promise.
    NoMemory = 4,
    /// The token is wrong, or missing.
    BadToken = 5,
    /// Another version of the wire.
    BadVersion = 6,
    /// Another pool than was asked for, or none.
    OtherPool = 7,
    /// The identity was revoked.
    Revoked = 8,
    /// The slot is claimed by a living compute node.
    Taken = 9,
    /// As many connections as the memory node takes.
    Crowded = 10,
    /// No frame, or one out of its turn.
    Malformed = 11,
    /// The memory node stops.
    Stopping = 12,
}

impl Code {
    const ALL: [Self; 12] = [
        Self::OutOfRange,
        Self::Misaligned,
        Self::QueueFull,
        Self::NoMemory,
        Self::BadToken,
        Self::BadVersion,
        Self::OtherPool,
        Self::Revoked,
        Self::Taken,
        Self::Crowded,
        Self::Malformed,
        Self::Stopping,
    ];

    /// The code of that number.
    pub fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.get(usize::from(byte).checked_sub(1)?).copied()
    }
}

/// What is asked of a memory node besides verbs. The words of each are its arguments, and those of its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Control {
    /// `[slot]`: this connection wants the slot of the client table; refused as [`Code::Taken`].
    Claim = 1,
    /// `[slot, epoch]`: this connection is that compute node's from now on.
    Name = 2,
    /// `[slot, epoch]` to `[connections of it]`.
    Census = 3,
    /// `[slot, epoch]`: nothing of that compute node lands any more when this is answered.
    Fence = 4,
    /// `[pool, node, nodes]`: become that node of that pool, unless it is one already.
    Form = 5,
    /// The pool is whole: all its nodes were formed.
    Whole = 6,
    /// `[pointer, bytes]`: make host memory real.
    Provision = 7,
    /// to `[bytes that have pages, connections]`.
    Stat = 8,
}

impl Control {
    const ALL: [Self; 8] = [
        Self::Claim,
        Self::Name,
        Self::Census,
        Self::Fence,
        Self::Form,
        Self::Whole,
        Self::Provision,
        Self::Stat,
    ];

    /// The control of that number.
    pub fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.get(usize::from(byte).checked_sub(1)?).copied()
    }
}

/// Bytes that are no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// The frame's length cannot be.
    Length(u32),
    /// There is no such kind.
    Kind(u8),
    /// The body is shorter or longer than what is said to be in it.
    Body,
    /// There is no such verb, or its length cannot be.
    Verb,
    /// The magic number is another.
    Magic(u64),
    /// There is no such control.
    Control(u8),
    /// A frame of this kind was not to come here.
    Turn(Kind),
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length(bytes) => write!(f, "a frame of {bytes} bytes cannot be"),
            Self::Kind(kind) => write!(f, "there is no frame of kind {kind}"),
            Self::Body => f.write_str("a body has another length than its frame says"),
            Self::Verb => f.write_str("a verb that cannot be"),
            Self::Magic(magic) => write!(f, "magic {magic:#018x}: that is no Farwood at the other end"),
            Self::Control(code) => write!(f, "there is no control {code}"),
            Self::Turn(kind) => write!(f, "a frame of kind {kind:?} out of its turn"),
        }
    }
}

/// A frame's header as it goes over the wire.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Header {
    bytes: U32,
    kind: u8,
    code: u8,
    count: U16,
    tag: U64,
}

/// A frame, where it lies.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// What it is.
    pub kind: Kind,
    /// See the map.
    pub code: u8,
    /// See the map.
    pub count: u16,
    /// Chosen by who asks.
    pub tag: u64,
    /// What is behind the header.
    pub body: &'a [u8],
}

impl<'a> Frame<'a> {
    /// The first frame in `bytes`; `None` where it has not arrived as a whole.
    ///
    /// # Errors
    /// [`Malformed`]: what follows cannot be made out either.
    #[inline]
    pub fn first(bytes: &'a [u8]) -> Result<Option<Self>, Malformed> {
        let Ok((header, _)) = Header::ref_from_prefix(bytes) else { return Ok(None) };
        let length = header.bytes.get();
        let fits = length as usize >= HEADER_BYTES && length as usize <= FRAME_BYTES_MAX;
        if !fits || !length.is_multiple_of(8) {
            return Err(Malformed::Length(length));
        }
        let kind = Kind::from_byte(header.kind).ok_or(Malformed::Kind(header.kind))?;
        let Some(body) = bytes.get(HEADER_BYTES..length as usize) else { return Ok(None) };
        Ok(Some(Self { kind, code: header.code, count: header.count.get(), tag: header.tag.get(), body }))
    }

    /// Bytes of the frame that begins here, as far as it can be told; for who has to make room.
    pub fn announced(bytes: &[u8]) -> usize {
        Header::ref_from_prefix(bytes).map_or(HEADER_BYTES, |(header, _)| header.bytes.get() as usize)
    }

    /// Bytes of the whole frame.
    #[inline]
    pub fn bytes(&self) -> usize {
        HEADER_BYTES + self.body.len()
    }

    /// The text of a refusal. What is no text is shown as well as it can be.
    pub fn text(&self) -> String {
        let text = self.body.get(..usize::from(self.count)).unwrap_or(self.body);
        String::from_utf8_lossy(text).into_owned()
    }

    /// The words of a control or its answer.
    ///
    /// # Errors
    /// [`Malformed::Body`].
    pub fn words(&self) -> Result<[u64; 4], Malformed> {
        let words = <[U64; 4]>::ref_from_bytes(self.body).map_err(|_| Malformed::Body)?;
        Ok(words.map(U64::get))
    }

    /// The verbs of a request.
    #[inline]
    pub fn verbs(&self) -> Verbs<'a> {
        Verbs { rest: self.body, left: self.count }
    }
}

/// The first two words of a frame, for who builds frames of words.
#[inline]
pub fn header_words(bytes: usize, kind: Kind, code: u8, count: u16, tag: u64) -> [u64; 2] {
    zerocopy::transmute!(header(bytes, kind, code, count, tag))
}

fn header(bytes: usize, kind: Kind, code: u8, count: u16, tag: u64) -> Header {
    debug_assert!(bytes <= FRAME_BYTES_MAX && bytes.is_multiple_of(8));
    Header {
        bytes: U32::new(bytes as u32),
        kind: kind as u8,
        code,
        count: U16::new(count),
        tag: U64::new(tag),
    }
}

/// Appends a frame of `kind` whose body is `body`, filled up to a multiple of 8.
pub fn put_frame(out: &mut Vec<u8>, kind: Kind, code: u8, count: u16, tag: u64, body: &[u8]) {
    let bytes = HEADER_BYTES + body.len().next_multiple_of(8);
    out.extend_from_slice(header(bytes, kind, code, count, tag).as_bytes());
    out.extend_from_slice(body);
    pad(out, body.len());
}

/// Appends a frame with a text, cut to what fits.
pub fn put_text(out: &mut Vec<u8>, kind: Kind, code: Code, tag: u64, text: &str) {
    const TEXT_BYTES_MAX: usize = 1000;
    let text = &text.as_bytes()[..text.len().min(TEXT_BYTES_MAX)];
    put_frame(out, kind, code as u8, text.len() as u16, tag, text);
}

/// Appends a control, or the answer to one.
pub fn put_words(out: &mut Vec<u8>, kind: Kind, code: u8, tag: u64, words: [u64; 4]) {
    put_frame(out, kind, code, 0, tag, words.map(U64::new).as_bytes());
}

fn pad(out: &mut Vec<u8>, bytes: usize) {
    const ZERO: [u8; 8] = [0; 8];
    out.extend_from_slice(&ZERO[..bytes.next_multiple_of(8) - bytes]);
}

/// One verb of a request, where it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireVerb<'a> {
    /// A remote pointer, as a word that nobody has checked.
    pub at: u64,
    /// What to do there.
    pub op: WireOp<'a>,
}

/// What a verb does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireOp<'a> {
    /// READ of so many bytes.
    Read(usize),
    /// WRITE, with an immediate or without.
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
    /// Bytes of the answer in a reply.
    #[inline]
    pub fn answer_bytes(&self) -> usize {
        match self {
            Self::Read(bytes) => bytes.next_multiple_of(8),
            Self::Write(..) => 0,
            Self::Cas { .. } | Self::MaskedCas { .. } | Self::Faa(_) => 8,
        }
    }

    /// Bytes of the verb in a request.
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

/// A verb's head as it goes over the wire.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct VerbHead {
    op: u8,
    zero: [u8; 3],
    bytes: U32,
    at: U64,
}

/// The verbs of a request, one after the other. Ends with the first that cannot be, and with an error if the body
/// does not end with the last.
#[derive(Clone, Debug)]
pub struct Verbs<'a> {
    rest: &'a [u8],
    left: u16,
}

impl<'a> Verbs<'a> {
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

    /// Whether a verb fits: itself into this frame, and its answer into the reply.
    #[inline]
    pub fn has_room(&self, op: &WireOp<'_>) -> bool {
        let bytes = self.out.len() - self.start + op.request_bytes();
        let answers = self.answer_bytes + op.answer_bytes();
        bytes <= FRAME_BYTES_MAX && answers <= FRAME_BYTES_MAX && self.count < u16::MAX
    }

    /// Adds a verb, for which there is room.
    pub fn push(&mut self, verb: WireVerb<'_>) {
        debug_assert!(self.has_room(&verb.op));
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
        debug_assert!(bytes <= VERB_DATA_MAX);
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

    /// Ends the request.
    pub fn end(self, tag: u64) {
        let bytes = self.out.len() - self.start;
        let header = header(bytes, Kind::Request, 0, self.count, tag);
        self.out[self.start..self.start + HEADER_BYTES].copy_from_slice(header.as_bytes());
    }
}

/// What a compute node says first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Identity of the pool; 0: whichever this is.
    pub pool: u64,
    /// Number of the memory node; [`ANY_NODE`]: whichever this is.
    pub node: u16,
    /// Who is speaking, if it has a name.
    pub client: Option<ClientId>,
    /// Of connections with the same identity and line, the newest lives.
    pub line: u64,
    /// What shows that it may.
    pub token: Vec<u8>,
}

/// Hello as it goes over the wire, before the token.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct HelloHead {
    magic: U64,
    version: U32,
    zero: U32,
    pool: U64,
    node: U16,
    named: U16,
    slot: U16,
    token_bytes: U16,
    epoch: U32,
    zero_too: U32,
    line: U64,
}

/// What is wrong with a hello or a welcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Greeting {
    /// It is none.
    Malformed(Malformed),
    /// It is one of another version.
    Version(u32),
}

impl From<Malformed> for Greeting {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

impl Hello {
    /// Appends the frame. A token that is too long is cut, and thereby wrong.
    pub fn put(&self, out: &mut Vec<u8>) {
        let token = &self.token[..self.token.len().min(TOKEN_BYTES_MAX)];
        let client = self.client.unwrap_or(ClientId { slot: 0, epoch: 0 });
        let head = HelloHead {
            magic: U64::new(MAGIC),
            version: U32::new(VERSION),
            zero: U32::ZERO,
            pool: U64::new(self.pool),
            node: U16::new(self.node),
            named: U16::new(self.client.is_some().into()),
            slot: U16::new(client.slot),
            token_bytes: U16::new(token.len() as u16),
            epoch: U32::new(client.epoch),
            zero_too: U32::ZERO,
            line: U64::new(self.line),
        };
        let body = [head.as_bytes(), token].concat();
        put_frame(out, Kind::Hello, 0, 0, 0, &body);
    }

    /// Reads the body of the frame.
    ///
    /// # Errors
    /// [`Greeting`].
    pub fn read(frame: &Frame<'_>) -> Result<Self, Greeting> {
        if frame.kind != Kind::Hello {
            return Err(Malformed::Turn(frame.kind).into());
        }
        let (head, token) = HelloHead::ref_from_prefix(frame.body).map_err(|_| Malformed::Body)?;
        check_magic(head.magic, head.version)?;
        let token_bytes = usize::from(head.token_bytes.get());
        if token_bytes > TOKEN_BYTES_MAX || token_bytes.next_multiple_of(8) != token.len() {
            return Err(Malformed::Body.into());
        }
        let client = match head.named.get() {
            0 => None,
            1 => Some(ClientId { slot: head.slot.get(), epoch: head.epoch.get() }),
            _ => return Err(Malformed::Body.into()),
        };
        let (pool, node, line) = (head.pool.get(), head.node.get(), head.line.get());
        Ok(Self { pool, node, client, line, token: token[..token_bytes].to_vec() })
    }
}

fn check_magic(magic: U64, version: U32) -> Result<(), Greeting> {
    match (magic.get(), version.get()) {
        (MAGIC, VERSION) => Ok(()),
        (MAGIC, version) => Err(Greeting::Version(version)),
        (magic, _) => Err(Malformed::Magic(magic).into()),
    }
}

/// Whether a memory node belongs to a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Formed {
    /// Its memory is fresh.
    Blank,
    /// Some node of its pool may not know of the pool yet.
    Part,
    /// All nodes of its pool were formed.
    Whole,
}

/// What a memory node answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// Whether it belongs to a pool.
    pub formed: Formed,
    /// Identity of its pool, or 0.
    pub pool: u64,
    /// Its number, or 0.
    pub node: u16,
    /// Memory nodes of its pool, or 0.
    pub nodes: u16,
    /// Host memory, bytes.
    pub host_bytes: u64,
    /// Device memory, bytes.
    pub device_bytes: u64,
    /// Drawn at every start.
    pub incarnation: u64,
}

/// Welcome as it goes over the wire.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct WelcomeBody {
    magic: U64,
    version: U32,
    formed: U32,
    pool: U64,
    node: U16,
    nodes: U16,
    zero: U32,
    host_bytes: U64,
    device_bytes: U64,
    incarnation: U64,
}

impl Welcome {
    /// Appends the frame.
    pub fn put(&self, out: &mut Vec<u8>) {
        let body = WelcomeBody {
            magic: U64::new(MAGIC),
            version: U32::new(VERSION),
            formed: U32::new(self.formed as u32),
            pool: U64::new(self.pool),
            node: U16::new(self.node),
            nodes: U16::new(self.nodes),
            zero: U32::ZERO,
            host_bytes: U64::new(self.host_bytes),
            device_bytes: U64::new(self.device_bytes),
            incarnation: U64::new(self.incarnation),
        };
        put_frame(out, Kind::Welcome, 0, 0, 0, body.as_bytes());
    }

    /// Reads the body of the frame.
    ///
    /// # Errors
    /// [`Greeting`].
    pub fn read(frame: &Frame<'_>) -> Result<Self, Greeting> {
        let body = WelcomeBody::ref_from_bytes(frame.body).map_err(|_| Malformed::Body)?;
        check_magic(body.magic, body.version)?;
        let formed = match body.formed.get() {
            0 => Formed::Blank,
            1 => Formed::Part,
            2 => Formed::Whole,
            _ => return Err(Malformed::Body.into()),
        };
        Ok(Self {
            formed,
            pool: body.pool.get(),
            node: body.node.get(),
            nodes: body.nodes.get(),
            host_bytes: body.host_bytes.get(),
            device_bytes: body.device_bytes.get(),
            incarnation: body.incarnation.get(),
        })
    }
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;

const _: () = assert!(size_of::<Header>() == HEADER_BYTES);
const _: () = assert!(size_of::<VerbHead>() == VERB_BYTES);
const _: () = assert!(size_of::<HelloHead>() == 48);
const _: () = assert!(size_of::<WelcomeBody>() == 56);
const _: () = assert!(HEADER_BYTES + 4 * (VERB_BYTES + 8 + VERB_DATA_MAX) <= FRAME_BYTES_MAX);
const _: () = assert!(VERB_DATA_MAX.is_multiple_of(8) && FRAME_BYTES_MAX.is_multiple_of(8));
