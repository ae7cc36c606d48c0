//! The verbs: READ, WRITE, WRITE_WITH_IMM, CAS, masked CAS, FAA.

use crate::buffers::Buffers;
use crate::doorbell::{ChainFlag, Doorbell, Op};
use crate::fetched::{Fetched, Object};
use crate::pointer::Remote;

/// A verb, which can be posted alone, in a chain, or with others by [`all`](crate::all).
pub trait Verb {
    /// The result of its completion.
    type Output;
    /// The class that determines how NICs order later verbs of its chain.
    type VerbClass: VerbClass;

    /// Adds the verb to a doorbell and yields its index.
    #[doc(hidden)]
    fn ring(self, doorbell: &mut Doorbell, link: ChainFlag, buffers: &Buffers) -> usize;
    /// Reads the answer from a completed doorbell.
    #[doc(hidden)]
    fn answer(index: usize, doorbell: &mut Doorbell) -> Self::Output;
}

mod sealed {
    pub trait Sealed {}
}

/// The ordering class of a verb.
pub trait VerbClass: sealed::Sealed {}

/// WRITEs: later verbs of the chain execute after them.
#[derive(Debug)]
pub enum WriteClass {}
/// READs and atomics: a WRITE chained after them may overtake them unless it is fenced.
#[derive(Debug)]
pub enum FetchClass {}

impl sealed::Sealed for WriteClass {}
impl sealed::Sealed for FetchClass {}
impl VerbClass for WriteClass {}
impl VerbClass for FetchClass {}

/// Pairs of classes that a reliable connection keeps in order without a fence.
pub trait InOrderBefore<Next: VerbClass>: VerbClass {}
impl InOrderBefore<WriteClass> for WriteClass {}
impl InOrderBefore<FetchClass> for WriteClass {}
/// Atomic then READ, READ then READ: published systems rely on this order. It is a capability
/// ([`Capability::AtomicThenRead`](crate::Capability::AtomicThenRead)) that an index must require.
impl InOrderBefore<FetchClass> for FetchClass {}

/// A READ; see [`read`].
#[derive(Clone, Copy, Debug)]
#[must_use = "a verb does nothing until it is posted"]
pub struct Read<T: Object + ?Sized> {
    from: Remote<T>,
    bytes: usize,
}

/// Fetches `bytes` unchecked bytes at `from`. The fabric refuses an address that is not a multiple of 8, because it
/// comes from far memory.
///
/// # Panics
/// If `bytes` is not a multiple of 8.
#[inline]
pub fn read_bytes<T: Object + ?Sized>(from: Remote<T>, bytes: usize) -> Read<T> {
    assert!(bytes.is_multiple_of(8), "READs move whole words");
    Read { from, bytes }
}

/// Fetches the unchecked bytes of the object at `from`.
#[inline]
pub fn read<T: Object>(from: Remote<T>) -> Read<T> {
    read_bytes(from, size_of::<T>())
}

impl<T: Object + ?Sized> Verb for Read<T> {
    type Output = Fetched<T>;
    type VerbClass = FetchClass;

    #[inline]
    fn ring(self, doorbell: &mut Doorbell, link: ChainFlag, buffers: &Buffers) -> usize {
        doorbell.push(self.from.address(), link, Op::Read { into: buffers.take(self.bytes) })
    }

    #[inline]
    fn answer(index: usize, doorbell: &mut Doorbell) -> Fetched<T> {
        Fetched::new(doorbell.take_read(index))
    }
}

/// A WRITE; see [`write`](fn@write) and [`write_imm`].
#[derive(Clone, Copy, Debug)]
#[must_use = "a verb does nothing until it is posted"]
pub struct Write<'a> {
    to: crate::Address,
    data: &'a [u8],
    immediate: Option<u32>,
}

/// Stores `data` at `to`, with any length and alignment. The post copies the bytes.
#[inline]
pub fn write<T: ?Sized>(to: Remote<T>, data: &[u8]) -> Write<'_> {
    Write { to: to.address(), data, immediate: None }
}

/// As [`write`](fn@write), and delivers `immediate` to the memory node's server when the bytes are stored.
#[inline]
pub fn write_imm<T: ?Sized>(to: Remote<T>, data: &[u8], immediate: u32) -> Write<'_> {
    Write { to: to.address(), data, immediate: Some(immediate) }
}

impl Verb for Write<'_> {
    type Output = ();
    type VerbClass = WriteClass;

    #[inline]
    fn ring(self, doorbell: &mut Doorbell, link: ChainFlag, _: &Buffers) -> usize {
        doorbell.push_write(self.to, link, self.data, self.immediate);
        doorbell.requests().len() - 1
    }

    #[inline]
    fn answer(_: usize, _: &mut Doorbell) {}
}

/// The outcome of a compare-and-swap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a lost compare-and-swap changed nothing"]
pub enum Swapped {
    /// The word was equal and is replaced.
    Won,
    /// The word differed and is unchanged.
    Lost(u64),
}

/// A compare-and-swap; see [`cas`].
#[derive(Clone, Copy, Debug)]
#[must_use = "a verb does nothing until it is posted"]
pub struct Cas {
    at: Remote<u64>,
    compare: u64,
    swap: u64,
}

/// Replaces the word at `at` by `swap` if it equals `compare`.
#[inline]
pub fn cas(at: Remote<u64>, compare: u64, swap: u64) -> Cas {
    Cas { at, compare, swap }
}

impl Verb for Cas {
    type Output = Swapped;
    type VerbClass = FetchClass;

    #[inline]
    fn ring(self, doorbell: &mut Doorbell, link: ChainFlag, _: &Buffers) -> usize {
        let Self { at, compare, swap } = self;
        doorbell.push(at.address(), link, Op::Cas { compare, swap, old: 0 })
    }

    #[inline]
    fn answer(index: usize, doorbell: &mut Doorbell) -> Swapped {
        match doorbell.requests()[index].op {
            Op::Cas { compare, old, .. } if old == compare => Swapped::Won,
            _ => Swapped::Lost(doorbell.old(index)),
        }
    }
}

/// Bits of a word that a [`masked_cas`] compares or replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bits {
    /// The mask that selects bits of the word.
    pub mask: u64,
    /// The values of the selected bits, at the positions of the mask.
    pub value: u64,
}

/// A masked compare-and-swap; see [`masked_cas`].
#[derive(Clone, Copy, Debug)]
#[must_use = "a verb does nothing until it is posted"]
pub struct MaskedCas {
    at: Remote<u64>,
    compare: Bits,
    swap: Bits,
}

/// Replaces the `swap` bits of the word at `at` if its `compare` bits are equal. It requires
/// [`Capability::MaskedCas`](crate::Capability::MaskedCas).
#[inline]
pub fn masked_cas(at: Remote<u64>, compare: Bits, swap: Bits) -> MaskedCas {
    MaskedCas { at, compare, swap }
}

impl Verb for MaskedCas {
    type Output = Swapped;
    type VerbClass = FetchClass;

    #[inline]
    fn ring(self, doorbell: &mut Doorbell, link: ChainFlag, _: &Buffers) -> usize {
        let Self { at, compare, swap } = self;
        let op = Op::MaskedCas {
            compare: compare.value,
            compare_mask: compare.mask,
            swap: swap.value,
            swap_mask: swap.mask,
            old: 0,
        };
        doorbell.push(at.address(), link, op)
    }

    #[inline]
    fn answer(index: usize, doorbell: &mut Doorbell) -> Swapped {
        match doorbell.requests()[index].op {
            Op::MaskedCas { compare, compare_mask, old, .. } if (old ^ compare) & compare_mask == 0 => {
                Swapped::Won
            }
            _ => Swapped::Lost(doorbell.old(index)),
        }
    }
}

/// A fetch-and-add; see [`faa`].
#[derive(Clone, Copy, Debug)]
#[must_use = "a verb does nothing until it is posted"]
pub struct Faa {
    at: Remote<u64>,
    add: u64,
}

/// Adds `add` to the word at `at`, wrapping, and yields the previous word.
#[inline]
pub fn faa(at: Remote<u64>, add: u64) -> Faa {
    Faa { at, add }
}

impl Verb for Faa {
    type Output = u64;
    type VerbClass = FetchClass;

    #[inline]
    fn ring(self, doorbell: &mut Doorbell, link: ChainFlag, _: &Buffers) -> usize {
        doorbell.push(self.at.address(), link, Op::Faa { add: self.add, old: 0 })
    }

    #[inline]
    fn answer(index: usize, doorbell: &mut Doorbell) -> u64 {
        doorbell.old(index)
    }
}
