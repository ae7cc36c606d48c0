//! The controls of snapshots, and the controls of connections that use one.

use super::event::NodeEvent;
use super::registry::{Peer, Refusal};
use super::shared::Shared;
use crate::wire::{Code, Control};

/// Executes a control of a snapshot.
pub(super) fn of_snapshot(
    shared: &Shared,
    peer: &Peer,
    control: Control,
    [number, cut]: [u64; 2],
) -> Result<[u64; 4], Refusal> {
    let store = &shared.store;
    match control {
        Control::PrepareSnapshot => prepare(shared, peer, number),
        Control::AimSnapshot => {
            let (is_ahead, own) = store.aim_snapshot(number, peer.number(), cut)?;
            Ok([is_ahead.into(), own, 0, 0])
        }
        Control::TakeSnapshot => store.take_snapshot(number).map(|()| [0; 4]),
        // Both need a snapshot that is taken.
        Control::UseSnapshot | Control::SnapshotState => Ok([store.snapshot_bytes(number)?, 0, 0, 0]),
        control => unreachable!("{control:?} is no control of snapshots"),
    }
}

/// Prepares a snapshot: when this returns, all changes of the memory consider it.
fn prepare(shared: &Shared, peer: &Peer, number: u64) -> Result<[u64; 4], Refusal> {
    if shared.executor.is_some() {
        let why = "an RDMA device changes its memory without the memory node, so it makes no snapshot: dump each index \
                   by itself (without --consistent)";
        return Err((Code::WrongTransport, why.to_owned()));
    }
    let snapshots = shared.store.snapshots();
    snapshots.prepare(number, peer.number())?;
    shared.registry.await_verbs();
    snapshots.await_own_changes().inspect_err(|_| snapshots.end_of(peer.number()))?;
    shared.log(|| NodeEvent::SnapshotBegun { from: peer.stream().peer_addr().ok() });
    Ok([shared.store.current_cut(), 0, 0, 0])
}

/// Executes a control of a connection that uses a snapshot. There, all clients of the pool have ended, and the only one
/// is the process that has made the snapshot: it may take every slot, nobody is connected, and a fence has no effect.
/// The registry of the live clients is neither read nor changed.
pub(super) fn in_snapshot(
    shared: &Shared,
    snapshot: u64,
    control: Control,
    word: u64,
) -> Result<[u64; 4], Refusal> {
    let bytes = shared.store.snapshot_bytes(snapshot)?;
    match control {
        Control::Claim
        | Control::Identify
        | Control::CountConnections
        | Control::Fence
        | Control::Provision => Ok([0; 4]),
        Control::CountNodes => Ok([shared.store.membership().nodes.into(), 0, 0, 0]),
        Control::SnapshotState => Ok([bytes, 0, 0, 0]),
        Control::Stat => {
            shared.stat(word).ok_or_else(|| (Code::OutOfRange, "there is no such page".to_owned()))
        }
        Control::Form
        | Control::FinishForming
        | Control::Region
        | Control::ConnectQueuePair
        | Control::Cuts
        | Control::ReturnToCut
        | Control::Grow
        | Control::Extend
        | Control::NodeAddress
        | Control::PrepareSnapshot
        | Control::AimSnapshot
        | Control::TakeSnapshot
        | Control::UseSnapshot => {
            let what = control.description();
            Err((Code::WrongPool, format!("its connection uses a snapshot, so it cannot {what}")))
        }
    }
}
