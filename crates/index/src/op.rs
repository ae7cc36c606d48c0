//! The context of one operation of one client on one index, which every step of the operation needs.

use farwood_fabric::{Client, Fabric};

/// An operation in progress: the index, or a part of it, the client that performs it, and its name in errors.
pub struct Op<'a, F, T: ?Sized> {
    pub(crate) index: &'a T,
    pub(crate) client: &'a Client<F>,
    pub(crate) name: &'static str,
}

impl<F, T: ?Sized> Copy for Op<'_, F, T> {}

impl<F, T: ?Sized> Clone for Op<'_, F, T> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}

impl<'a, F: Fabric, T: ?Sized> Op<'a, F, T> {
    /// The operation `name` of `client` on `index`.
    #[inline]
    pub(crate) const fn new(index: &'a T, client: &'a Client<F>, name: &'static str) -> Self {
        Self { index, client, name }
    }

    /// Returns the operation bound to a part of the index, such as its locks.
    #[inline]
    pub(crate) const fn on<U: ?Sized>(self, part: &'a U) -> Op<'a, F, U> {
        Op { index: part, client: self.client, name: self.name }
    }

    /// Returns the operation with another name.
    #[inline]
    pub(crate) const fn named(self, name: &'static str) -> Self {
        Self { name, ..self }
    }

    /// The fabric of the client.
    #[inline]
    pub(crate) fn fabric(self) -> &'a F {
        self.client.fabric()
    }

    /// Records that a rare path was taken.
    #[inline]
    pub(crate) fn hit(self, mark: &'static str) {
        self.fabric().record_coverage(mark);
    }
}
