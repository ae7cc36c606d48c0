//! From a key to the deepest node that is known: filter, entry, node (Sphinx §IV, "Search"); and what is learnt on the
//! way down from there.

use super::table::Looked;
use super::table::layout::{Entry, Spot};
use super::{Begins, Sphinx, coverage as marks};
use crate::error::IndexError;
use crate::radix::cache::cached_node::CachedNode;
use crate::radix::inner::{RawInner, State};
use crate::radix::prefix::PrefixHash;
use crate::radix::tree::fetch::InnerCopy;
use crate::radix::tree::find::Way;
use crate::radix::tree::{Event, Sign};
use crate::sabotage::Sabotage;
use farwood_fabric::{Client, Fabric, Remote};
use std::sync::Arc;

/// Prefixes of which the entries are read by one doorbell, at most, where the filter misled.
const PREFIXES_PER_POST: usize = 8;
/// The same where all prefixes are tried.
const ALL_PREFIXES_PER_POST: usize = 32;

/// A beginning of the key that may have a node: its length, its hash, and where its entry belongs.
struct Candidate {
    depth: usize,
    hash: PrefixHash,
    spot: Spot,
}

/// What a node that an entry led to is.
enum Node {
    /// The one that was looked for.
    Found(Remote<RawInner>, InnerCopy),
    /// Not this prefix's, or not to be used now.
    Other,
    /// Gone: the entry leads nowhere.
    Gone,
}

impl Sphinx {
    /// The deepest node above the way's key that is found through the table. [2 RT; 1 more for each round of prefixes
    /// that have none; 0 where the filter knows of none]
    pub(super) async fn deepest<F: Fabric>(
        &self,
        client: &Client<F>,
        way: &mut Way<'_>,
    ) -> Result<Option<Arc<CachedNode>>, IndexError> {
        if let Some(node) = way.deepest(self.number) {
            return Ok(Some(node));
        }
        let mut hashes = way.lend_hashes();
        hashes.clear();
        hashes.extend(PrefixHash::all(&way.key[..way.depth_max()]));
        let found = self.deepest_of(client, way, &hashes).await;
        way.take_back_hashes(hashes);
        found
    }

    /// The deepest node of which the prefix has one of those hashes, by its length. [as [`deepest`](Self::deepest)]
    async fn deepest_of<F: Fabric>(
        &self,
        client: &Client<F>,
        way: &mut Way<'_>,
        hashes: &[PrefixHash],
    ) -> Result<Option<Arc<CachedNode>>, IndexError> {
        let mut candidates = (1..hashes.len()).rev().filter_map(|depth| self.candidate(depth, hashes[depth]));
        let mut count = ALL_PREFIXES_PER_POST;
        if self.guide.options.begins == Begins::Filter {
            let Some(first) = candidates.next() else { return Ok(None) };
            let looked = self.guide.table.look(client, first.spot).await?;
            if let Some(node) = self.follow(client, &first, &looked, way).await? {
                return Ok(Some(node));
            }
            count = PREFIXES_PER_POST;
        }
        loop {
            let now: Vec<_> = candidates.by_ref().take(count).collect();
            if now.is_empty() {
                return Ok(None);
            }
            let spots: Vec<_> = now.iter().map(|candidate| candidate.spot).collect();
            let looked = self.guide.table.look_at(client, &spots).await?;
            for (candidate, looked) in now.iter().zip(&looked) {
                if let Some(node) = self.follow(client, candidate, looked, way).await? {
                    return Ok(Some(node));
                }
            }
        }
    }

    /// A beginning of a key, by its length and hash, if it may have a node.
    #[inline]
    fn candidate(&self, depth: usize, hash: PrefixHash) -> Option<Candidate> {
        let signs = &self.guide;
        let may_be = signs.options.begins != Begins::Filter || signs.filter.contains(hash.mixed());
        may_be.then(|| Candidate { depth, hash, spot: signs.table.spot(hash) })
    }

    /// The node that one of the entries with the prefix's print leads to. [1 RT for each]
    async fn follow<F: Fabric>(
        &self,
        client: &Client<F>,
        &Candidate { depth, hash, spot }: &Candidate,
        looked: &Looked,
        way: &mut Way<'_>,
    ) -> Result<Option<Arc<CachedNode>>, IndexError> {
        for (at, entry) in looked.pairs.candidates(spot.print()) {
            match self.fetch(client, entry, &way.key[..depth], way.operation).await? {
                Node::Found(at, node) => return Ok(Some(way.guided_by(at, &node))),
                Node::Other => client.fabric().mark(marks::COLLIDED),
                Node::Gone => {
                    client.fabric().mark(marks::ENTRY_STALE);
                    self.clear_stale(client, (at, entry), looked).await?;
                }
            }
        }
        if self.guide.options.begins == Begins::Filter {
            client.fabric().mark(marks::MISLED);
            self.guide.filter.disappoint(hash.mixed());
        }
        way.missed(depth);
        Ok(None)
    }

    /// Reads the node that an entry leads to. [1 RT]
    async fn fetch<F: Fabric>(
        &self,
        client: &Client<F>,
        entry: Entry,
        prefix: &[u8],
        operation: &'static str,
    ) -> Result<Node, IndexError> {
        let Some((at, size)) = entry.node() else { return Ok(Node::Gone) };
        let copy = self.read_inner(client, at, size, operation).await?;
        if self.guide.sabotage == Some(Sabotage::EntryBelieved) {
            return Ok(Node::Found(at, copy));
        }
        if !self.is_named_by(&copy, entry) {
            return Ok(Node::Gone);
        }
        let mine = copy.header().depth() == prefix.len() && copy.covers(prefix, self.number);
        let found = mine && copy.reverse().is_linked();
        Ok(if found { Node::Found(at, copy) } else { Node::Other })
    }

    /// Whether an entry is that of the node which it leads to, and the node is live.
    fn is_named_by(&self, node: &InnerCopy, entry: Entry) -> bool {
        let prefix = node.prefix(self.number);
        let of_print = self.guide.table.spot(prefix).print() == entry.print();
        node.header().state() == Some(State::Live) && of_print && entry.is_of(node.header())
    }

    /// Takes out an entry that leads nowhere, unless a split moves it. [1 RT]
    async fn clear_stale<F: Fabric>(
        &self,
        client: &Client<F>,
        entry: (Remote<u64>, Entry),
        looked: &Looked,
    ) -> Result<(), IndexError> {
        if looked.is_settled() {
            self.guide.table.clear(client, entry).await?;
        }
        Ok(())
    }

    /// Remembers the nodes on a way that the table did not lead to; those that it should have led to are entered.
    /// [0 RT; as [`HashTable::enter`](super::table::HashTable) for each that was missed]
    pub(super) async fn remember<F: Fabric>(&self, client: &Client<F>, way: &Way<'_>) {
        for node in way.met() {
            let depth = node.header.depth();
            if depth == 0 {
                continue;
            }
            let prefix = node.prefix(self.number);
            self.guide.filter.insert(prefix.mixed());
            if way.has_missed(depth) {
                let header = node.header;
                let sign =
                    Sign { prefix, node: node.at, size: header.size(), generation: header.generation() };
                client.fabric().mark(marks::ENTRY_MENDED);
                let entered = self.guide.table.enter(self.hands(), client, &sign).await;
                self.note(client, &entered);
            }
        }
    }

    /// Records in the table and the filter what became of a node.
    pub(super) async fn record<F: Fabric>(&self, client: &Client<F>, event: Event) {
        let (table, hands) = (&self.guide.table, self.hands());
        if self.guide.sabotage == Some(Sabotage::EntryForgotten) {
            return;
        }
        let recorded = match event {
            Event::Born(sign) => {
                self.guide.filter.insert(sign.prefix.mixed());
                table.enter(hands, client, &sign).await
            }
            Event::Replaced(before, after) => table.replace(hands, client, (&before, &after)).await,
            Event::Gone(sign) => table.remove(hands, client, &sign).await.map(|()| true),
        };
        self.note(client, &recorded);
    }

    /// What was asked of the tree is done, so a table that could not be told fails nobody: who misses the entry will
    /// enter it.
    fn note<F: Fabric>(&self, client: &Client<F>, recorded: &Result<bool, IndexError>) {
        let _ = self;
        if !matches!(recorded, Ok(true)) {
            client.fabric().mark(marks::NOT_ENTERED);
        }
    }
}
