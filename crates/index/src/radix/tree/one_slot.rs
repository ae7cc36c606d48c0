//! Reads the front and one slot of a node that has a slot for each byte, instead of all 2 KiB.
//!
//! Both READs together prove enough of the node. The front, which is header, reverse pointer and hash, is
//! proven to be of one node as in a whole copy ([`copy`](super::copy)), and is read first. A slot without a child has
//! the generation of its node. A slot with a child may belong to a later node in the same memory, which is not linked
//! yet; so a leaf is believed only if its reverse pointer names the node of the front, and an inner node if it is
//! linked and has the prefix. A slot that was found without a child in a live node proves that the key was absent at
//! some time during the READs: the slots are closed before the node dies, and no client can reach a new key below the
//! successor before the node is dead.
//!
//! If the READs prove nothing, because another node uses the memory or the node is dead, the client reads the whole
//! node.

use super::RadixTree;
use super::copy::{proves_front, read_front};
use super::options::NodeReads;
use super::policy::Policy;
use super::traversal::Traversal;
use crate::error::IndexError;
use crate::mutant::Mutant;
use crate::op::Op;
use crate::radix::cache::cached_node::{CachedNode, NodeIdentity};
use crate::radix::coverage;
use crate::radix::inner::{
    HASH, HEADER, InnerRef, NodeHeader, NodeSize, NodeState, REVERSE, SlotSearch, covers, slot_of_all,
    slot_offset,
};
use crate::radix::key::step_at;
use crate::radix::reverse::Reverse;
use crate::radix::slot::NodeSlot;
use farwood_fabric::{Chain as _, Fabric, read, u64_at};
use std::sync::Arc;

/// Coverage mark of a slot that proved nothing, so that the client read the whole node. It is so rare that runs of
/// `cargo xtask swarm` need not reach it, so it is not in [`sphinx::MARKS`](crate::sphinx::MARKS); a test reaches it.
const SLOT_UNPROVEN: &str = "radix: one slot of a node did not suffice";

impl<F: Fabric, P: Policy> Op<'_, F, RadixTree<P>> {
    /// Reads the slot of the traversal's key in `node`, if that is a live and linked node whose prefix is the first
    /// `depth` bytes of the key. `None`: the client has to read the whole node. [1 RT; 0 if the node has no slot for
    /// each byte, the tree's options forbid it, or the fabric does not prove the front or keep the order of the READs]
    pub(crate) async fn read_slot_of_key(
        self,
        node: InnerRef,
        depth: usize,
        traversal: &mut Traversal<'_, P::Route>,
    ) -> Result<Option<Arc<CachedNode>>, IndexError> {
        let (client, number) = (self.client, self.index.number);
        let reads_slots = self.index.options.node_reads == NodeReads::OneSlot && node.size == NodeSize::All;
        let promised = self.fabric().capabilities();
        if !reads_slots || !promised.atomic_then_read || !proves_front(promised, node.at) {
            return Ok(None);
        }
        let (key, at) = (traversal.key(), node.at);
        let step = step_at(key, depth);
        let slot_number = slot_of_all(step);
        let slot_at = at.part::<u64>(slot_offset(slot_number));
        let (front, slot) = client.post(read_front(at).then(read(slot_at))).await?;
        let (front, slot) = (front.whole_words(), NodeSlot::from_word(slot.whole_word()));
        let header = NodeHeader::from_word(u64_at(&front, HEADER as usize));
        let (reverse, hash) = (Reverse::from_word(u64_at(&front, REVERSE as usize)), u64_at(&front, HASH));
        let is_trusted = self.index.mutant == Some(Mutant::SlotTrusted);
        let is_node_of_key = (is_trusted || header.state() == Some(NodeState::Live))
            && (header.size(), header.depth()) == (NodeSize::All, depth)
            && reverse.is_linked()
            && covers(header, hash, key, number);
        if !is_node_of_key || !slot.is_occupied() && slot.generation() != header.generation() {
            self.hit(SLOT_UNPROVEN);
            return Ok(None);
        }
        if depth > 0 {
            self.hit(coverage::SLOT_READ);
        }
        let identity = NodeIdentity { at, header, hash };
        Ok(Some(traversal.record_slot(identity, (step, SlotSearch::Slot(slot_number, slot)))))
    }
}
