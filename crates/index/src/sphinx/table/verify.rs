//! Verifies the tables of an index that no client changes against the nodes of the tree.

use super::layout::{BucketHeader, DepthPointer, RawSubtable, TableEntry, is_header, word};
use super::{EntryTarget, EntryWord, TableOp};
use crate::error::IndexError;
use crate::memory::owned::ReachedChunks;
use crate::radix::inner::NodeHeader;
use crate::radix::reverse::Reverse;
use crate::radix::tree::copy::read_front;
use crate::radix::tree::{NodeHandle, RadixReport, TableStatistics};
use farwood_fabric::{Fabric, NodeId};
use std::collections::{BTreeMap, BTreeSet};

/// State of a verification.
struct Verifier<'n, 'r> {
    /// The entries that must exist and were not seen yet, by memory node and word.
    missing: BTreeMap<(u16, u64), &'n NodeHandle>,
    /// Addresses of the nodes of the tree.
    nodes: BTreeSet<u64>,
    census: TableStatistics,
    reached: &'r mut ReachedChunks,
    report: &'r mut RadixReport,
}

/// A subtable according to the directory.
#[derive(Clone, Copy)]
struct ListedSubtable {
    home: NodeId,
    pointer: DepthPointer<RawSubtable>,
    /// Highest bits of the hashes in it.
    upper: u64,
}

impl<F: Fabric> TableOp<'_, F> {
    /// Checks every entry of every table: each node of the tree has one at its position, and there are no other
    /// entries. Missing and stale entries are unfinished changes; an entry of a live node that is not in the tree is a
    /// problem. [3 RT for each memory node, 1 for each subtable and for each unexpected entry]
    pub(in crate::sphinx) async fn verify(
        self,
        nodes: &[NodeHandle],
        reached: &mut ReachedChunks,
        report: &mut RadixReport,
    ) -> Result<TableStatistics, IndexError> {
        let mut missing = BTreeMap::new();
        for node in nodes {
            let position = self.table.position(node.prefix);
            missing.insert((position.home.0, TableEntry::new(position, node).word()), node);
        }
        let nodes = nodes.iter().map(|node| node.node.at.word()).collect();
        let mut verifier = Verifier { missing, nodes, census: TableStatistics::default(), reached, report };
        for home in (0..self.table.nodes()).map(NodeId) {
            self.verify_table(home, &mut verifier).await?;
        }
        let Verifier { missing, census, report, .. } = verifier;
        report.unfinished_changes += missing.len() as u64;
        Ok(census)
    }

    /// Checks the table of a memory node.
    async fn verify_table(self, home: NodeId, verifier: &mut Verifier<'_, '_>) -> Result<(), IndexError> {
        let directory = self.read_directory(home).await?;
        verifier.reached.add(directory.at);
        verifier.census.bytes += (16 << directory.depth) - 8;
        let mut seen = BTreeSet::new();
        let mut number = 0;
        while number < directory.words.len() as u64 {
            let at = directory.words[number as usize];
            let Some(pointer) =
                DepthPointer::<RawSubtable>::from_word(at).filter(|at| at.depth <= directory.depth)
            else {
                verifier.report.problem(directory.at, format!("directory word {number} holds {at:#x}"));
                break;
            };
            let upper = number >> (directory.depth - pointer.depth);
            let range = directory.range(pointer.depth, upper);
            let differ = directory.words[range.clone()].iter().any(|word| *word != at);
            if differ || !seen.insert(pointer.at.word()) {
                let what =
                    format!("directory words {} to {} do not point to one subtable", range.start, range.end);
                verifier.report.problem(directory.at, what);
            }
            self.verify_subtable(ListedSubtable { home, pointer, upper }, verifier).await?;
            number = range.end as u64;
        }
        Ok(())
    }

    async fn verify_subtable(
        self,
        ListedSubtable { home, pointer, upper }: ListedSubtable,
        verifier: &mut Verifier<'_, '_>,
    ) -> Result<(), IndexError> {
        let table = self.table;
        let bytes = self.read_subtable(pointer.at).await?;
        verifier.reached.add(pointer.at);
        verifier.census.subtables += 1;
        verifier.census.bytes += bytes.len() as u64;
        let header = BucketHeader::new(table.number, pointer.depth, upper);
        let mut settled = true;
        for number in 0..bytes.len() / 8 {
            let found = word(&bytes, number);
            if is_header(number) {
                settled &= found == header.word();
                if !BucketHeader::from_word(found).is_of_split(header) {
                    verifier.report.problem(pointer.at, format!("the header in word {number} is {found:#x}"));
                }
                continue;
            }
            verifier.census.entries_max += 1;
            let Some(entry) = TableEntry::from_word(found) else { continue };
            verifier.census.entries += 1;
            let expected = verifier.missing.get(&(home.0, found)).is_some_and(|node| {
                let position = table.position(node.prefix);
                header.covers(position) && position.reaches(table.groups_log2, number)
            });
            if expected {
                verifier.missing.remove(&(home.0, found));
                continue;
            }
            verifier.report.unfinished_changes += 1;
            let at = EntryWord { home, number, entry };
            if let Some(problem) = self.problem_of_entry(at, &verifier.nodes).await? {
                verifier.report.problem(pointer.at, problem);
            }
        }
        verifier.report.unfinished_changes += u64::from(!settled);
        Ok(())
    }

    /// Describes the problem of an unexpected entry; `None` if the entry is merely stale.
    async fn problem_of_entry(
        self,
        at: EntryWord,
        nodes: &BTreeSet<u64>,
    ) -> Result<Option<String>, IndexError> {
        let number = at.number;
        let Some(node) = at.entry.node().map(|node| node.at) else {
            return Ok(Some(format!("the address of entry {number} is outside of the pool")));
        };
        let copy = self.client.post(read_front(node)).await?.whole_words();
        let (header, hash) = (NodeHeader::from_word(word(&copy, 0)), word(&copy, 2));
        let is_live = matches!(self.table.target_of(at, header, hash), EntryTarget::Node(_));
        let is_linked = Reverse::from_word(word(&copy, 1)).is_linked();
        let is_problem = is_live && is_linked && !nodes.contains(&node.word());
        Ok(is_problem.then(|| format!("entry {number} leads to {node}, which is not in the tree")))
    }
}
