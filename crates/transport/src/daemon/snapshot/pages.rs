//! The pages of a snapshot that differ from the live memory, and verbs in them. Single-threaded: the caller excludes
//! changes of the live memory.

use crate::shm::{AccessFault, Mapping};
use crate::wire::WireOp;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use zerocopy::IntoBytes as _;

/// Bytes of a page.
const PAGE_BYTES: u64 = 4096;
const PAGE_WORDS: usize = PAGE_BYTES as usize / 8;

/// Copies of pages, by their number in the mapping.
#[derive(Debug, Default)]
pub(in crate::daemon) struct SnapshotPages(HashMap<u64, Box<[u64; PAGE_WORDS]>>);

impl SnapshotPages {
    /// The bytes of all copies.
    pub(in crate::daemon) fn bytes(&self) -> u64 {
        self.0.len() as u64 * PAGE_BYTES
    }

    /// Copies the pages of a range, which the caller changes afterwards, unless they were copied before.
    pub(in crate::daemon) fn keep(&mut self, live: &Mapping, offset: u64, bytes: u64) {
        for page in offset / PAGE_BYTES..(offset + bytes).div_ceil(PAGE_BYTES) {
            self.copy_of(live, page);
        }
    }

    fn copy_of(&mut self, live: &Mapping, page: u64) -> &mut [u64; PAGE_WORDS] {
        match self.0.entry(page) {
            Entry::Occupied(copy) => copy.into_mut(),
            Entry::Vacant(missing) => {
                let (start, mut copy) = (page * PAGE_BYTES, Box::new([0; PAGE_WORDS]));
                // The last page of the mapping may be shorter.
                let words = ((live.bytes().saturating_sub(start)) / 8).min(PAGE_WORDS as u64) as usize;
                live.read_down(start, &mut copy[..words]).expect("the caller has checked the range");
                missing.insert(copy)
            }
        }
    }

    /// Reads words from `offset` on.
    pub(in crate::daemon) fn read(
        &self,
        live: &Mapping,
        offset: u64,
        into: &mut [u64],
    ) -> Result<(), AccessFault> {
        live.read_down(offset, into)?;
        let (mut at, mut rest) = (offset, into);
        while !rest.is_empty() {
            let word = (at % PAGE_BYTES) as usize / 8;
            let words = rest.len().min(PAGE_WORDS - word);
            let (part, after) = rest.split_at_mut(words);
            if let Some(copy) = self.0.get(&(at / PAGE_BYTES)) {
                part.copy_from_slice(&copy[word..word + words]);
            }
            (at, rest) = (at + 8 * words as u64, after);
        }
        Ok(())
    }

    /// Writes bytes from `offset` on.
    pub(in crate::daemon) fn write(&mut self, live: &Mapping, offset: u64, bytes: &[u8]) {
        let (mut at, mut rest) = (offset, bytes);
        while !rest.is_empty() {
            let start = (at % PAGE_BYTES) as usize;
            let (part, after) = rest.split_at(rest.len().min(PAGE_BYTES as usize - start));
            let copy = self.copy_of(live, at / PAGE_BYTES);
            copy.as_mut_bytes()[start..start + part.len()].copy_from_slice(part);
            (at, rest) = (at + part.len() as u64, after);
        }
    }

    /// Executes an atomic; returns the word before.
    pub(in crate::daemon) fn atomic(
        &mut self,
        live: &Mapping,
        offset: u64,
        op: &WireOp<'_>,
    ) -> Result<u64, AccessFault> {
        let mut old = [0];
        self.read(live, offset, &mut old)?;
        let new = op.word_after(old[0]);
        if new != old[0] {
            self.write(live, offset, &new.to_ne_bytes());
        }
        Ok(old[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BYTES: u64 = 3 * PAGE_BYTES + 64;

    fn anonymous(bytes: u64) -> Mapping {
        let file = tempfile::tempfile().unwrap();
        file.set_len(bytes).unwrap();
        Mapping::new(&file, bytes).unwrap()
    }

    /// A change of the live memory, or of the snapshot.
    #[derive(Clone, Debug)]
    enum PageStep {
        LiveWrite(u64, Vec<u8>),
        OwnWrite(u64, Vec<u8>),
        OwnAdd(u64, u64),
    }

    fn step() -> impl Strategy<Value = PageStep> {
        let range = (0..BYTES, prop::collection::vec(any::<u8>(), 1..5000));
        let range = range.prop_map(|(at, mut bytes)| {
            bytes.truncate((BYTES - at) as usize);
            (at, bytes)
        });
        prop_oneof![
            range.clone().prop_map(|(at, bytes)| PageStep::LiveWrite(at, bytes)),
            range.prop_map(|(at, bytes)| PageStep::OwnWrite(at, bytes)),
            (0..BYTES / 8, any::<u64>()).prop_map(|(word, add)| PageStep::OwnAdd(8 * word, add)),
        ]
    }

    proptest! {
        /// The snapshot has the memory at its beginning and its own changes, and the live memory has none of them.
        #[test]
        fn a_snapshot_and_the_live_memory_are_separate(
            before in prop::collection::vec(any::<u8>(), BYTES as usize),
            steps in prop::collection::vec(step(), 0..20),
            at in 0..BYTES / 8, words in 1..600_usize,
        ) {
            let live = anonymous(BYTES);
            live.write_up(0, &before).unwrap();
            let (mut live_model, mut model) = (before.clone(), before);
            let mut pages = SnapshotPages::default();
            for step in steps {
                match step {
                    PageStep::LiveWrite(at, bytes) => {
                        pages.keep(&live, at, bytes.len() as u64);
                        live.write_up(at, &bytes).unwrap();
                        live_model[at as usize..][..bytes.len()].copy_from_slice(&bytes);
                    }
                    PageStep::OwnWrite(at, bytes) => {
                        pages.write(&live, at, &bytes);
                        model[at as usize..][..bytes.len()].copy_from_slice(&bytes);
                    }
                    PageStep::OwnAdd(at, add) => {
                        let old = pages.atomic(&live, at, &WireOp::Faa(add)).unwrap();
                        let word = &mut model[at as usize..][..8];
                        prop_assert_eq!(old.to_ne_bytes(), &*word);
                        word.copy_from_slice(&old.wrapping_add(add).to_ne_bytes());
                    }
                }
            }
            let words = words.min((BYTES / 8 - at) as usize);
            let mut read = vec![0; words];
            pages.read(&live, 8 * at, &mut read).unwrap();
            prop_assert_eq!(read.as_bytes(), &model[8 * at as usize..][..8 * words]);
            live.read_down(8 * at, &mut read).unwrap();
            prop_assert_eq!(read.as_bytes(), &live_model[8 * at as usize..][..8 * words]);
        }
    }
}
