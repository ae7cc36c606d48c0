//! The unit of a post: requests with their order and their data.
//!
//! The client owns a doorbell while it fills or reads it; the fabric owns it while it is in flight. Fabrics work on
//! doorbells only, and indexes never see one.

use crate::buffers::Buffer;
use crate::pointer::Address;
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

/// The order of a request relative to the previous request of its doorbell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChainFlag {
    /// The first request of a chain: not ordered after earlier requests.
    First,
    /// Executes after the previous request, which is for the same memory node.
    Then,
    /// As `Then`, for pairs that the NIC does not order (a WRITE after a READ or an atomic): the request waits at the
    /// sender for the answers to the requests before it, which costs a network round trip.
    Fenced,
}

/// One verb, with the field for its answer.
pub enum Op {
    /// Fetches the bytes at the address into `into`.
    Read {
        /// The destination; its length is the length of the READ.
        into: Buffer,
    },
    /// Stores bytes of the doorbell's payload at the address.
    Write {
        /// The range of the payload.
        data: Range<usize>,
        /// A value for the server's completion queue, if any.
        immediate: Option<u32>,
    },
    /// 64-bit compare and swap.
    Cas {
        /// Expected word.
        compare: u64,
        /// New word.
        swap: u64,
        /// Answer: the previous word.
        old: u64,
    },
    /// 64-bit compare and swap of the bits in the masks.
    MaskedCas {
        /// Expected bits.
        compare: u64,
        /// The bits that are compared.
        compare_mask: u64,
        /// New bits.
        swap: u64,
        /// The bits that are replaced.
        swap_mask: u64,
        /// Answer: the previous word.
        old: u64,
    },
    /// 64-bit fetch and add.
    Faa {
        /// The addend; the sum wraps around.
        add: u64,
        /// Answer: the previous word.
        old: u64,
    },
}

/// A verb at an address, with its order relative to the previous request.
pub struct Request {
    /// The address in far memory.
    pub at: Address,
    /// The order relative to the previous request.
    pub link: ChainFlag,
    /// The verb and its operands.
    pub op: Op,
}

/// The requests of one post, and the bytes that its WRITEs carry.
#[derive(Default)]
pub struct Doorbell {
    requests: Vec<Request>,
    payload: Vec<u8>,
}

impl Doorbell {
    /// The requests, in the order of the post.
    #[inline]
    pub fn requests(&self) -> &[Request] {
        &self.requests
    }

    /// Whether all requests are READs.
    #[inline]
    pub fn only_reads(&self) -> bool {
        self.requests.iter().all(|request| matches!(request.op, Op::Read { .. }))
    }

    /// The requests, for their answers, and the payload that WRITEs refer to.
    #[inline]
    pub fn parts_mut(&mut self) -> (&mut [Request], &[u8]) {
        (&mut self.requests, &self.payload)
    }

    /// The payload that WRITEs refer to.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }

    #[inline]
    pub(crate) fn push(&mut self, at: Address, link: ChainFlag, op: Op) -> usize {
        if link != ChainFlag::First {
            let before = self.requests.last().map(|request| request.at.node());
            assert!(before == Some(at.node()), "a chain stays on one memory node: {before:?} then {at}");
        }
        self.requests.push(Request { at, link, op });
        self.requests.len() - 1
    }

    #[inline]
    pub(crate) fn push_write(&mut self, at: Address, link: ChainFlag, data: &[u8], immediate: Option<u32>) {
        let start = self.payload.len();
        self.payload.extend_from_slice(data);
        self.push(at, link, Op::Write { data: start..self.payload.len(), immediate });
    }

    /// Takes the bytes that READ number `index` fetched.
    #[inline]
    pub(crate) fn take_read(&mut self, index: usize) -> Buffer {
        match &mut self.requests[index].op {
            Op::Read { into } => std::mem::take(into),
            _ => unreachable!("the ticket of a READ names a READ"),
        }
    }

    /// The previous word of atomic number `index`.
    #[inline]
    pub(crate) fn old(&self, index: usize) -> u64 {
        match self.requests[index].op {
            Op::Cas { old, .. } | Op::MaskedCas { old, .. } | Op::Faa { old, .. } => old,
            _ => unreachable!("the ticket of an atomic names an atomic"),
        }
    }

    #[inline]
    pub(crate) fn clear(&mut self) {
        self.requests.clear();
        self.payload.clear();
    }
}

/// A client's idle doorbells, kept so that a post allocates nothing.
#[derive(Clone, Default)]
pub struct DoorbellPool(Rc<RefCell<Vec<Doorbell>>>);

impl DoorbellPool {
    /// Takes an empty doorbell.
    #[inline]
    pub(crate) fn take(&self) -> Doorbell {
        self.0.borrow_mut().pop().unwrap_or_default()
    }

    /// Clears `doorbell` and keeps it for reuse.
    #[inline]
    pub(crate) fn put(&self, mut doorbell: Doorbell) {
        doorbell.clear();
        self.0.borrow_mut().push(doorbell);
    }
}
