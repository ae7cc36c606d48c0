//! The costs of Catfish's operations on any fabric with servers: the rows of `docs/costs-catfish.md`.

use crate::golden::CostTable;
use farwood_fabric::{Client, Costs, NodeId, Server as _};
use farwood_index::catfish::{
    Catfish, CatfishConfig, Change, Count, IdKind, Inbox, Issue, Item, NotificationMode, Query, Reader,
    Record, RecordId, Rectangle, RingRpc, ServerSettings, Service, ServiceSettings, SpatialRpc as _,
    TreeServer,
};
use farwood_testkit::ServerHarness;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

/// Items in each row and column of the grid that is loaded. With nodes of 7 entries the tree has four levels.
const SIDE: u64 = 30;

fn item(id: u64) -> Item {
    let corner = [(id % SIDE) as f64, (id / SIDE) as f64];
    let bounds = Rectangle::new(corner, [corner[0] + 0.5, corner[1] + 0.5]);
    Item { bounds: bounds.expect("an item has an area"), id }
}

fn window(min: [f64; 2], edge: f64) -> Query {
    let window = Rectangle::new(min, [min[0] + edge, min[1] + edge]);
    Query::intersecting(window.expect("an edge is not negative"))
}

/// A loaded spatial tree, its server, and a client.
struct CostFixture<H: ServerHarness> {
    world: H,
    client: Client<H::Fabric>,
    server: H::Server,
    index: Catfish,
    tree: TreeServer,
}

impl<H: ServerHarness> CostFixture<H> {
    fn on(world: H) -> Self {
        let (client, server) = (world.client(), world.server(NodeId(0)));
        let items: Vec<_> = (0..SIDE * SIDE).map(item).collect();
        let (index, tree) = world.block_on(async {
            let config = CatfishConfig { blocks: 1, ring_bytes: 4096, ..CatfishConfig::default() };
            let index = Catfish::create(&client, "costs", config).await.expect("a pool");
            let settings = ServerSettings { reuse_delay_ns: 0, ..ServerSettings::default() };
            let tree = index.serve(&client, &server, settings).await.expect("no other server");
            tree.worker(&client, &server).bulk_load(&items, 1.0).await.expect("memory is free");
            (index, tree)
        });
        Self { world, client, server, index, tree }
    }

    /// Runs `work` and yields the costs of `client`.
    fn cost<T>(&self, client: &Client<H::Fabric>, work: impl Future<Output = T>) -> Costs {
        client.take_costs();
        self.world.block_on(work);
        client.take_costs()
    }
}

/// Adds the rows of searches by READs.
fn add_reads<H: ServerHarness>(table: &mut CostTable, bench: &CostFixture<H>) {
    let client = bench.world.client();
    for (issue, variant) in [(Issue::One, "offloading"), (Issue::Many, "+multi-issue")] {
        let mut reader = Reader::new(&bench.index, &client, issue);
        let mut row = |operation: &str, case: &str, costs: Costs| table.row(variant, operation, case, costs);
        let mut search = |query: Query| {
            let mut found = Count::default();
            let costs =
                bench.cost(&client, async { reader.search(&query, &mut found).await.expect("a search") });
            (costs, found.0)
        };
        // The first search caches the root's address.
        search(window([3.1, 3.1], 0.1));
        let (costs, found) = search(window([3.1, 3.1], 0.1));
        assert_eq!(found, 1);
        row("search", "1 result", costs);
        let (costs, found) = search(window([-5.0, -5.0], 1.0));
        assert_eq!(found, 0);
        row("search", "no result", costs);
        let (costs, found) = search(window([10.0, 10.0], 9.2));
        assert_eq!(found, 100);
        row("search", "100 results", costs);
        let moved = item(SIDE * SIDE + 1);
        bench.world.block_on(async {
            let worker = bench.tree.worker(&bench.client, &bench.server);
            worker.insert(&moved).await.expect("an insert");
        });
        let (costs, _) = search(window([3.1, 3.1], 0.1));
        row("search", "1 result, after a change", costs);
        bench.world.block_on(async {
            let worker = bench.tree.worker(&bench.client, &bench.server);
            assert!(worker.remove(&moved).await.expect("a removal"));
        });
        bench.cost(&client, async { reader.nearest([9.0, 9.0], 1).await.expect("a search") });
        for count in [1, 10] {
            let costs =
                bench.cost(&client, async { reader.nearest([9.2, 9.2], count).await.expect("a search") });
            row("nearest", &format!("{count} of {}", SIDE * SIDE), costs);
        }
    }
}

/// Adds the rows of the server's local operations.
fn add_server<H: ServerHarness>(table: &mut CostTable, bench: &CostFixture<H>) {
    let worker = bench.tree.worker(&bench.client, &bench.server);
    let mut row = |operation: &str, case: &str, costs: Costs| table.row("in place", operation, case, costs);
    let (query, new) = (window([10.0, 10.0], 9.2), item(SIDE * SIDE + 7));
    let mut count = Count::default();
    let cost = |work| bench.cost(&bench.client, work);
    row(
        "search",
        "100 results",
        cost(Box::pin(async {
            worker.search(&query, &mut count).await.expect("a search");
        }) as std::pin::Pin<Box<dyn Future<Output = ()>>>),
    );
    row("insert", "", cost(Box::pin(async { worker.insert(&new).await.expect("an insert") })));
    row(
        "update",
        "",
        cost(Box::pin(async {
            assert!(worker.update(&new, item(5).bounds).await.expect("an update"));
        })),
    );
    let moved = Item { bounds: item(5).bounds, ..new };
    row("remove", "", cost(Box::pin(async { assert!(worker.remove(&moved).await.expect("a removal")) })));
}

/// Runs `work` while the server answers requests.
fn with_server<H: ServerHarness, T>(
    bench: &CostFixture<H>,
    notice: NotificationMode,
    work: impl Future<Output = T>,
) -> T {
    let settings = ServiceSettings { notice, ..ServiceSettings::default() };
    let service = Service::new(&bench.tree, settings);
    let clients: Vec<_> = (0..4).map(|_| bench.world.client()).collect();
    let (service, server) = (&service, &bench.server);
    bench.world.block_on(async {
        let mut flows: Vec<_> = clients
            .iter()
            .enumerate()
            .map(|(number, client)| Box::pin(service.connection(number, client, server)))
            .collect();
        let mut dispatch = pin!(service.dispatch(server));
        let mut work = pin!(work);
        poll_fn(|context| {
            for flow in &mut flows {
                if let Poll::Ready(done) = flow.as_mut().poll(context) {
                    panic!("a connection's flow ended: {done:?}");
                }
            }
            let _ = dispatch.as_mut().poll(context);
            work.as_mut().poll(context)
        })
        .await
    })
}

/// Adds the rows of requests by message, with the costs of the client.
fn add_messages<H: ServerHarness>(table: &mut CostTable, bench: &CostFixture<H>) {
    for (notice, variant) in
        [(NotificationMode::Polling, "fast messaging"), (NotificationMode::Event, "+event")]
    {
        let client = bench.world.client();
        let memory = bench.world.server(NodeId(0));
        let mut costs: Vec<(&str, &str, Costs)> = Vec::new();
        with_server(bench, notice, async {
            let inbox = Inbox { local: memory.local(), at: None };
            let connected = RingRpc::connect(&bench.index, &client, inbox, notice).await;
            let mut connection = connected.expect("the server answers");
            let new = item(SIDE * SIDE + 3);
            let mut note = |operation, case| {
                costs.push((operation, case, client.take_costs()));
            };
            let _ = client.take_costs();
            let mut found = Count::default();
            connection.search(&window([3.1, 3.1], 0.1), &mut found).await.expect("a search");
            note("search", "1 result");
            let found = connection.count(&window([10.0, 10.0], 9.2)).await.expect("a count");
            assert_eq!(found, 100);
            note("count", "100 results");
            let mut found = Count::default();
            connection.search(&window([10.0, 10.0], 9.2), &mut found).await.expect("a search");
            assert_eq!(found.0, 100);
            note("search", "100 results, in 5 segments");
            connection.nearest([9.2, 9.2], 10).await.expect("a search");
            note("nearest", "10");
            connection.insert(&new).await.expect("an insert");
            note("insert", "");
            assert!(connection.update(&new, item(5).bounds).await.expect("an update"));
            note("update", "");
            let moved = Item { bounds: item(5).bounds, ..new };
            assert!(connection.remove(&moved).await.expect("a removal"));
            note("remove", "");
            let many: Vec<_> = (0..20).map(|id| Change::Insert(item(SIDE * SIDE + id))).collect();
            assert_eq!(connection.changes_that_fit(&many), 20);
            assert_eq!(connection.apply(&many).await.expect("inserts"), [true; 20]);
            note("insert", "20 in one request");
            let removals: Vec<_> = (0..20).map(|id| Change::Remove(item(SIDE * SIDE + id))).collect();
            assert_eq!(connection.apply(&removals).await.expect("removals"), [true; 20]);
            note("remove", "20 in one request");
            connection.close().await.expect("the connection is closed");
            note("close", "");
        });
        for (operation, case, costs) in costs {
            table.row(variant, operation, case, costs);
        }
    }
}

/// The record of an item; one in a hundred has a payload that is longer than a node.
fn record(id: u64) -> Record {
    let payload = vec![7; if id.is_multiple_of(100) { 3_000 } else { 20 }];
    Record { id: RecordId::Number(id), bounds: item(id).bounds, payload }
}

/// Adds the rows of lookups of records by READs, in an index of its own.
fn add_records<H: ServerHarness>(table: &mut CostTable, bench: &CostFixture<H>) {
    let (client, server) = (&bench.client, &bench.server);
    let index = bench.world.block_on(async {
        let config = CatfishConfig { blocks: 5, ids: IdKind::Number, ..CatfishConfig::default() };
        let index = Catfish::create(client, "records", config).await.expect("a pool");
        let tree = index.serve(client, server, ServerSettings::default()).await.expect("no other server");
        let records = (0..SIDE * SIDE).map(record).collect();
        tree.worker(client, server).bulk_load_records(records, 1.0).await.expect("memory is free");
        index
    });
    let client = bench.world.client();
    let mut reader = Reader::new(&index, &client, Issue::Many);
    // The first lookup caches the root's address.
    bench.cost(&client, async { reader.get(&RecordId::Number(1)).await.expect("a lookup") });
    for (case, id, is_there) in
        [("", 31, true), ("a long payload", 500, true), ("absent", SIDE * SIDE, false)]
    {
        let costs = bench.cost(&client, async {
            let found = reader.get(&RecordId::Number(id)).await.expect("a lookup");
            assert_eq!(found, is_there.then(|| record(id)));
        });
        table.row("records", "get", case, costs);
    }
    for (case, query, count) in
        [("1 result", window([3.1, 3.1], 0.1), 1), ("100 results", window([10.0, 11.0], 9.2), 100)]
    {
        let costs = bench.cost(&client, async {
            let found = reader.search_records(&query).await.expect("a search");
            assert_eq!(found.len(), count);
        });
        table.row("records", "search", case, costs);
    }
}

/// Measures all rows of the cost table.
///
/// # Panics
/// If an operation fails.
pub fn table<H: ServerHarness>(world: H) -> CostTable {
    let conditions = "The tree\nhas 900 rectangles, nodes of 7 entries and four levels; rings have 4 KiB. Rows named \
                      `records` are of\nan index of 900 unique ids, with nodes of 35 entries, by READs. Only the \
                      verbs of the client are counted:\nthe server, whose rows are named `in place`, posts none for \
                      its operations on its own memory, and one WRITE per\nsegment of a response. A \
                      WRITE_WITH_IMM counts as a WRITE";
    let mut table = CostTable::new("Costs of Catfish", conditions, "catfish/costs.rs");
    let bench = CostFixture::on(world);
    add_reads(&mut table, &bench);
    add_server(&mut table, &bench);
    add_messages(&mut table, &bench);
    add_records(&mut table, &bench);
    table
}
