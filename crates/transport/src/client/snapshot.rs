//! A snapshot of a pool: all memory nodes as they were at one cut (`daemon/snapshot/mod.rs` has the proof).
//!
//! One connection to each memory node, without an identity, keeps the snapshot. The process prepares it on all memory
//! nodes, sends all of them the same cut, which none has entered, and then lets all of them enter it. Other connections
//! of the process use the snapshot ([`Endpoints::in_snapshot`]).

use super::address::PoolAddress;
use super::credentials::Credentials;
use super::dial::{AcceptedConnection, control, control_within};
use super::endpoints::{Endpoints, PRESENCE_CONNECTION, keep_presence};
use super::error::{ConnectError, node_error};
use super::formation::CandidateNodes;
use super::host_port::HostPort;
use super::membership::enter;
use super::pool::ServedPool;
use super::transport::VerbTransport;
use crate::error::TcpError;
use crate::fork::ForkCount;
use crate::random_number;
use crate::wire::{Code, Control};
use farwood_fabric::{Access, FabricError, NodeId, PoolShape};
use std::fmt;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Attempts to find a cut that no memory node has entered: each memory node begins cuts by itself, seldom compared to
/// the duration of an attempt.
const AIMS_MAX: u32 = 20;
/// The time for which a process waits for the end of another snapshot: a memory node notices the end of a dump a moment
/// later.
const BUSY_MAX: Duration = Duration::from_secs(1);
const BUSY_PAUSE: Duration = Duration::from_millis(20);
/// The longest time in which a memory node prepares a snapshot: it waits until executing verbs have ended.
const PREPARE_MAX: Duration = Duration::from_secs(20);

/// The connections that keep a snapshot of all memory nodes of a pool. The snapshot ends when they are dropped.
pub struct PoolSnapshot {
    number: u64,
    cut: u64,
    addresses: Box<[HostPort]>,
    nodes: Vec<AcceptedConnection>,
}

impl PoolSnapshot {
    /// Connects to the memory nodes of an existing pool, and takes a snapshot.
    fn of(
        address: &PoolAddress,
        credentials: &Credentials,
        scheme: &'static str,
    ) -> Result<(Self, PoolShape, PoolAddress), TcpError> {
        let (nodes, shape) = CandidateNodes::find_in_time(address, credentials, scheme)?;
        let reader = nodes.all.iter().position(|node| node.welcome.access == Access::ReadOnly);
        if let Some(at) = reader {
            return Err(TcpError::SnapshotDenied { address: nodes.address().nodes()[at].to_string() });
        }
        let address = nodes.address().clone();
        Ok((Self::take(nodes.all, address.nodes())?, shape, address))
    }

    /// Takes a snapshot; `nodes` are connections without an identity, one to each memory node.
    fn take(nodes: Vec<AcceptedConnection>, addresses: &[HostPort]) -> Result<Self, TcpError> {
        let number = random_number().max(1);
        let mut this = Self { number, cut: 0, addresses: addresses.into(), nodes };
        let mut newest = 0;
        for at in 0..this.nodes.len() {
            let [cut, ..] = this.ask(at, Control::PrepareSnapshot, [number, 0, 0, 0])?;
            newest = newest.max(cut);
        }
        this.cut = this.aim_after(newest)?;
        for at in 0..this.nodes.len() {
            this.ask(at, Control::TakeSnapshot, [number, 0, 0, 0])?;
        }
        // Objects of before the cut can be on a memory node that was added while the snapshot was prepared.
        if this.ask(0, Control::CountNodes, [0; 4])?[0] != this.nodes.len() as u64 {
            let why = "a memory node was added to the pool at this moment; repeat the dump".to_owned();
            return Err(TcpError::SnapshotBusy { address: this.addresses[0].to_string(), why });
        }
        Ok(this)
    }

    /// Chooses a cut after `newest` that no memory node has entered.
    fn aim_after(&mut self, mut newest: u64) -> Result<u64, TcpError> {
        for _ in 0..AIMS_MAX {
            let cut = newest.saturating_add(1);
            let mut all_are_ahead = true;
            for at in 0..self.nodes.len() {
                let [is_ahead, own, ..] = self.ask(at, Control::AimSnapshot, [self.number, cut, 0, 0])?;
                newest = newest.max(own);
                all_are_ahead &= is_ahead == 1;
            }
            if all_are_ahead {
                return Ok(cut);
            }
        }
        let (address, why) = (
            self.addresses[0].to_string(),
            "the memory nodes begin cuts faster than a snapshot of all of them can be made; repeat the dump, or start \
             them with a longer --durability interval"
                .to_owned(),
        );
        Err(TcpError::SnapshotBusy { address, why })
    }

    fn ask(&mut self, at: usize, what: Control, words: [u64; 4]) -> Result<[u64; 4], TcpError> {
        let stream = &mut self.nodes[at].stream;
        control_within(stream, what, words, PREPARE_MAX).map_err(|why| match why {
            ConnectError::Refused(Code::ReadOnly, _) => {
                TcpError::SnapshotDenied { address: self.addresses[at].to_string() }
            }
            why => node_error(&self.addresses[at], why),
        })
    }

    /// The cut at which it was taken.
    pub fn cut(&self) -> u64 {
        self.cut
    }

    /// Checks that no memory node has ended the snapshot; returns the bytes of its pages there. [1 RT for each memory
    /// node]
    ///
    /// # Errors
    /// [`TcpError::SnapshotLost`]; the errors of lost memory nodes.
    pub fn check(&mut self) -> Result<u64, TcpError> {
        let mut bytes = 0;
        for (node, address) in self.nodes.iter_mut().zip(&self.addresses) {
            let words = [self.number, 0, 0, 0];
            let state = control(&mut node.stream, Control::SnapshotState, words);
            bytes += state.map_err(|why| node_error(address, why))?[0];
        }
        Ok(bytes)
    }
}

impl fmt::Debug for PoolSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolSnapshot").field("cut", &self.cut).finish_non_exhaustive()
    }
}

impl<W: VerbTransport> ServedPool<W> {
    /// Attaches this process to a new snapshot of an existing pool, as the only client in it.
    pub(crate) fn attach_snapshot(
        address: &PoolAddress,
        credentials: Credentials,
        shared: W::Shared,
    ) -> Result<(Self, PoolSnapshot), TcpError> {
        let forks = ForkCount::now();
        let end = Instant::now() + BUSY_MAX;
        let (snapshot, shape, address) = loop {
            match PoolSnapshot::of(address, &credentials, W::SCHEME) {
                Err(TcpError::SnapshotBusy { .. }) if Instant::now() < end => std::thread::sleep(BUSY_PAUSE),
                taken => break taken?,
            }
        };
        let incarnations = snapshot.nodes.iter().map(|node| node.welcome.incarnation).collect();
        let (shared, count) = (Arc::new(shared), shape.nodes);
        let endpoints = Endpoints::new(address.clone(), credentials, shape, incarnations);
        let endpoints = Arc::new(endpoints.in_snapshot(snapshot.number));
        let dial = |node: u16| {
            let dialled = endpoints.dial(NodeId(node), None, PRESENCE_CONNECTION);
            dialled.map_err(|why| node_error(&address.nodes()[usize::from(node)], why))
        };
        let mut all = (0..count).map(dial).collect::<Result<Vec<_>, _>>()?;
        let pool = |error| TcpError::Pool { pool: format!("{}://{address}", W::SCHEME), error };
        let identity = enter::<W>(&shared, &endpoints, &mut all).map_err(pool)?;
        keep_presence(&endpoints, identity, all.swap_remove(0).stream)
            .map_err(|error| pool(FabricError::CannotPost { node: NodeId(0), why: error.to_string() }))?;
        Ok((Self::of(endpoints, shared, Some(identity), NonZeroU16::MIN, forks), snapshot))
    }
}
