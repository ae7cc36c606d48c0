//! Ordered indexes in a run: each writer has a thread, and changes the index itself.

use super::history::{self, History, WRITERS, key};
use super::subject::{Clients, KeyValues, NAME, Subject};
use crate::tree::Tree as _;
use farwood_fabric::{Client, Fabric};
use farwood_index::IndexError;
use farwood_index::ordered::{Ordered, OrderedConfig, System};
use farwood_index::{sherman, smart, sphinx};
use farwood_testkit::harness::TestRng;
use farwood_testkit::history::{Action, Answer};
use farwood_transport::runtime::block_on;
use farwood_transport::tcp::MemoryNode;
use futures_util::future::join_all;

const CACHE_BYTES: usize = 64 << 10;

fn config(system: System) -> OrderedConfig {
    match system {
        System::Sherman => OrderedConfig::Sherman(sherman::ShermanConfig::default()),
        System::Smart => OrderedConfig::Smart(smart::SmartConfig::default()),
        System::Sphinx => OrderedConfig::Sphinx(sphinx::SphinxConfig::default()),
    }
}

/// Changes the keys of one writer.
fn write_keys(clients: &Clients<'_>, writer: usize) {
    let (pool, mut random) = (clients.open_pool(), clients.random(writer));
    let client = pool.client();
    let tree = block_on(<Ordered as Subject>::open(&client)).expect("the index opens");
    while !clients.is_stopping() {
        let _operating = clients.history.operate();
        let (number, change) = clients.history.begin(writer, &mut random);
        let action = change.map_or(Action::Remove, |value| Action::Put(value.to_le_bytes().to_vec()));
        block_on(tree.perform(&client, &key(writer, number), &action)).expect("a change succeeds");
        clients.history.end(writer);
    }
}

impl Subject for Ordered {
    type Kind = System;

    async fn create<F: Fabric>(client: &Client<F>, system: System) -> Result<(), IndexError> {
        Self::create(client, NAME, config(system), CACHE_BYTES).await.map(drop)
    }

    fn write(clients: &Clients<'_>) {
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                scope.spawn(move || write_keys(clients, writer));
            }
        });
    }

    async fn open<F: Fabric>(client: &Client<F>) -> Result<Self, IndexError> {
        Self::open(client, NAME, CACHE_BYTES).await
    }

    async fn read<F: Fabric>(
        &self,
        client: &Client<F>,
        random: &mut TestRng,
        history: &History,
    ) -> Result<(), IndexError> {
        let (writer, number) = history::draw_key(random);
        let answer = self.perform(client, &key(writer, number), &Action::Get).await?;
        if let Some(value) = value_of(answer).expect("a value of the writer") {
            history.has_seen(writer, value);
        }
        Ok(())
    }

    async fn values<F: Fabric>(&self, client: &Client<F>) -> Result<KeyValues, String> {
        // At the same time, which over TCP takes a third of the time that they take one after the other.
        let get = async |(writer, number)| self.perform(client, &key(writer, number), &Action::Get).await;
        let answers = join_all(history::keys().map(get)).await;
        let mut values = KeyValues::default();
        for ((writer, _), answer) in history::keys().zip(answers) {
            values[writer].push(value_of(answer.map_err(|error| format!("a get: {error}"))?)?);
        }
        Ok(values)
    }

    /// The puts take over locks of clients that the power failure ended.
    async fn change_some<F: Fabric>(
        &self,
        client: &Client<F>,
        _: &[MemoryNode],
        random: &mut TestRng,
    ) -> Result<(), IndexError> {
        for (writer, number) in history::keys().filter(|_| random.once_in(8)) {
            self.perform(client, &key(writer, number), &Action::Put(vec![0xFF; 8])).await?;
        }
        Ok(())
    }

    async fn problems<F: Fabric>(&self, client: &Client<F>) -> Result<String, IndexError> {
        let walk = self.walk(client).await?;
        Ok(if walk.problems().is_empty() { String::new() } else { format!("{:?}", walk.problems()) })
    }
}

/// The value that a get has found.
fn value_of(answer: Answer) -> Result<Option<u64>, String> {
    match answer {
        Answer::Found(None) => Ok(None),
        Answer::Found(Some(value)) => {
            let bytes = value.try_into().map_err(|value| format!("a value {value:02x?}"))?;
            Ok(Some(u64::from_le_bytes(bytes)))
        }
        other => Err(format!("a get answers {other:?}")),
    }
}
