//! Verification: visits all nodes of a tree that no client changes, and checks every invariant.
//!
//! * every node is the one that its reference names, is not torn, and belongs to the index;
//! * the level of a child is one below that of its parent, and leaves are level 0;
//! * a node other than the root holds at least one entry and at most M, an inner root at least 2; nodes with fewer than
//!   m entries, from which a removal in a full pool took one, are counted;
//! * the bounds of a node, in its parent and in its head, are those of its entries, which are rectangles;
//! * no slot holds two nodes of the tree;
//! * in an index with records, the tree by id (`verify_records.rs`);
//! * the chunk table of the pool gives the index the chunks that its head and nodes are in.

use super::Catfish;
use super::head::{ENTRIES, RING_CHUNKS, RING_CHUNKS_MAX, ROOT, word_of};
use super::tree::change::CHANGES_MAX;
use super::tree::layout::{Entry, ExpectedNode, NodeRef, RawNode, damage_of, entry_of, head_of};
use super::tree::rectangle::Rectangle;
use super::verify_records::ItemKey;
use crate::error::IndexError;
use crate::memory::owned::ReachedChunks;
use farwood_fabric::chunks::CHUNK_BYTES;
use farwood_fabric::{Checked, Client, ClientId, Fabric, Memory, Remote, Words, read, read_bytes};
use std::collections::BTreeSet;
use std::fmt;

/// READs of a node before it counts as damaged. No client changes the tree.
const TRIES_MAX: usize = 100;
/// Maximum number of reported violations.
const PROBLEMS_MAX: usize = 1000;

/// A violated invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatfishProblem {
    /// Address of the node or of the head.
    pub at: String,
    /// The violation.
    pub what: String,
}

impl fmt::Display for CatfishProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.at, self.what)
    }
}

/// The result of a verification.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CatfishReport {
    /// Nodes of each level, leaves first.
    pub nodes: Vec<u64>,
    /// Entries of all leaves.
    pub entries: u64,
    /// Records of the tree by id; 0 in an index without records.
    pub records: u64,
    /// Entries that the leaves can hold.
    pub capacity: u64,
    /// Nodes other than the root with fewer entries than an R*-tree demands: items were removed from them while the
    /// pool was full. The next removal in such a node dissolves it, if the pool has free slots.
    pub underfull: u64,
    /// The bounds of all entries.
    pub bounds: Option<Rectangle>,
    /// The compute node that holds the lease; it may have crashed.
    pub server: Option<ClientId>,
    /// Violated invariants; at most 1000 are listed.
    pub problems: Vec<CatfishProblem>,
}

pub(super) struct Verifier<'w, F> {
    pub(super) tree: &'w Catfish,
    pub(super) client: &'w Client<F>,
    pub(super) seen: BTreeSet<u64>,
    pub(super) reached: ReachedChunks,
    pub(super) report: CatfishReport,
    /// The items of the R*-tree, in an index with records.
    items: Vec<ItemKey>,
}

/// A node to visit, with the level of its parent and its bounds there.
#[derive(Clone, Copy)]
struct Expected {
    node: NodeRef,
    below: Option<u8>,
    bounds: Option<Rectangle>,
}

impl Catfish {
    /// Visits all nodes of the tree, and checks every invariant. No client may change the tree during the call. [1 RT
    /// for each node, 4, 2 for each memory node, and 1 for each 128 of its chunks]
    ///
    /// # Errors
    /// The errors of the fabric. Violations are in the [`CatfishReport`].
    pub async fn walk<F: Fabric>(&self, client: &Client<F>) -> Result<CatfishReport, IndexError> {
        let report = CatfishReport::default();
        let mut verifier = Verifier {
            tree: self,
            client,
            seen: BTreeSet::new(),
            reached: ReachedChunks::default(),
            report,
            items: Vec::new(),
        };
        let word = async |offset| {
            let word = client.post(read(word_of(self.head, offset))).await?;
            Ok::<_, IndexError>(word.whole_word())
        };
        verifier.report.server = self.lease.holder(client).await?;
        let root = word(ROOT).await?;
        let Some(root) = NodeRef::from_word(root) else {
            verifier.note(&self.head.to_string(), format!("the root is {root:#x}"));
            return Ok(verifier.report);
        };
        let mut stack = vec![Expected { node: root, below: None, bounds: None }];
        while let Some(expected) = stack.pop() {
            verifier.visit(expected, &mut stack).await?;
        }
        if self.ids.is_unique() {
            let items = std::mem::take(&mut verifier.items);
            verifier.check_records(items).await?;
        }
        let (noted, found) = (word(ENTRIES).await?, verifier.report.entries);
        // A server that crashes after it has stored the root leaves the count of the commit before.
        if noted != 0 && noted.abs_diff(found) > CHANGES_MAX as u64 {
            verifier.note(&self.head.to_string(), format!("the head counts {noted} entries of {found}"));
        }
        verifier.reached.add(self.head);
        verifier.check_ring_chunks().await?;
        for (at, what) in verifier.reached.problems(client, self.entry.slot).await? {
            verifier.note(&at, what);
        }
        Ok(verifier.report)
    }
}

/// The bounds of a node, for a report.
fn shown(bounds: Option<Rectangle>) -> String {
    bounds.map_or_else(|| "no bounds".to_owned(), |bounds| format!("the bounds {bounds}"))
}

impl<F: Fabric> Verifier<'_, F> {
    pub(super) fn note(&mut self, at: &str, what: String) {
        if self.report.problems.len() < PROBLEMS_MAX {
            self.report.problems.push(CatfishProblem { at: at.to_owned(), what });
        }
    }

    /// Checks the words of the head that list the chunks of rings: each is 0, or the start of a chunk. [1 RT]
    async fn check_ring_chunks(&mut self) -> Result<(), IndexError> {
        let head = self.tree.head;
        let words =
            self.client.post(read_bytes(head.part::<Words>(RING_CHUNKS), 8 * RING_CHUNKS_MAX)).await?;
        let Ok(words) = words.check(&()) else { unreachable!("words are never torn") };
        for (number, start) in
            words.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).enumerate()
        {
            let is_start =
                start.is_multiple_of(CHUNK_BYTES) && start < self.client.fabric().shape().host_bytes;
            match Remote::<[u8]>::new(head.address().node(), Memory::Host, start).filter(|_| is_start) {
                Some(chunk) => self.reached.add(chunk),
                None if start == 0 => {}
                None => self.note(&head.to_string(), format!("its chunk {number} of rings is at {start:#x}")),
            }
        }
        Ok(())
    }

    pub(super) async fn fetch(&self, node: NodeRef) -> Result<Option<Checked<RawNode>>, IndexError> {
        let layout = &self.tree.layout;
        let expected = ExpectedNode { node, scheme: layout.scheme, mutant: None };
        for _ in 0..TRIES_MAX {
            let copy = self.client.post(read_bytes(layout.at(node), layout.node_bytes())).await?;
            if let Ok(copy) = copy.check(&expected) {
                return Ok(Some(copy));
            }
            self.client.fabric().sleep(0).await;
        }
        Ok(None)
    }

    async fn visit(&mut self, expected: Expected, stack: &mut Vec<Expected>) -> Result<(), IndexError> {
        let layout = self.tree.layout;
        let at = layout.at(expected.node).to_string();
        if !self.seen.insert(expected.node.offset()) {
            self.note(&at, "it has two parents".to_owned());
            return Ok(());
        }
        let Some(copy) = self.fetch(expected.node).await? else {
            self.note(&at, format!("it is not {}, or not whole", expected.node));
            return Ok(());
        };
        self.reached.add(layout.at(expected.node));
        let words: &[u8] = &copy;
        if let Some(what) = damage_of(words) {
            self.note(&at, what);
        }
        let head = head_of(&words);
        if let Some(what) = head.contradiction(&layout, expected.below) {
            self.note(&at, what);
            return Ok(());
        }
        let entries: Vec<_> = (0..head.entries).map(|entry| entry_of(&words, entry)).collect();
        self.check_node(&at, expected, (head.level, head.bounds), &entries);
        self.count(head.level, &entries);
        if head.level == 0 && self.tree.ids.is_unique() {
            let key = |entry: &Entry| (entry.word, entry.bounds.edges().map(f64::to_bits));
            self.items.extend(entries.iter().map(key));
        }
        if head.level > 0 {
            for (position, entry) in entries.iter().enumerate() {
                match NodeRef::from_word(entry.word) {
                    Some(node) => {
                        let below = Some(head.level);
                        stack.push(Expected { node, below, bounds: Some(entry.bounds) });
                    }
                    None => self.note(&at, format!("child {position} is {:#x}", entry.word)),
                }
            }
        }
        Ok(())
    }

    /// Checks the head of a node against its parent and its entries.
    fn check_node(
        &mut self,
        at: &str,
        expected: Expected,
        (level, bounds): (u8, Option<Rectangle>),
        entries: &[Entry],
    ) {
        let is_root = expected.below.is_none();
        let least = match (is_root, level) {
            (false, _) => 1,
            (true, 0) => 0,
            (true, _) => 2,
        };
        if entries.len() < least {
            self.note(at, format!("{} entries, fewer than {least}", entries.len()));
        }
        self.report.underfull += u64::from(!is_root && entries.len() < self.tree.layout.entries_least());
        let actual = Rectangle::around(entries.iter().map(|entry| &entry.bounds));
        let broken = |entry: &&Entry| Rectangle::new(entry.bounds.min(), entry.bounds.max()).is_err();
        if let Some(broken) = entries.iter().find(broken) {
            self.note(at, format!("{} is not a rectangle", broken.bounds));
        }
        if bounds != actual {
            self.note(at, format!("its entries have {}, its head {}", shown(actual), shown(bounds)));
        }
        if !is_root && expected.bounds != actual {
            self.note(
                at,
                format!("its entries have {}, its parent {}", shown(actual), shown(expected.bounds)),
            );
        }
        if is_root {
            self.report.bounds = actual;
        }
    }

    fn count(&mut self, level: u8, entries: &[Entry]) {
        let level = usize::from(level);
        if self.report.nodes.len() <= level {
            self.report.nodes.resize(level + 1, 0);
        }
        self.report.nodes[level] += 1;
        if level == 0 {
            self.report.entries += entries.len() as u64;
            self.report.capacity += self.tree.layout.entries_max() as u64;
        }
    }
}
