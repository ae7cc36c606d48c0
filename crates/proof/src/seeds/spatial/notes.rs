//! What everybody of a run writes down: every commit in its order, and whether an answer is that of one tree.

use farwood_index::catfish::{Item, Near, Query, Rectangle, Request, TreeServer};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// One change of a commit.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change {
    In(Item),
    Out(Item),
    Moved(Item, Item),
}

impl From<Request> for Change {
    fn from(request: Request) -> Self {
        match request {
            Request::Insert(item) => Self::In(item),
            Request::Remove(item) => Self::Out(item),
            Request::Update(from, bounds) => Self::Moved(from, Item { bounds, id: from.id }),
            other => unreachable!("{other:?} changes nothing"),
        }
    }
}

/// Items by their numbers, which are given once.
pub(super) type Items = BTreeMap<u64, Rectangle>;

impl Change {
    pub(super) fn apply(&self, items: &mut Items) {
        match self {
            Self::In(item) => assert_eq!(items.insert(item.id, item.bounds), None, "numbers are given once"),
            Self::Out(item) => assert_eq!(items.remove(&item.id), Some(item.bounds), "what goes was there"),
            Self::Moved(from, to) => {
                assert_eq!(items.insert(to.id, to.bounds), Some(from.bounds), "what is moved was there");
            }
        }
    }
}

/// What everybody of a run writes down.
pub(super) struct Notes {
    pub(super) log: RefCell<Vec<Change>>,
    /// The tree whose server has the office: what it commits belongs in the log.
    pub(super) tree: RefCell<Option<Rc<TreeServer>>>,
    /// The tree after the last commit.
    pub(super) now: RefCell<Items>,
    pub(super) next_id: Cell<u64>,
    pub(super) searches: Cell<u64>,
    pub(super) raced: Cell<u64>,
    pub(super) found: Cell<u64>,
    pub(super) successors: Cell<u64>,
    pub(super) excused: Cell<u64>,
    pub(super) searching: Cell<usize>,
    pub(super) failure: RefCell<Option<String>>,
}

impl Notes {
    pub(super) fn new(first: Items, searching: usize) -> Self {
        Self {
            next_id: Cell::new(first.len() as u64),
            now: RefCell::new(first),
            log: RefCell::default(),
            tree: RefCell::default(),
            searches: Cell::new(0),
            raced: Cell::new(0),
            found: Cell::new(0),
            successors: Cell::new(0),
            excused: Cell::new(0),
            searching: Cell::new(searching),
            failure: RefCell::default(),
        }
    }

    pub(super) fn fail(&self, what: String) {
        self.failure.borrow_mut().get_or_insert(what);
    }

    /// How many commits there were.
    pub(super) fn commits(&self) -> usize {
        let committed = self.tree.borrow().as_ref().map(|tree| tree.take_journal()).unwrap_or_default();
        for change in committed.into_iter().map(Change::from) {
            change.apply(&mut self.now.borrow_mut());
            self.log.borrow_mut().push(change);
        }
        self.log.borrow().len()
    }

    /// The tree of another server.
    pub(super) fn serve(&self, tree: TreeServer) -> Rc<TreeServer> {
        self.commits();
        let tree = Rc::new(tree.with_journal());
        *self.tree.borrow_mut() = Some(Rc::clone(&tree));
        tree
    }

    pub(super) fn new_id(&self) -> u64 {
        self.next_id.replace(self.next_id.get() + 1)
    }

    /// The tree as it is when a search begins.
    pub(super) fn begin(&self) -> Begun {
        Begun { commits: self.commits(), items: self.now.borrow().clone() }
    }

    /// Whether the tree of one of the commits since a search began passes.
    pub(super) fn some_tree(&self, begun: Begun, passes: impl Fn(&Items) -> bool) -> bool {
        let Begun { commits, mut items } = begun;
        // What was committed meanwhile belongs in the log first.
        self.commits();
        if passes(&items) {
            return true;
        }
        self.log.borrow()[commits..].iter().any(|change| {
            change.apply(&mut items);
            passes(&items)
        })
    }
}

/// What a search may find.
pub(super) struct Begun {
    pub(super) commits: usize,
    pub(super) items: Items,
}

/// A change that the server says is done is one of the commits since it was asked for.
pub(super) fn told_to_be(change: Change, begun: &Begun, notes: &Notes) {
    let commits = notes.commits();
    let log = notes.log.borrow();
    if !log[begun.commits..commits].iter().any(|done| format!("{done:?}") == format!("{change:?}")) {
        notes.fail(format!("{change:?} was said to be done, and is not"));
    }
}

fn order(one: &Item, other: &Item) -> std::cmp::Ordering {
    let key =
        |item: &Item| (item.id, item.bounds.min().map(f64::to_bits), item.bounds.max().map(f64::to_bits));
    key(one).cmp(&key(other))
}

/// The answer must be what the tree of one commit has.
pub(super) fn judge(query: &Query, begun: Begun, mut found: Vec<Item>, notes: &Notes) {
    let (from, to) = (begun.commits, notes.commits());
    found.sort_by(order);
    notes.found.set(notes.found.get() + found.len() as u64);
    notes.raced.set(notes.raced.get() + u64::from(to > from));
    let explained = notes.some_tree(begun, |items| {
        let matching = items.iter().filter(|(_, bounds)| query.matches(bounds));
        matching.map(|(&id, &bounds)| Item { bounds, id }).eq(found.iter().copied())
    });
    if !explained {
        let twice = found.windows(2).find(|pair| pair[0].id == pair[1].id);
        notes.fail(match twice {
            Some(pair) => format!("{query:?} reports {} twice", pair[0].id),
            None => {
                format!("{query:?} finds {} items: no tree of commits {from} to {to} has these", found.len())
            }
        });
    }
}

pub(super) fn judge_near(point: [f64; 2], count: usize, begun: Begun, near: &[Near], notes: &Notes) {
    let (from, to) = (begun.commits, notes.commits());
    let explained = notes.some_tree(begun, |items| {
        let mut distances: Vec<_> = items.values().map(|bounds| bounds.distance_squared(point)).collect();
        distances.sort_by(f64::total_cmp);
        let there = near.iter().all(|near| items.get(&near.item.id) == Some(&near.item.bounds));
        let mut ids: Vec<_> = near.iter().map(|near| near.item.id).collect();
        ids.sort_unstable();
        ids.dedup();
        there
            && ids.len() == near.len()
            && distances.iter().take(count).eq(near.iter().map(|near| &near.distance_squared))
    });
    if !explained {
        notes.fail(format!("the {count} nearest to {point:?}: no tree of commits {from} to {to} has these"));
    }
}
