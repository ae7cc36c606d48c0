//! One client at work: what it asks, how the answer is checked.

use farwood_fabric::{Fabric, Server};
use farwood_index::catfish::adaptive::Way;
use farwood_index::catfish::{Answer, Item, Query, Talk};

use super::access::Access;
use crate::measure::{CostTotals, OperationKind};
use crate::rectangles::{Asked, RequestStream};
use crate::{Error, Result};

/// What a search has found: how much, and whether all of it is what was asked for.
struct Found<'q> {
    query: &'q Query,
    count: u64,
    wrong: Option<Item>,
}

impl Answer for Found<'_> {
    #[inline]
    fn item(&mut self, item: Item) {
        self.count += 1;
        if !self.query.matches(&item.bounds) {
            self.wrong = Some(item);
        }
    }

    fn forget(&mut self) {
        self.count = 0;
    }
}

/// Does the client's next request; yields its kind, and what it is counted as besides its verbs.
pub(super) async fn next_request<F: Fabric, T: Talk, S: Server>(
    access: &mut Access<'_, F, T, S>,
    stream: &mut RequestStream,
) -> Result<(OperationKind, CostTotals)> {
    match stream.ask() {
        Asked::Insert(item) => {
            access.insert(&item).await?;
            Ok((OperationKind::Insert, CostTotals::default()))
        }
        Asked::Search(query) => {
            let mut found = Found { query: &query, count: 0, wrong: None };
            let way = access.search(&query, &mut found).await?;
            if let Some(wrong) = found.wrong {
                let (bounds, window) = (wrong.bounds, query.window);
                let problem = format!("{bounds} was found for {window}, which it does not meet");
                return Err(Error::WrongAnswer(problem));
            }
            let offloaded = u64::from(way == Way::Offload);
            Ok((OperationKind::Search, CostTotals { offloaded, found: found.count, ..CostTotals::default() }))
        }
    }
}
