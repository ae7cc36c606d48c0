//! Values of any length in a scan: short ones were in their entries, others are read out of line, many to a doorbell.

use super::Sherman;
use super::descend::{NO_LINK, RESTARTS_MAX};
use super::entries::{Entries, FarValues, Place};
use super::scan::Wanted;
use super::values::Stored;
use crate::error::IndexError;
use crate::key::successor;
use crate::memory::overflow::{self, Link};
use crate::range::{Direction, Range};
use crate::retry::Retry;
use farwood_fabric::{Client, Fabric};
use std::ops::Range as Span;

/// Values out of line fetched by one doorbell, at most.
const VALUES_PER_POST: usize = 64;
/// The longest of them, bytes: others are read one by one.
const SHORT_BYTES_MAX: u32 = 64 << 10;

/// What becomes of an entry whose value is not where it says any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IfGone {
    /// Its key is looked up again; it is left out if that has no value any more.
    LookUp,
    /// None of the entries is believed.
    GiveUp,
}

impl Sherman {
    /// A scan where values have any length. An entry whose value was removed since its leaf was read is left out, and
    /// the scan goes on behind the last one for as many as were left out. [1 RT more for up to 64 values out of line,
    /// 1 for each that is longer than 64 KiB, 1 or 2 for each that was replaced meanwhile]
    pub(super) async fn scan_any_length<F: Fabric>(
        &self,
        client: &Client<F>,
        wanted: Wanted<'_>,
        found: &mut Entries,
    ) -> Result<(), IndexError> {
        let Wanted { range, direction, limit } = wanted;
        let mut retry = Retry::new("scan", RESTARTS_MAX);
        let (mut from, mut to) = (range.from.map(<[u8]>::to_vec), range.to.map(<[u8]>::to_vec));
        loop {
            let first = found.len();
            let range = Range { from: from.as_deref(), to: to.as_deref() };
            self.collect(client, Wanted { range, direction, limit: limit - first }, found).await?;
            let Some(last) = found.len().checked_sub(1) else { return Ok(()) };
            let all = found.len() < limit;
            let last = found.slot(last).0.to_vec();
            self.fetch_values(client, found, first, IfGone::LookUp).await?;
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
            retry.again(client).await?;
        }
    }

    /// Finds the values of the entries from `first` on; `false` where one is gone, and that is not to be.
    pub(super) async fn fetch_values<F: Fabric>(
        &self,
        client: &Client<F>,
        found: &mut Entries,
        first: usize,
        if_gone: IfGone,
    ) -> Result<bool, IndexError> {
        let mut far = found.far.take().unwrap_or_default();
        let mut kept = first;
        for start in (first..found.len()).step_by(VALUES_PER_POST) {
            let batch = start..found.len().min(start + VALUES_PER_POST);
            let mut linked = self.fetch_linked(client, found, batch.clone(), &mut far).await?.into_iter();
            for at in batch {
                let (key, slot) = found.slot(at);
                let place = match self.layout.stored(slot) {
                    Stored::Here(value) => {
                        Some(found.near(kept, self.layout.inline_bytes_max(), value.len()))
                    }
                    Stored::Far(_) => match (linked.next().flatten(), if_gone) {
                        (None, IfGone::GiveUp) => return Ok(false),
                        (None, IfGone::LookUp) => {
                            self.get(client, key).await?.map(|value| far.append(&value))
                        }
                        (place, _) => place,
                    },
                    Stored::Nowhere => return Err(unlinked(key)),
                };
                if let Some(place) = place {
                    far.places.push(place);
                    found.shift(at, kept);
                    kept += 1;
                }
            }
        }
        found.truncate(kept);
        found.far = Some(far);
        Ok(true)
    }

    /// Reads the values of `batch` that lie out of line: the short ones in one doorbell. Yields for each of them, in
    /// their order, where it is now; `None` where it is not there any more.
    async fn fetch_linked<F: Fabric>(
        &self,
        client: &Client<F>,
        found: &Entries,
        batch: Span<usize>,
        far: &mut FarValues,
    ) -> Result<Vec<Option<Place>>, IndexError> {
        let links: Vec<Link> = batch.filter_map(|at| self.layout.link(found.slot(at).1)).collect();
        let short: Vec<Link> = links.iter().copied().filter(is_short).collect();
        let mut places = Vec::with_capacity(short.len());
        if !short.is_empty() {
            let take = |_, value: Option<&[u8]>| places.push(value.map(|value| far.append(value)));
            overflow::follow_all(client, self.layout.index, &short, take).await?;
        }
        let mut places = places.into_iter();
        let mut all = Vec::with_capacity(links.len());
        for link in &links {
            all.push(if is_short(link) {
                places.next().flatten()
            } else {
                self.far_value(client, *link).await?.map(|value| far.append(&value))
            });
        }
        Ok(all)
    }
}

fn is_short(link: &Link) -> bool {
    link.length <= SHORT_BYTES_MAX
}

fn unlinked(key: &[u8]) -> IndexError {
    IndexError::Damaged { operation: "scan", at: format!("key {key:02x?}"), what: NO_LINK.to_owned() }
}
