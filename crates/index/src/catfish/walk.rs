//! The walker: visits a whole tree at rest and checks every invariant.
//!
//! * every node is the one that its reference names, whole, and of the index;
//! * children lie one level below their parent, and leaves are level 0;
//! * a node but the root holds at least m entries and at most M, an inner root at least 2;
//! * the bounds that a parent has of a node, and the node of itself, are those of its entries, which are rectangles;
//! * no room has two nodes of the tree.

use super::Catfish;
use super::head::{ENTRIES, ROOT, word_of};
use super::layout::{Entry, NodeRef, RawNode, Sought, entry_of, head_of};
use super::rectangle::Rectangle;
use crate::error::IndexError;
use farwood_fabric::{Checked, Client, ClientId, Fabric, read, read_bytes};
use std::collections::BTreeSet;
use std::fmt;

/// Tries at a node before it counts as damaged: nobody changes the tree.
const TRIES_MAX: usize = 100;
/// Problems that are reported one by one.
const PROBLEMS_MAX: usize = 1000;

/// A violated invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where: a node, or the head.
    pub at: String,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.at, self.what)
    }
}

/// What the walker saw.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Walk {
    /// Nodes of each level, leaves first.
    pub nodes: Vec<u64>,
    /// Entries of all leaves.
    pub entries: u64,
    /// Entries that the leaves have room for.
    pub room: u64,
    /// The bounds of everything.
    pub bounds: Option<Rectangle>,
    /// Who serves the index, or did and is gone.
    pub server: Option<ClientId>,
    /// Violated invariants; at most 1000 are listed.
    pub problems: Vec<Problem>,
}

struct Walker<'w, F> {
    tree: &'w Catfish,
    client: &'w Client<F>,
    seen: BTreeSet<u64>,
    walk: Walk,
}

/// A node to visit, and what its parent says of it.
#[derive(Clone, Copy)]
struct Expected {
    node: NodeRef,
    level: Option<u8>,
    bounds: Option<Rectangle>,
}

impl Catfish {
    /// Walks the tree, which nobody changes meanwhile, and checks every invariant. [1 RT for each node, and 3]
    ///
    /// # Errors
    /// The fabric's. What is wrong with the tree is in the [`Walk`].
    pub async fn walk<F: Fabric>(&self, client: &Client<F>) -> Result<Walk, IndexError> {
        let mut walker = Walker { tree: self, client, seen: BTreeSet::new(), walk: Walk::default() };
        let word = async |offset| {
            let word = client.post(read(word_of(self.head, offset))).await?;
            let Ok(word) = word.check(&()) else { unreachable!("words are whole") };
            Ok::<_, IndexError>(word.word())
        };
        walker.walk.server = self.office.holder(client).await?;
        let root = word(ROOT).await?;
        let Some(root) = NodeRef::from_word(root) else {
            walker.note(&self.head.to_string(), format!("the root is {root:#x}"));
            return Ok(walker.walk);
        };
        let mut way = vec![Expected { node: root, level: None, bounds: None }];
        while let Some(expected) = way.pop() {
            walker.visit(expected, &mut way).await?;
        }
        let (noted, found) = (word(ENTRIES).await?, walker.walk.entries);
        if noted != 0 && noted != found {
            walker.note(&self.head.to_string(), format!("the head counts {noted} entries of {found}"));
        }
        Ok(walker.walk)
    }
}

impl<F: Fabric> Walker<'_, F> {
    fn note(&mut self, at: &str, what: String) {
        if self.walk.problems.len() < PROBLEMS_MAX {
            self.walk.problems.push(Problem { at: at.to_owned(), what });
        }
    }

    async fn fetch(&self, node: NodeRef) -> Result<Option<Checked<RawNode>>, IndexError> {
        let layout = &self.tree.layout;
        let sought = Sought { node, scheme: layout.scheme, sabotage: None };
        for _ in 0..TRIES_MAX {
            let copy = self.client.post(read_bytes(layout.at(node), layout.node_bytes())).await?;
            if let Ok(copy) = copy.check(&sought) {
                return Ok(Some(copy));
            }
            self.client.fabric().sleep(0).await;
        }
        Ok(None)
    }

    async fn visit(&mut self, expected: Expected, way: &mut Vec<Expected>) -> Result<(), IndexError> {
        let layout = self.tree.layout;
        let at = layout.at(expected.node).to_string();
        if !self.seen.insert(expected.node.offset()) {
            self.note(&at, "two parents have it".to_owned());
            return Ok(());
        }
        let Some(copy) = self.fetch(expected.node).await? else {
            self.note(&at, format!("it is not {:?}, whole", expected.node));
            return Ok(());
        };
        let words: &[u8] = &copy;
        let head = head_of(&words);
        if head.index != layout.index || head.entries > layout.entries_max() {
            self.note(&at, format!("{} entries of index {}", head.entries, head.index));
            return Ok(());
        }
        let entries: Vec<_> = (0..head.entries).map(|entry| entry_of(&words, entry)).collect();
        self.judge(&at, expected, (head.level, head.bounds), &entries);
        self.count(head.level, &entries);
        if head.level > 0 {
            for (place, entry) in entries.iter().enumerate() {
                match NodeRef::from_word(entry.word) {
                    Some(node) => {
                        let level = head.level.checked_sub(1);
                        way.push(Expected { node, level, bounds: Some(entry.bounds) });
                    }
                    None => self.note(&at, format!("child {place} is {:#x}", entry.word)),
                }
            }
        }
        Ok(())
    }

    /// Checks what a node says against what its parent says and against its entries.
    fn judge(
        &mut self,
        at: &str,
        expected: Expected,
        (level, bounds): (u8, Option<Rectangle>),
        entries: &[Entry],
    ) {
        let is_root = expected.level.is_none();
        let least = match (is_root, level) {
            (false, _) => self.tree.layout.entries_least(),
            (true, 0) => 0,
            (true, _) => 2,
        };
        if entries.len() < least {
            self.note(at, format!("{} entries, fewer than {least}", entries.len()));
        }
        if expected.level.is_some_and(|expected| expected != level) {
            self.note(at, format!("level {level}, and its parent's is not the one above"));
        }
        let real = Rectangle::around(entries.iter().map(|entry| &entry.bounds));
        let broken = |entry: &&Entry| Rectangle::new(entry.bounds.min(), entry.bounds.max()).is_err();
        if let Some(broken) = entries.iter().find(broken) {
            self.note(at, format!("{} is no rectangle", broken.bounds));
        }
        if bounds != real {
            self.note(at, format!("its bounds are {real:?}, it says {bounds:?}"));
        }
        if !is_root && expected.bounds != real {
            self.note(at, format!("its bounds are {real:?}, its parent says {:?}", expected.bounds));
        }
        if is_root {
            self.walk.bounds = real;
        }
    }

    fn count(&mut self, level: u8, entries: &[Entry]) {
        let level = usize::from(level);
        if self.walk.nodes.len() <= level {
            self.walk.nodes.resize(level + 1, 0);
        }
        self.walk.nodes[level] += 1;
        if level == 0 {
            self.walk.entries += entries.len() as u64;
            self.walk.room += self.tree.layout.entries_max() as u64;
        }
    }
}
