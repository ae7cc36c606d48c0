//! Copying transfers at once and line by line produces the same trace, and a seed repeats its run.

use farwood_fabric::{
    Address, Bits, Capabilities, Chain, Client, Memory, NodeId, Remote, Words, all, cas, faa, masked_cas,
    read_bytes, write,
};
use farwood_sim::fault::{CrashPoint, Fault, FaultRule, FaultTrigger};
use farwood_sim::{CAPABILITIES, NicModel, RandomStream, SimFabric, Trace, Tracing, World, WorldSpec};

const CLIENTS: usize = 12;
const STEPS: u64 = 60;
/// Bytes of the region that all clients access, so small that most transfers overlap.
const REGION_BYTES: u64 = 8 << 10;

/// Draws a range of the region: its address and its length.
fn random_range(chance: &mut RandomStream) -> (Remote<Words>, usize) {
    let bytes = [8, 24, 64, 200, 1024, 4096][chance.below(6) as usize];
    let memory = if chance.once_in(4) { Memory::Device } else { Memory::Host };
    let start = if memory == Memory::Host { 8 << 20 } else { 64 };
    let offset = start + 8 * chance.below((REGION_BYTES - bytes) / 8);
    let at = Address::new(NodeId(chance.below(2) as u16), memory, offset).expect("it is an address");
    (Remote::at(at), bytes as usize)
}

/// Posts random verbs and ignores errors. The trace's digest covers the fetched bytes.
async fn run_client(client: &Client<SimFabric>, mut chance: RandomStream) {
    for step in 0..STEPS {
        let (at, bytes) = random_range(&mut chance);
        let data: Vec<u8> = (0..bytes).map(|byte| (byte as u64 * 7 + step + chance.below(9)) as u8).collect();
        let word = at.part::<u64>(0);
        let _ = match chance.below(7) {
            0 | 1 => client.post(read_bytes(at, bytes)).await.map(drop),
            2 => client.post(write(at, &data)).await,
            3 => client.post(write(at, &data).then(read_bytes(at, bytes))).await.map(drop),
            4 => client.post(all((0..3).map(|_| read_bytes(at, bytes)))).await.map(drop),
            5 => client.post(faa(word, 1).then(read_bytes(at, bytes))).await.map(drop),
            _ if chance.once_in(2) => client.post(cas(word, 0, step)).await.map(drop),
            _ => {
                let bits = |value| Bits { mask: 0xFF00, value };
                client.post_detached(masked_cas(word, bits(0), bits(0x4200)));
                Ok(())
            }
        };
    }
}

fn run(spec: &WorldSpec) -> Trace {
    let world = World::new(spec.clone()).unwrap();
    let clients: Vec<_> = (0..CLIENTS).map(|number| world.client(number % 3)).collect();
    let mut group = world.task_group();
    for (number, client) in clients.iter().enumerate() {
        group.spawn(client, run_client(client, RandomStream::new(spec.seed, &format!("client {number}"))));
    }
    group.run().unwrap();
    drop(group);
    // The final contents of memory are part of the digest.
    let observer = world.untimed(0);
    for node in 0..2 {
        for (memory, start) in [(Memory::Host, 8 << 20), (Memory::Device, 64)] {
            let at = Remote::at(Address::new(NodeId(node), memory, start).unwrap());
            let copy =
                farwood_sim::untimed(observer.post(read_bytes::<Words>(at, REGION_BYTES as usize))).unwrap();
            let copy = copy.whole_words();
            world.write_down(&copy);
        }
    }
    world.trace()
}

/// Parameters of many kinds of networks.
fn specs() -> Vec<WorldSpec> {
    let kept = [
        CAPABILITIES,
        Capabilities { version_pair_bytes_max: 0, ..CAPABILITIES },
        Capabilities { whole_bytes: 8, write_upward: false, ..CAPABILITIES },
        Capabilities { arrival_sees_write: false, atomic_then_read: false, ..CAPABILITIES },
        Capabilities {
            write_survives_writer_bytes_max: 0,
            masked_cas: false,
            write_beside_cas: false,
            ..CAPABILITIES
        },
    ];
    let rules = vec![
        FaultRule {
            when: FaultTrigger::Verb { compute_node: 1, number: 40 },
            fault: Fault::Delay { nanoseconds: 30_000 },
        },
        FaultRule {
            when: FaultTrigger::Time(60_000),
            fault: Fault::Freeze { compute_node: 0, nanoseconds: 20_000 },
        },
        FaultRule {
            when: FaultTrigger::Time(20_000),
            fault: Fault::Down { node: NodeId(1), nanoseconds: 9_000 },
        },
        FaultRule {
            when: FaultTrigger::Time(90_000),
            fault: Fault::Partition { compute_node: 0, node: NodeId(0), nanoseconds: 30_000 },
        },
        FaultRule {
            when: FaultTrigger::Verb { compute_node: 2, number: 90 },
            fault: Fault::Crash { compute_node: 2, point: CrashPoint::At },
        },
    ];
    let mut specs = Vec::new();
    for seed in 0..30 {
        let name = NicModel::names()[seed as usize % NicModel::names().len()];
        specs.push(WorldSpec {
            kept: kept[seed as usize / 6],
            rules: if seed % 2 == 0 { Vec::new() } else { rules.clone() },
            nics: 1 + seed as usize % 2,
            stretch: 1 + seed % 3 * 4,
            tracing: Tracing::Full,
            seed,
            ..WorldSpec::small(NicModel::named(name).unwrap())
        });
    }
    specs
}

#[test]
fn a_seed_repeats_its_run() {
    for spec in specs() {
        let (one, other) = (run(&spec), run(&spec));
        assert_eq!(one.digest(), other.digest(), "seed {}", spec.seed);
        assert!(one.events() == other.events() && one.events().len() > 1_000, "seed {}", spec.seed);
    }
}

#[test]
fn another_seed_produces_another_run() {
    let spec = |seed| WorldSpec {
        tracing: Tracing::Digest,
        seed,
        ..WorldSpec::small(NicModel::named("ideal").unwrap())
    };
    assert_ne!(run(&spec(1)).digest(), run(&spec(2)).digest());
}

#[test]
fn an_exhaustive_run_has_the_same_trace() {
    for spec in specs() {
        let (fast, slow) = (run(&spec), run(&WorldSpec { exhaustive: true, ..spec.clone() }));
        let different = fast.events().iter().zip(slow.events()).find(|(one, other)| one != other);
        assert_eq!(different, None, "seed {} on {}", spec.seed, spec.card.name);
        assert_eq!(
            fast.digest(),
            slow.digest(),
            "seed {} on {}: the bytes differ",
            spec.seed,
            spec.card.name
        );
    }
}
