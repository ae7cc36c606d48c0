//! Tests of the mixes and streams: shares, partition of inserts, repeatability, refusals.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::*;

fn spec(workload: Workload) -> WorkloadSpec {
    WorkloadSpec {
        workload,
        distribution: Distribution::Zipf { theta: 0.99 },
        zipf_ranks: 0,
        keys: 10_000,
        preloaded_keys: 0,
        ranks: 1 << 36,
        range_size: 100,
        clients: 4,
        seed: 42,
    }
}

/// Percentages of get, put, insert, scan and read-modify-write in 100,000 operations of one client.
fn measured_mix(workload: Workload, client: u64) -> [f64; 5] {
    let mut counts = [0u32; 5];
    for operation in spec(workload).stream(client).unwrap().take(100_000) {
        counts[match operation {
            Operation::Get { .. } => 0,
            Operation::Put { .. } => 1,
            Operation::Insert { .. } => 2,
            Operation::Scan { .. } => 3,
            Operation::ReadModifyWrite { .. } => 4,
            Operation::Remove { .. } => unreachable!("no mix removes"),
        }] += 1;
    }
    let total: u32 = counts.iter().sum();
    counts.map(|count| f64::from(count) * 100.0 / f64::from(total))
}

#[test]
fn streams_have_the_shares_of_their_mix() {
    for workload in Workload::ALL {
        for client in [0, 1] {
            let mix = workload.mix(client);
            let shares = [mix.get, mix.put, mix.insert, mix.scan, mix.read_modify_write];
            assert_eq!(shares.iter().sum::<u8>(), 100, "{workload}");
            for (measured, share) in measured_mix(workload, client).into_iter().zip(shares) {
                let off = (measured - f64::from(share)).abs();
                assert!(off < 1.0, "{workload} client {client}: {measured} for {share}");
                assert!(share > 0 || measured == 0.0, "{workload}: operations without a share never occur");
            }
        }
    }
}

#[test]
fn a_stream_depends_on_its_seed() {
    for workload in Workload::ALL {
        let draw = |seed, client| -> Vec<Operation> {
            WorkloadSpec { seed, ..spec(workload) }.stream(client).unwrap().take(200).collect()
        };
        assert_eq!(draw(1, 2), draw(1, 2), "{workload}");
        assert_ne!(draw(1, 2), draw(1, 0), "{workload}");
        if workload != Workload::Load {
            assert_ne!(draw(1, 2), draw(2, 2), "{workload}");
        }
    }
}

#[test]
fn load_inserts_every_key_once() {
    let spec = WorkloadSpec { keys: 1001, ..spec(Workload::Load) };
    let mut ranks = Vec::new();
    for client in 0..spec.clients {
        for operation in spec.stream(client).unwrap() {
            let Operation::Insert { rank, .. } = operation else { panic!("{operation:?}") };
            ranks.push(rank);
        }
    }
    ranks.sort_unstable();
    assert!(ranks.into_iter().eq(0..1001));
}

#[test]
fn clients_that_share_a_counter_insert_every_key_that_is_not_preloaded_once() {
    let spec = WorkloadSpec { keys: 1001, preloaded_keys: 100, ..spec(Workload::Load) };
    let counter = InsertCounter::default();
    let stream = |client| spec.stream(client).unwrap().drawing_from(counter.clone());
    let (mut fast, mut slow) = (stream(0), stream(1));
    let rank = |operation| match operation {
        Operation::Insert { rank, .. } => rank,
        other => panic!("{other:?}"),
    };
    let mut ranks: Vec<u64> = slow.next().into_iter().chain(fast.by_ref()).map(rank).collect();
    assert_eq!((ranks[0], slow.next(), fast.inserts()), (100, None, 900));
    ranks.sort_unstable();
    assert!(ranks.into_iter().eq(100..1001));
}

#[test]
fn two_clients_never_insert_the_same_key_or_write_the_same_version() {
    let spec = spec(Workload::YcsbE);
    let (mut ranks, mut versions) = (BTreeSet::new(), BTreeSet::from([0]));
    for client in 0..spec.clients {
        for operation in spec.stream(client).unwrap().take(1000) {
            if let Operation::Insert { rank, version } = operation {
                assert!(rank >= spec.keys);
                assert!(ranks.insert(rank) && versions.insert(version));
            }
        }
    }
    assert!(ranks.len() > 100);
}

#[test]
fn inserts_end_when_the_keys_of_a_file_are_used_up() {
    let spec = WorkloadSpec { ranks: 10_050, ..spec(Workload::YcsbD) };
    let inserts: usize = (0..spec.clients)
        .map(|client| {
            spec.stream(client).unwrap().filter(|op| matches!(op, Operation::Insert { .. })).count()
        })
        .sum();
    assert_eq!(inserts, 50);
}

#[test]
fn latest_reads_new_keys_and_only_keys_that_exist() {
    let spec = spec(Workload::YcsbD);
    let board = Arc::new(InsertBoard::new(spec.clients));
    let streams = |board: Option<&Arc<InsertBoard>>| -> Vec<OperationStream> {
        let own = |client| spec.stream(client).unwrap();
        let shared = |client, board: &Arc<InsertBoard>| own(client).with_board(Arc::clone(board));
        (0..spec.clients).map(|c| board.map_or_else(|| own(c), |board| shared(c, board))).collect()
    };
    for board in [None, Some(&board)] {
        let mut streams = streams(board);
        let (mut done, mut pending) = (BTreeSet::new(), vec![None; streams.len()]);
        let (mut new, mut newest, mut others) = (0, 0, 0);
        for step in 0..40_000 {
            let client = step % streams.len();
            done.extend(pending[client].take());
            match streams[client].next().unwrap() {
                Operation::Insert { rank, .. } => pending[client] = Some(rank),
                Operation::Get { rank } => {
                    assert!(rank < spec.keys || done.contains(&rank), "rank {rank} is not inserted yet");
                    new += u32::from(rank >= spec.keys);
                    newest += u32::from(done.last() == Some(&rank));
                    others += u32::from(rank >= spec.keys && rank as usize % streams.len() != client);
                }
                other => panic!("{other:?}"),
            }
        }
        assert!(new > 15_000 && newest > 500, "{new} reads of new keys, {newest} of the newest");
        assert_eq!(others > 5000, board.is_some(), "{others} reads of keys that other clients inserted");
    }
}

#[test]
fn scans_have_the_requested_length() {
    let lengths = |workload| -> BTreeSet<u32> {
        let stream = spec(workload).stream(1).unwrap().take(20_000);
        stream
            .filter_map(|op| if let Operation::Scan { length, .. } = op { Some(length) } else { None })
            .collect()
    };
    assert!(lengths(Workload::YcsbE).into_iter().eq(1..=100));
    assert!(lengths(Workload::RangeOnly).into_iter().eq([100]));
}

#[test]
fn two_thirds_of_the_keys_of_shermans_inserts_exist() {
    let spec = WorkloadSpec { distribution: Distribution::Uniform, ..spec(Workload::WriteOnly) };
    let ranks: Vec<u64> = spec
        .stream(0)
        .unwrap()
        .take(100_000)
        .map(|op| if let Operation::Put { rank, .. } = op { rank } else { panic!("{op:?}") })
        .collect();
    let existing = ranks.iter().filter(|rank| **rank < spec.keys).count();
    assert!((66_000..67_400).contains(&existing), "{existing}");
    assert!(ranks.iter().all(|rank| *rank < 15_000));
}

#[test]
fn contradictions_are_refused_with_the_flag_and_the_remedy() {
    let refusal = |spec: WorkloadSpec| spec.check().unwrap_err().to_string();
    let base = spec(Workload::YcsbA);
    assert!(refusal(WorkloadSpec { clients: 0, ..base.clone() }).starts_with("--clients"));
    assert!(refusal(WorkloadSpec { keys: 0, ..base.clone() }).starts_with("--keys"));
    assert!(refusal(WorkloadSpec { range_size: 0, ..base.clone() }).starts_with("--range-size"));
    assert!(refusal(WorkloadSpec { clients: 1, ..spec(Workload::RangeWrite) }).contains("at least 2"));
    let few = refusal(WorkloadSpec { ranks: 10_000, ..spec(Workload::YcsbD) });
    assert!(few.contains("uses 10001, but only 10000 exist; load fewer keys"), "{few}");
    let theta = Distribution::Zipf { theta: -1.0 };
    assert!(refusal(WorkloadSpec { distribution: theta, ..base }).starts_with("--theta"));
    let unknown = "ycsb-g".parse::<Workload>().unwrap_err().to_string();
    assert!(unknown.contains("ycsb-a") && unknown.contains("range-write"), "{unknown}");
}

#[test]
fn d_implies_latest_and_names_parse() {
    assert_eq!(spec(Workload::YcsbD).effective_distribution().name(), "latest");
    assert_eq!(spec(Workload::YcsbA).effective_distribution().name(), "zipf");
    let uniform = WorkloadSpec { distribution: Distribution::Uniform, ..spec(Workload::YcsbD) };
    assert!((uniform.effective_distribution().theta() - 0.99).abs() < f64::EPSILON);
    for workload in Workload::ALL {
        assert_eq!(workload.name().parse::<Workload>().unwrap(), workload);
    }
}
