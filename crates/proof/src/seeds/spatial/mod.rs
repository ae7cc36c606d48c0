//! Runs of spatial indexes in the simulator: a server changes its tree word by word while clients search it by READs.
//!
//! Every change is a commit, and commits have an order. The answer to a search must be exactly the answer of the tree
//! after *one* commit, and this tree must have been current at some moment during the search. So a search may not miss
//! an item that was present throughout, and may not report an item twice.
//!
//! A *counted* seed has 8 clients on 3 compute nodes, 1,000 answered searches, 100 commits and 3 faults.

mod case;
mod clients;
mod record;
mod records;
mod report;
mod server;

pub use case::{COMMITS, FAULTS, SEARCHES, SpatialCase};
pub use report::SpatialReport;

use case::{SERVERS, bounds};
use clients::{ActiveSearcher, run_messenger, run_reader};
use farwood_index::IndexError;
use farwood_index::catfish::{Catfish, Issue, Item, Query, Reader, Rectangle, ServerSettings};
use farwood_sim::{RunOutcome, TaskGroup, Trace, World, untimed};
use farwood_testkit::harness::TestRng;
use farwood_testkit::seeds::caught;
use record::{Items, SearchRecord, check_search};
use records::record_of;
use server::{serve, serve_after_crash};

/// Runs a case and checks everything; a panic is a failure. Yields the trace, too.
pub fn run(case: &SpatialCase) -> (Result<SpatialReport, String>, Trace) {
    match World::new(case.spec.clone()) {
        Ok(world) => {
            let outcome = caught(|| run_in(case, &world)).flatten();
            (outcome.map_err(|what| format!("{what}; faults: {:?}", world.injected_faults())), world.trace())
        }
        Err(error) => (Err(error.to_string()), Trace::default()),
    }
}

/// Runs a case as [`run`] does, without the trace.
///
/// # Errors
/// The failure of the run.
pub fn outcome(case: &SpatialCase) -> Result<SpatialReport, String> {
    run(case).0
}

fn run_in(case: &SpatialCase, world: &World) -> Result<SpatialReport, String> {
    let first = load(case, world).map_err(|error| format!("loading: {error}"))?;
    let record = SearchRecord::new(first, case.clients);
    let servers: Vec<_> = (0..SERVERS).map(|node| world.client(node)).collect();
    let clients: Vec<_> = (0..case.clients)
        .map(|number| world.client(SERVERS + number % (case.spec.compute_nodes - SERVERS)))
        .collect();
    let indexes = open(case, world).map_err(|error| format!("opening: {error}"))?;
    let mut group = world.task_group();
    group.spawn(&servers[0], serve(case, world, &indexes[0], &servers[0], &record));
    group.spawn(&servers[1], serve_after_crash(case, world, &indexes[1], &servers[1], &record));
    for (number, client) in clients.iter().enumerate() {
        // The client counts as active from now on, because its compute node may crash before the future is polled.
        let searching = ActiveSearcher(&record);
        let index = &indexes[client.fabric().sim_thread().compute_node()];
        match case.messages {
            Some(settings) => {
                group.spawn(
                    client,
                    run_messenger(case, (number as u64, settings), index, client, world, searching),
                );
            }
            None => group.spawn(client, run_reader(case, number as u64, index, client, world, searching)),
        }
    }
    // The clients of a crashed compute node stop; the others continue.
    let ended = run_while_searches_end(case, world, &record, &mut group);
    let live = record.searching.get();
    drop(group);
    if let Some(failure) = record.failure.take() {
        return Err(failure);
    }
    if ended != RunOutcome::Done {
        return Err(format!(
            "the run does not end: {ended:?} at {} ns, after {} searches and {} commits, with {} clients; {:?}",
            world.now(),
            record.searches.get(),
            record.commits(),
            live,
            world.marks()
        ));
    }
    check_contents(world, &record)
}

/// Runs until all work is done, or until no search has ended for `stuck_after_ns`. The total time is not limited: a
/// slow NIC that a fault slows down further may execute a thousand READs per second.
fn run_while_searches_end(
    case: &SpatialCase,
    world: &World,
    record: &SearchRecord,
    group: &mut TaskGroup<'_>,
) -> RunOutcome {
    loop {
        let searches = record.searches.get();
        let ended = group.run_until(world.now() + case.stuck_after_ns);
        if ended != RunOutcome::Time || record.searches.get() == searches {
            return ended;
        }
    }
}

/// Creates the index and loads it; no virtual time passes.
fn load(case: &SpatialCase, world: &World) -> Result<Items, IndexError> {
    let client = world.untimed(0);
    let mut random = TestRng::new(case.spec.seed ^ 0x6C6F_6164);
    let items: Vec<_> = (0..case.loaded).map(|id| Item { bounds: bounds(&mut random), id }).collect();
    untimed(async {
        let index = Catfish::create(&client, "seeds", case.config).await?;
        let server = world.server(case.config.node);
        let tree = index.serve(&client, &server, ServerSettings::default()).await?;
        let worker = tree.worker(&client, &server);
        if case.config.ids.is_unique() {
            worker.bulk_load_records(items.iter().map(record_of).collect(), 0.8).await?;
        } else {
            worker.bulk_load(&items, 0.8).await?;
        }
        tree.release_lease(&client).await
    })?;
    Ok(items.iter().map(|item| (item.id, item.bounds)).collect())
}

fn open(case: &SpatialCase, world: &World) -> Result<Vec<Catfish>, IndexError> {
    (0..case.spec.compute_nodes)
        .map(|node| {
            let client = world.untimed(node);
            let index = untimed(Catfish::open(&client, "seeds"))?;
            Ok(match case.mutant {
                Some(mutant) => index.mutant(mutant),
                None => index,
            })
        })
        .collect()
}

/// Searches the whole tree when no client runs, and verifies its invariants.
fn check_contents(world: &World, record: &SearchRecord) -> Result<SpatialReport, String> {
    world.end_rules();
    let client = world.untimed(SERVERS);
    let walk = untimed(async {
        let index = Catfish::open(&client, "seeds").await?;
        let mut found = Vec::new();
        let window = Rectangle::new([-1.0, -1.0], [100.0, 100.0]).expect("a valid rectangle");
        let query = Query::intersecting(window);
        Reader::new(&index, &client, Issue::Many).search(&query, &mut found).await?;
        check_search(&query, record.begin(), found, record);
        index.walk(&client).await
    });
    let walk = walk.map_err(|error| format!("at the end: {error}"))?;
    if let Some(failure) = record.failure.take() {
        return Err(format!("at the end: {failure}"));
    }
    if let Some(problem) = walk.problems.first() {
        return Err(format!("the walk finds {} problems: {problem}", walk.problems.len()));
    }
    if walk.entries != record.now.borrow().len() as u64 {
        return Err(format!("the walk finds {} entries of {}", walk.entries, record.now.borrow().len()));
    }
    let (met, commits) = (world.met(), record.commits() as u64);
    let counted = record.searches.get() >= SEARCHES && commits >= COMMITS && met.faults() >= FAULTS;
    let mut levels = [0; 8];
    levels[walk.nodes.len()] = 1;
    Ok(SpatialReport {
        runs: 1,
        counted: u64::from(counted),
        searches: record.searches.get(),
        raced: record.raced.get(),
        found: record.found.get(),
        commits,
        successors: record.successors.get(),
        explained_errors: record.explained_errors.get(),
        met,
        marks: world.marks(),
        levels,
    })
}
