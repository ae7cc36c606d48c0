//! Mutants: deliberately broken variants of the indexes, which the tests must detect.
//!
//! No preset and no directory entry selects a mutant, only `Sherman::mutant`, which only tests call. A tree without a
//! mutant executes one predictable branch more, only on paths that post.

/// The defect of a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// Locks are freed before the write-back of the node.
    UnlockFirst,
    /// The rear version of a copy is ignored.
    NoRearVersion,
    /// Catfish: the front version of a copy is ignored.
    NoFrontVersion,
    /// The fences of a leaf are ignored.
    NoFenceCheck,
    /// The fences of a leaf that the cache names are ignored.
    CacheUnchecked,
    /// A torn entry counts as absent.
    TornIsAbsent,
    /// A lock is taken over from a live client after some time.
    LeaseExpires,
    /// A scan does not check where the next leaf begins.
    ScanBlind,
    /// A merge does not mark the node that it removes.
    MergeUnmarked,
    /// A modification is decided with a value that was read under a lock which the client has released since.
    DecidesUnlocked,
    /// The object that a link points to is not checked.
    OverflowUnchecked,
    /// A cached copy without the key proves that the key is absent (SMART).
    MissUnchecked,
    /// The reverse pointer of a leaf is not checked (SMART).
    NoReverseCheck,
    /// An empty slot in a cached copy proves that the node has no such child (SMART).
    GapsPassed,
    /// The size in the slot that points to a node is taken for the number of its slots in use (SMART, typed nodes).
    HintTrusted,
    /// A client that joins a combined request late shares the result of a request that began before its own (SMART as
    /// published).
    SharesLate,
    /// A leaf is not marked before its slot is swapped without a lock (baselines of SMART).
    SwapUnmarked,
    /// A replacement of a node does not freeze the slots with leaves (baselines of SMART).
    SwapUnfrozen,
    /// The node that an entry of the hash table points to is not checked (Sphinx).
    EntryUnchecked,
    /// A slot that was read alone is believed although its node is not live (Sphinx).
    SlotTrusted,
    /// A client does not read its new entry in the hash table again (Sphinx).
    EntryUnconfirmed,
    /// New nodes are not entered in the hash tables (Sphinx).
    EntryForgotten,
    /// No defect, but all entries of a hash table have one of two fingerprints (Sphinx).
    PrintsNarrow,
    /// No defect, but no hash table grows beyond two subtables (Sphinx).
    TablesShallow,
    /// No defect, but the versions of new nodes and of their entries begin just below the wrap-around.
    VersionsHigh,
    /// Catfish: the generation in a reference to a node is ignored.
    GenerationIgnored,
    /// Catfish: a reused slot keeps the generation of the previous node.
    GenerationStays,
    /// Catfish: a line keeps its version while its bytes are changed.
    LineNotWithdrawn,
    /// Catfish: a consumed message stays in its ring.
    ConsumedStays,
    /// Catfish: the new root is stored before its children.
    RootFirst,
    /// Catfish: the root of the tree by id is stored after that of the R*-tree.
    RecordsLater,
}
