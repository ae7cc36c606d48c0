//! Trees that are broken on purpose, so that tests can tell whether they would notice.
//!
//! No preset and no directory entry sets these: only `Sherman::sabotage`, which no program but a test calls. An intact
//! tree pays one predictable branch, on a path that posts.

/// What is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    /// Locks come free before what they guard is written back.
    UnlockFirst,
    /// A copy is believed whatever its rear version says.
    NoRearVersion,
    /// Catfish: a copy is believed whatever its front version says.
    NoFrontVersion,
    /// A leaf is believed to cover the key.
    NoFenceCheck,
    /// A leaf is believed to cover the key if the cache led to it.
    CacheBelieved,
    /// A torn entry is one that is not there.
    TornIsAbsent,
    /// A lock is broken because time has passed.
    LeaseExpires,
    /// A scan does not look where the next leaf begins.
    ScanBlind,
    /// A merge does not mark the node that goes.
    MergeUnmarked,
    /// What lies behind a link is believed to be what was linked.
    ExtentBelieved,
    /// A key is believed not to be there whatever the age of the copy that says so (SMART).
    MissBelieved,
    /// A leaf is believed to be linked wherever a slot once pointed to it (SMART).
    NoReverseCheck,
    /// A cached copy's slot without a child is believed to have none (SMART).
    GapsPassed,
    /// Who wants what another client is just doing takes what comes of that (SMART as published).
    SharesLate,
    /// An entry of the hash table is believed to lead to the node that was looked for (Sphinx).
    EntryBelieved,
    /// Nobody looks again at what it has entered in a hash table (Sphinx).
    EntryUnconfirmed,
    /// New nodes are not entered in the hash tables (Sphinx).
    EntryForgotten,
    /// Nothing, but that all entries of a hash table have one of two prints (Sphinx).
    PrintsNarrow,
    /// Nothing, but that no hash table grows beyond two subtables (Sphinx).
    TablesShallow,
    /// Nothing, but that the versions of new nodes and of their entries begin just below where they wrap.
    VersionsHigh,
    /// Catfish: a node that is there is believed to be the one that its reference names.
    GenerationIgnored,
    /// Catfish: a room is used again with the generation of the node that was there.
    GenerationStays,
    /// Catfish: a line keeps its version while its bytes are changed.
    LineNotWithdrawn,
    /// Catfish: a message that was consumed stays in its ring.
    ConsumedStays,
    /// Catfish: the new root is stored before the nodes that it leads to.
    RootFirst,
}
