//! The toy memory node: what all models of input and output share.

/// A request: the offset that is read, and padding.
pub(crate) const REQUEST: usize = 32;
/// An answer with the bytes that are stored.
pub(crate) const ANSWER: usize = 1024;
/// Bytes of requests that a connection takes in at once. A client has fewer in flight.
pub(crate) const ROOM: usize = 4096;
/// Answers leave when they are 16 KiB.
pub(crate) const PART: usize = 16 * ANSWER;
const MEMORY: usize = 64 << 20;

/// Offsets that a client may read.
pub(crate) const OFFSETS: u64 = (MEMORY - ANSWER) as u64 / 64;

/// 64 MiB, in which each word is its own offset.
pub(crate) struct Memory(Vec<u8>);

impl Memory {
    /// It lives as long as the process.
    pub(crate) fn leaked() -> &'static Self {
        let words = (0..MEMORY as u64).step_by(8);
        Box::leak(Box::new(Self(words.flat_map(u64::to_le_bytes).collect())))
    }
}

/// Requests of one connection that have come and are not yet answered.
pub(crate) struct Inbox {
    bytes: Box<[u8; ROOM]>,
    start: usize,
    end: usize,
}

impl Inbox {
    pub(crate) fn new() -> Self {
        Self { bytes: Box::new([0; ROOM]), start: 0, end: 0 }
    }

    /// The buffer into which more bytes may be read.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        self.bytes.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        &mut self.bytes[self.end..]
    }

    /// So much has been read to the room.
    pub(crate) fn took(&mut self, bytes: usize) {
        self.end += bytes;
    }

    /// Takes in what was read elsewhere.
    pub(crate) fn put(&mut self, bytes: &[u8]) {
        self.room()[..bytes.len()].copy_from_slice(bytes);
        self.took(bytes.len());
    }

    /// Replaces `part` by the next answers. False: no whole request is left.
    pub(crate) fn answer(&mut self, memory: &Memory, part: &mut Vec<u8>) -> bool {
        part.clear();
        while part.len() < PART && self.end - self.start >= REQUEST {
            let word = &self.bytes[self.start..self.start + 8];
            let offset = u64::from_le_bytes(word.try_into().expect("eight bytes")) as usize;
            part.extend_from_slice(&memory.0[offset..offset + ANSWER]);
            self.start += REQUEST;
        }
        !part.is_empty()
    }
}
