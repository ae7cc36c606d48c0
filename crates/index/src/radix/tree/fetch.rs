//! Copies of nodes and leaves, and what proves that one holds a single object of its room, with its reverse pointer.
//!
//! Rooms are used again at once, so that a READ may take a part of what lay there before and a part of what lies there
//! now. The reverse pointer changes by a CAS of its own, and no checksum can cover it. It lies behind the object's
//! *front*, the word that says how many objects lay in the room, and before a word that is salted with the front: a
//! leaf's checksum, a node's hash. A new object's WRITE places them in that order. So the reverse pointer is the
//! object's
//!
//! - where equal versions in front and behind prove that no WRITE overlapped the READ
//!   ([`Capability::VersionPair`]): the front is one of the pair, what is salted with it the other;
//! - where lines are whole and the three words are in one line, as they are in all rooms that are larger than what
//!   such a pair proves ([`Heap`](crate::memory::heap::Heap)). What is behind proves itself: by the checksum; in a node
//!   by the generation in each slot without a child, and by what each child says of itself;
//! - elsewhere, where the front is read once more before and after.

use super::find::damaged;
use super::{Guide, Tree, marks};
use crate::error::IndexError;
use crate::lock::Held;
use crate::op::Op;
use crate::radix::inner::{Inner, InnerFormat, RawInner, Size};
use crate::radix::leaf::{Class, Leaf, LeafFormat, RawLeaf};
use crate::retry::{Retry, bury_the_dead};
use farwood_fabric::{
    Capabilities, Capability, Checked, Client, Fabric, Object, Remote, all, read, read_bytes,
};

/// Tries at a copy that stays torn, with pauses.
const TORN_TRIES_MAX: u32 = 2_000;
/// Tries at a torn copy between two times that it is asked whether its writer has died.
const TRIES_PER_LOOK: u32 = 40;
/// Bytes of the front, the reverse pointer, and what is salted with the front.
const FRONT_BYTES: u64 = 24;
/// Bytes of a line.
const LINE_BYTES: u64 = 64;

/// A copy of an inner node, just read.
pub(crate) type InnerCopy = Inner<Checked<RawInner>>;
/// A copy of a leaf, just read.
pub(crate) type LeafCopy = Leaf<Checked<RawLeaf>>;

/// Whether a copy of what lies at `at`, of so many bytes, holds one object if it passes its check.
#[inline]
pub(crate) fn proves<T: ?Sized>(promised: &Capabilities, at: Remote<T>, bytes: usize) -> bool {
    promised.has(Capability::VersionPair(bytes)) || in_one_line(promised, at.address().offset())
}

fn in_one_line(promised: &Capabilities, offset: u64) -> bool {
    promised.whole_bytes as u64 >= LINE_BYTES && offset % LINE_BYTES + FRONT_BYTES <= LINE_BYTES
}

/// The front of a copy.
#[inline]
pub(crate) fn front_of(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"))
}

/// The fronts of what lies at those places. [1 RT]
pub(crate) async fn fronts<F: Fabric, T: ?Sized>(
    client: &Client<F>,
    places: impl Iterator<Item = Remote<T>>,
) -> Result<Vec<u64>, IndexError> {
    words(client, places.map(|at| at.part(0))).await
}

/// The words at those places. [1 RT]
pub(crate) async fn words<F: Fabric>(
    client: &Client<F>,
    places: impl Iterator<Item = Remote<u64>>,
) -> Result<Vec<u64>, IndexError> {
    let words = client.post(all(places.map(read))).await?;
    let word = |word: farwood_fabric::Fetched<u64>| match word.check(&()) {
        Ok(word) => word.word(),
        Err(_) => unreachable!("words are whole"),
    };
    Ok(words.map(word).collect())
}

/// Reads what lies at `at`. [1 RT, and 1 for each torn copy; 2 more where the fabric proves nothing of its size]
pub(crate) async fn fetch<F: Fabric, T: Object>(
    client: &Client<F>,
    (at, bytes): (Remote<T>, usize),
    format: &T::Format,
    operation: &'static str,
) -> Result<Checked<T>, IndexError> {
    let proven = proves(client.fabric().capabilities(), at, bytes);
    let mut retry = Retry::new(operation, TORN_TRIES_MAX);
    loop {
        let before = if proven { None } else { Some(fronts(client, [at].into_iter()).await?) };
        if let Ok(copy) = client.post(read_bytes(at, bytes)).await?.check(format) {
            let Some(before) = before else { return Ok(copy) };
            if before[0] == front_of(&copy) && before == fronts(client, [at].into_iter()).await? {
                return Ok(copy);
            }
        }
        torn(client, &mut retry, at).await?;
    }
}

impl<G: Guide> Tree<G> {
    /// Reads the inner node at `at`. [1 RT, and 1 for each torn copy; 2 more where the fabric proves nothing of its
    /// size]
    pub(crate) async fn read_inner<F: Fabric>(
        &self,
        client: &Client<F>,
        at: Remote<RawInner>,
        size: Size,
        operation: &'static str,
    ) -> Result<InnerCopy, IndexError> {
        let format = InnerFormat { number: self.number };
        fetch(client, (at, size.bytes()), &format, operation).await.map(Inner::new)
    }

    /// Reads the leaf at `at`. [as [`read_inner`](Self::read_inner)]
    #[inline]
    pub(crate) async fn read_leaf<F: Fabric>(
        &self,
        client: &Client<F>,
        at: Remote<RawLeaf>,
        class: Class,
        operation: &'static str,
    ) -> Result<LeafCopy, IndexError> {
        let format = LeafFormat { number: self.number };
        fetch(client, (at, class.bytes()), &format, operation).await.map(Leaf::new)
    }

    /// Takes the lock of the inner node at `at`, and reads the node under it. [1 RT, 2 without
    /// [`Capability::AtomicThenRead`]]
    pub(crate) async fn lock_inner<'a, F: Fabric>(
        &'a self,
        client: &'a Client<F>,
        at: Remote<RawInner>,
        size: Size,
        operation: &'static str,
    ) -> Result<(Held<'a, F>, InnerCopy), IndexError> {
        let promised = client.fabric().capabilities();
        let (held, copy) = if promised.atomic_then_read {
            Op::new(&self.nodes, client, operation).acquire_and_read(at, size.bytes()).await?
        } else {
            (Op::new(&self.nodes, client, operation).acquire(at).await?, None)
        };
        let copy = copy.filter(|_| proves(promised, at, size.bytes()));
        if let Some(Ok(copy)) = copy.map(|copy| copy.check(&InnerFormat { number: self.number })) {
            return Ok((held, Inner::new(copy)));
        }
        match self.read_inner(client, at, size, operation).await {
            Ok(copy) => Ok((held, copy)),
            Err(error) => {
                held.give_up().await?;
                Err(error)
            }
        }
    }

    /// Takes the lock of the leaf at `at`, and reads the leaf under it. [1 RT, 2 without
    /// [`Capability::AtomicThenRead`]]
    pub(crate) async fn lock_leaf<'a, F: Fabric>(
        &'a self,
        client: &'a Client<F>,
        at: Remote<RawLeaf>,
        class: Class,
        operation: &'static str,
    ) -> Result<(Held<'a, F>, LeafCopy), IndexError> {
        let (held, copy) = Op::new(&self.leaves, client, operation).acquire_rear(at, class.bytes()).await?;
        let copy = copy.filter(|_| proves(client.fabric().capabilities(), at, class.bytes()));
        if let Some(Ok(copy)) = copy.map(|copy| copy.check(&LeafFormat { number: self.number })) {
            return Ok((held, Leaf::new(copy)));
        }
        match self.read_leaf(client, at, class, operation).await {
            Ok(copy) => Ok((held, copy)),
            Err(error) => {
                held.give_up().await?;
                Err(error)
            }
        }
    }
}

/// Notes a torn copy and lets its writer finish; should that have died, its identity is ended.
async fn torn<F: Fabric, T>(client: &Client<F>, retry: &mut Retry, at: Remote<T>) -> Result<(), IndexError> {
    client.fabric().mark(marks::TORN);
    client.note(|costs| costs.torn += 1);
    if (retry.tries() + 1).is_multiple_of(TRIES_PER_LOOK) {
        bury_the_dead(client).await?;
    }
    match retry.again(client).await {
        Err(IndexError::Exhausted { operation, .. }) => {
            Err(damaged(operation, at, "it stays half-written, or is nothing of this index".to_owned()))
        }
        other => other,
    }
}
