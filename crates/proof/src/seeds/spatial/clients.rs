//! The clients of a run: those that only read the tree, and those that also send messages to its server.

use super::case::{EDGE, SpatialCase, bounds, query};
use super::record::{
    Items, SearchRecord, SearchStart, check_committed, check_nearest, check_one_commit, check_search,
};
use super::records::{check_get, nearest, of_kind, search, search_by_message};
use super::server::{expect_found, id_of, is_node_lost, plan_changes};
use farwood_fabric::{Client, Fabric as _, Memory, NodeId, Remote, Server as _, ServerMemory};
use farwood_index::IndexError;
use farwood_index::catfish::adaptive::{BackOff, BackOffSettings, SearchPath};
use farwood_index::catfish::{
    Catfish, Change, Inbox, Item, Query, Reader, RecordId, RingRpc, ServiceSettings, SpatialRpc as _,
};
use farwood_sim::fault::{Fault, RETRY_NS};
use farwood_sim::{SimFabric, World};
use farwood_testkit::harness::TestRng;
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

pub(super) async fn run_reader(
    case: &SpatialCase,
    number: u64,
    index: &Catfish,
    client: &Client<SimFabric>,
    world: &World,
    searching: ActiveSearcher<'_>,
) {
    let record = searching.0;
    let mut random = TestRng::new(case.spec.seed ^ (0x7365_6172 + 7 * number));
    let mut reader = Reader::new(index, client, case.issue);
    while record.searches.get() < case.searches && record.failure.borrow().is_none() {
        let (began, begun) = (world.now(), record.begin());
        let outcome = if case.config.ids.is_unique() && random.once_in(4) {
            let id = random.below(record.next_id.get() + 10);
            let found = reader.get(&RecordId::Number(id)).await;
            found.map(|found| check_get(id, begun, found, record))
        } else if random.once_in(6) {
            let point = [random.below(EDGE) as f64, random.below(EDGE) as f64];
            let count = random.below(12) as usize;
            let near = nearest(case, &mut reader, (point, count), record).await;
            near.map(|near| check_nearest(point, count, begun, &near, record))
        } else {
            let query = query(&mut random);
            let searched = search(case, &mut reader, &query, record).await;
            searched.map(|found| check_search(&query, begun, found, record))
        };
        match outcome {
            Ok(()) => record.searches.set(record.searches.get() + 1),
            Err(error) if is_node_lost(&error) && outage_explains_loss(world, began) => {
                record.explained_errors.set(record.explained_errors.get() + 1);
            }
            Err(error) => return record.fail(format!("client {number}: {error}")),
        }
    }
}

/// A client with a connection; it reconnects when its server is lost.
pub(super) async fn run_messenger(
    case: &SpatialCase,
    (number, settings): (u64, ServiceSettings),
    index: &Catfish,
    client: &Client<SimFabric>,
    world: &World,
    searching: ActiveSearcher<'_>,
) {
    let record = searching.0;
    let machine = NodeId(client.fabric().sim_thread().compute_node() as u16);
    let memory = world.server(machine);
    let at = Remote::new(machine, Memory::Host, (16 << 20) + (64 << 10) * number).expect("a valid address");
    let inbox = Inbox { local: memory.local(), at: Some(at) };
    let mut random = TestRng::new(case.spec.seed ^ (0x7461_6C6B + 7 * number));
    let mut own = Vec::new();
    while record.tree.borrow().is_none() && record.failure.borrow().is_none() && !world.crashed(0) {
        client.fabric().sleep(10_000).await;
    }
    while record.searches.get() < case.searches && record.failure.borrow().is_none() {
        let began = world.now();
        let connected = RingRpc::connect(index, client, inbox, settings.notice).await;
        let done = match connected {
            Ok(connection) => {
                send_requests(case, (index, client), connection, &mut random, &mut own, record).await
            }
            Err(error) => Err(error),
        };
        match done {
            Ok(()) => {}
            Err(IndexError::NotServed { .. } | IndexError::ServerLost { .. })
                if world.crashed(0) || any_outage(world, began) =>
            {
                record.explained_errors.set(record.explained_errors.get() + 1);
            }
            // A WRITE of unknown outcome may still execute in this client's inbox, so the inbox is unusable.
            Err(error) if is_node_lost(&error) && outage_explains_loss(world, began) => {
                record.explained_errors.set(record.explained_errors.get() + 1);
                return;
            }
            Err(error) => return record.fail(format!("client {number}: {error}")),
        }
    }
}

/// Sends random requests to the server, and closes the connection.
pub(super) async fn send_requests<L: ServerMemory>(
    case: &SpatialCase,
    (index, client): (&Catfish, &Client<SimFabric>),
    mut connection: RingRpc<'_, SimFabric, L>,
    random: &mut TestRng,
    own: &mut Vec<Item>,
    record: &SearchRecord,
) -> Result<(), IndexError> {
    let mut reader = Reader::new(index, client, case.issue);
    let mut back_off = BackOff::new(BackOffSettings::default(), random.next_u64());
    let mut found = Vec::new();
    for _ in 0..20 + random.below(60) {
        if record.searches.get() >= case.searches {
            break;
        }
        let begun = record.begin();
        match random.below(9) {
            0 | 1 if own.len() < 40 => {
                let item = Item { bounds: bounds(random), id: record.new_id() };
                change(case, &mut connection, Change::Insert(item), &begun, record).await?;
                own.push(item);
            }
            0 | 2 if !own.is_empty() => {
                // If the answer is lost, the item may be present or not.
                let item = own.swap_remove(random.below(own.len() as u64) as usize);
                if random.once_in(2) {
                    change(case, &mut connection, Change::Remove(item), &begun, record).await?;
                } else {
                    let to = Item { bounds: bounds(random), id: item.id };
                    change(case, &mut connection, Change::Update(item, to.bounds), &begun, record).await?;
                    own.push(to);
                }
            }
            3 => {
                let point = [random.below(EDGE) as f64, random.below(EDGE) as f64];
                let count = random.below(30) as usize;
                let near = connection.nearest(point, count).await?;
                check_nearest(point, count, begun, &near, record);
            }
            8 => send_changes(case, &mut connection, random, own, record).await?,
            4 => check_count(&mut connection, &query(random), begun, record).await?,
            5 => {
                // The answer comes after the future is dropped, and must not be taken for the answer to the next
                // request.
                let (query, polls) = (query(random), random.below(8));
                found.clear();
                dropped_after(polls, connection.search(&query, &mut found)).await?;
            }
            _ => {
                let query = query(random);
                let found = match back_off.next(connection.take_heartbeat()?) {
                    SearchPath::Message => search_by_message(case, &mut connection, &query, record).await?,
                    SearchPath::Offload => search(case, &mut reader, &query, record).await?,
                };
                check_search(&query, begun, found, record);
            }
        }
        record.searches.set(record.searches.get() + 1);
    }
    connection.close().await
}

/// Makes a change of an item that is there, and checks that it is committed.
async fn change<L: ServerMemory>(
    case: &SpatialCase,
    connection: &mut RingRpc<'_, SimFabric, L>,
    change: Change,
    begun: &SearchStart,
    record: &SearchRecord,
) -> Result<(), IndexError> {
    let (change, there) = of_kind((change, true), case.config.ids);
    let found = match &change {
        Change::Insert(item) => connection.insert(item).await.map(|()| true),
        Change::Remove(item) => connection.remove(item).await,
        Change::Update(item, bounds) => connection.update(item, *bounds).await,
        of_record => connection.apply(std::slice::from_ref(of_record)).await.map(|found| found == [true]),
    };
    expect_found(found.map(|found| found == there), record)?;
    check_committed(change, begun, record);
    Ok(())
}

/// Sends several changes in as few requests as the ring permits, and drops some of the calls.
async fn send_changes<L: ServerMemory>(
    case: &SpatialCase,
    connection: &mut RingRpc<'_, SimFabric, L>,
    random: &mut TestRng,
    own: &mut Vec<Item>,
    record: &SearchRecord,
) -> Result<(), IndexError> {
    let count = 1 + random.below(12);
    let planned = plan_changes(case.config.ids, random, own, count, record);
    let changes: Vec<_> = planned.iter().map(|(change, _)| change.clone()).collect();
    // If an answer is lost, or a call is dropped, the items may be present or not.
    let after = own.clone();
    own.retain(|item| changes.iter().all(|change| id_of(change) != item.id));
    let mut rest = changes.as_slice();
    while !rest.is_empty() {
        let (batch, others) = rest.split_at(connection.changes_that_fit(rest));
        if random.once_in(8) {
            let polls = random.below(8);
            return dropped_after(polls, async { connection.apply(batch).await.map(drop) }).await;
        }
        let begun = record.begin();
        let found = connection.apply(batch).await?;
        let expected = &planned[changes.len() - rest.len()..][..batch.len()];
        if !found.iter().eq(expected.iter().map(|(_, found)| found)) {
            record.fail(format!("{expected:?} found {found:?}"));
        }
        check_one_commit(expected, &begun, record);
        rest = others;
    }
    *own = after;
    Ok(())
}

/// Drops `call` if it is still pending after `polls` polls.
pub(super) async fn dropped_after(
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

/// Checks that the server's count equals the number of matching items in the tree after one of the commits since
/// `begun`.
pub(super) async fn check_count<L: ServerMemory>(
    connection: &mut RingRpc<'_, SimFabric, L>,
    query: &Query,
    begun: SearchStart,
    record: &SearchRecord,
) -> Result<(), IndexError> {
    let count = connection.count(query).await?;
    let matches = |items: &Items| items.values().filter(|bounds| query.matches(bounds)).count() as u64;
    let from = begun.commits;
    let seen = RefCell::new(Vec::new());
    let passes = |items: &Items| {
        seen.borrow_mut().push(matches(items));
        matches(items) == count
    };
    if !record.some_tree(begun, passes) {
        let (to, seen) = (record.commits(), seen.into_inner());
        record.fail(format!("{query:?} counts {count}: commits {from} to {to} have {seen:?}"));
    }
    Ok(())
}

/// Whether there was any outage since `began`: the server may have closed the connection because of it.
pub(super) fn any_outage(world: &World, began: u64) -> bool {
    world.injected_faults().iter().any(|happened| match happened.fault {
        Fault::Down { nanoseconds, .. }
        | Fault::Partition { nanoseconds, .. }
        | Fault::Freeze { nanoseconds, .. } => began <= happened.time + nanoseconds + RETRY_NS + 40_000_000,
        _ => false,
    })
}

/// Counts a client as active until it ends or its compute node crashes.
pub(super) struct ActiveSearcher<'n>(pub(super) &'n SearchRecord);

impl Drop for ActiveSearcher<'_> {
    fn drop(&mut self) {
        self.0.searching.set(self.0.searching.get() - 1);
    }
}

/// Whether an outage longer than the NIC's retries explains that a memory node was lost since `began`.
pub(super) fn outage_explains_loss(world: &World, began: u64) -> bool {
    world.injected_faults().iter().any(|happened| match happened.fault {
        Fault::Down { nanoseconds, .. } | Fault::Partition { nanoseconds, .. } => {
            nanoseconds > RETRY_NS && began <= happened.time + nanoseconds + RETRY_NS + 1_000_000
        }
        _ => false,
    })
}
