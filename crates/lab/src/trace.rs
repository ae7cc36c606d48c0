//! `trace`: one operation as a sequence diagram.

use crate::world::{Lab, key, value};
use crate::{FarIndex, LabResult};
use farwood_sim::trace::sequence;
use farwood_sim::{NicModel, Tracing, WorldSpec};

/// An operation on one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Traced {
    Get,
    Put,
    Remove,
    Scan,
}

/// The verbs of an operation on key `number` of an index with the keys 1 to `keys`.
pub(crate) fn run<I: FarIndex>(operation: Traced, number: u64, keys: u64) -> LabResult<String> {
    let card = NicModel::named("cx5-100g").expect("the simulator has this NIC");
    let spec = WorldSpec { tracing: Tracing::Full, ..WorldSpec::small(card) };
    let lab = Lab::<I>::new(spec, keys.max(number) + 1, None)?;
    let (client, index, world) = (lab.world.client(0), &lab.indexes[0], &lab.world);
    world.block_on(async {
        for number in 1..=keys {
            index.put(&client, &key::<I>(number), &value::<I>(number)).await?;
        }
        LabResult::Ok(())
    })?;
    let (begin, before) = (world.now(), world.trace().last_verb());
    let key = key::<I>(number);
    let answer = world.block_on(async {
        LabResult::Ok(match operation {
            Traced::Get => format!("{:02x?}", index.get(&client, &key).await?),
            Traced::Put => {
                let existed = index.put(&client, &key, &value::<I>(number + 1)).await?;
                format!("the key was {}", if existed { "present" } else { "absent" })
            }
            Traced::Remove => {
                let existed = index.remove(&client, &key).await?;
                format!("the key was {}", if existed { "present" } else { "absent" })
            }
            Traced::Scan => format!("{} entries", index.scan(&client, &key, 10).await?.len()),
        })
    })?;
    let events = world.trace().of_client(client.fabric().number(), before, begin);
    Ok(format!("{}answer after {} ns: {answer}\n", sequence(&events), world.now() - begin))
}
