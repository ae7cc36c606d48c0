//! Fetched bytes, which become values when they are checked.

use crate::buffers::Buffer;
use crate::little_endian::u64_at;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

/// A READ observed part of a WRITE and must be repeated.
///
/// A torn copy means neither "found" nor "not found", and cannot be converted to an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Torn;

impl fmt::Display for Torn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the copy mixes two versions")
    }
}

impl std::error::Error for Torn {}

/// A type of object in far memory.
///
/// `Format` holds the parameters that are needed to interpret its bytes: none for a word, sizes and consistency
/// scheme for a node whose layout is chosen at run time.
pub trait Object {
    /// The parameters that are needed to interpret the bytes.
    type Format: ?Sized;

    /// Checks that `bytes` are one version of the object, by the consistency scheme of `format`.
    fn check(bytes: &[u8], format: &Self::Format) -> Result<(), Torn>;
}

/// No fabric tears eight aligned bytes.
impl Object for u64 {
    type Format = ();

    #[inline]
    fn check(bytes: &[u8], (): &()) -> Result<(), Torn> {
        assert!(bytes.len() == 8, "a word has eight bytes");
        Ok(())
    }
}

/// Any number of words. Each word is consistent, but different words may come from different WRITEs.
#[derive(Debug)]
pub enum Words {}

impl Object for Words {
    type Format = ();

    fn check(_: &[u8], (): &()) -> Result<(), Torn> {
        Ok(())
    }
}

/// The bytes that a READ fetched, possibly torn. [`check`](Self::check) is the only access to them.
///
/// ```compile_fail,E0599
/// # use farwood_fabric::{Fetched};
/// fn peek(copy: Fetched<u64>) -> u64 { copy.word() }
/// ```
///
/// ```compile_fail,E0614
/// # use farwood_fabric::{Fetched};
/// fn peek(copy: Fetched<u64>) -> u8 { (*copy)[0] }
/// ```
#[must_use = "fetched bytes are not usable until they are checked"]
pub struct Fetched<T: Object + ?Sized> {
    bytes: Buffer,
    of: PhantomData<fn() -> *const T>,
}

impl<T: Object + ?Sized> Fetched<T> {
    #[inline]
    pub(crate) fn new(bytes: Buffer) -> Self {
        Self { bytes, of: PhantomData }
    }

    /// Returns the copy if it is one version of the object.
    ///
    /// # Errors
    /// [`Torn`]: repeat the READ.
    #[inline]
    pub fn check(self, format: &T::Format) -> Result<Checked<T>, Torn> {
        T::check(&self.bytes, format)?;
        Ok(Checked { bytes: self.bytes, of: PhantomData })
    }
}

/// A local copy of one version of an object. It is plain memory and may be changed before a write-back.
pub struct Checked<T: Object + ?Sized> {
    bytes: Buffer,
    of: PhantomData<fn() -> *const T>,
}

impl Checked<u64> {
    /// The word.
    #[inline]
    pub fn word(&self) -> u64 {
        u64_at(&self.bytes, 0)
    }
}

/// No fabric tears eight aligned bytes.
impl Fetched<u64> {
    /// The word.
    #[inline]
    pub fn whole_word(self) -> u64 {
        u64_at(&self.bytes, 0)
    }
}

impl Fetched<Words> {
    /// The words. Each is consistent.
    #[inline]
    pub fn whole_words(self) -> Checked<Words> {
        Checked { bytes: self.bytes, of: PhantomData }
    }
}

impl<T: Object + ?Sized> Deref for Checked<T> {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl<T: Object + ?Sized> DerefMut for Checked<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

impl<T: Object + ?Sized> fmt::Debug for Fetched<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fetched({} bytes, unchecked)", self.bytes.len())
    }
}

impl<T: Object + ?Sized> fmt::Debug for Checked<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Checked({} bytes)", self.bytes.len())
    }
}
