//! Blocking lookups: with the client of the caller's thread or, if too many threads use a pool over a network, on the
//! thread of the pool.

use super::caller::Caller;
use super::index::Spatial;
use super::lookup::Route;
use super::lookup_kinds::{Lookup, Search, SearchInto};
use crate::error::Result;
use crate::observe::MeteredClient;
use crate::thread_client::{self, ThreadPath};
use farwood_index::catfish::{Query, SearchSink};
use farwood_transport::runtime::{TaskThread, block_on};
use std::time::{Duration, Instant};

impl Spatial {
    /// Executes a lookup by the path that the options determine, with the client of this thread or on the thread of the
    /// pool, and blocks.
    pub(super) fn look_up_blocking<L>(&self, lookup: &L) -> Result<L::Found>
    where
        L: Lookup<Found: Send> + Sync,
    {
        let this = self.here();
        match this.thread_path(L::OPERATION)? {
            ThreadPath::Own(client) => this.look_up_here(&client, lookup),
            ThreadPath::Shared(thread) => this.look_up_on(&thread, lookup),
        }
    }

    /// As [`look_up_blocking`](Self::look_up_blocking), but passes the items to a sink, which stays on this thread.
    pub(super) fn look_up_into(&self, query: &Query, sink: &mut impl SearchSink) -> Result<()> {
        let this = self.here();
        match this.thread_path(Search::OPERATION)? {
            ThreadPath::Own(client) => this.look_up_here(&client, &SearchInto::new(query, sink)),
            ThreadPath::Shared(thread) => {
                let found = this.look_up_on(&thread, &Search(query))?;
                sink.restart();
                for item in found {
                    sink.item(item);
                }
                Ok(())
            }
        }
    }

    pub(super) fn thread_path(&self, operation: &'static str) -> Result<ThreadPath> {
        thread_client::path(&self.pool).map_err(|error| self.failed(operation, error.into()))
    }

    /// Executes a lookup on the thread of the pool.
    fn look_up_on<L>(&self, thread: &TaskThread, lookup: &L) -> Result<L::Found>
    where
        L: Lookup<Found: Send> + Sync,
    {
        let begun = Instant::now();
        thread.run(async || {
            let client = self.thread_client(L::OPERATION)?;
            self.look_up(Caller::handle(&client, begun), lookup).await
        })
    }

    /// Executes a lookup with a client of this thread. It polls the future of READs directly, because each enclosing
    /// future would copy its kilobytes once more.
    fn look_up_here<L: Lookup>(&self, client: &MeteredClient, lookup: &L) -> Result<L::Found> {
        let done = client.call(&self.metered, L::OPERATION, || match self.route(L::KIND) {
            Route::Reads => {
                self.lookups.count_by_reads();
                block_on(lookup.by_reads(self.tree_reader(client)))
            }
            route => block_on(self.by_route(route, (client, Duration::ZERO), lookup)),
        });
        done.map_err(|error| self.failed(L::OPERATION, error))
    }
}
