//! Words of the superblock that clients change, with a check code in the same eight bytes.
//!
//! ```text
//!  63        52 51                                      0
//! +------------+-----------------------------------------+
//! |  check 12  |                value 52                 |   check = (value + offset / 8) mod 4093 + 1
//! +------------+-----------------------------------------+
//! ```
//!
//! Value and check are in one word, so a compare-and-swap changes both together. 4093 is a prime number, and no power
//! of two below 2^52 is 1 or -1 modulo it, so a word of which one bit is flipped, or two bits of the value, is refused;
//! of other damage one in 4093 is accepted. The check is never 0 and never above 4093, so neither a word of zeros nor a
//! word of ones is a sealed word. The offset distinguishes a word from a copy of another one.

use crate::error::FabricError;
use crate::pointer::{Packed, Remote};

const VALUE_BITS: u32 = 52;
const VALUE_MASK: u64 = (1 << VALUE_BITS) - 1;
/// The largest prime number below 2^12.
const MODULUS: u64 = 4093;

/// The address of a sealed word, which converts between the word and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealedWord(Remote<u64>);

impl SealedWord {
    /// The sealed word at `at`.
    #[inline]
    pub const fn new(at: Remote<u64>) -> Self {
        Self(at)
    }

    /// The address of the word.
    #[inline]
    pub const fn at(self) -> Remote<u64> {
        self.0
    }

    /// The word that holds `value` at the offset `offset` of a memory node.
    ///
    /// # Panics
    /// If the value has more than 52 bits.
    pub(crate) const fn sealed_at(offset: u64, value: u64) -> u64 {
        assert!(value <= VALUE_MASK, "values have 52 bits");
        ((value + offset / 8) % MODULUS + 1) << VALUE_BITS | value
    }

    /// The word that holds `value`.
    ///
    /// # Panics
    /// If the value has more than 52 bits.
    pub const fn seal(self, value: u64) -> u64 {
        Self::sealed_at(self.0.address().offset(), value)
    }

    /// The value in `word`, which was read from this address.
    ///
    /// # Errors
    /// [`FabricError::Damaged`] if the check does not match.
    pub fn open(self, word: u64) -> Result<u64, FabricError> {
        let value = word & VALUE_MASK;
        if self.seal(value) == word { Ok(value) } else { Err(self.damaged(word)) }
    }

    /// The error for a word that no client stores here.
    pub fn damaged(self, word: u64) -> FabricError {
        let what = format!("the word at {} is {word:#018x}, which no client stores there", self.0);
        FabricError::Damaged { node: self.0.node(), what }
    }

    /// The word that holds a pointer, or none.
    ///
    /// # Errors
    /// [`FabricError::OutOfRange`] for a pointer that no pool contains, which was read from damaged memory.
    pub fn seal_pointer<T: ?Sized>(self, pointer: Option<Remote<T>>) -> Result<u64, FabricError> {
        match pointer {
            None => Ok(self.seal(0)),
            Some(pointer) if Packed::accepts(pointer) => Ok(self.seal(Packed::pack(pointer).bits())),
            Some(pointer) => Err(FabricError::OutOfRange { at: pointer.address(), bytes: 0 }),
        }
    }

    /// The pointer in `word`, which was read from this address.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_pointer<T: ?Sized>(self, word: u64) -> Result<Option<Remote<T>>, FabricError> {
        let value = self.open(word)?;
        match Packed::unpack(value) {
            Some(pointer) if value >> Packed::<T>::BITS == 0 => Ok(Some(pointer)),
            None if value == 0 => Ok(None),
            _ => Err(self.damaged(word)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pointer::{Memory, NodeId};
    use crate::pool_layout::word;
    use proptest::prelude::*;

    const WORD: SealedWord = SealedWord(word(NodeId(0), 256));

    proptest! {
        #[test]
        fn a_value_is_read_back_and_flipped_bits_are_detected(
            value in 0..=VALUE_MASK,
            one in 0..64u32,
            other in 0..52u32,
        ) {
            let sealed = WORD.seal(value);
            prop_assert_eq!(WORD.open(sealed), Ok(value));
            prop_assert!(WORD.open(sealed ^ 1 << one).is_err());
            if one < VALUE_BITS && one != other {
                prop_assert!(WORD.open(sealed ^ 1 << one ^ 1 << other).is_err());
            }
        }
    }

    #[test]
    fn zeros_ones_and_the_word_of_another_address_are_refused() {
        let neighbour = SealedWord::new(word(NodeId(0), 264));
        for word in [0, u64::MAX, 1, neighbour.seal(0), neighbour.seal(2)] {
            assert!(matches!(WORD.open(word), Err(FabricError::Damaged { .. })), "{word:#x}");
        }
    }

    #[test]
    fn a_pointer_is_read_back() {
        for word in [64 | 1 << 47, u64::MAX, 1 << 63, 65] {
            assert!(WORD.seal_pointer(Remote::<u64>::from_word(word)).is_err(), "{word:#x}");
        }
        let pointer = Remote::<u64>::new(NodeId(255), Memory::Host, Packed::<u64>::BYTES_MAX - 64);
        assert!(pointer.is_some());
        for pointer in [None, pointer] {
            assert_eq!(WORD.open_pointer(WORD.seal_pointer(pointer).unwrap()), Ok(pointer));
        }
        for value in [1 << 48, 1 << 40] {
            assert!(
                WORD.open_pointer::<u64>(WORD.seal(value)).is_err(),
                "{value:#x} is not a packed pointer"
            );
        }
    }
}
