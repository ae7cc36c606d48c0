//! Received bytes of one connection: frames of words, decoded in place.
//!
//! The buffer grows as bytes arrive, never to a length that the peer only announces. Its bytes beyond [`READ_BYTES`]
//! count against a budget that connections share.

use super::READ_BYTES;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use zerocopy::IntoBytes as _;

/// Words of the buffer of an idle connection.
const KEPT_WORDS: usize = READ_BYTES / 8;

/// Bytes that the connections of one server may use together for incomplete frames. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Budget(Arc<AtomicUsize>);

impl Budget {
    pub(super) fn new(bytes: usize) -> Self {
        Self(Arc::new(AtomicUsize::new(bytes)))
    }

    fn take(&self, bytes: usize) -> io::Result<()> {
        let take = |left: usize| left.checked_sub(bytes);
        let taken = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        let full = |_| io::Error::new(ErrorKind::OutOfMemory, "requests in flight exceed their budget");
        taken.map(drop).map_err(full)
    }

    fn give_back(&self, bytes: usize) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// The input buffer of a connection.
#[derive(Debug)]
pub(super) struct FrameInput {
    words: Vec<u64>,
    /// The first word that is not decoded.
    start: usize,
    /// The end of the received bytes.
    end_bytes: usize,
    budget: Budget,
}

impl FrameInput {
    pub(super) fn new(budget: Budget) -> Self {
        Self { words: vec![0; KEPT_WORDS], start: 0, end_bytes: 0, budget }
    }

    /// Returns the number of words that the first frame announces, with its head; `None`: not even its head is
    /// complete.
    pub(super) fn announced(&self, words_max: usize) -> io::Result<Option<usize>> {
        if self.end_bytes < 8 * (self.start + 1) {
            return Ok(None);
        }
        let words = u64::from_le(self.words[self.start]);
        if words > words_max as u64 {
            return Err(io::Error::new(ErrorKind::InvalidData, format!("a frame of {words} words")));
        }
        Ok(Some(1 + words as usize))
    }

    /// Returns whether the first frame is complete.
    pub(super) fn is_complete(&self, words_max: usize) -> io::Result<bool> {
        let announced = self.announced(words_max)?;
        Ok(announced.is_some_and(|words| self.end_bytes >= 8 * (self.start + words)))
    }

    /// Returns the words of the first frame, and removes it; `None`: it is incomplete.
    pub(super) fn next(&mut self, words_max: usize) -> io::Result<Option<&[u64]>> {
        if !self.is_complete(words_max)? {
            return Ok(None);
        }
        let words = self.announced(words_max)?.unwrap_or_default();
        let body = self.start + 1..self.start + words;
        self.start = body.end;
        if cfg!(target_endian = "big") {
            self.words[body.clone()].iter_mut().for_each(|word| *word = u64::from_le(*word));
        }
        Ok(Some(&self.words[body]))
    }

    /// Returns space for received bytes: at least one byte, more if the first frame needs it and the budget allows it.
    pub(super) fn space(&mut self, words_max: usize) -> io::Result<&mut [u8]> {
        if self.end_bytes == 8 * self.start {
            (self.start, self.end_bytes) = (0, 0);
            self.shrink();
        }
        let needed = self.announced(words_max)?.unwrap_or(1);
        if self.start > 0
            && (self.start + needed > self.words.len() || self.end_bytes == 8 * self.words.len())
        {
            self.words.copy_within(self.start.., 0);
            self.end_bytes -= 8 * self.start;
            self.start = 0;
        }
        if self.end_bytes == 8 * self.words.len() {
            self.grow(needed)?;
        }
        Ok(&mut self.words.as_mut_bytes()[self.end_bytes..])
    }

    /// Grows the full buffer by a piece: a quarter of what has arrived. The first frame needs more than the buffer has.
    fn grow(&mut self, needed: usize) -> io::Result<()> {
        debug_assert!(needed > self.words.len(), "{needed} words fit into {}", self.words.len());
        let more = (self.words.len() / 4).max(KEPT_WORDS).min(needed - self.words.len());
        self.budget.take(8 * more)?;
        self.words.reserve_exact(more);
        self.words.resize(self.words.len() + more, 0);
        Ok(())
    }

    /// Frees the space that a large frame needed.
    fn shrink(&mut self) {
        let more = self.words.len().saturating_sub(KEPT_WORDS);
        if more > 0 {
            self.words.truncate(KEPT_WORDS);
            self.words.shrink_to_fit();
            self.budget.give_back(8 * more);
        }
    }

    /// Records that `bytes` bytes were received into the [space](Self::space).
    pub(super) fn received(&mut self, bytes: usize) {
        self.end_bytes += bytes;
    }
}

impl Drop for FrameInput {
    fn drop(&mut self) {
        self.budget.give_back(8 * self.words.len().saturating_sub(KEPT_WORDS));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WORDS_MAX: usize = 1 << 20;

    /// Puts bytes into the input, as a stream would.
    fn feed(input: &mut FrameInput, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let space = input.space(WORDS_MAX)?;
            let now = space.len().min(bytes.len());
            space[..now].copy_from_slice(&bytes[..now]);
            input.received(now);
            bytes = &bytes[now..];
        }
        Ok(())
    }

    fn frame(words: &[u64]) -> Vec<u8> {
        let mut bytes = Vec::new();
        super::super::push_frame(&mut bytes, words);
        bytes
    }

    proptest! {
        #[test]
        fn frames_are_returned_as_they_were_sent(
            lengths in prop::collection::vec(prop_oneof![0..20_usize, 0..30_000_usize], 1..12),
            cuts in prop::collection::vec(1..100_000_usize, 1..20),
        ) {
            let frames: Vec<Vec<u64>> =
                lengths.iter().enumerate().map(|(at, length)| vec![at as u64; *length]).collect();
            let bytes = frames.iter().flat_map(|words| frame(words)).collect::<Vec<_>>();
            let budget = Budget::new(1 << 20);
            let mut input = FrameInput::new(budget.clone());
            let (mut read, mut rest, mut cuts) = (Vec::new(), &bytes[..], cuts.iter().cycle());
            while !rest.is_empty() {
                let space = input.space(WORDS_MAX).unwrap();
                let now = space.len().min(rest.len()).min(*cuts.next().unwrap());
                space[..now].copy_from_slice(&rest[..now]);
                input.received(now);
                rest = &rest[now..];
                while let Some(words) = input.next(WORDS_MAX).unwrap() {
                    read.push(words.to_vec());
                }
            }
            prop_assert_eq!(read, frames);
            drop(input);
            prop_assert_eq!(budget.0.load(Ordering::Relaxed), 1 << 20, "the whole budget is free again");
        }
    }

    #[test]
    fn an_announced_length_takes_no_memory() {
        let budget = Budget::new(1 << 20);
        let mut input = FrameInput::new(budget.clone());
        feed(&mut input, &(WORDS_MAX as u64).to_le_bytes()).unwrap();
        feed(&mut input, &[0; 1000]).unwrap();
        assert_eq!((input.words.len(), budget.0.load(Ordering::Relaxed)), (KEPT_WORDS, 1 << 20));
        assert!(
            feed(&mut input, &((WORDS_MAX + 1) as u64).to_le_bytes()).is_ok(),
            "these are words of the frame"
        );
        let mut other = FrameInput::new(budget);
        feed(&mut other, &((WORDS_MAX + 1) as u64).to_le_bytes()).unwrap();
        assert!(other.next(WORDS_MAX).is_err());
    }

    #[test]
    fn connections_share_a_budget_and_give_it_back() {
        let budget = Budget::new(1 << 20);
        let large = frame(&vec![7; (900 << 10) / 8]);
        let mut first = FrameInput::new(budget.clone());
        feed(&mut first, &large[..large.len() - 8]).unwrap();
        let mut second = FrameInput::new(budget);
        let error = feed(&mut second, &large).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfMemory);
        feed(&mut first, &large[large.len() - 8..]).unwrap();
        assert_eq!(first.next(WORDS_MAX).unwrap().map(<[u64]>::len), Some((900 << 10) / 8));
        first.space(WORDS_MAX).unwrap();
        let mut third = FrameInput::new(first.budget.clone());
        drop(second);
        feed(&mut third, &large).unwrap();
    }
}
