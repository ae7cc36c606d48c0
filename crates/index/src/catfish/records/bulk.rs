//! Bulk loading of the tree by id. All functions are pure.

use super::super::tree::draft::fresh;
use super::Record;
use super::draft::RecordDraft;
use super::finished::{FinishedRecords, FreshNode};
use super::node::{RecordNode, StoredRecordNodes};
use super::page::{Child, StoredRecord, bytes_of_records, page_bytes};
use crate::error::IndexError;

impl<S: StoredRecordNodes> RecordDraft<'_, S> {
    /// Fills the empty tree with records in the order of their keys, in nodes that are full to the share `fill` (0 to
    /// 1).
    ///
    /// # Errors
    /// [`IndexError::SameHash`]; as [`StoredRecordNodes::load_node`].
    pub(in crate::catfish) fn load(
        mut self,
        records: Vec<Record>,
        fill: f64,
    ) -> Result<FinishedRecords, IndexError> {
        let layout = self.layout;
        let (root, _) = self.stored.load_node(self.root, None)?;
        self.retired.push(root);
        let page_max = (page_bytes(layout) as f64 * fill) as usize;
        let (mut level, mut page) = (Vec::new(), Vec::<StoredRecord>::new());
        let mut bytes = 0;
        for Record { id, bounds, payload } in records {
            let payload = self.payload(&id, &payload);
            let record = StoredRecord { id, bounds, payload };
            bytes += record.bytes();
            page.push(record);
            if bytes > page_max
                && let Some(last) = last_word(&page)
            {
                let next = page.split_off(last);
                level.push(std::mem::replace(&mut page, next));
                bytes = bytes_of_records(&page);
            }
            if bytes > page_bytes(layout) {
                return Err(IndexError::SameHash);
            }
        }
        level.push(page);
        let mut children: Vec<_> = level
            .into_iter()
            .map(|page| {
                let least = page.first().map_or(0, |first| first.id.word());
                Child { least, word: fresh(self.add(FreshNode::Node(RecordNode::Page(page)))) }
            })
            .collect();
        let per_node = ((layout.entries_max() as f64 * fill) as usize).max(2);
        for number in 1.. {
            if let [root] = children.as_slice() {
                self.root = root.word;
                break;
            }
            let above = children.chunks(per_node).map(|group| {
                let node = FreshNode::Node(RecordNode::inner(number, group.to_vec()));
                Child { least: group[0].least, word: fresh(self.add(node)) }
            });
            children = above.collect();
        }
        Ok(self.finish())
    }
}

/// The position of the first record with the last word of a page; `None`: all have it.
fn last_word(page: &[StoredRecord]) -> Option<usize> {
    let last = page.last()?.id.word();
    page.iter().rposition(|record| record.id.word() != last).map(|before| before + 1)
}
