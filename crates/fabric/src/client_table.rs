//! The client table: who is in the pool, under which identity.
//!
//! ```text
//! slot i lies at client table + 64 i, on memory node 0
//! +  0   8   state: epoch (high 32 bits), 1 = live / 0 = free (low 32 bits)
//! +  8   8   process number, for people
//! + 16   8   open indexes, one bit per directory entry
//! + 24   8   sign of life (leases; unused yet, zero)
//! + 32  32   zero
//! ```
//!
//! A slot stands for one attachment of a compute node to the pool. Its clients share it: they hand locks to each
//! other, and they die together (`docs/decisions/0007-identity.md`).
//!
//! A slot is reused under the next epoch. An identity whose epoch is not the slot's, or whose slot is free, is
//! gone: whatever it still holds may be taken from it.

use crate::chain::Chain;
use crate::client::Client;
use crate::error::FabricError;
use crate::fabric::Fabric;
use crate::fetched::{Words, whole_word};
use crate::ids::ClientId;
use crate::pointer::{NodeId, Remote};
use crate::pool_layout::{CLIENT_SLOT_BYTES, CLIENT_TABLE_OFFSET, word};
use crate::verb::{Swapped, cas, read, read_bytes, write};

pub use crate::ids::CLIENTS_MAX;

const LIVE: u64 = 1;
const PROCESS: u64 = 8;
const OPEN: u64 = 16;

/// What the table says of one slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotState {
    /// The identity that has, or last had, the slot.
    pub client: ClientId,
    /// Whether it was entered and has not left.
    pub live: bool,
}

impl SlotState {
    const fn from_word(slot: u16, word: u64) -> Self {
        Self { client: ClientId { slot, epoch: (word >> 32) as u32 }, live: word & LIVE != 0 }
    }

    const fn word(self) -> u64 {
        (self.client.epoch as u64) << 32 | if self.live { LIVE } else { 0 }
    }

    /// Whether `client` still is who it was.
    pub fn is(&self, client: ClientId) -> bool {
        self.live && self.client == client
    }
}

fn state_of(slot: u16) -> Remote<u64> {
    word(NodeId(0), CLIENT_TABLE_OFFSET + CLIENT_SLOT_BYTES as u64 * u64::from(slot))
}

/// What the table says of `slot`. [1 RT]
pub async fn look<F: Fabric>(client: &Client<F>, slot: u16) -> Result<SlotState, FabricError> {
    let state = client.post(read(state_of(slot))).await?;
    Ok(SlotState::from_word(slot, whole_word(state)))
}

/// Enters the table at `slot` under its next epoch. The caller has proven that the slot is free, or that whoever
/// had it is gone. `None`: another entered first. [3 RT]
pub async fn enter<F: Fabric>(
    client: &Client<F>,
    slot: u16,
    process: u64,
) -> Result<Option<ClientId>, FabricError> {
    let before = look(client, slot).await?;
    let epoch = before.client.epoch.wrapping_add(1);
    let after = SlotState { client: ClientId { slot, epoch }, live: true };
    if client.post(cas(state_of(slot), before.word(), after.word())).await? != Swapped::Won {
        return Ok(None);
    }
    let process = process.to_le_bytes();
    let (process, open) = (write(part(slot, PROCESS), &process), write(part(slot, OPEN), &[0; 8]));
    client.post(process.then(open)).await?;
    Ok(Some(after.client))
}

/// Ends the identity `client_id`, one's own or one that is proven gone. Another may have done so. [1 RT]
pub async fn expire<F: Fabric>(client: &Client<F>, client_id: ClientId) -> Result<(), FabricError> {
    let live = SlotState { client: client_id, live: true };
    let gone = SlotState { client: client_id, live: false };
    let _ = client.post(cas(state_of(client_id.slot), live.word(), gone.word())).await?;
    Ok(())
}

/// Marks in one's own slot that one has the directory entry of `open_bit` open; yields whether it was not marked
/// before. [at most 2 RT, and 1 for each other
/// client of the compute node that marks at the same time]
pub async fn mark_open<F: Fabric>(client: &Client<F>, open_bit: u64) -> Result<bool, FabricError> {
    mark(client, |open| open | open_bit).await
}

/// Marks that one has closed the directory entry of `open_bit`. Costs as [`mark_open`].
pub async fn mark_closed<F: Fabric>(client: &Client<F>, open_bit: u64) -> Result<(), FabricError> {
    mark(client, |open| open & !open_bit).await.map(|_| ())
}

async fn mark<F: Fabric>(client: &Client<F>, change: impl Fn(u64) -> u64) -> Result<bool, FabricError> {
    let at: Remote<u64> = part(client.fabric().identity().slot, OPEN);
    let mut open = whole_word(client.post(read(at)).await?);
    while open != change(open) {
        match client.post(cas(at, open, change(open))).await? {
            Swapped::Won => return Ok(true),
            Swapped::Lost(found) => open = found,
        }
    }
    Ok(false)
}

/// One living client, as the table shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resident {
    /// Its identity.
    pub client: ClientId,
    /// Its process number.
    pub process: u64,
    /// The directory entries that it has open, as a bit set.
    pub open: u64,
}

/// All clients that the table shows as live; some may be gone without having left. [`CLIENTS_MAX`]/16 RT
pub async fn residents<F: Fabric>(client: &Client<F>) -> Result<Vec<Resident>, FabricError> {
    const SLOTS_PER_READ: usize = 16;
    let mut residents = Vec::new();
    for first in (0..CLIENTS_MAX).step_by(SLOTS_PER_READ) {
        let from = state_of(first as u16).part::<Words>(0);
        let slots = client.post(read_bytes(from, SLOTS_PER_READ * CLIENT_SLOT_BYTES)).await?;
        let Ok(slots) = slots.check(&()) else { unreachable!("words are whole") };
        for (index, slot) in slots.chunks_exact(CLIENT_SLOT_BYTES).enumerate() {
            let word =
                |at: u64| u64::from_le_bytes(slot[at as usize..][..8].try_into().expect("eight bytes"));
            let state = SlotState::from_word((first + index) as u16, word(0));
            if state.live {
                residents.push(Resident { client: state.client, process: word(PROCESS), open: word(OPEN) });
            }
        }
    }
    Ok(residents)
}

fn part(slot: u16, field: u64) -> Remote<u64> {
    state_of(slot).part(field)
}

const _: () = assert!(OPEN + 8 <= CLIENT_SLOT_BYTES as u64);
