//! Values of any length in a scan: short ones are in their entries; overflow values are read, many by one doorbell.

use super::cursor::ScanRequest;
use super::entries::{ScannedValues, ShermanEntries, ValueSpan};
use crate::error::IndexError;
use crate::key::successor;
use crate::memory::overflow::{self, Link};
use crate::op::Op;
use crate::range::{Direction, Range};
use crate::sherman::Sherman;
use crate::sherman::read::NO_LINK;
use crate::sherman::values::StoredValue;
use farwood_fabric::Fabric;
use std::ops::Range as Span;

/// Maximum overflow values that one doorbell fetches.
const VALUES_PER_POST: usize = 64;
/// Longest value that is fetched together with others, bytes: longer values are read one by one.
const SHORT_BYTES_MAX: u32 = 64 << 10;

/// The treatment of an entry whose overflow value no longer exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MissingValue {
    /// Look its key up again, and leave it out if the key is absent now.
    LookUp,
    /// Discard all entries.
    GiveUp,
}

impl<F: Fabric> Op<'_, F, Sherman> {
    /// Scans values of any length. The scan leaves out an entry whose value was removed after its leaf was read, and
    /// continues after the last entry until it has replaced the entries that it left out. [1 RT more for up to 64
    /// overflow values, 1 for each that is longer than 64 KiB, 1 or 2 for each that was replaced meanwhile]
    pub(super) async fn scan_any_length(
        self,
        request: ScanRequest<'_>,
        found: &mut ShermanEntries,
    ) -> Result<(), IndexError> {
        let ScanRequest { range, direction, limit } = request;
        let mut retry = self.named("scan").restarts();
        let (mut from, mut to) = (range.from.map(<[u8]>::to_vec), range.to.map(<[u8]>::to_vec));
        loop {
            let first = found.len();
            let range = Range { from: from.as_deref(), to: to.as_deref() };
            self.collect(ScanRequest { range, direction, limit: limit - first }, found).await?;
            let Some(last) = found.len().checked_sub(1) else { return Ok(()) };
            let all = found.len() < limit;
            let last = found.slot(last).0.to_vec();
            self.fetch_values(found, first, MissingValue::LookUp).await?;
            if all || found.len() == limit {
                return Ok(());
            }
            match direction {
                Direction::Forward => match successor(last) {
                    None => return Ok(()),
                    next => from = next,
                },
                Direction::Backward => to = Some(last),
            }
            retry.again(self.client).await?;
        }
    }

    /// Fetches the values of the entries from `first` on; returns `false` if one no longer exists and `missing` is
    /// [`MissingValue::GiveUp`].
    pub(super) async fn fetch_values(
        self,
        found: &mut ShermanEntries,
        first: usize,
        missing: MissingValue,
    ) -> Result<bool, IndexError> {
        let layout = &self.index.layout;
        let mut values = found.values.take().unwrap_or_default();
        let mut kept = first;
        for start in (first..found.len()).step_by(VALUES_PER_POST) {
            let batch = start..found.len().min(start + VALUES_PER_POST);
            let mut linked = self.fetch_linked(found, batch.clone(), &mut values).await?.into_iter();
            for at in batch {
                let (key, field) = found.slot(at);
                let span = match layout.stored(field) {
                    StoredValue::Inline(value) => {
                        Some(found.inline_span(kept, layout.inline_bytes_max(), value.len()))
                    }
                    StoredValue::Overflow(_) => match (linked.next().flatten(), missing) {
                        (None, MissingValue::GiveUp) => {
                            // The lookup returns an error if the value is damaged; otherwise the scan tries again.
                            self.index.get(self.client, key).await?;
                            return Ok(false);
                        }
                        (None, MissingValue::LookUp) => {
                            self.index.get(self.client, key).await?.map(|value| values.append(&value))
                        }
                        (span, _) => span,
                    },
                    StoredValue::Invalid => return Err(unlinked(key)),
                };
                if let Some(span) = span {
                    values.spans.push(span);
                    found.shift(at, kept);
                    kept += 1;
                }
            }
        }
        found.truncate(kept);
        found.values = Some(values);
        Ok(true)
    }

    /// Reads the overflow values of `batch`, the short ones in one doorbell. Returns the position of each, in their
    /// order; `None` for a value that no longer exists.
    async fn fetch_linked(
        self,
        found: &ShermanEntries,
        batch: Span<usize>,
        values: &mut ScannedValues,
    ) -> Result<Vec<Option<ValueSpan>>, IndexError> {
        let layout = &self.index.layout;
        let links: Vec<Link> = batch.filter_map(|at| layout.link(found.slot(at).1)).collect();
        let short: Vec<Link> = links.iter().copied().filter(is_short).collect();
        let mut spans = Vec::with_capacity(short.len());
        if !short.is_empty() {
            let take = |_, value: Option<&[u8]>| spans.push(value.map(|value| values.append(value)));
            overflow::follow_all(self.client, layout.index, &short, take).await?;
        }
        let mut spans = spans.into_iter();
        let mut all = Vec::with_capacity(links.len());
        for link in &links {
            all.push(if is_short(link) {
                spans.next().flatten()
            } else {
                self.read_overflow(*link).await?.map(|value| values.append(&value))
            });
        }
        Ok(all)
    }
}

fn is_short(link: &Link) -> bool {
    link.is_one_object() && link.length <= SHORT_BYTES_MAX
}

fn unlinked(key: &[u8]) -> IndexError {
    IndexError::Damaged { operation: "scan", at: format!("key {key:02x?}"), what: NO_LINK.to_owned() }
}
