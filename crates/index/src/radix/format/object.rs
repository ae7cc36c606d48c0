//! The types and sizes of the objects that a radix tree keeps in remote memory: inner nodes and leaves.

use crate::radix::key::KEY_BYTES_MAX;
use farwood_fabric::Remote;

/// Type of an inner node in remote memory ([`inner`](super::inner) has its format).
#[derive(Debug)]
pub enum RawInner {}

/// Type of a leaf in remote memory, with its whole slot ([`leaf`](super::leaf) has its format).
#[derive(Debug)]
pub enum RawLeaf {}

/// The number of slots of an inner node, and their order. A node of the first four sizes never changes its size. A
/// *typed* node has memory for 256 slots, of which the first are in use; its size is its type, which only grows (SMART,
/// "homogeneous adaptive nodes"). A node of type *n* has *n* slots and a *last* one: the client that fills the last
/// slot changes the type (`tree/grow.rs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the sizes have these names")]
pub enum NodeSize {
    Four,
    Sixteen,
    FortyEight,
    All,
    Typed4,
    Typed8,
    Typed16,
    Typed32,
    Typed64,
    Typed128,
    Typed256,
}

/// Bytes of an inner node of fixed size besides its partial keys' slots: header, reverse pointer, hash, slot 0, rear.
pub(super) const INNER_FIXED_BYTES: usize = 40;
/// Bytes of a typed node before the slots of its partial keys: header, reverse pointer, hash, slot 0.
const TYPED_FRONT_BYTES: usize = 32;

impl NodeSize {
    /// The sizes of nodes of fixed size, the smallest first.
    pub const FIXED: [Self; 4] = [Self::Four, Self::Sixteen, Self::FortyEight, Self::All];

    /// The types of typed nodes, the smallest first.
    pub const TYPED: [Self; 7] = [
        Self::Typed4,
        Self::Typed8,
        Self::Typed16,
        Self::Typed32,
        Self::Typed64,
        Self::Typed128,
        Self::Typed256,
    ];

    /// Slots in use, without the slot of the key that ends at the node.
    #[inline]
    pub const fn slots(self) -> usize {
        match self {
            Self::Four => 4,
            Self::Typed4 => 5,
            Self::Typed8 => 9,
            Self::Sixteen => 16,
            Self::Typed16 => 17,
            Self::Typed32 => 33,
            Self::FortyEight => 48,
            Self::Typed64 => 65,
            Self::Typed128 => 129,
            Self::All | Self::Typed256 => 256,
        }
    }

    /// Children with partial keys of a new node of this size.
    const fn children_max(self) -> usize {
        match self.next_in_place() {
            Some(_) => self.slots() - 1,
            None => self.slots(),
        }
    }

    /// Whether this is the type of a node that grows in place.
    #[inline]
    pub const fn is_typed(self) -> bool {
        self as u8 >= Self::Typed4 as u8
    }

    /// Bytes that a client reads of a node.
    #[inline]
    pub const fn bytes(self) -> usize {
        if self.is_typed() { Self::typed_bytes(self.slots()) } else { INNER_FIXED_BYTES + 8 * self.slots() }
    }

    const fn typed_bytes(slots: usize) -> usize {
        TYPED_FRONT_BYTES + 8 * slots
    }

    /// Bytes of memory that a node occupies.
    pub const fn memory_bytes(self) -> usize {
        self.largest_in_place().bytes()
    }

    /// The size to which a node can grow in place.
    #[must_use]
    pub const fn largest_in_place(self) -> Self {
        if self.is_typed() { Self::Typed256 } else { self }
    }

    /// The next type of a node that grows in place; `None` if the node cannot grow in place.
    pub const fn next_in_place(self) -> Option<Self> {
        if self.is_typed() { Self::of_number(self as u8 + 1) } else { None }
    }

    /// The next type of a node that grows in place; otherwise the same size.
    #[must_use]
    pub fn next_or_same(self) -> Self {
        self.next_in_place().unwrap_or(self)
    }

    /// Fewest keys below a node whose size fits its children.
    pub const fn keys_min(self) -> usize {
        match self {
            Self::Four => 2,
            Self::Sixteen => 1 + Self::Four.slots(),
            Self::FortyEight => 1 + Self::Sixteen.slots(),
            Self::All => 1 + Self::FortyEight.slots(),
            typed => 1 + typed.slots() / 4,
        }
    }

    /// The smallest of `sizes` that holds `children` children besides the key that ends at the node.
    fn smallest(sizes: &[Self], children: usize) -> Self {
        let fits = sizes.iter().find(|size| children <= size.children_max());
        *fits.unwrap_or(&sizes[sizes.len() - 1])
    }

    /// The smallest fixed size that holds `children` children besides the key that ends at the node.
    pub fn fitting(children: usize) -> Self {
        Self::smallest(&Self::FIXED, children)
    }

    /// The smallest type that holds `children` children besides the key that ends at the node.
    pub fn typed(children: usize) -> Self {
        Self::smallest(&Self::TYPED, children)
    }

    /// The size of a node of fixed size that has that many bytes.
    pub fn of_bytes(bytes: usize) -> Option<Self> {
        Self::FIXED.into_iter().find(|size| size.bytes() == bytes)
    }

    /// The size with this number in slots.
    pub const fn of_number(number: u8) -> Option<Self> {
        Some(match number {
            0 => Self::Four,
            1 => Self::Sixteen,
            2 => Self::FortyEight,
            3 => Self::All,
            4 => Self::Typed4,
            5 => Self::Typed8,
            6 => Self::Typed16,
            7 => Self::Typed32,
            8 => Self::Typed64,
            9 => Self::Typed128,
            10 => Self::Typed256,
            _ => return None,
        })
    }
}

/// Bytes of a leaf before its key.
pub(super) const LEAF_HEADER_BYTES: usize = 32;
/// Bytes of a leaf's lock word.
pub(super) const LOCK_BYTES: usize = 8;
/// Number of leaf sizes of each grain.
pub const CLASSES: usize = 32;
/// Bytes of the leaf sizes, by grain.
const CLASS_BYTES: [[usize; CLASSES]; 2] = [
    [
        48, 56, 64, 72, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1024, 1280,
        1536, 1792, 2048, 2560, 3072, 3584, 4096, 5120, 6144, 7168, 8192,
    ],
    [
        64, 128, 192, 256, 320, 384, 448, 512, 576, 640, 704, 768, 832, 896, 960, 1024, 1152, 1280, 1408,
        1536, 1664, 1792, 1920, 2048, 2560, 3072, 3584, 4096, 5120, 6144, 7168, 8192,
    ],
];
/// Bytes of the largest leaf.
pub const LEAF_BYTES_MAX: usize = CLASS_BYTES[0][CLASSES - 1];
/// Maximum bytes of key and value together in one leaf.
pub const ENTRY_BYTES_MAX: usize = LEAF_BYTES_MAX - LEAF_HEADER_BYTES - LOCK_BYTES;

/// Unit of the leaf sizes of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeafGrain {
    /// Words: a leaf is at most a quarter larger than its entry.
    Words = 0,
    /// Lines of 64 bytes (Sphinx §IV, "LeafLen").
    Lines = 1,
}

impl LeafGrain {
    /// Both grains.
    pub const ALL: [Self; 2] = [Self::Words, Self::Lines];
}

/// Size class of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LeafClass {
    grain: LeafGrain,
    number: u8,
}

impl LeafClass {
    /// All classes of a grain, the smallest first.
    pub fn all(grain: LeafGrain) -> impl Iterator<Item = Self> {
        (0..CLASSES as u8).map(move |number| Self { grain, number })
    }

    /// The smallest class for a key and a value of these lengths; `None` if no class is large enough.
    #[inline]
    pub fn for_entry(grain: LeafGrain, key_bytes: usize, value_bytes: usize) -> Option<Self> {
        let bytes = LEAF_HEADER_BYTES + key_bytes + value_bytes + LOCK_BYTES;
        let at = CLASS_BYTES[grain as usize].partition_point(|&class| class < bytes);
        (at < CLASSES).then_some(Self { grain, number: at as u8 })
    }

    /// The class of a leaf with that number of bytes.
    pub fn of_bytes(grain: LeafGrain, bytes: usize) -> Option<Self> {
        Self::all(grain).find(|class| class.bytes() == bytes)
    }

    /// The class with this number in slots; only the lowest 5 bits are used.
    #[inline]
    pub const fn of_number(grain: LeafGrain, number: u8) -> Self {
        Self { grain, number: number & (CLASSES as u8 - 1) }
    }

    /// Unit of the class.
    #[inline]
    pub const fn grain(self) -> LeafGrain {
        self.grain
    }

    /// Number among the classes of its grain.
    #[inline]
    pub const fn number(self) -> u8 {
        self.number
    }

    /// Bytes of a leaf.
    #[inline]
    pub const fn bytes(self) -> usize {
        CLASS_BYTES[self.grain as usize][self.number as usize]
    }
}

/// Address and size of an inner node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InnerRef {
    /// Address.
    pub at: Remote<RawInner>,
    /// Size of the node.
    pub size: NodeSize,
}

/// Address and size class of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeafRef {
    /// Address.
    pub at: Remote<RawLeaf>,
    /// Size class.
    pub class: LeafClass,
}

const _: () = assert!(NodeSize::Four.bytes() == 72 && NodeSize::All.bytes() == 2088);
const _: () = assert!(NodeSize::Typed4.bytes() == 72 && NodeSize::Typed256.bytes() == 2080);
const _: () = assert!(KEY_BYTES_MAX <= u16::MAX as usize && KEY_BYTES_MAX < ENTRY_BYTES_MAX);
