//! Spatial indexes by seeds, in the laboratory: a server that changes its tree word by word, and clients that search it
//! by READs meanwhile.
//!
//! Every change is a commit, and commits have an order. So what is asked of a search is much: its answer must be
//! exactly what the tree of *one* commit has for it, of those between its beginning and its end. Missing what was there
//! throughout, or reporting something twice, is a small part of what this excludes.
//!
//! A *counted* seed has 8 clients on 3 compute nodes, 1,000 answered searches, 100 commits and 3 faults.

mod case;
mod clients;
mod notes;
mod report;
mod server;

pub use case::{COMMITS, Case, FAULTS, SEARCHES};
pub use report::Report;

use super::caught;
use case::{SERVERS, place};
use clients::{Searching, one_client, one_talker};
use farwood_index::IndexError;
use farwood_index::catfish::{Catfish, Issue, Item, Query, Reader, Rectangle, ServerSettings};
use farwood_sim::{Ended, Trace, World, at_once};
use farwood_testkit::harness::Chance;
use notes::{Items, Notes, judge};
use server::{serve, succeed};

/// Runs a case and checks everything; a panic is a failure like any other. With what was written down of it.
pub fn run(case: &Case) -> (Result<Report, String>, Trace) {
    match World::new(case.spec.clone()) {
        Ok(world) => {
            let outcome = caught(|| run_in(case, &world));
            (outcome.map_err(|what| format!("{what}; faults: {:?}", world.happened())), world.trace())
        }
        Err(error) => (Err(error.to_string()), Trace::default()),
    }
}

/// As [`run`], for whoever wants no trace.
///
/// # Errors
/// What went wrong.
pub fn outcome(case: &Case) -> Result<Report, String> {
    run(case).0
}

fn run_in(case: &Case, world: &World) -> Result<Report, String> {
    let first = load(case, world).map_err(|error| format!("loading: {error}"))?;
    let notes = Notes::new(first, case.clients);
    let servers: Vec<_> = (0..SERVERS).map(|node| world.client(node)).collect();
    let clients: Vec<_> = (0..case.clients)
        .map(|me| world.client(SERVERS + me % (case.spec.compute_nodes - SERVERS)))
        .collect();
    let indexes = open(case, world).map_err(|error| format!("opening: {error}"))?;
    let mut crew = world.crew();
    crew.spawn(&servers[0], serve(case, world, &indexes[0], &servers[0], &notes));
    crew.spawn(&servers[1], succeed(case, world, &indexes[1], &servers[1], &notes));
    for (me, client) in clients.iter().enumerate() {
        // From now on, for its compute node may crash before it is polled.
        let searching = Searching(&notes);
        let index = &indexes[client.fabric().seat().compute_node()];
        match case.talk {
            Some(talk) => {
                crew.spawn(client, one_talker(case, (me as u64, talk), index, client, world, searching));
            }
            None => crew.spawn(client, one_client(case, me as u64, index, client, world, searching)),
        }
    }
    // Where a compute node crashes, so do its clients; the others go on.
    let ended = crew.run_until(case.nanoseconds_max);
    let living = notes.searching.get();
    drop(crew);
    if let Some(failure) = notes.failure.take() {
        return Err(failure);
    }
    if ended != Ended::Done {
        return Err(format!(
            "the run does not end: {ended:?} at {} ns, after {} searches and {} commits, with {} clients; {:?}",
            world.now(),
            notes.searches.get(),
            notes.commits(),
            living,
            world.marks()
        ));
    }
    settle(case, world, &notes)
}

/// Makes the index and loads it, outside of time.
fn load(case: &Case, world: &World) -> Result<Items, IndexError> {
    let client = world.at_once(0);
    let mut chance = Chance::new(case.spec.seed ^ 0x6C6F_6164);
    let items: Vec<_> = (0..case.loaded).map(|id| Item { bounds: place(&mut chance), id }).collect();
    at_once(async {
        let index = Catfish::create(&client, "seeds", case.config).await?;
        let server = world.server(case.config.node);
        let tree = index.serve(&client, &server, ServerSettings::default()).await?;
        tree.worker(&client, &server).bulk_load(&items, 0.8).await?;
        tree.resign(&client).await
    })?;
    Ok(items.iter().map(|item| (item.id, item.bounds)).collect())
}

fn open(case: &Case, world: &World) -> Result<Vec<Catfish>, IndexError> {
    (0..case.spec.compute_nodes)
        .map(|node| {
            let client = world.at_once(node);
            let index = at_once(Catfish::open(&client, "seeds"))?;
            Ok(match case.sabotage {
                Some(sabotage) => index.sabotage(sabotage),
                None => index,
            })
        })
        .collect()
}

/// Looks at everything when nobody else runs, and walks the tree.
fn settle(case: &Case, world: &World, notes: &Notes) -> Result<Report, String> {
    world.end_rules();
    let client = world.at_once(SERVERS);
    let walk = at_once(async {
        let index = Catfish::open(&client, "seeds").await?;
        let mut found = Vec::new();
        let window = Rectangle::new([-1.0, -1.0], [100.0, 100.0]).expect("it is a rectangle");
        let query = Query::intersecting(window);
        Reader::new(&index, &client, Issue::Many).search(&query, &mut found).await?;
        judge(&query, notes.begin(), found, notes);
        index.walk(&client).await
    });
    let walk = walk.map_err(|error| format!("at the end: {error}"))?;
    if let Some(failure) = notes.failure.take() {
        return Err(format!("at the end: {failure}"));
    }
    if let Some(problem) = walk.problems.first() {
        return Err(format!("the walk finds {} problems: {problem}", walk.problems.len()));
    }
    if walk.entries != notes.now.borrow().len() as u64 {
        return Err(format!("the walk finds {} entries of {}", walk.entries, notes.now.borrow().len()));
    }
    let (met, commits) = (world.met(), notes.commits() as u64);
    let counted = notes.searches.get() >= SEARCHES && commits >= COMMITS && met.faults() >= FAULTS;
    let mut levels = [0; 8];
    levels[walk.nodes.len()] = 1;
    let _ = case;
    Ok(Report {
        runs: 1,
        counted: u64::from(counted),
        searches: notes.searches.get(),
        raced: notes.raced.get(),
        found: notes.found.get(),
        commits,
        successors: notes.successors.get(),
        excused: notes.excused.get(),
        met,
        marks: world.marks(),
        levels,
    })
}
