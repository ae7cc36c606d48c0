//! The controls of a connection: requests to the memory node itself, which execute no verb.

use super::Connection;
use crate::daemon::attached_clients::FencedBy;
use crate::daemon::event::NodeEvent;
use crate::daemon::log::CutSpan;
use crate::daemon::registry::{Refusal, read_only};
use crate::daemon::shared::Shared;
use crate::daemon::verb_executor::VerbExecutor;
use crate::daemon::{growth_controls, snapshot_controls};
use crate::wire::{Code, Control, FENCED_BY_ITSELF, Frame, Malformed};
use farwood_fabric::{Access, ClientId};

impl Connection {
    /// Executes a control; the inner error is the answer.
    pub(super) fn control(
        &self,
        shared: &Shared,
        frame: &Frame<'_>,
    ) -> Result<Result<[u64; 4], Refusal>, Malformed> {
        let control = Control::from_byte(frame.code).ok_or(Malformed::Control(frame.code))?;
        if self.access == Access::ReadOnly && !control.only_reads() {
            return Ok(Err(read_only(control.description())));
        }
        let words = frame.words()?;
        let [a, b, c, _] = words;
        if let Some(snapshot) = self.snapshot {
            return Ok(snapshot_controls::in_snapshot(shared, snapshot, control, a));
        }
        let (store, registry) = (&shared.store, &shared.registry);
        let in_words = |why| (Code::WrongPool, why);
        let done = match control {
            Control::Claim => registry.claim(store, &self.peer, a).map(|()| [0; 4]),
            Control::Identify => client_of(words)
                .and_then(|client| registry.identify(store, &self.peer, client, self.number))
                .map(|()| [0; 4]),
            Control::CountConnections => {
                client_of(words).map(|client| [registry.connections_of(client), 0, 0, 0])
            }
            Control::Fence => client_of(words).and_then(|client| {
                let by = if c == FENCED_BY_ITSELF { FencedBy::Itself } else { FencedBy::Another };
                if let Some(revoked) = registry.fence(store, client, by)? {
                    shared.log(|| NodeEvent::Revoked(revoked));
                }
                Ok([0; 4])
            }),
            Control::Form => number_of(b)
                .and_then(|node| store.form(a, node, number_of(c)?).map_err(in_words))
                .map(|()| [0; 4]),
            Control::FinishForming => store.finish_forming().map(|()| [0; 4]).map_err(in_words),
            Control::Cuts => {
                let words = |span: CutSpan| [span.oldest, span.newest, store.returned_cut(), 0];
                store.cut_span().map(words).map_err(in_words)
            }
            Control::ReturnToCut => self.return_to_cut(shared, words).map(|()| [0; 4]),
            Control::Grow => growth_controls::grow(shared, a),
            Control::Extend => number_of(a).and_then(|nodes| growth_controls::extend(shared, nodes)),
            Control::CountNodes => Ok([store.membership().nodes.into(), 0, 0, 0]),
            Control::NodeAddress => growth_controls::address(shared, [a, b]),
            Control::Provision => store.provision(a, b).map(|()| [0; 4]),
            Control::Region => executor(shared).map(VerbExecutor::region),
            Control::ConnectQueuePair => executor(shared).and_then(|executor| self.connect(executor, words)),
            Control::Stat => {
                shared.stat(a).ok_or_else(|| (Code::OutOfRange, "there is no such page".to_owned()))
            }
            Control::PrepareSnapshot
            | Control::AimSnapshot
            | Control::TakeSnapshot
            | Control::UseSnapshot
            | Control::SnapshotState => snapshot_controls::of_snapshot(shared, &self.peer, control, [a, b]),
        };
        if let Err((Code::QueuePairStuck, why)) = &done {
            shared.log(|| NodeEvent::Card(why.clone()));
        }
        Ok(done)
    }

    /// Returns the memory to a cut, after it has ended all other connections.
    fn return_to_cut(&self, shared: &Shared, [cut, number, incarnation, _]: [u64; 4]) -> Result<(), Refusal> {
        let store = &shared.store;
        store.prepare_return([cut, number], incarnation).map_err(|why| (Code::WrongPool, why))?;
        shared.registry.end_others(&self.peer)?;
        store.return_to_cut(cut, number).map_err(|why| (Code::WrongPool, why))?;
        shared.log(|| NodeEvent::Returned { cut });
        Ok(())
    }

    /// Lets the executor make a queue pair for this connection.
    fn connect(&self, executor: &dyn VerbExecutor, other: [u64; 4]) -> Result<[u64; 4], Refusal> {
        let made = self.peer.connect(|| executor.connect(other));
        let made = made.unwrap_or_else(|| Err("its connection was ended".to_owned()));
        made.map_err(|why| (Code::NoQueuePair, why))
    }
}

/// Returns the device that executes the memory node's verbs.
fn executor(shared: &Shared) -> Result<&dyn VerbExecutor, Refusal> {
    let why = || (Code::WrongTransport, "it has no RDMA device: open the pool as tcp://".to_owned());
    shared.executor.as_deref().ok_or_else(why)
}

/// The client in the first two words of a control.
pub(super) fn client_of([slot, epoch, ..]: [u64; 4]) -> Result<ClientId, Refusal> {
    let epoch = u32::try_from(epoch).map_err(|_| (Code::OutOfRange, format!("there is no epoch {epoch}")))?;
    Ok(ClientId { slot: number_of(slot)?, epoch })
}

/// The number of a slot or a node in a word of a control.
fn number_of(word: u64) -> Result<u16, Refusal> {
    u16::try_from(word).map_err(|_| (Code::OutOfRange, format!("there is no slot or node {word}")))
}
