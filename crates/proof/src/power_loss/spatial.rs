//! A spatial index with records in a run: the writers are threads of its server, beside the first memory node.

use super::history::{self, History, WRITERS};
use super::subject::{Clients, KeyValues, NAME, Subject};
use farwood_fabric::{Client, Fabric, Server};
use farwood_index::IndexError;
use farwood_index::catfish::{
    Catfish, CatfishConfig, Change, IdKind, Issue, Query, Reader, Record, RecordId, Rectangle,
    ServerSettings, TreeServer, Worker,
};
use farwood_testkit::harness::TestRng;
use farwood_transport::runtime::block_on;
use farwood_transport::tcp::MemoryNode;
use std::sync::Arc;

/// Coordinates are less than this.
const WIDTH: u64 = 1 << 10;

fn id_of(writer: usize, number: u64) -> RecordId {
    RecordId::Number(number * WRITERS as u64 + writer as u64)
}

/// The change that gives a key a value. Its rectangle follows from the value, and moves with each change.
fn change_of(writer: usize, number: u64, value: Option<u64>) -> Change {
    let id = id_of(writer, number);
    match value {
        None => Change::Delete(id),
        Some(value) => {
            let payload = value.to_le_bytes().to_vec();
            Change::Put(Arc::new(Record { id, bounds: bounds_of(value), payload }))
        }
    }
}

fn bounds_of(value: u64) -> Rectangle {
    let at = [value.wrapping_mul(7) % WIDTH, value.wrapping_mul(131) % WIDTH].map(|place| place as f64);
    Rectangle::new(at, [at[0] + 4.0, at[1] + 2.0]).expect("a rectangle")
}

fn everything() -> Query {
    let all = Rectangle::new([0.0; 2], [2.0 * WIDTH as f64; 2]).expect("a rectangle");
    Query::intersecting(all)
}

/// The value of a record, and its writer and key.
fn value_of(record: &Record) -> Result<(usize, u64, u64), String> {
    let RecordId::Number(id) = &record.id else { return Err(format!("a record {:?}", record.id)) };
    let (writer, number) = ((id % WRITERS as u64) as usize, id / WRITERS as u64);
    let payload = record.payload.as_slice().try_into();
    let value = u64::from_le_bytes(payload.map_err(|_| format!("the payload of {record:?}"))?);
    if record.bounds != bounds_of(value) {
        return Err(format!("{record:?} has other bounds than {:?}", bounds_of(value)));
    }
    Ok((writer, number, value))
}

/// Changes the records of one writer. A change is answered when the memory node's level allows it.
fn write_records<F: Fabric, S: Server>(
    clients: &Clients<'_>,
    writer: usize,
    worker: &Worker<'_, F, S>,
    server: &S,
) {
    let mut random = clients.random(writer);
    while !clients.is_stopping() {
        let _operating = clients.history.operate();
        let (number, value) = clients.history.begin(writer, &mut random);
        let change = change_of(writer, number, value);
        block_on(worker.apply(&[change])).expect("a change succeeds");
        block_on(server.settle()).expect("the log is synced");
        clients.history.end(writer);
    }
}

async fn serve<F: Fabric, S: Server>(client: &Client<F>, server: &S) -> Result<TreeServer, IndexError> {
    <Catfish as Subject>::open(client).await?.serve(client, server, ServerSettings::default()).await
}

impl Subject for Catfish {
    type Kind = ();

    async fn create<F: Fabric>(client: &Client<F>, (): ()) -> Result<(), IndexError> {
        let config = CatfishConfig { ids: IdKind::Number, ..CatfishConfig::default() };
        Self::create(client, NAME, config).await.map(drop)
    }

    fn write(clients: &Clients<'_>) {
        let pool = clients.open_pool();
        let (client, server) = (pool.client(), clients.nodes[0].server());
        let tree = block_on(serve(&client, &server)).expect("there is no other server");
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let (pool, tree) = (&pool, &tree);
                scope.spawn(move || {
                    let (client, server) = (pool.client(), clients.nodes[0].server());
                    let worker = tree.worker(&client, &server);
                    write_records(clients, writer, &worker, &server);
                });
            }
        });
    }

    async fn open<F: Fabric>(client: &Client<F>) -> Result<Self, IndexError> {
        Self::open(client, NAME).await
    }

    async fn read<F: Fabric>(
        &self,
        client: &Client<F>,
        random: &mut TestRng,
        history: &History,
    ) -> Result<(), IndexError> {
        let (writer, number) = history::draw_key(random);
        let found = Reader::new(self, client, Issue::Many).get(&id_of(writer, number)).await?;
        if let Some(record) = found {
            let (found_writer, found_number, value) = value_of(&record).expect("a record of the writer");
            assert_eq!((found_writer, found_number), (writer, number));
            history.has_seen(writer, value);
        }
        Ok(())
    }

    async fn values<F: Fabric>(&self, client: &Client<F>) -> Result<KeyValues, String> {
        let found = Reader::new(self, client, Issue::Many).search_records(&everything()).await;
        let mut values = std::array::from_fn(|_| history::numbers().map(|_| None).collect::<Vec<_>>());
        for record in found.map_err(|error| format!("a search: {error}"))? {
            let (writer, number, value) = value_of(&record)?;
            let place = values[writer].get_mut(number as usize);
            let place = place.ok_or_else(|| format!("there is a record {record:?}"))?;
            if place.replace(value).is_some() {
                return Err(format!("a search finds {:?} twice", record.id));
            }
        }
        Ok(values)
    }

    /// A new server continues with the tree.
    async fn change_some<F: Fabric>(
        &self,
        client: &Client<F>,
        nodes: &[MemoryNode],
        random: &mut TestRng,
    ) -> Result<(), IndexError> {
        let Some(node) = nodes.first() else { return Ok(()) };
        let server = node.server();
        let tree = serve(client, &server).await?;
        let worker = tree.worker(client, &server);
        for (writer, number) in history::keys().filter(|_| random.once_in(8)) {
            worker.apply(&[change_of(writer, number, Some(u64::MAX))]).await?;
        }
        Ok(())
    }

    async fn problems<F: Fabric>(&self, client: &Client<F>) -> Result<String, IndexError> {
        let walk = self.walk(client).await?;
        Ok(if walk.problems.is_empty() { String::new() } else { format!("{:?}", walk.problems) })
    }
}
