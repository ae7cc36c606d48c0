//! The operations of every ordered index, with the types of the testkit.

use crate::workload::ScanSpan;
use farwood_fabric::{Client, Fabric};
use farwood_index::ordered::{self, Ordered};
use farwood_index::sherman::{self, Sherman};
use farwood_index::smart::{self, Smart};
use farwood_index::sphinx::{self, Sphinx};
use farwood_index::{Decision, IndexError};
use farwood_testkit::history::{Action, Answer, ByteString, Expected};

/// The operations of every ordered index.
#[expect(async_fn_in_trait, reason = "clients belong to one thread")]
pub trait Tree {
    /// Performs one operation.
    async fn perform<F: Fabric>(
        &self,
        client: &Client<F>,
        key: &[u8],
        action: &Action,
    ) -> Result<Answer, IndexError>;

    /// Scans a span.
    async fn scan_span<F: Fabric>(
        &self,
        client: &Client<F>,
        span: &ScanSpan,
    ) -> Result<Vec<(ByteString, ByteString)>, IndexError>;

    /// Counts the keys.
    async fn count_all<F: Fabric>(&self, client: &Client<F>) -> Result<u64, IndexError>;

    /// Returns the memory that the compute node does not use.
    async fn leave_all<F: Fabric>(&self, client: &Client<F>) -> Result<(), IndexError>;
}

/// The decision of an exchange that applies.
fn decision(new: Option<&[u8]>) -> Decision {
    new.map_or(Decision::Remove, |value| Decision::Store(value.to_vec()))
}

macro_rules! tree {
    ($tree:ty, $entries:expr) => {
        impl Tree for $tree {
            async fn perform<F: Fabric>(
                &self,
                client: &Client<F>,
                key: &[u8],
                action: &Action,
            ) -> Result<Answer, IndexError> {
                Ok(match action {
                    Action::Put(value) => {
                        Answer::Stored { existed: self.put(client, key, value).await?.replaced() }
                    }
                    Action::Insert(value) => Answer::Done(self.insert(client, key, value).await?.inserted()),
                    Action::Update(value) => Answer::Done(self.update(client, key, value).await?.updated()),
                    Action::Remove => Answer::Done(self.remove(client, key).await?.removed()),
                    Action::Exchange(wanted) => {
                        let mut found = None;
                        let mut applies = |value: Option<&[u8]>| {
                            found = value.map(<[u8]>::to_vec);
                            wanted.applies(value)
                        };
                        if wanted.new.is_none() && matches!(wanted.expected, Expected::Value(Some(_))) {
                            self.remove_if(client, key, &mut applies).await?;
                        } else {
                            let new = decision(wanted.new.as_deref());
                            let mut decide = |value: Option<&[u8]>| {
                                if applies(value) { new.clone() } else { Decision::Keep }
                            };
                            self.modify(client, key, &mut decide).await?;
                        }
                        Answer::Found(found)
                    }
                    Action::Get => Answer::Found(self.get(client, key).await?.map(|value| value.to_vec())),
                })
            }

            async fn scan_span<F: Fabric>(
                &self,
                client: &Client<F>,
                span: &ScanSpan,
            ) -> Result<Vec<(ByteString, ByteString)>, IndexError> {
                let mut entries = $entries;
                self.scan(client, span.range(), span.tree_direction(), span.limit, &mut entries).await?;
                Ok(entries.iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect())
            }

            async fn count_all<F: Fabric>(&self, client: &Client<F>) -> Result<u64, IndexError> {
                self.count(client).await
            }

            async fn leave_all<F: Fabric>(&self, client: &Client<F>) -> Result<(), IndexError> {
                self.leave(client).await
            }
        }
    };
}

tree!(Sherman, sherman::ShermanEntries::new());
tree!(Smart, smart::RadixEntries::new());
tree!(Sphinx, sphinx::RadixEntries::new());
tree!(Ordered, ordered::Entries::new());

/// Scans a snapshot of a span, or the span itself if the tree has no snapshots.
///
/// # Errors
/// The errors of the index.
pub async fn snapshot_span<F: Fabric>(
    tree: &Ordered,
    client: &Client<F>,
    span: &ScanSpan,
) -> Result<Vec<(ByteString, ByteString)>, IndexError> {
    let mut entries = ordered::Entries::new();
    let (range, direction) = (span.range(), span.tree_direction());
    match tree.scan_snapshot(client, range, direction, span.limit, &mut entries).await {
        Ok(()) => Ok(entries.iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect()),
        Err(IndexError::NoSnapshot(_)) => tree.scan_span(client, span).await,
        Err(error) => Err(error),
    }
}
