//! The form in which the cache stores the copy of a node: only what is occupied.
//!
//! ```text
//! word 0     63      55 54   53   52    48 47                       0
//!           +----------+----+----+--------+--------------------------+
//!           |  count 9 |lost| end| class 5|     packed address 48    |
//!           +----------+----+----+--------+--------------------------+
//! word 1    header of the node
//! word 2    hash of the node
//! 4 words   only for slots in the order of their partial keys: a bit for each stored slot
//! 1 word    slot 0, if bit *end* is set; otherwise it is vacant
//! count     the stored slots, in their order
//! ```
//!
//! Slots in the order of their partial keys: a slot that is not stored is vacant, of its partial key and the generation
//! of the node. Slots in the order of allocation: the slots from 1 to *count* are stored, the others are free, with the
//! generation of the node. *Class* is the size of the block of memory that holds the copy.

use super::arena::Block;
use super::cached_node::NodeIdentity;
use crate::radix::inner::{Inner, NodeHeader, NodeSize, RawInner, SlotSearch, find};
use crate::radix::key::Step;
use crate::radix::slot::NodeSlot;
use farwood_fabric::{Packed, Remote};
use std::ops::Deref;

/// Words before the slots, without the map.
const HEAD_WORDS: usize = 3;
/// Words of the map of stored slots.
const MAP_WORDS: usize = 4;
/// Most slots of a node, without slot 0.
const SLOTS_MAX: usize = 256;
/// Words of the largest copy.
pub(super) const WORDS_MAX: usize = HEAD_WORDS + MAP_WORDS + 1 + SLOTS_MAX;

const ADDRESS_BITS: u32 = Packed::<()>::BITS;
const CLASS_SHIFT: u32 = ADDRESS_BITS;
const END: u64 = 1 << 53;
const LOST: u64 = 1 << 54;
const COUNT_SHIFT: u32 = 55;

/// Words of a block, by class: every size up to 12, then each about a seventh larger than the one before it.
const CLASS_WORDS: [u16; 32] = [
    3,
    4,
    5,
    6,
    7,
    8,
    9,
    10,
    11,
    12,
    14,
    16,
    18,
    20,
    23,
    26,
    29,
    33,
    38,
    43,
    49,
    56,
    64,
    73,
    84,
    96,
    110,
    126,
    145,
    170,
    205,
    WORDS_MAX as u16,
];

/// Size of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct BlockClass(u8);

impl BlockClass {
    /// The block that, with its share of its page, takes about as much memory as 256 slots: two, four or nine of them
    /// fill a page of 4, 8 or 16 KiB.
    pub(super) const WHOLE_NODE: Self = Self(30);

    /// The smallest block for `words` words.
    pub(super) fn fitting(words: usize) -> Self {
        let class = CLASS_WORDS.partition_point(|&class| usize::from(class) < words);
        assert!(class < CLASS_WORDS.len(), "no copy is larger than the largest block");
        Self(class as u8)
    }

    /// The class of the block whose first word is `word`.
    #[inline]
    pub(super) fn of_word(word: u64) -> Self {
        Self((word >> CLASS_SHIFT) as u8 & 31)
    }

    /// The first word of a block without a copy.
    pub(super) fn word(self) -> u64 {
        u64::from(self.0) << CLASS_SHIFT
    }

    pub(super) fn words(self) -> usize {
        usize::from(CLASS_WORDS[usize::from(self.0)])
    }
}

/// Words of a stored copy, in the cache or in local memory.
pub(super) trait CopyWords {
    fn word(&self, number: usize) -> u64;
}

impl CopyWords for Block<'_> {
    #[inline]
    fn word(&self, number: usize) -> u64 {
        Block::word(self, number)
    }
}

/// A stored copy. If its memory is used again while a client reads it, the client gets wrong results, and no panic; it
/// discards them.
#[derive(Clone, Copy, Debug)]
pub(super) struct StoredCopy<W>(pub(super) W);

/// Whether a change fits into a stored copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Learned {
    /// The copy shows the slot.
    Done,
    /// The slot does not belong to the node of the copy.
    Refused,
}

impl<W: CopyWords> StoredCopy<W> {
    /// The node; `None` if its memory is used again.
    #[inline]
    pub(super) fn identity(&self) -> Option<NodeIdentity> {
        let at = Packed::unpack(self.0.word(0))?;
        Some(NodeIdentity { at, header: self.header(), hash: self.0.word(2) })
    }

    #[inline]
    pub(super) fn header(&self) -> NodeHeader {
        NodeHeader::from_word(self.0.word(1))
    }

    pub(super) fn class(&self) -> BlockClass {
        BlockClass::of_word(self.0.word(0))
    }

    /// Whether an insert that followed the copy lost its slot to another client, so that other slots have probably
    /// changed as well.
    #[inline]
    pub(super) fn is_lost(&self) -> bool {
        self.0.word(0) & LOST != 0
    }

    fn count(&self) -> usize {
        (self.0.word(0) >> COUNT_SHIFT) as usize
    }

    #[inline]
    fn has_end(&self) -> bool {
        self.0.word(0) & END != 0
    }

    /// Whether the slots are in the order of their partial keys.
    #[inline]
    fn is_ordered(&self) -> bool {
        self.header().size() == NodeSize::All
    }

    /// Number of the first word with a slot.
    #[inline]
    fn first_slot(&self) -> usize {
        HEAD_WORDS + if self.is_ordered() { MAP_WORDS } else { 0 }
    }

    /// Words that are in use.
    fn words_used(&self) -> usize {
        self.first_slot() + usize::from(self.has_end()) + self.count()
    }

    /// Number of the word with slot `number`, if the slot is stored; otherwise of the word where it would be.
    #[inline]
    fn position(&self, number: usize) -> Result<usize, usize> {
        let first = self.first_slot();
        let Some(number) = number.checked_sub(1) else {
            return if self.has_end() { Ok(first) } else { Err(first) };
        };
        let first = first + usize::from(self.has_end());
        if !self.is_ordered() {
            return if number < self.count() { Ok(first + number) } else { Err(first + self.count()) };
        }
        let map = |word: usize| self.0.word(HEAD_WORDS + word);
        let (last, bit) = (number / 64, number % 64);
        let word = map(last & (MAP_WORDS - 1));
        let before: u32 = (0..last.min(MAP_WORDS)).map(|word| map(word).count_ones()).sum();
        let rank = before + (word & ((1 << bit) - 1)).count_ones();
        let at = first + rank as usize;
        if word >> bit & 1 == 1 { Ok(at) } else { Err(at) }
    }

    /// Slot `number`.
    #[inline]
    pub(super) fn slot(&self, number: usize) -> NodeSlot {
        match self.position(number) {
            Ok(at) => NodeSlot::from_word(self.0.word(at)),
            Err(_) => self.absent(number),
        }
    }

    /// Slot `number` if it is not stored.
    #[inline]
    fn absent(&self, number: usize) -> NodeSlot {
        let generation = self.header().generation();
        match number {
            0 => NodeSlot::vacant(0, generation),
            _ if self.is_ordered() => NodeSlot::vacant((number - 1) as u8, generation),
            _ => NodeSlot::free(generation),
        }
    }

    /// Searches for the slot of a step.
    #[inline]
    pub(super) fn find(&self, step: Step) -> SlotSearch {
        let header = self.header();
        if header.size() == NodeSize::All {
            return find(header.size(), step, |number| self.slot(number));
        }
        // The words before the slots are read once, and not again for each slot.
        let end = usize::from(self.has_end());
        let (first, count, free) = (HEAD_WORDS + end, self.count(), NodeSlot::free(header.generation()));
        find(header.size(), step, |number| match number.checked_sub(1) {
            None if end == 1 => NodeSlot::from_word(self.0.word(HEAD_WORDS)),
            None => NodeSlot::vacant(0, header.generation()),
            Some(number) if number < count => NodeSlot::from_word(self.0.word(first + number)),
            Some(_) => free,
        })
    }

    /// All slots, slot 0 first. They are decoded one after the other, because the position of a slot in the order of
    /// partial keys is the result of several words.
    pub(super) fn slots(&self) -> Vec<NodeSlot> {
        let (header, first) = (self.header(), self.first_slot());
        let mut slots = Vec::with_capacity(1 + header.size().slots());
        slots.push(if self.has_end() { NodeSlot::from_word(self.0.word(first)) } else { self.absent(0) });
        let stored = first + usize::from(self.has_end())..;
        let mut stored = stored.map(|at| NodeSlot::from_word(self.0.word(at)));
        if self.is_ordered() {
            slots.extend((0..=u8::MAX).map(|partial| NodeSlot::vacant(partial, header.generation())));
            for (number, slots) in slots[1..].chunks_exact_mut(64).enumerate() {
                let mut map = self.0.word(HEAD_WORDS + number);
                while map != 0
                    && let Some(slot) = stored.next()
                {
                    slots[map.trailing_zeros() as usize] = slot;
                    map &= map - 1;
                }
            }
        } else {
            slots.extend(stored.take(self.count().min(header.size().slots())));
            slots.resize(1 + header.size().slots(), self.absent(1));
        }
        slots
    }
}

impl StoredCopy<Block<'_>> {
    /// Changes a slot that is stored, and keeps its partial key. `None`: it is not stored.
    pub(super) fn overwrite(&self, number: usize, slot: NodeSlot) -> Option<Learned> {
        let at = self.position(number).ok()?;
        Some(if self.accepts(number, slot) {
            self.0.set_word(at, slot.word());
            Learned::Done
        } else {
            Learned::Refused
        })
    }

    /// Records that the node has grown in place. The slots that it has more are not stored, and so free.
    pub(super) fn grow(&self, header: NodeHeader) {
        if self.header().is_of_node(header) && header.size() > self.header().size() {
            self.0.set_word(1, header.word());
        }
    }

    /// Records that an insert that followed the copy lost its slot.
    pub(super) fn mark_lost(&self) {
        self.0.set_word(0, self.0.word(0) | LOST);
    }
}

impl<W: CopyWords> StoredCopy<W> {
    /// Whether slot `number` of the node can hold `slot`: a slot without a child has the generation of the node, and a
    /// slot keeps its partial key.
    fn accepts(&self, number: usize, slot: NodeSlot) -> bool {
        let known = self.slot(number);
        let is_of_node = slot.is_occupied() || slot.generation() == self.header().generation();
        let keeps_partial = number == 0 || known.is_free() || known.partial() == slot.partial();
        number <= self.header().size().slots() && is_of_node && keeps_partial
    }
}

/// A stored copy in local memory, in the course of a change.
#[derive(Clone, Debug)]
pub(super) struct CopyImage {
    words: [u64; WORDS_MAX],
}

impl CopyWords for &CopyImage {
    #[inline]
    fn word(&self, number: usize) -> u64 {
        self.words.get(number).copied().unwrap_or(0)
    }
}

impl CopyImage {
    /// The image of a node that was just read.
    pub(super) fn of_node<B: Deref<Target = [u8]>>(at: Remote<RawInner>, node: &Inner<B>) -> Self {
        let identity = NodeIdentity { at, header: node.header(), hash: node.hash() };
        Self::of_slots(identity, node.slots())
    }

    fn of_slots(
        NodeIdentity { at, header, hash }: NodeIdentity,
        slots: impl DoubleEndedIterator<Item = NodeSlot> + ExactSizeIterator,
    ) -> Self {
        let mut image = Self { words: [0; WORDS_MAX] };
        image.words[..HEAD_WORDS].copy_from_slice(&[Packed::pack(at).bits(), header.word(), hash]);
        let is_ordered = image.copy().is_ordered();
        let mut slots = slots.enumerate();
        let Some((_, end)) = slots.next() else { return image };
        let mut next = image.copy().first_slot();
        if end != image.copy().absent(0) {
            image.words[0] |= END;
            image.words[next] = end.word();
            next += 1;
        }
        let first = next;
        for (number, slot) in slots {
            if is_ordered && slot == image.copy().absent(number) {
                continue;
            }
            if is_ordered {
                image.words[HEAD_WORDS + (number - 1) / 64] |= 1 << ((number - 1) % 64);
            }
            image.words[next] = slot.word();
            next += 1;
        }
        // The free slots at the end are not stored. A free slot before them is, because another client took the slots
        // after it while the node was read.
        while !is_ordered && next > first && NodeSlot::from_word(image.words[next - 1]).is_free() {
            next -= 1;
        }
        image.words[0] |= ((next - first) as u64) << COUNT_SHIFT;
        image
    }

    /// The image of a stored copy.
    pub(super) fn of_stored(stored: StoredCopy<Block<'_>>) -> Self {
        let used = stored.words_used().min(WORDS_MAX);
        let mut image = Self { words: [0; WORDS_MAX] };
        (0..used).for_each(|number| image.words[number] = stored.0.word(number));
        image
    }

    pub(super) fn copy(&self) -> StoredCopy<&Self> {
        StoredCopy(self)
    }

    /// The smallest block that holds the copy.
    pub(super) fn class(&self) -> BlockClass {
        BlockClass::fitting(self.copy().words_used())
    }

    /// Stores the copy in a block of size `class`.
    pub(super) fn store(&self, block: Block<'_>, class: BlockClass) {
        let used = self.copy().words_used();
        debug_assert!(used <= class.words(), "the block is large enough");
        block.set_word(0, self.words[0] & !(31 << CLASS_SHIFT) | class.word());
        (1..used).for_each(|number| block.set_word(number, self.words[number]));
    }

    /// Records that slot `number` holds `slot`.
    pub(super) fn learn(&mut self, number: usize, slot: NodeSlot) -> Learned {
        if !self.copy().accepts(number, slot) {
            return Learned::Refused;
        }
        if self.copy().slot(number) == slot {
            return Learned::Done;
        }
        let position = self.copy().position(number);
        match position {
            Ok(at) => self.words[at] = slot.word(),
            Err(at) => self.insert(number, at, slot),
        }
        Learned::Done
    }

    /// Stores a slot that was not stored, in word `at`.
    fn insert(&mut self, number: usize, at: usize, slot: NodeSlot) {
        let (used, is_ordered) = (self.copy().words_used(), self.copy().is_ordered());
        if number == 0 || is_ordered {
            self.words.copy_within(at..used, at + 1);
            self.words[at] = slot.word();
        } else {
            // Other clients have taken the slots between the last stored one and this one.
            let last = at + number - 1 - self.copy().count();
            let free = self.copy().absent(number).word();
            self.words[at..last].fill(free);
            self.words[last] = slot.word();
        }
        match number {
            0 => self.words[0] |= END,
            _ if is_ordered => {
                self.words[HEAD_WORDS + (number - 1) / 64] |= 1 << ((number - 1) % 64);
                self.words[0] += 1 << COUNT_SHIFT;
            }
            _ => self.words[0] += ((number - self.copy().count()) as u64) << COUNT_SHIFT,
        }
    }
}

const _: () = assert!(CLASS_WORDS.len() == 32 && WORDS_MAX < 1 << 9 && SLOTS_MAX < 1 << (64 - COUNT_SHIFT));

#[cfg(test)]
mod tests {
    use super::*;
    use crate::radix::inner::{NodeState, slot_of_all};
    use crate::radix::leaf::{LeafClass, LeafGrain, LeafRef, RawLeaf};
    use farwood_fabric::{Memory, NodeId};
    use proptest::prelude::*;

    fn at() -> Remote<RawInner> {
        Remote::new(NodeId(2), Memory::Host, 4096).expect("it is not null")
    }

    fn leaf(partial: u8, number: u64) -> NodeSlot {
        let at = Remote::<RawLeaf>::new(NodeId(1), Memory::Host, 8 + 8 * number).expect("it is not null");
        let class = LeafClass::for_entry(LeafGrain::Words, 8, 8).expect("it fits");
        NodeSlot::leaf(partial, LeafRef { at, class })
    }

    fn identity(size: NodeSize, generation: u32) -> NodeIdentity {
        NodeIdentity { at: at(), header: NodeHeader::new(NodeState::Live, size, 1, 2, generation), hash: 77 }
    }

    fn slots_of(image: &CopyImage) -> Vec<NodeSlot> {
        let slots = image.copy().slots();
        assert!(slots.iter().enumerate().all(|(number, slot)| image.copy().slot(number) == *slot));
        slots
    }

    /// The slots of a node without children.
    fn empty(size: NodeSize, generation: u32) -> Vec<NodeSlot> {
        let slot = |number: usize| match number {
            0 => NodeSlot::vacant(0, generation),
            _ if size == NodeSize::All => NodeSlot::vacant((number - 1) as u8, generation),
            _ => NodeSlot::free(generation),
        };
        (0..=size.slots()).map(slot).collect()
    }

    /// Learns slots as inserts and removals write them: a step keeps its slot.
    fn change(
        slots: &[NodeSlot],
        size: NodeSize,
        step: Option<u8>,
        child: Option<u64>,
    ) -> Option<(usize, NodeSlot)> {
        let step = step.map_or(Step::End, Step::Byte);
        let number = match find(size, step, |number| slots[number]) {
            SlotSearch::Slot(number, _) | SlotSearch::Free(number, _) => number,
            SlotSearch::Outgrown | SlotSearch::Full => return None,
        };
        let partial = if let Step::Byte(byte) = step { byte } else { 0 };
        Some((number, child.map_or(NodeSlot::vacant(partial, 5), |child| leaf(partial, child))))
    }

    proptest! {
        #[test]
        fn a_stored_copy_shows_the_slots_that_it_learned(
            size in 0..11_u8,
            changes in proptest::collection::vec((any::<Option<u8>>(), any::<Option<u16>>()), 0..80),
            encoded_after in 0..80_usize,
        ) {
            let size = NodeSize::of_number(size).expect("there are eleven sizes");
            let mut slots = empty(size, 5);
            let mut image = CopyImage::of_slots(identity(size, 5), slots.clone().into_iter());
            for (count, (step, child)) in changes.into_iter().enumerate() {
                if count == encoded_after {
                    image = CopyImage::of_slots(identity(size, 5), slots.clone().into_iter());
                }
                let Some((number, slot)) = change(&slots, size, step, child.map(u64::from)) else { continue };
                slots[number] = slot;
                prop_assert_eq!(image.learn(number, slot), Learned::Done);
                prop_assert_eq!(&slots_of(&image), &slots);
                prop_assert!(image.copy().words_used() <= image.class().words());
                for byte in 0..=255 {
                    let expected = find(size, Step::Byte(byte), |number| slots[number]);
                    prop_assert_eq!(image.copy().find(Step::Byte(byte)), expected);
                }
            }
            prop_assert_eq!(image.copy().identity(), Some(identity(size, 5)));
        }
    }

    #[test]
    fn a_copy_stores_what_is_occupied() {
        for (size, children, words) in
            [(NodeSize::Four, 2, 5), (NodeSize::FortyEight, 20, 23), (NodeSize::All, 115, 122)]
        {
            let mut slots = empty(size, 5);
            for child in 0..children {
                let (number, slot) = change(&slots, size, Some(2 * child), Some(1)).expect("it fits");
                slots[number] = slot;
            }
            let image = CopyImage::of_slots(identity(size, 5), slots.into_iter());
            assert_eq!(image.copy().words_used(), words);
        }
    }

    #[test]
    fn slots_that_other_clients_took_are_free_until_they_are_learned() {
        let mut image =
            CopyImage::of_slots(identity(NodeSize::Sixteen, 5), empty(NodeSize::Sixteen, 5).into_iter());
        assert_eq!(image.learn(4, leaf(9, 1)), Learned::Done);
        let slots = slots_of(&image);
        let free = NodeSlot::free(5);
        assert_eq!(slots[1..6], [free, free, free, leaf(9, 1), free]);
        assert_eq!(image.learn(2, leaf(8, 2)), Learned::Done);
        assert_eq!(image.copy().find(Step::Byte(8)), SlotSearch::Free(1, free));
    }

    #[test]
    fn a_slot_keeps_its_partial_key_and_its_generation() {
        for size in NodeSize::FIXED.into_iter().chain(NodeSize::TYPED) {
            let mut image = CopyImage::of_slots(identity(size, 5), empty(size, 5).into_iter());
            let number = if size == NodeSize::All { slot_of_all(Step::Byte(9)) } else { 1 };
            assert_eq!(image.learn(number, leaf(9, 1)), Learned::Done);
            assert_eq!(image.learn(number, leaf(8, 1)), Learned::Refused);
            assert_eq!(image.learn(number, NodeSlot::vacant(9, 6)), Learned::Refused);
            assert_eq!(image.learn(size.slots() + 1, leaf(9, 1)), Learned::Refused);
            assert_eq!(image.copy().slot(number), leaf(9, 1));
            assert_eq!(image.learn(number, NodeSlot::vacant(9, 5)), Learned::Done);
            assert_eq!(image.copy().slot(number), NodeSlot::vacant(9, 5));
        }
    }

    #[test]
    fn the_classes_increase_up_to_the_largest_copy() {
        assert!(CLASS_WORDS.is_sorted() && usize::from(CLASS_WORDS[31]) == WORDS_MAX);
        for words in HEAD_WORDS..=WORDS_MAX {
            let class = BlockClass::fitting(words);
            assert!(class.words() >= words && class.words() * 3 <= words * 4 + 3);
        }
    }
}
