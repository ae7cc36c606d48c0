//! A ring of messages between one sender and one receiver, written with WRITE (Catfish §III-A, Figure 5). Pure: which
//! bytes go where, and what has come.
//!
//! ```text
//! ring of n bytes, a multiple of 8; position p of the stream lies at p mod n
//! message, words: | header | payload ... | header again |        never across the end of the ring
//! skip, one word: | header |                                      the rest of the ring is not used this time round
//!
//! header  63             32 31    24 23              0
//!        +-----------------+--------+-----------------+
//!        | bytes of it all |  type  | number, mod 2^24 |     type: 1 CONT, 2 END, 3 skip
//!        +-----------------+--------+-----------------+
//! ```
//!
//! What is not a message is zero: the receiver clears what it has consumed before it says so. A message is there when
//! both its headers are: a WRITE places its bytes upward ([`Capability::WriteUpward`](farwood_fabric::Capability)), so
//! that whoever sees the last word sees all of them. The sender never writes over what is not known to be consumed;
//! where there is no room it waits.
//!
//! **Where a WRITE is done again.** Through shared memory the last WRITE of a process that died may be done again,
//! late, by whoever proves the death (decision 18). Its message may have been consumed by then, and stands in the
//! ring again. That misleads nobody: the sender is dead, so the receiver's next message, at another place, never
//! comes; and the ring is given to another sender only after the death is proven, when nothing is done again any
//! more, and cleared for it.

/// Whether a message is the last of what is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Segment {
    /// More follows (the paper's CONT).
    More,
    /// It is the last (END).
    Last,
}

const MORE: u64 = 1;
const LAST: u64 = 2;
const SKIP: u64 = 3;
const NUMBER_MASK: u64 = (1 << 24) - 1;
/// Words of a message that are not payload.
pub(super) const FRAME_WORDS: usize = 2;

fn header(bytes: u64, kind: u64, number: u64) -> u64 {
    bytes << 32 | kind << 24 | number & NUMBER_MASK
}

/// The sender's side.
#[derive(Clone, Debug)]
pub(super) struct Outgoing {
    bytes: u64,
    /// Position at which the next message begins (the paper's tail, or free pointer).
    tail: u64,
    /// Up to where the receiver has consumed, as far as is known (head, or processed pointer).
    head: u64,
    number: u64,
}

/// Where a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// A skip to be written first: where, and its word.
    pub(super) skip: Option<(u64, u64)>,
    /// Where the message begins.
    pub(super) offset: u64,
    /// Its first and last word.
    pub(super) header: u64,
}

impl Outgoing {
    /// An empty ring of `bytes` bytes.
    pub(super) fn new(bytes: u64) -> Self {
        assert!(bytes.is_multiple_of(8) && bytes >= 256, "a ring of {bytes} bytes");
        Self { bytes, tail: 0, head: 0, number: 0 }
    }

    /// Most words of payload in one message: so that two fit, wherever they begin.
    pub(super) fn payload_max(&self) -> usize {
        (self.bytes / 4 / 8) as usize - FRAME_WORDS
    }

    /// Takes notice of what the receiver has consumed.
    pub(super) fn consumed(&mut self, head: u64) {
        if head > self.head && head <= self.tail {
            self.head = head;
        }
    }

    /// Room for a message; `None`: not before more is consumed.
    pub(super) fn place(&mut self, payload_words: usize, segment: Segment) -> Option<Place> {
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
        let place = Place { skip, offset, header: header(bytes, kind, self.number) };
        self.tail += skipped + bytes;
        self.number += 1;
        Some(place)
    }
}

/// The receiver's side.
#[derive(Clone, Debug)]
pub(super) struct Incoming {
    bytes: u64,
    /// Position at which the next message begins.
    head: u64,
    number: u64,
}

/// What is in a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrived {
    /// Nothing whole.
    Nothing,
    /// A message: where its payload is, how many words, and whether more follows.
    Message { offset: u64, words: usize, segment: Segment },
    /// Bytes that no sender writes.
    Garbled(u64),
}

impl Incoming {
    /// An empty ring of `bytes` bytes.
    pub(super) fn new(bytes: u64) -> Self {
        Self { bytes, head: 0, number: 0 }
    }

    /// Up to where all is consumed.
    pub(super) fn head(&self) -> u64 {
        self.head
    }

    /// Looks whether the next message has come. Passes a skip, and clears it by `clear`.
    pub(super) fn look(&mut self, load: impl Fn(u64) -> u64, clear: impl Fn(u64)) -> Arrived {
        // At most one skip stands before a message.
        for _ in 0..2 {
            let at = self.head % self.bytes;
            let first = load(at);
            let (bytes, kind) = (first >> 32, first >> 24 & 0xFF);
            if first == 0 {
                return Arrived::Nothing;
            }
            if first & NUMBER_MASK != self.number & NUMBER_MASK {
                return Arrived::Garbled(first);
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
                _ => return Arrived::Garbled(first),
            };
            if bytes < 16 || !bytes.is_multiple_of(8) || bytes > rest {
                return Arrived::Garbled(first);
            }
            if load(at + bytes - 8) != first {
                return Arrived::Nothing;
            }
            let words = (bytes / 8) as usize - FRAME_WORDS;
            return Arrived::Message { offset: at + 8, words, segment };
        }
        Arrived::Garbled(0)
    }

    /// The message that [`look`](Self::look) found is done with: clears it by `clear`, then counts it.
    pub(super) fn consume(&mut self, words: usize, clear: impl Fn(u64)) {
        let (at, bytes) = (self.head % self.bytes, 8 * (words + FRAME_WORDS) as u64);
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
        fn stores(place: &Place, payload: &[u64]) -> Vec<(u64, u64)> {
            let mut stores: Vec<_> = place.skip.into_iter().collect();
            let words = [place.header].into_iter().chain(payload.iter().copied()).chain([place.header]);
            stores.extend(words.enumerate().map(|(at, word)| (place.offset + 8 * at as u64, word)));
            stores
        }

        fn store(&self, (at, word): (u64, u64)) {
            self.0[(at / 8) as usize].set(word);
        }

        fn look(&self, incoming: &mut Incoming) -> Option<(Vec<u64>, Segment)> {
            let load = |at: u64| self.0[(at / 8) as usize].get();
            match incoming.look(load, |at| self.store((at, 0))) {
                Arrived::Nothing => None,
                Arrived::Message { offset, words, segment } => {
                    let payload = (0..words).map(|at| load(offset + 8 * at as u64)).collect();
                    Some((payload, segment))
                }
                Arrived::Garbled(word) => panic!("garbled: {word:#x}"),
            }
        }
    }

    proptest! {
        /// Messages of any length, whose payload may look like anything, come whole, once, in order; at no store of
        /// theirs earlier than the last; and a full ring takes no more until something is consumed.
        #[test]
        fn what_is_sent_comes_whole_and_in_order(
            lengths in prop::collection::vec((0..14usize, 0..3u8), 1..200),
        ) {
            let ring = Ring::new();
            let (mut outgoing, mut incoming) = (Outgoing::new(BYTES), Incoming::new(BYTES));
            let mut on_the_way = std::collections::VecDeque::new();
            for (number, (words, lag)) in lengths.into_iter().enumerate() {
                let segment = if number % 3 == 0 { Segment::More } else { Segment::Last };
                // A payload that looks like headers to come.
                let payload: Vec<_> = (0..words as u64).map(|at| header(8 * at, LAST, number as u64 + at)).collect();
                let place = loop {
                    if let Some(place) = outgoing.place(words, segment) {
                        break place;
                    }
                    prop_assert!(!on_the_way.is_empty(), "an empty ring has room");
                    let (payload, segment): (Vec<u64>, _) = on_the_way.pop_front().unwrap();
                    prop_assert_eq!(ring.look(&mut incoming), Some((payload.clone(), segment)));
                    incoming.consume(payload.len(), |at| ring.store((at, 0)));
                    outgoing.consumed(incoming.head());
                };
                let stores = Ring::stores(&place, &payload);
                for (done, store) in stores.iter().enumerate() {
                    if on_the_way.is_empty() {
                        prop_assert_eq!(ring.look(&mut incoming), None, "after {} stores", done);
                    }
                    ring.store(*store);
                }
                on_the_way.push_back((payload, segment));
                while on_the_way.len() > usize::from(lag) {
                    let (payload, segment) = on_the_way.pop_front().unwrap();
                    prop_assert_eq!(ring.look(&mut incoming), Some((payload.clone(), segment)));
                    incoming.consume(payload.len(), |at| ring.store((at, 0)));
                    // The sender need not hear of it at once.
                    if number % 2 == 0 {
                        outgoing.consumed(incoming.head());
                    }
                }
                outgoing.consumed(incoming.head());
            }
            prop_assert!(on_the_way.len() <= 2);
        }
    }

    #[test]
    fn what_no_sender_writes_is_garbled() {
        let ring = Ring::new();
        for first in [header(24, LAST, 1), header(12, LAST, 0), header(8, LAST, 0), header(1 << 20, MORE, 0)]
        {
            ring.store((0, first));
            let arrived = Incoming::new(BYTES).look(|at| ring.0[(at / 8) as usize].get(), |_| ());
            assert_eq!(arrived, Arrived::Garbled(first));
        }
    }

    /// What a dead sender's last message leaves when it is done again is where no message is looked for.
    #[test]
    fn a_message_done_again_after_it_was_consumed_misleads_nobody() {
        let ring = Ring::new();
        let (mut outgoing, mut incoming) = (Outgoing::new(BYTES), Incoming::new(BYTES));
        let place = outgoing.place(3, Segment::Last).unwrap();
        let stores = Ring::stores(&place, &[7, 8, 9]);
        for &store in &stores {
            ring.store(store);
        }
        assert!(ring.look(&mut incoming).is_some());
        incoming.consume(3, |at| ring.store((at, 0)));
        for &store in &stores {
            ring.store(store);
        }
        assert_eq!(ring.look(&mut incoming), None);
    }
}
