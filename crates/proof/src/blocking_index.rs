//! A tree and one client, as the blocking [`Ordered`] index that the model tests drive.

use crate::tree::Tree;
use crate::workload::{ScanSpan, perform, scan};
use farwood_fabric::Client;
use farwood_index::sherman::Sherman;
use farwood_testkit::Harness;
use farwood_testkit::history::{Action, Answer, ByteString, Direction, Exchange};
use farwood_testkit::model::{Edge, Ordered};
use std::ops::Bound;

/// A tree and a client of it.
pub struct BlockingIndex<'h, H: Harness, T = Sherman> {
    /// The harness that runs the client.
    pub harness: &'h H,
    /// The tree.
    pub tree: T,
    /// The client.
    pub client: Client<H::Fabric>,
}

impl<H: Harness, T: Tree> BlockingIndex<'_, H, T> {
    fn done(&mut self, key: &[u8], action: &Action) -> bool {
        let done = perform(&self.tree, &self.client, key, action);
        self.harness.block_on(done).expect("the operation succeeds") == Answer::Done(true)
    }

    fn span(
        &mut self,
        direction: Direction,
        from: Edge<'_>,
        to: Edge<'_>,
        limit: usize,
    ) -> Vec<(ByteString, ByteString)> {
        // A tree's range has an inclusive first key and an exclusive end. The greatest key has no successor, so a range
        // that begins after it is empty, and a range that includes it has no upper bound.
        let Ok(from) = successor_bound(from, Bound::Included(())) else { return Vec::new() };
        let to = successor_bound(to, Bound::Excluded(())).unwrap_or(None);
        self.scan(&ScanSpan { direction, from, to, limit })
    }

    fn scan(&mut self, span: &ScanSpan) -> Vec<(ByteString, ByteString)> {
        self.harness.block_on(scan(&self.tree, &self.client, span)).expect("the operation succeeds")
    }
}

/// Converts a bound to the kind `wanted`: the same key, or its successor. `Err` if the key has no successor.
fn successor_bound(bound: Edge<'_>, wanted: Bound<()>) -> Result<Option<ByteString>, ()> {
    let (key, same) = match bound {
        Bound::Unbounded => return Ok(None),
        Bound::Included(key) => (key, matches!(wanted, Bound::Included(()))),
        Bound::Excluded(key) => (key, matches!(wanted, Bound::Excluded(()))),
    };
    let mut key = key.to_vec();
    if !same {
        let at = key.iter().rposition(|byte| *byte != u8::MAX).ok_or(())?;
        key[at] += 1;
        key[at + 1..].fill(0);
    }
    Ok(Some(key))
}

impl<H: Harness, T: Tree> Ordered for BlockingIndex<'_, H, T> {
    fn get(&mut self, key: &[u8]) -> Option<ByteString> {
        let got = perform(&self.tree, &self.client, key, &Action::Get);
        match self.harness.block_on(got).expect("the operation succeeds") {
            Answer::Found(found) => found,
            other => unreachable!("the answer to a get: {other:?}"),
        }
    }

    fn put(&mut self, key: &[u8], value: &[u8]) {
        let put = Action::Put(value.to_vec());
        self.harness.block_on(perform(&self.tree, &self.client, key, &put)).expect("the operation succeeds");
    }

    fn insert(&mut self, key: &[u8], value: &[u8]) -> bool {
        self.done(key, &Action::Insert(value.to_vec()))
    }

    fn update(&mut self, key: &[u8], value: &[u8]) -> bool {
        self.done(key, &Action::Update(value.to_vec()))
    }

    fn remove(&mut self, key: &[u8]) -> bool {
        self.done(key, &Action::Remove)
    }

    fn exchange(&mut self, key: &[u8], exchange: &Exchange) -> Option<ByteString> {
        let action = Action::Exchange(exchange.clone());
        let exchanged = perform(&self.tree, &self.client, key, &action);
        match self.harness.block_on(exchanged).expect("the operation succeeds") {
            Answer::Found(found) => found,
            other => unreachable!("the answer to an exchange: {other:?}"),
        }
    }

    fn scan_forward(&mut self, from: Edge<'_>, to: Edge<'_>, limit: usize) -> Vec<(ByteString, ByteString)> {
        self.span(Direction::Forward, from, to, limit)
    }

    fn scan_backward(&mut self, from: Edge<'_>, to: Edge<'_>, limit: usize) -> Vec<(ByteString, ByteString)> {
        self.span(Direction::Backward, from, to, limit)
    }

    fn count(&mut self) -> u64 {
        self.harness.block_on(self.tree.count_all(&self.client)).expect("the operation succeeds")
    }
}
