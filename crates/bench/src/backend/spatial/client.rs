//! One request of a client of a spatial index, and the check of its answer.

use farwood_fabric::{Fabric, Server};
use farwood_index::catfish::adaptive::SearchPath;
use farwood_index::catfish::{Item, Query, SearchSink, SpatialRpc};

use super::access::SpatialAccess;
use crate::record::measurement::{CostTotals, OperationKind};
use crate::workload::rectangles::{RectangleRequest, RequestStream};
use crate::{Error, Result};

/// The results of a search: their number, and a result that does not match the query, if any.
struct CheckedResults<'q> {
    query: &'q Query,
    count: u64,
    wrong: Option<Item>,
}

impl SearchSink for CheckedResults<'_> {
    #[inline]
    fn item(&mut self, item: Item) {
        self.count += 1;
        if !self.query.matches(&item.bounds) {
            self.wrong = Some(item);
        }
    }

    fn restart(&mut self) {
        self.count = 0;
    }
}

/// Executes the client's next request. Yields its kind, and the costs that verb counters do not include.
pub(crate) async fn next_request<F: Fabric, T: SpatialRpc, S: Server>(
    access: &mut SpatialAccess<'_, F, T, S>,
    stream: &mut RequestStream,
) -> Result<(OperationKind, CostTotals)> {
    match stream.next_request() {
        RectangleRequest::Insert(item) => {
            access.insert(&item).await?;
            Ok((OperationKind::Insert, CostTotals::default()))
        }
        RectangleRequest::Search(query) => {
            let mut found = CheckedResults { query: &query, count: 0, wrong: None };
            let path = access.search(&query, &mut found).await?;
            if let Some(wrong) = found.wrong {
                let problem =
                    format!("a search of {} found {}, which does not match", query.window, wrong.bounds);
                return Err(Error::WrongAnswer(problem));
            }
            let offloaded = u64::from(path == SearchPath::Offload);
            Ok((OperationKind::Search, CostTotals { offloaded, found: found.count, ..CostTotals::default() }))
        }
    }
}
