//! Bulk loading: subtrees built from sorted entries, each node of the size that it needs, and linked at the end.

use super::values::check_value;
use super::{Event, Guide, Sign, Tree};
use crate::error::IndexError;
use crate::memory::heap::Kind;
use crate::memory::overflow::Link;
use crate::memory::slot::Room;
use crate::radix::inner::{self, Header, Inner, RawInner, Size, State, slot_offset};
use crate::radix::key::{Step, check_key, common_prefix, step_at};
use crate::radix::leaf::{self, Class, Content, Entry, RawLeaf};
use crate::radix::prefix::PrefixHash;
use crate::radix::reverse::Reverse;
use crate::radix::slot::{Child, Slot};
use farwood_fabric::{Client, Fabric, NodeId, Remote, Swapped, all, cas, write};

/// Objects that are written by one doorbell.
const OBJECTS_PER_POST: usize = 64;

/// Objects on their way to far memory, many to a doorbell.
struct Writer<'c, G, F: Fabric> {
    tree: &'c Tree<G>,
    client: &'c Client<F>,
    objects: Vec<(Remote<[u8]>, Vec<u8>)>,
    /// What leads to the nodes that were made.
    signs: Vec<Sign>,
}

/// A child that has no parent yet: a leaf, or a node whose children are all known.
struct Orphan {
    /// Some key in it, and how many bytes of it all keys in it have in common.
    key: Vec<u8>,
    depth: usize,
    is: Kin,
}

enum Kin {
    Leaf(Stored),
    Node(Vec<Orphan>),
}

/// A value that is on its way, or its link.
enum Stored {
    Here(Vec<u8>),
    Far(Link),
}

impl Stored {
    fn content(&self) -> Content<'_> {
        match self {
            Self::Here(value) => Content::Here(value),
            Self::Far(link) => Content::Far(*link),
        }
    }
}

impl<G: Guide, F: Fabric> Writer<'_, G, F> {
    async fn write(&mut self, at: Remote<[u8]>, bytes: Vec<u8>) -> Result<(), IndexError> {
        self.objects.push((at, bytes));
        if self.objects.len() == OBJECTS_PER_POST { self.flush().await } else { Ok(()) }
    }

    async fn flush(&mut self) -> Result<(), IndexError> {
        if !self.objects.is_empty() {
            let writes = self.objects.iter().map(|(at, bytes)| write(*at, bytes));
            self.client.post(all(writes)).await?.for_each(drop);
            self.objects.clear();
        }
        Ok(())
    }

    /// A room that nothing lay in: bulk loading comes first.
    async fn room<T>(&self, near: NodeId, kind: Kind, bytes: usize) -> Result<Room<T>, IndexError> {
        self.tree.heap.allocate(self.client, near, kind.rooms(bytes)).await
    }

    /// Writes an orphan and all below it, to be linked in `parent`; yields the slot for it.
    async fn adopt(
        &mut self,
        orphan: Orphan,
        parent: (Remote<RawInner>, Header),
        near: NodeId,
    ) -> Result<Slot, IndexError> {
        let Orphan { key, depth, is } = orphan;
        let partial = key.get(parent.1.depth()).copied().unwrap_or(0);
        match is {
            Kin::Leaf(stored) => {
                let entry = Entry { key: &key, content: stored.content() };
                let Some(class) = Class::of(self.tree.options.grain, &entry) else {
                    unreachable!("entries are looked at before they are stored")
                };
                let room: Room<RawLeaf> = self.room(near, Kind::Leaf, class.bytes()).await?;
                let reverse = Reverse::of_leaf(parent.0, parent.1.generation());
                let version = (self.tree.number, room.next_version());
                let leaf = leaf::image(class, reverse, version, entry);
                self.write(room.at.part(0), leaf.bytes().to_vec()).await?;
                Ok(Slot::leaf(partial, room.at, class))
            }
            Kin::Node(children) => {
                let partials = children.iter().filter(|child| child.key.len() > depth).count();
                let size = self.tree.size_for(partials);
                let shape = self.client.fabric().shape();
                let above = (near, parent.1.level());
                let near = self.tree.guide.home(shape, above, PrefixHash::of(&key[..depth]));
                let room: Room<RawInner> = self.room(near, Kind::Inner, size.bytes()).await?;
                let level = parent.1.level() + 1;
                let header = Header::new(State::Live, size, level, depth, room.next_version());
                let mut slots = Vec::with_capacity(children.len());
                for child in children {
                    let step = step_at(&child.key, depth);
                    slots.push((step, Box::pin(self.adopt(child, (room.at, header), near)).await?));
                }
                let reverse = Reverse::of_inner(parent.0, parent.1.generation(), partial);
                let image = inner::image((reverse, header), &key[..depth], self.tree.number, &slots);
                self.signs.push(self.tree.sign(room.at, &Inner::new(&image[..])));
                self.write(room.at.part(0), image).await?;
                Ok(Slot::inner(partial, room.at, size))
            }
        }
    }
}

/// The right edge of the tree that is being built: nodes that may get more children, each deeper than the one before,
/// and the last child, which is whole.
#[derive(Default)]
struct Edge {
    open: Vec<(usize, Vec<Orphan>)>,
    last: Option<Orphan>,
}

impl Edge {
    /// Takes the next entry; its key is greater than all before it.
    fn push(&mut self, key: &[u8], stored: Stored) {
        let leaf = Orphan { key: key.to_vec(), depth: key.len(), is: Kin::Leaf(stored) };
        if let Some(last) = self.last.take() {
            let depth = common_prefix(&last.key, key);
            let last = self.close(last, depth);
            match self.open.last_mut() {
                Some((at, children)) if *at == depth => children.push(last),
                _ => self.open.push((depth, vec![last])),
            }
        }
        self.last = Some(leaf);
    }

    /// Ends the nodes that are deeper than `depth`; yields the last of them, or `last` if there are none.
    fn close(&mut self, mut last: Orphan, depth: usize) -> Orphan {
        while let Some((at, mut children)) = self.open.pop_if(|(at, _)| *at > depth) {
            children.push(last);
            let key = children[0].key.clone();
            last = Orphan { key, depth: at, is: Kin::Node(children) };
        }
        last
    }

    /// All that was built, as one orphan.
    fn finish(mut self) -> Option<Orphan> {
        let last = self.last.take()?;
        let last = self.close(last, 0);
        match self.open.pop() {
            None => Some(last),
            Some(_) => unreachable!("keys of one child of the root have a byte in common"),
        }
    }
}

impl<G: Guide> Tree<G> {
    /// Loads strictly increasing keys into the empty tree; yields how many. `progress` is called with the number so
    /// far, now and then. [1 RT for each 64 nodes and leaves, and for each value out of line]
    ///
    /// # Errors
    /// [`IndexError::NotEmpty`]; [`IndexError::NotSorted`]; [`IndexError::BadSizes`]; the fabric's.
    pub async fn bulk_load<F, K, V>(
        &self,
        client: &Client<F>,
        entries: impl IntoIterator<Item = (K, V)>,
        mut progress: impl FnMut(u64),
    ) -> Result<u64, IndexError>
    where
        F: Fabric,
        K: AsRef<[u8]>,
        V: AsRef<[u8]>,
    {
        let root = self.read_inner(client, self.root, Size::All, "load").await?;
        if root.slots().any(Slot::is_occupied) {
            return Err(IndexError::NotEmpty);
        }
        let mut writer = Writer { tree: self, client, objects: Vec::new(), signs: Vec::new() };
        let mut last: Option<Vec<u8>> = None;
        let (mut count, mut edge, mut links) = (0, Edge::default(), Vec::new());
        for (key, value) in entries {
            let (key, value) = (key.as_ref(), value.as_ref());
            check_key(key)?;
            check_value(value)?;
            if last.as_deref().is_some_and(|last| last >= key) {
                return Err(IndexError::NotSorted { entries: count });
            }
            // Each child of the root is written when the next begins: all below it have their first byte in common.
            if last.as_deref().is_some_and(|last| step_at(last, 0) != step_at(key, 0)) {
                links.extend(self.bulk_child(&mut writer, std::mem::take(&mut edge), root.header()).await?);
                progress(count);
            }
            edge.push(
                key,
                match self.stow(client, key, value).await? {
                    None => Stored::Here(value.to_vec()),
                    Some(stowed) => Stored::Far(stowed.link),
                },
            );
            last = Some(key.to_vec());
            count += 1;
        }
        links.extend(self.bulk_child(&mut writer, edge, root.header()).await?);
        writer.flush().await?;
        for (step, slot) in links {
            let number = match step {
                Step::End => 0,
                Step::Byte(byte) => 1 + usize::from(byte),
            };
            let before = root.slot(number);
            debug_assert_eq!(before.child(), Child::Vacant, "the tree is empty");
            let at = self.root.part(slot_offset(number));
            if client.post(cas(at, before.word(), slot.word())).await? != Swapped::Won {
                return Err(IndexError::NotEmpty);
            }
            self.cache.learn(self.root, number, slot);
        }
        for sign in writer.signs {
            G::changed(self, client, Event::Born(sign)).await;
        }
        Ok(count)
    }

    /// Writes a child of the root; yields its slot, to be linked.
    async fn bulk_child<F: Fabric>(
        &self,
        writer: &mut Writer<'_, G, F>,
        edge: Edge,
        root: Header,
    ) -> Result<Option<(Step, Slot)>, IndexError> {
        let Some(child) = edge.finish() else { return Ok(None) };
        let step = step_at(&child.key, 0);
        let slot = writer.adopt(child, (self.root, root), self.root.node()).await?;
        Ok(Some((step, slot)))
    }
}
