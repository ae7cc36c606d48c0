//! A ring of messages between one sender and one receiver, written with WRITE (Catfish §III-A, Figure 5). Pure: these
//! functions tell the sender which bytes to write where, and the receiver which message has arrived.
//!
//! ```text
//! ring of n bytes, a multiple of 8; position p of the stream lies at p mod n
//! message, words: | header | payload ... | header again |        never across the end of the ring
//! skip, one word: | header |                                      the message begins at offset 0 instead
//!
//! header  63             32 31    24 23              0
//!        +-----------------+--------+-----------------+
//!        | message's bytes |  type  | number, mod 2^24 |     type: 1 CONT, 2 END, 3 skip
//!        +-----------------+--------+-----------------+
//! ```
//!
//! All bytes that are not part of a message are zero: the receiver clears a message before it reports it as consumed. A
//! message has arrived when both its headers have: a WRITE stores its bytes in ascending order
//! ([`Capability::WriteUpward`](farwood_fabric::Capability)), so a receiver that reads the last word reads all of them.
//! The sender overwrites only bytes that it knows to be consumed; if the ring is full, it waits.
//!
//! **Repeated WRITEs.** Through shared memory the last WRITE of a process that crashed may be repeated, late, by the
//! process that proves the crash (decision 18). The receiver may have consumed the message already, and then finds its
//! bytes in the ring again. The receiver ignores these bytes: it expects the next message at another position, and the
//! crashed sender never writes that message. Another sender gets the ring only after the crash is proven, when no
//! process can repeat a WRITE, and after the ring is cleared.

/// Whether a message is the last one of a request or response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::catfish) enum Segment {
    /// More messages follow (the paper's CONT).
    More,
    /// The last one (END).
    Last,
}

const MORE: u64 = 1;
const LAST: u64 = 2;
const SKIP: u64 = 3;
const NUMBER_MASK: u64 = (1 << 24) - 1;
/// Words of a message that are not payload.
const FRAME_WORDS: usize = 2;

/// The interval between two polls of a ring grows to this fraction of the time since the last message.
const POLL_DELAY_SHARE: u64 = 32;
/// Maximum time between two polls, nanoseconds.
const POLL_INTERVAL_MAX_NS: u64 = 20_000;

/// Nanoseconds until the next poll of a ring in which no message has arrived for `waited`: at least `least`. The
/// interval grows with the time waited.
pub(in crate::catfish) fn poll_interval(waited: u64, least: u64) -> u64 {
    (waited / POLL_DELAY_SHARE).min(POLL_INTERVAL_MAX_NS).max(least)
}

fn header(bytes: u64, kind: u64, number: u64) -> u64 {
    bytes << 32 | kind << 24 | number & NUMBER_MASK
}

/// The bytes of a message.
pub(in crate::catfish) fn framed(header: u64, payload: &[u64]) -> Vec<u8> {
    debug_assert_eq!(
        header >> 32,
        8 * (payload.len() + FRAME_WORDS) as u64,
        "the header has the message's length"
    );
    let words = [header].into_iter().chain(payload.iter().copied()).chain([header]);
    words.flat_map(u64::to_le_bytes).collect()
}

/// The sender's side of a ring.
#[derive(Clone, Debug)]
pub(in crate::catfish) struct RingSender {
    bytes: u64,
    /// Position at which the next message begins (the paper's tail, or free pointer).
    tail: u64,
    /// Position up to which the receiver has consumed, as far as the sender knows (head, or processed pointer).
    head: u64,
    number: u64,
}

/// The bytes of a ring that a message is written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::catfish) struct MessageSlot {
    /// A skip to be written first: its offset and its word.
    pub(in crate::catfish) skip: Option<(u64, u64)>,
    /// Offset of the message.
    pub(in crate::catfish) offset: u64,
    /// First and last word of the message.
    pub(in crate::catfish) header: u64,
}

impl RingSender {
    /// The sender of an empty ring of `bytes` bytes.
    pub(in crate::catfish) fn new(bytes: u64) -> Self {
        assert!(bytes.is_multiple_of(8) && bytes >= 256, "a ring of {bytes} bytes");
        Self { bytes, tail: 0, head: 0, number: 0 }
    }

    /// Maximum words of payload in one message: two messages fit into the ring, wherever they begin.
    pub(in crate::catfish) fn payload_max(&self) -> usize {
        (self.bytes / 4 / 8) as usize - FRAME_WORDS
    }

    /// Records that the receiver has consumed up to `head`. Ignores a position before the last one, or beyond the bytes
    /// that were sent.
    pub(in crate::catfish) fn consumed(&mut self, head: u64) {
        if head > self.head && head <= self.tail {
            self.head = head;
        }
    }

    /// Position up to which the receiver has consumed.
    pub(in crate::catfish) fn consumed_to(&self) -> u64 {
        self.head
    }

    /// Reserves bytes for a message; `None`: the receiver must consume more first.
    pub(in crate::catfish) fn reserve(
        &mut self,
        payload_words: usize,
        segment: Segment,
    ) -> Option<MessageSlot> {
        assert!(payload_words <= self.payload_max(), "{payload_words} words");
        let bytes = 8 * (payload_words + FRAME_WORDS) as u64;
        let at = self.tail % self.bytes;
        let rest = self.bytes - at;
        let skipped = if bytes > rest { rest } else { 0 };
        if self.tail + skipped + bytes - self.head > self.bytes {
            return None;
        }
        let kind = if segment == Segment::More { MORE } else { LAST };
        let skip = (skipped > 0).then(|| (at, header(8, SKIP, self.number)));
        let offset = (self.tail + skipped) % self.bytes;
        debug_assert!(offset + bytes <= self.bytes, "a message does not cross the end of its ring");
        let slot = MessageSlot { skip, offset, header: header(bytes, kind, self.number) };
        self.tail += skipped + bytes;
        self.number += 1;
        Some(slot)
    }
}

/// The receiver's side of a ring.
#[derive(Clone, Debug)]
pub(in crate::catfish) struct RingReceiver {
    bytes: u64,
    /// Position at which the next message begins.
    head: u64,
    number: u64,
}

/// The result of polling a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::catfish) enum Received {
    /// No whole message.
    Nothing,
    /// A message: the offset of its payload, its words, and whether more messages follow.
    Message { offset: u64, words: usize, segment: Segment },
    /// A word that no sender writes.
    Garbled(u64),
}

impl RingReceiver {
    /// The receiver of an empty ring of `bytes` bytes.
    pub(in crate::catfish) fn new(bytes: u64) -> Self {
        assert!(bytes.is_multiple_of(8) && bytes >= 256, "a ring of {bytes} bytes");
        Self { bytes, head: 0, number: 0 }
    }

    /// Position up to which the receiver has consumed.
    pub(in crate::catfish) fn head(&self) -> u64 {
        self.head
    }

    /// Checks whether the next message has arrived. Clears a skip with `clear`, and continues at the start of the ring.
    pub(in crate::catfish) fn poll(&mut self, load: impl Fn(u64) -> u64, clear: impl Fn(u64)) -> Received {
        // There is at most one skip before a message.
        for _ in 0..2 {
            let at = self.head % self.bytes;
            let first = load(at);
            let (bytes, kind) = (first >> 32, first >> 24 & 0xFF);
            if first == 0 {
                return Received::Nothing;
            }
            if first & NUMBER_MASK != self.number & NUMBER_MASK {
                return Received::Garbled(first);
            }
            let rest = self.bytes - at;
            let segment = match kind {
                MORE => Segment::More,
                LAST => Segment::Last,
                SKIP if bytes == 8 => {
                    clear(at);
                    self.head += rest;
                    continue;
                }
                _ => return Received::Garbled(first),
            };
            if bytes < 16 || !bytes.is_multiple_of(8) || bytes > rest {
                return Received::Garbled(first);
            }
            if load(at + bytes - 8) != first {
                return Received::Nothing;
            }
            let words = (bytes / 8) as usize - FRAME_WORDS;
            return Received::Message { offset: at + 8, words, segment };
        }
        Received::Garbled(0)
    }

    /// Consumes the message that [`poll`](Self::poll) found: clears it with `clear`, then advances.
    pub(in crate::catfish) fn consume(&mut self, words: usize, clear: impl Fn(u64)) {
        let (at, bytes) = (self.head % self.bytes, 8 * (words + FRAME_WORDS) as u64);
        debug_assert!(at + bytes <= self.bytes, "a message does not cross the end of its ring");
        for offset in (at..at + bytes).step_by(8) {
            clear(offset);
        }
        self.head += bytes;
        self.number += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cell::Cell;

    const BYTES: u64 = 512;

    struct Ring(Vec<Cell<u64>>);

    impl Ring {
        fn new() -> Self {
            Self((0..BYTES / 8).map(|_| Cell::new(0)).collect())
        }

        /// The words of a message in the order in which a WRITE places them.
        fn stores(slot: &MessageSlot, payload: &[u64]) -> Vec<(u64, u64)> {
            let mut stores: Vec<_> = slot.skip.into_iter().collect();
            let words = [slot.header].into_iter().chain(payload.iter().copied()).chain([slot.header]);
            stores.extend(words.enumerate().map(|(at, word)| (slot.offset + 8 * at as u64, word)));
            stores
        }

        fn store(&self, (at, word): (u64, u64)) {
            self.0[(at / 8) as usize].set(word);
        }

        fn poll(&self, receiver: &mut RingReceiver) -> Option<(Vec<u64>, Segment)> {
            let load = |at: u64| self.0[(at / 8) as usize].get();
            match receiver.poll(load, |at| self.store((at, 0))) {
                Received::Nothing => None,
                Received::Message { offset, words, segment } => {
                    let payload = (0..words).map(|at| load(offset + 8 * at as u64)).collect();
                    Some((payload, segment))
                }
                Received::Garbled(word) => panic!("garbled: {word:#x}"),
            }
        }
    }

    proptest! {
        /// Messages of any length, with any payload, arrive whole, once and in order, and not before their last store;
        /// a full ring accepts no message until one is consumed.
        #[test]
        fn messages_arrive_whole_and_in_order(
            lengths in prop::collection::vec((0..14usize, 0..3u8), 1..200),
        ) {
            let ring = Ring::new();
            let (mut sender, mut receiver) = (RingSender::new(BYTES), RingReceiver::new(BYTES));
            let mut in_flight = std::collections::VecDeque::new();
            for (number, (words, lag)) in lengths.into_iter().enumerate() {
                let segment = if number % 3 == 0 { Segment::More } else { Segment::Last };
                // The payload equals headers of later messages.
                let payload: Vec<_> = (0..words as u64).map(|at| header(8 * at, LAST, number as u64 + at)).collect();
                let slot = loop {
                    if let Some(slot) = sender.reserve(words, segment) {
                        break slot;
                    }
                    prop_assert!(!in_flight.is_empty(), "an empty ring accepts a message");
                    let (payload, segment): (Vec<u64>, _) = in_flight.pop_front().unwrap();
                    prop_assert_eq!(ring.poll(&mut receiver), Some((payload.clone(), segment)));
                    receiver.consume(payload.len(), |at| ring.store((at, 0)));
                    sender.consumed(receiver.head());
                };
                let stores = Ring::stores(&slot, &payload);
                for (done, store) in stores.iter().enumerate() {
                    if in_flight.is_empty() {
                        prop_assert_eq!(ring.poll(&mut receiver), None, "after {} stores", done);
                    }
                    ring.store(*store);
                }
                in_flight.push_back((payload, segment));
                while in_flight.len() > usize::from(lag) {
                    let (payload, segment) = in_flight.pop_front().unwrap();
                    prop_assert_eq!(ring.poll(&mut receiver), Some((payload.clone(), segment)));
                    receiver.consume(payload.len(), |at| ring.store((at, 0)));
                    // In every other round, the sender learns the position only after the loop.
                    if number % 2 == 0 {
                        sender.consumed(receiver.head());
                    }
                }
                sender.consumed(receiver.head());
            }
            prop_assert!(in_flight.len() <= 2);
        }
    }

    #[test]
    fn a_word_that_no_sender_writes_is_garbled() {
        let ring = Ring::new();
        for first in [header(24, LAST, 1), header(12, LAST, 0), header(8, LAST, 0), header(1 << 20, MORE, 0)]
        {
            ring.store((0, first));
            let received = RingReceiver::new(BYTES).poll(|at| ring.0[(at / 8) as usize].get(), |_| ());
            assert_eq!(received, Received::Garbled(first));
        }
    }

    /// The repeated message of a crashed sender has a position at which the receiver expects no message.
    #[test]
    fn a_message_repeated_after_it_was_consumed_is_not_received_again() {
        let ring = Ring::new();
        let (mut sender, mut receiver) = (RingSender::new(BYTES), RingReceiver::new(BYTES));
        let slot = sender.reserve(3, Segment::Last).unwrap();
        let stores = Ring::stores(&slot, &[7, 8, 9]);
        for &store in &stores {
            ring.store(store);
        }
        assert!(ring.poll(&mut receiver).is_some());
        receiver.consume(3, |at| ring.store((at, 0)));
        for &store in &stores {
            ring.store(store);
        }
        assert_eq!(ring.poll(&mut receiver), None);
    }
}
