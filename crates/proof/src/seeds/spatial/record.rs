//! The record of a run: every commit in order. An answer is correct if the tree of one commit gives it.

use farwood_index::catfish::{Change, Item, Near, Query, RecordId, Rectangle, TreeServer};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Items by their numbers, which are unique.
pub(super) type Items = BTreeMap<u64, Rectangle>;

fn apply(change: &Change, items: &mut Items) {
    match change {
        Change::Insert(item) => {
            assert_eq!(items.insert(item.id, item.bounds), None, "numbers are unique");
        }
        Change::Remove(item) => {
            assert_eq!(items.remove(&item.id), Some(item.bounds), "a removed item was present");
        }
        Change::Update(item, bounds) => {
            assert_eq!(items.insert(item.id, *bounds), Some(item.bounds), "a moved item was present");
        }
        Change::Put(record) => drop(items.insert(number(&record.id), record.bounds)),
        Change::Delete(id) => assert!(items.remove(&number(id)).is_some(), "a removed record was present"),
        Change::Move(id, bounds) => {
            assert!(items.insert(number(id), *bounds).is_some(), "a moved record was present");
        }
    }
}

/// The number of a record in an index of numbers.
pub(super) fn number(id: &RecordId) -> u64 {
    let RecordId::Number(number) = id else { panic!("{id} is not a number") };
    *number
}

/// The record that server and clients of a run share.
pub(super) struct SearchRecord {
    /// The changes of each commit.
    pub(super) log: RefCell<Vec<Vec<Change>>>,
    /// The tree of the current server: its commits belong in the log.
    pub(super) tree: RefCell<Option<Rc<TreeServer>>>,
    /// The tree after the last commit.
    pub(super) now: RefCell<Items>,
    pub(super) next_id: Cell<u64>,
    pub(super) searches: Cell<u64>,
    pub(super) raced: Cell<u64>,
    pub(super) found: Cell<u64>,
    pub(super) successors: Cell<u64>,
    pub(super) explained_errors: Cell<u64>,
    pub(super) searching: Cell<usize>,
    pub(super) failure: RefCell<Option<String>>,
}

impl SearchRecord {
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
            explained_errors: Cell::new(0),
            searching: Cell::new(searching),
            failure: RefCell::default(),
        }
    }

    pub(super) fn fail(&self, what: String) {
        self.failure.borrow_mut().get_or_insert(what);
    }

    /// Appends the new commits to the log; yields the number of all commits.
    pub(super) fn commits(&self) -> usize {
        let committed = self.tree.borrow().as_ref().map(|tree| tree.take_journal()).unwrap_or_default();
        for commit in committed {
            for change in &commit {
                apply(change, &mut self.now.borrow_mut());
            }
            self.log.borrow_mut().push(commit);
        }
        self.log.borrow().len()
    }

    /// Sets the tree of the current server.
    pub(super) fn serve(&self, tree: TreeServer) -> Rc<TreeServer> {
        self.commits();
        let tree = Rc::new(tree.with_journal());
        *self.tree.borrow_mut() = Some(Rc::clone(&tree));
        tree
    }

    pub(super) fn new_id(&self) -> u64 {
        self.next_id.replace(self.next_id.get() + 1)
    }

    /// The state when a search begins.
    pub(super) fn begin(&self) -> SearchStart {
        SearchStart { commits: self.commits(), items: self.now.borrow().clone() }
    }

    /// Whether the tree of at least one commit since a search began satisfies `passes`.
    pub(super) fn some_tree(&self, begun: SearchStart, passes: impl Fn(&Items) -> bool) -> bool {
        let SearchStart { commits, mut items } = begun;
        // First append the commits made during the search.
        self.commits();
        if passes(&items) {
            return true;
        }
        self.log.borrow()[commits..].iter().any(|commit| {
            for change in commit {
                apply(change, &mut items);
            }
            passes(&items)
        })
    }
}

/// The state when a search began.
pub(super) struct SearchStart {
    pub(super) commits: usize,
    pub(super) items: Items,
}

/// Checks that a change that the server acknowledged is among the commits since it was requested.
pub(super) fn check_committed(change: Change, begun: &SearchStart, record: &SearchRecord) {
    check_one_commit(&[(change, true)], begun, record);
}

/// Checks that one of the commits since the changes were requested contains those that found their items, in their
/// order.
pub(super) fn check_one_commit(changes: &[(Change, bool)], begun: &SearchStart, record: &SearchRecord) {
    // A record that is put need not replace another one.
    let is_made = |(change, found): &&(Change, bool)| *found || matches!(change, Change::Put(_));
    let found: Vec<_> = changes.iter().filter(is_made).map(|(change, _)| change.clone()).collect();
    let commits = record.commits();
    let log = record.log.borrow();
    let contains = |commit: &Vec<Change>| commit.windows(found.len()).any(|window| window == found);
    if !found.is_empty() && !log[begun.commits..commits].iter().any(contains) {
        record.fail(format!("{found:?} were acknowledged and are not in one commit"));
    }
}

fn order(one: &Item, other: &Item) -> std::cmp::Ordering {
    let key =
        |item: &Item| (item.id, item.bounds.min().map(f64::to_bits), item.bounds.max().map(f64::to_bits));
    key(one).cmp(&key(other))
}

/// Checks that the tree of one commit gives the answer to a search.
pub(super) fn check_search(query: &Query, begun: SearchStart, mut found: Vec<Item>, record: &SearchRecord) {
    let (from, to) = (begun.commits, record.commits());
    found.sort_by(order);
    record.found.set(record.found.get() + found.len() as u64);
    record.raced.set(record.raced.get() + u64::from(to > from));
    let explained = record.some_tree(begun, |items| {
        let matching = items.iter().filter(|(_, bounds)| query.matches(bounds));
        matching.map(|(&id, &bounds)| Item { bounds, id }).eq(found.iter().copied())
    });
    if !explained {
        let twice = found.windows(2).find(|pair| pair[0].id == pair[1].id);
        record.fail(match twice {
            Some(pair) => format!("{query:?} reports {} twice", pair[0].id),
            None => {
                format!("{query:?} finds {} items: no tree of commits {from} to {to} has these", found.len())
            }
        });
    }
}

/// Checks that the tree of one commit gives the answer to a search for the nearest items.
pub(super) fn check_nearest(
    point: [f64; 2],
    count: usize,
    begun: SearchStart,
    near: &[Near],
    record: &SearchRecord,
) {
    let (from, to) = (begun.commits, record.commits());
    let explained = record.some_tree(begun, |items| {
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
        record.fail(format!("the {count} nearest to {point:?}: no tree of commits {from} to {to} has these"));
    }
}
