//! The simulator as a [`Harness`]: each test has its own world.

use farwood_fabric::{Client, Fabric, NodeId, PoolShape};
use farwood_sim::{SimFabric, SimServer, World, WorldSpec};
use farwood_testkit::{Harness, ServerHarness};
use std::cell::RefCell;
use std::future::Future;

/// A simulated world under test.
#[derive(Debug)]
pub struct Simulator(World);

impl Simulator {
    /// Creates a world.
    ///
    /// # Panics
    /// If the specification is invalid.
    pub fn new(spec: WorldSpec) -> Self {
        Self(World::new(spec).expect("a valid world"))
    }

    /// Returns the simulated network with its machines.
    pub fn world(&self) -> &World {
        &self.0
    }

    fn numbered(&self, number: usize) -> Client<SimFabric> {
        if number.is_multiple_of(2) { self.client() } else { self.separate_client() }
    }
}

impl Harness for Simulator {
    type Fabric = SimFabric;

    fn client(&self) -> Client<SimFabric> {
        self.0.client(0)
    }

    fn separate_client(&self) -> Client<SimFabric> {
        self.0.transient_client()
    }

    fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.0.block_on(work)
    }

    fn run_clients<T: Send>(
        &self,
        count: usize,
        work: impl AsyncFn(usize, Client<SimFabric>) -> T + Sync,
    ) -> Vec<T> {
        let done: Vec<RefCell<Option<T>>> = (0..count).map(|_| RefCell::default()).collect();
        let mut group = self.0.task_group();
        for (number, done) in done.iter().enumerate() {
            let client = self.numbered(number);
            let (seat, work) = (client.fabric().sim_thread(), &work);
            group.spawn_at(seat, async move { *done.borrow_mut() = Some(work(number, client).await) });
        }
        group.run().expect("the clients end");
        drop(group);
        done.into_iter().filter_map(RefCell::into_inner).collect()
    }

    fn shape(&self) -> PoolShape {
        self.0.client(0).fabric().shape()
    }
}

impl ServerHarness for Simulator {
    type Server = SimServer;

    fn server(&self, node: NodeId) -> SimServer {
        self.0.server(node)
    }

    fn serve<S: Send, C: Send>(
        &self,
        server: impl AsyncFnOnce(SimServer) -> S + Send,
        client: impl AsyncFnOnce(Client<SimFabric>) -> C + Send,
    ) -> (S, C) {
        let (served, asked) = (RefCell::new(None), RefCell::new(None));
        let mut group = self.0.task_group();
        let (us, them) = (self.0.server(NodeId(0)), self.0.client(0));
        group.spawn_server(async { *served.borrow_mut() = Some(server(us).await) });
        group.spawn_at(them.fabric().sim_thread(), async { *asked.borrow_mut() = Some(client(them).await) });
        group.run().expect("server and client end");
        drop(group);
        let (Some(served), Some(asked)) = (served.into_inner(), asked.into_inner()) else {
            unreachable!("server and client ended")
        };
        (served, asked)
    }
}
