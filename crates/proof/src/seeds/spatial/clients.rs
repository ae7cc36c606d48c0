//! The clients of a run: those that read the tree, and those that talk to its server as well.

use super::case::{Case, PLACES, place, query};
use super::notes::{Begun, Change, Items, Notes, judge, judge_near, told_to_be};
use super::server::{expect_there, is_loss};
use farwood_fabric::{Client, Fabric as _, LocalMemory, Memory, NodeId, Remote, Server as _};
use farwood_index::IndexError;
use farwood_index::catfish::adaptive::{BackOff, BackOffSettings, Way};
use farwood_index::catfish::{Catfish, Inbox, Item, Messenger, Query, Reader, ServiceSettings, Talk as _};
use farwood_sim::fault::{Fault, RETRY_NS};
use farwood_sim::{SimFabric, World};
use farwood_testkit::harness::Chance;
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

pub(super) async fn one_client(
    case: &Case,
    me: u64,
    index: &Catfish,
    client: &Client<SimFabric>,
    world: &World,
    searching: Searching<'_>,
) {
    let notes = searching.0;
    let mut chance = Chance::new(case.spec.seed ^ (0x7365_6172 + 7 * me));
    let mut reader = Reader::new(index, client, case.issue);
    let mut found = Vec::new();
    while notes.searches.get() < case.searches && notes.failure.borrow().is_none() {
        let (began, begun) = (world.now(), notes.begin());
        let outcome = if chance.once_in(6) {
            let point = [chance.below(PLACES) as f64, chance.below(PLACES) as f64];
            let count = chance.below(12) as usize;
            let near = reader.nearest(point, count).await;
            near.map(|near| judge_near(point, count, begun, &near, notes))
        } else {
            let query = query(&mut chance);
            found.clear();
            let searched = reader.search(&query, &mut found).await;
            searched.map(|()| judge(&query, begun, found.clone(), notes))
        };
        match outcome {
            Ok(()) => notes.searches.set(notes.searches.get() + 1),
            Err(error) if is_loss(&error) && lost(world, began) => {
                notes.excused.set(notes.excused.get() + 1);
            }
            Err(error) => return notes.fail(format!("client {me}: {error}")),
        }
    }
}

/// A client with a connection; without one it waits for the next server.
pub(super) async fn one_talker(
    case: &Case,
    (me, talk): (u64, ServiceSettings),
    index: &Catfish,
    client: &Client<SimFabric>,
    world: &World,
    searching: Searching<'_>,
) {
    let notes = searching.0;
    let machine = NodeId(client.fabric().seat().compute_node() as u16);
    let memory = world.server(machine);
    let at = Remote::new(machine, Memory::Host, (16 << 20) + (64 << 10) * me).expect("it is an address");
    let inbox = Inbox { local: memory.local(), at: Some(at) };
    let mut chance = Chance::new(case.spec.seed ^ (0x7461_6C6B + 7 * me));
    let mut mine = Vec::new();
    while notes.tree.borrow().is_none() && notes.failure.borrow().is_none() && !world.crashed(0) {
        client.fabric().sleep(10_000).await;
    }
    while notes.searches.get() < case.searches && notes.failure.borrow().is_none() {
        let began = world.now();
        let connected = Messenger::connect(index, client, inbox, talk.notice).await;
        let done = match connected {
            Ok(connection) => {
                converse(case, (index, client), connection, &mut chance, &mut mine, notes).await
            }
            Err(error) => Err(error),
        };
        match done {
            Ok(()) => {}
            Err(IndexError::NotServed { .. } | IndexError::ServerLost { .. })
                if world.crashed(0) || outage(world, began) =>
            {
                notes.excused.set(notes.excused.get() + 1);
            }
            // A WRITE of which nobody knows whether it will land: this client's inbox is no good any more.
            Err(error) if is_loss(&error) && lost(world, began) => {
                notes.excused.set(notes.excused.get() + 1);
                return;
            }
            Err(error) => return notes.fail(format!("client {me}: {error}")),
        }
    }
}

/// Asks and tells the server this and that, and leaves.
pub(super) async fn converse<L: LocalMemory>(
    case: &Case,
    (index, client): (&Catfish, &Client<SimFabric>),
    mut connection: Messenger<'_, SimFabric, L>,
    chance: &mut Chance,
    mine: &mut Vec<Item>,
    notes: &Notes,
) -> Result<(), IndexError> {
    let mut reader = Reader::new(index, client, case.issue);
    let mut back_off = BackOff::new(BackOffSettings::default(), chance.next_u64());
    let mut found = Vec::new();
    for _ in 0..20 + chance.below(60) {
        if notes.searches.get() >= case.searches {
            break;
        }
        let begun = notes.begin();
        match chance.below(8) {
            0 | 1 if mine.len() < 40 => {
                let item = Item { bounds: place(chance), id: notes.new_id() };
                connection.insert(&item).await?;
                told_to_be(Change::In(item), &begun, notes);
                mine.push(item);
            }
            0 | 2 if !mine.is_empty() => {
                // Where the answer is lost, nobody knows whether it is still there.
                let item = mine.swap_remove(chance.below(mine.len() as u64) as usize);
                if chance.once_in(2) {
                    expect_there(connection.remove(&item).await, notes)?;
                    told_to_be(Change::Out(item), &begun, notes);
                } else {
                    let to = Item { bounds: place(chance), id: item.id };
                    expect_there(connection.update(&item, to.bounds).await, notes)?;
                    told_to_be(Change::Moved(item, to), &begun, notes);
                    mine.push(to);
                }
            }
            3 => {
                let point = [chance.below(PLACES) as f64, chance.below(PLACES) as f64];
                let count = chance.below(30) as usize;
                let near = connection.nearest(point, count).await?;
                judge_near(point, count, begun, &near, notes);
            }
            4 => judge_count(&mut connection, &query(chance), begun, notes).await?,
            5 => {
                // Nobody waits for the answer: it must not be taken for the next one's.
                let (query, polls) = (query(chance), chance.below(8));
                found.clear();
                dropped_after(polls, connection.search(&query, &mut found)).await?;
            }
            _ => {
                let query = query(chance);
                found.clear();
                match back_off.next(connection.take_heartbeat()?) {
                    Way::Message => connection.search(&query, &mut found).await?,
                    Way::Offload => reader.search(&query, &mut found).await?,
                }
                judge(&query, begun, found.clone(), notes);
            }
        }
        notes.searches.set(notes.searches.get() + 1);
    }
    connection.close().await
}

/// Drops `call` when it is still pending after so many polls.
async fn dropped_after(
    polls: u64,
    call: impl Future<Output = Result<(), IndexError>>,
) -> Result<(), IndexError> {
    let (mut call, mut left) = (pin!(call), polls);
    poll_fn(|context| match call.as_mut().poll(context) {
        Poll::Pending if left == 0 => Poll::Ready(Ok(())),
        Poll::Pending => {
            left -= 1;
            Poll::Pending
        }
        done @ Poll::Ready(_) => done,
    })
    .await
}

/// The count must be that of the tree of one commit.
pub(super) async fn judge_count<L: LocalMemory>(
    connection: &mut Messenger<'_, SimFabric, L>,
    query: &Query,
    begun: Begun,
    notes: &Notes,
) -> Result<(), IndexError> {
    let count = connection.count(query).await?;
    let matches = |items: &Items| items.values().filter(|bounds| query.matches(bounds)).count() as u64;
    let from = begun.commits;
    let seen = RefCell::new(Vec::new());
    let passes = |items: &Items| {
        seen.borrow_mut().push(matches(items));
        matches(items) == count
    };
    if !notes.some_tree(begun, passes) {
        let (to, seen) = (notes.commits(), seen.into_inner());
        notes.fail(format!("{query:?} counts {count}: commits {from} to {to} have {seen:?}"));
    }
    Ok(())
}

/// Whether there was an outage at all since `began`: the server may have taken it for this client's end.
pub(super) fn outage(world: &World, began: u64) -> bool {
    world.happened().iter().any(|happened| match happened.fault {
        Fault::Down { nanoseconds, .. }
        | Fault::Partition { nanoseconds, .. }
        | Fault::Freeze { nanoseconds, .. } => began <= happened.time + nanoseconds + RETRY_NS + 40_000_000,
        _ => false,
    })
}

/// A client that searches; when it ends, or its compute node crashes, it does not count any more.
pub(super) struct Searching<'n>(pub(super) &'n Notes);

impl Drop for Searching<'_> {
    fn drop(&mut self) {
        self.0.searching.set(self.0.searching.get() - 1);
    }
}

/// Whether an outage of more than the card's retries explains that a memory node was lost since `began`.
pub(super) fn lost(world: &World, began: u64) -> bool {
    world.happened().iter().any(|happened| match happened.fault {
        Fault::Down { nanoseconds, .. } | Fault::Partition { nanoseconds, .. } => {
            nanoseconds > RETRY_NS && began <= happened.time + nanoseconds + RETRY_NS + 1_000_000
        }
        _ => false,
    })
}
