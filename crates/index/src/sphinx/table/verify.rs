//! What the tables hold when nobody changes them, against the nodes of the tree.

use super::layout::{Deep, Entry, Header, RawSubtable, is_header, word};
use super::{HashTable, Leads, front};
use crate::error::IndexError;
use crate::radix::inner;
use crate::radix::reverse::Reverse;
use crate::radix::tree::{Census, Sign, Walk};
use farwood_fabric::{Client, Fabric, NodeId};
use std::collections::{BTreeMap, BTreeSet};

impl HashTable {
    /// Looks at every entry of every table: each node of the tree has one, at its spot, and there are no others. What
    /// is missing or leads nowhere is unsettled; what leads to a node that lives and is not in the tree is wrong.
    /// [3 RT for each memory node, 1 for each subtable and each entry that leads elsewhere]
    pub(in crate::sphinx) async fn check<F: Fabric>(
        &self,
        client: &Client<F>,
        signs: &[Sign],
        walk: &mut Walk,
    ) -> Result<Census, IndexError> {
        let mut wanted: BTreeMap<(u16, u64), &Sign> = BTreeMap::new();
        for sign in signs {
            let spot = self.spot(sign.prefix);
            wanted.insert((spot.home.0, Entry::new(spot, sign).word()), sign);
        }
        let nodes: BTreeSet<u64> = signs.iter().map(|sign| sign.node.word()).collect();
        let mut census = Census::default();
        for home in (0..client.fabric().shape().nodes).map(NodeId) {
            let directory = self.refresh(client, home).await?;
            census.bytes += (16 << directory.depth) - 8;
            let mut seen = BTreeSet::new();
            let mut upper = 0;
            while upper < directory.words.len() as u64 {
                let at = directory.words[upper as usize];
                let Some(subtable) =
                    Deep::<RawSubtable>::from_word(at).filter(|at| at.depth <= directory.depth)
                else {
                    walk.problem(directory.at, format!("directory word {upper} holds {at:#x}"));
                    break;
                };
                let range = directory.range(subtable.depth, upper >> (directory.depth - subtable.depth));
                if directory.words[range.clone()].iter().any(|word| *word != at)
                    || !seen.insert(subtable.at.word())
                {
                    walk.problem(directory.at, format!("directory words {range:?} are not one subtable's"));
                }
                let bits = upper >> (directory.depth - subtable.depth);
                self.check_subtable(
                    client,
                    (home, subtable, bits),
                    (&nodes, &mut wanted),
                    (&mut census, walk),
                )
                .await?;
                upper = range.end as u64;
            }
        }
        walk.unsettled += wanted.len() as u64;
        Ok(census)
    }

    async fn check_subtable<F: Fabric>(
        &self,
        client: &Client<F>,
        (home, subtable, bits): (NodeId, Deep<RawSubtable>, u64),
        (nodes, wanted): (&BTreeSet<u64>, &mut BTreeMap<(u16, u64), &Sign>),
        (census, walk): (&mut Census, &mut Walk),
    ) -> Result<(), IndexError> {
        let bytes = self.read_subtable(client, subtable.at).await?;
        census.subtables += 1;
        census.bytes += bytes.len() as u64;
        let header = Header::new(self.number, subtable.depth, bits);
        let mut settled = true;
        for number in 0..bytes.len() / 8 {
            let found = word(&bytes, number);
            if is_header(number) {
                settled &= found == header.word();
                continue;
            }
            census.entries_max += 1;
            let Some(entry) = Entry::from_word(found) else { continue };
            census.entries += 1;
            let sign = wanted.get(&(home.0, found)).copied().filter(|sign| {
                let spot = self.spot(sign.prefix);
                header.covers(spot) && spot.reaches(self.groups_log2, number)
            });
            if sign.is_some() {
                wanted.remove(&(home.0, found));
                continue;
            }
            walk.unsettled += 1;
            let Some((node, _)) = entry.node() else {
                walk.problem(subtable.at, format!("entry {number} leads to no memory"));
                continue;
            };
            let Ok(copy) = client.post(front(node)).await?.check(&()) else {
                unreachable!("words are whole")
            };
            let (node_header, hash) = (inner::Header::from_word(word(&copy, 0)), word(&copy, 2));
            let lives = matches!(self.leads((entry, number, home), node_header, hash), Leads::To(_));
            let linked = Reverse::from_word(word(&copy, 1)).is_linked();
            if lives && linked && !nodes.contains(&node.word()) {
                walk.problem(
                    subtable.at,
                    format!("entry {number} leads to {node}, which is not in the tree"),
                );
            }
        }
        walk.unsettled += u64::from(!settled);
        Ok(())
    }
}
