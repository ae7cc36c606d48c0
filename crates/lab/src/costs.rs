//! `costs`: round trips, verbs and bytes of every operation when no other client runs.

use crate::world::{Lab, key, value};
use crate::{FarIndex, LabResult};
use farwood_fabric::{Client, Costs, Fabric};
use farwood_sim::{NicModel, WorldSpec};
use std::fmt::Write as _;

/// Keys that are loaded before an operation, and the distance of their numbers.
pub(crate) const LOADED: u64 = 50;
pub(crate) const STEP: u64 = 2;

/// An operation whose costs are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Get,
    GetAbsent,
    PutNew,
    PutPresent,
    Remove,
    RemoveAbsent,
    Scan,
}

impl Call {
    pub(crate) const ALL: [Self; 7] = [
        Self::Get,
        Self::GetAbsent,
        Self::PutNew,
        Self::PutPresent,
        Self::Remove,
        Self::RemoveAbsent,
        Self::Scan,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::GetAbsent => "get, absent",
            Self::PutNew => "put, new key",
            Self::PutPresent => "put, present key",
            Self::Remove => "remove",
            Self::RemoveAbsent => "remove, absent",
            Self::Scan => "scan of 10",
        }
    }

    /// The numbers of the loaded keys.
    pub(crate) fn loaded() -> impl Iterator<Item = u64> {
        (1..=LOADED).map(|number| number * STEP)
    }

    /// The number of the operation's key: of a loaded one, or between two.
    pub(crate) fn number(self) -> u64 {
        match self {
            Self::Get | Self::PutPresent | Self::Remove | Self::Scan => 10 * STEP,
            Self::GetAbsent | Self::PutNew | Self::RemoveAbsent => 10 * STEP + 1,
        }
    }

    /// The numbers of the values that the key may have after the operation, if its client crashed; a put stores the
    /// value `stored`.
    pub(crate) fn may_leave(self, stored: u64) -> [Option<u64>; 2] {
        let before = Some(self.number());
        match self {
            Self::Get | Self::Scan => [before; 2],
            Self::GetAbsent | Self::RemoveAbsent => [None; 2],
            Self::PutNew => [None, Some(stored)],
            Self::PutPresent => [before, Some(stored)],
            Self::Remove => [before, None],
        }
    }

    /// Performs the operation; a put stores the value `stored`.
    pub(crate) async fn perform<I: FarIndex, F: Fabric>(
        self,
        index: &I,
        client: &Client<F>,
        stored: u64,
    ) -> LabResult<()> {
        let key = key::<I>(self.number());
        match self {
            Self::Get | Self::GetAbsent => drop(index.get(client, &key).await?),
            Self::PutNew | Self::PutPresent => drop(index.put(client, &key, &value::<I>(stored)).await?),
            Self::Remove | Self::RemoveAbsent => drop(index.remove(client, &key).await?),
            Self::Scan => drop(index.scan(client, &key, 10).await?),
        }
        Ok(())
    }
}

/// Puts the loaded keys into an empty index, each with the value of its number.
pub(crate) async fn load<I: FarIndex, F: Fabric>(index: &I, client: &Client<F>) -> LabResult<()> {
    for number in Call::loaded() {
        index.put(client, &key::<I>(number), &value::<I>(number)).await?;
    }
    Ok(())
}

/// The costs of an operation on an index with 50 keys.
pub(crate) fn measure<I: FarIndex>(call: Call) -> LabResult<Costs> {
    let card = NicModel::named("cx5-100g").expect("the simulator has this NIC");
    let lab = Lab::<I>::new(WorldSpec::small(card), 2 * LOADED * STEP, None)?;
    let (client, index) = (lab.world.client(0), &lab.indexes[0]);
    lab.world.block_on(load(index, &client))?;
    // The second execution of a read finds warm caches.
    lab.world.block_on(Call::Get.perform(index, &client, 0))?;
    client.take_costs();
    lab.world.block_on(call.perform(index, &client, 1_000))?;
    Ok(client.take_costs())
}

/// The table of all costs.
pub(crate) fn table<I: FarIndex>() -> LabResult<String> {
    let mut text = format!(
        "{:<18} {:>11} {:>6} {:>7} {:>8} {:>11} {:>14}\n",
        "operation", "round trips", "READs", "WRITEs", "atomics", "bytes read", "bytes written"
    );
    for call in Call::ALL.into_iter().filter(|call| I::SCANS || *call != Call::Scan) {
        let costs = measure::<I>(call)?;
        let atomics = costs.cas + costs.masked_cas + costs.faa;
        let _ = writeln!(
            text,
            "{:<18} {:>11} {:>6} {:>7} {:>8} {:>11} {:>14}",
            call.name(),
            costs.round_trips,
            costs.reads,
            costs.writes,
            atomics,
            costs.bytes_read,
            costs.bytes_written
        );
    }
    Ok(text)
}
