//! The client table: the attached clients with their identities.
//!
//! ```text
//! slot i lies at client table + 64 i, on memory node 0
//! +  0   8   state: 0 until the slot is first used; then a sealed word: epoch << 1, plus 1 if live
//! +  8   8   process number, for diagnostics
//! + 16   8   open indexes, one bit per directory entry
//! + 24   8   heartbeat for leases; unused, zero
//! + 32  32   zero
//! ```
//!
//! A slot represents one attachment of a compute node to the pool. The clients of the node share it, because they
//! hand locks to each other and crash together (`docs/decisions/0007-identity.md`).
//!
//! A slot is reused under the next epoch. An identity is expired if its slot is free or has another epoch; other
//! clients may then take over its locks.

use crate::chain::Chain;
use crate::client::Client;
use crate::error::FabricError;
use crate::fabric::Fabric;
use crate::fetched::Words;
use crate::ids::ClientId;
use crate::little_endian::u64_at;
use crate::pointer::{NodeId, Remote};
use crate::pool_layout::{CLIENT_TABLE_OFFSET, word};
use crate::sealed_word::SealedWord;
use crate::verb::{Swapped, cas, read, read_bytes, write};

pub use crate::ids::CLIENTS_MAX;
pub use crate::pool_layout::CLIENT_SLOT_BYTES;

/// The state of a slot that no client used.
const NEVER_USED: u64 = 0;
const LIVE: u64 = 1;
const PROCESS: u64 = 8;
const OPEN: u64 = 16;

/// The state of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotState {
    /// The current or last identity of the slot.
    pub client: ClientId,
    /// Whether the identity is attached.
    pub live: bool,
}

impl SlotState {
    /// Decodes the state word of `slot`.
    ///
    /// # Errors
    /// [`FabricError::Damaged`] for a word that no client writes.
    pub fn from_word(slot: u16, word: u64) -> Result<Self, FabricError> {
        let opened = if word == NEVER_USED { Ok(0) } else { sealed_state(slot).open(word) };
        let state = opened.map(|value| Self {
            client: ClientId { slot, epoch: (value >> 1) as u32 },
            live: value & LIVE != 0,
        });
        state.ok().filter(|state| state.word() == word).ok_or_else(|| FabricError::Damaged {
            node: NodeId(0),
            what: format!("client slot {slot} has the state {word:#018x}, which no client stores"),
        })
    }

    /// The state word of the slot.
    pub fn word(self) -> u64 {
        let value = u64::from(self.client.epoch) << 1 | if self.live { LIVE } else { 0 };
        if value == 0 { NEVER_USED } else { sealed_state(self.client.slot).seal(value) }
    }

    /// Whether `client` is the attached identity.
    pub fn is(&self, client: ClientId) -> bool {
        self.live && self.client == client
    }
}

/// Returns the offset of the state of `slot` in the host memory of memory node 0.
pub const fn state_offset(slot: u16) -> u64 {
    CLIENT_TABLE_OFFSET + CLIENT_SLOT_BYTES as u64 * slot as u64
}

fn sealed_state(slot: u16) -> SealedWord {
    SealedWord::new(state_of(slot))
}

fn state_of(slot: u16) -> Remote<u64> {
    word(NodeId(0), state_offset(slot))
}

/// Reads the state of `slot`. [1 RT]
///
/// # Errors
/// If the fabric fails or the slot is damaged.
pub async fn slot_state<F: Fabric>(client: &Client<F>, slot: u16) -> Result<SlotState, FabricError> {
    let state = client.post(read(state_of(slot))).await?;
    SlotState::from_word(slot, state.whole_word())
}

/// Enters the table at `slot` under its next epoch. The caller has proven that the slot is free or its identity
/// revoked. `None`: another client entered first. [3 RT]
///
/// # Errors
/// If the fabric fails or the slot is damaged.
///
/// # Panics
/// If the table has no such slot.
pub async fn enter<F: Fabric>(
    client: &Client<F>,
    slot: u16,
    process: u64,
) -> Result<Option<ClientId>, FabricError> {
    assert!(usize::from(slot) < CLIENTS_MAX, "client slot {slot} of {CLIENTS_MAX}");
    let before = slot_state(client, slot).await?;
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

/// Expires the identity `client_id`, which is the caller's own or revoked. Does nothing if it is expired already. [1
/// RT]
pub async fn expire<F: Fabric>(client: &Client<F>, client_id: ClientId) -> Result<(), FabricError> {
    let live = SlotState { client: client_id, live: true };
    let gone = SlotState { client: client_id, live: false };
    let _ = client.post(cas(state_of(client_id.slot), live.word(), gone.word())).await?;
    Ok(())
}

/// Sets `open_bit` in the caller's slot: its directory entry is open. Yields whether the bit was clear before.
/// [at most 2 RT, +1 for each concurrent change by another client of the compute node]
pub async fn mark_open<F: Fabric>(client: &Client<F>, open_bit: u64) -> Result<bool, FabricError> {
    change_open_bits(client, |open| open | open_bit).await
}

/// Clears `open_bit` in the caller's slot: its directory entry is closed. [as [`mark_open`]]
pub async fn mark_closed<F: Fabric>(client: &Client<F>, open_bit: u64) -> Result<(), FabricError> {
    change_open_bits(client, |open| open & !open_bit).await.map(|_| ())
}

async fn change_open_bits<F: Fabric>(
    client: &Client<F>,
    change: impl Fn(u64) -> u64,
) -> Result<bool, FabricError> {
    let at: Remote<u64> = part(client.fabric().identity().slot, OPEN);
    let mut open = client.post(read(at)).await?.whole_word();
    while open != change(open) {
        match client.post(cas(at, open, change(open))).await? {
            Swapped::Won => return Ok(true),
            Swapped::Lost(found) => open = found,
        }
    }
    Ok(false)
}

/// An entry of the client table: an attached compute node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttachedClient {
    /// The identity of the client.
    pub client: ClientId,
    /// The process id of the client.
    pub process: u64,
    /// A bit mask of the directory entries that the client has open.
    pub open: u64,
}

impl AttachedClient {
    /// Decodes the bytes of `slot`: the attached client, if there is one.
    ///
    /// # Errors
    /// [`FabricError::Damaged`].
    pub fn decode(slot: u16, bytes: &[u8; CLIENT_SLOT_BYTES]) -> Result<Option<Self>, FabricError> {
        let SlotState { client, live } = SlotState::from_word(slot, u64_at(bytes, 0))?;
        let [process, open] = [PROCESS, OPEN].map(|field| u64_at(bytes, field as usize));
        Ok(live.then_some(Self { client, process, open }))
    }
}

/// The contents of the client table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientTable {
    /// The attached clients whose slots are intact. Some of them may have crashed.
    pub attached: Vec<AttachedClient>,
    /// The damaged slots. The clients in them are unknown.
    pub damaged: Vec<DamagedSlot>,
}

/// A slot whose state no client stores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedSlot {
    /// The slot.
    pub slot: u16,
    /// The damage.
    pub error: FabricError,
}

impl ClientTable {
    /// The attached clients, if all slots are intact.
    ///
    /// # Errors
    /// [`FabricError::Damaged`] with the first damaged slot, and with `unknown`: what is unknown because of it.
    pub fn all(self, unknown: &str) -> Result<Vec<AttachedClient>, FabricError> {
        match self.damaged.into_iter().next().map(|slot| slot.error) {
            None => Ok(self.attached),
            Some(FabricError::Damaged { node, what }) => {
                Err(FabricError::Damaged { node, what: format!("{what}, so {unknown} is unknown") })
            }
            Some(error) => Err(error),
        }
    }
}

/// Reads the client table. [[`CLIENTS_MAX`]/16 RT]
///
/// # Errors
/// If the fabric fails.
pub async fn load<F: Fabric>(client: &Client<F>) -> Result<ClientTable, FabricError> {
    const SLOTS_PER_READ: usize = 16;
    let mut table = ClientTable::default();
    for first in (0..CLIENTS_MAX).step_by(SLOTS_PER_READ) {
        let from = state_of(first as u16).part::<Words>(0);
        let slots = client.post(read_bytes(from, SLOTS_PER_READ * CLIENT_SLOT_BYTES)).await?;
        for (slot, bytes) in (first as u16..).zip(slots.whole_words().as_chunks().0) {
            match AttachedClient::decode(slot, bytes) {
                Ok(attached) => table.attached.extend(attached),
                Err(error) => table.damaged.push(DamagedSlot { slot, error }),
            }
        }
    }
    Ok(table)
}

fn part(slot: u16, field: u64) -> Remote<u64> {
    state_of(slot).part(field)
}

const _: () = assert!(OPEN + 8 <= CLIENT_SLOT_BYTES as u64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_read_back_and_an_impossible_one_is_refused() {
        for live in [false, true] {
            let state = SlotState { client: ClientId { slot: 7, epoch: u32::MAX }, live };
            assert_eq!(SlotState::from_word(7, state.word()), Ok(state));
        }
        let new = SlotState { client: ClientId { slot: 7, epoch: 0 }, live: false };
        assert_eq!(SlotState::from_word(7, 0), Ok(new));
        let live = SlotState { client: ClientId { slot: 7, epoch: 3 }, live: true }.word();
        let flipped = (0..64).map(|bit| live ^ 1 << bit);
        for word in flipped.chain([LIVE, u64::MAX, sealed_state(7).seal(0), sealed_state(7).seal(1 << 33)]) {
            assert!(matches!(SlotState::from_word(7, word), Err(FabricError::Damaged { .. })), "{word:#x}");
        }
    }
}
