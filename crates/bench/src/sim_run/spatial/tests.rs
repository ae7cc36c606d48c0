//! Tests of simulated spatial runs: each variant uses its search path, and a run depends on its seed only.

use super::*;
use crate::driver::protocol::Amount;
use crate::workload::rectangles::{RectangleSource, Scale, SpatialMix};

fn small(variant: Variant, mix: SpatialMix) -> SpatialSpec {
    SpatialSpec {
        variant,
        fabric: FabricKind::Sim,
        mix,
        scale: Scale::Edge(0.01),
        source: RectangleSource::Uniform(20_000),
        compute_nodes: 2,
        clients: Some(6),
        amount: Some(Amount::Seconds(0.004)),
        warm_up_seconds: Some(0.003),
        ..SpatialSpec::default()
    }
}

fn run(spec: &SpatialSpec) -> Record {
    simulate_spatial(spec, &mut |_| {}).unwrap()
}

#[test]
fn each_variant_uses_its_search_path() {
    for variant in Variant::ALL.into_iter().filter(|variant| *variant != Variant::Local) {
        let record = run(&small(variant, SpatialMix::Search));
        let search = record.by_operation.search.as_ref().unwrap();
        let (verbs, spatial) = (search.verbs_per_op.as_ref().unwrap(), record.spatial.as_ref().unwrap());
        // Windows of 0.005 by 0.005 on average, among 20,000.
        assert!((0.3..0.9).contains(&spatial.found_mean), "{variant}: {}", spatial.found_mean);
        match variant {
            Variant::Offloading | Variant::MultiIssue => {
                assert!((spatial.share_offloaded - 1.0).abs() < f64::EPSILON, "{variant}");
                assert!(verbs.read > 3.0 && verbs.write_imm + verbs.write < 0.01, "{variant}");
            }
            Variant::FastMessaging => {
                assert!(verbs.write > 0.99 && verbs.read < 0.01, "{variant}: {verbs:?}");
            }
            _ => assert!(verbs.write_imm > 0.99 && verbs.read < 0.1, "{variant}: {verbs:?}"),
        }
        assert!(spatial.server_busy.unwrap() <= 1.0);
        assert_eq!(record.keys, 20_000);
    }
}

/// Heartbeats reach clients at different times. If all clients changed their path at once, every back-off window would
/// end at the next heartbeat.
#[test]
fn clients_of_a_busy_server_offload_at_different_times() {
    let crowded = |variant| {
        let (amount, warm_up_seconds) = (Some(Amount::Seconds(0.02)), Some(0.04));
        let of = small(variant, SpatialMix::Search);
        let (scale, clients) = (Scale::Edge(1e-5), Some(96));
        // READs without processor time of the client, so that they are many.
        let search_ns = Some(0);
        run(&SpatialSpec { scale, compute_nodes: 8, clients, amount, warm_up_seconds, search_ns, ..of })
    };
    let (event, catfish) = (crowded(Variant::Event), crowded(Variant::Catfish));
    let of = |record: &Record| (record.mops, record.spatial.as_ref().unwrap().share_offloaded);
    assert!(event.spatial.as_ref().unwrap().server_busy.unwrap() > 0.95, "the server is busy");
    let ((messages, _), (both, share)) = (of(&event), of(&catfish));
    assert!(share > 0.4 && both > 1.5 * messages, "{share} offloaded, {both} M/s, by message {messages} M/s");
}

#[test]
fn inserts_are_messages_in_every_variant() {
    for variant in [Variant::Tcp, Variant::MultiIssue, Variant::Catfish] {
        let record = run(&small(variant, SpatialMix::Mixed));
        let insert = record.by_operation.insert.as_ref().unwrap();
        let share = insert.operations as f64 / record.operations as f64;
        assert!((0.03..0.2).contains(&share), "{variant}: {share}");
        assert!(insert.verbs_per_op.as_ref().unwrap().write_imm > 0.99, "{variant}");
    }
}

#[test]
fn a_simulated_run_is_the_same_for_the_same_seed() {
    let spec = small(Variant::Catfish, SpatialMix::Mixed);
    let line = || {
        let record = Record { simulated_verbs_per_second: None, ..run(&spec) };
        record.to_json_line()
    };
    assert_eq!(line(), line());
}

#[test]
fn windows_with_a_hundred_results_have_about_as_many() {
    let spec = SpatialSpec { scale: Scale::Hundred, ..small(Variant::MultiIssue, SpatialMix::Search) };
    let found = run(&spec).spatial.unwrap().found_mean;
    assert!((80.0..120.0).contains(&found), "{found}");
}

#[test]
fn invalid_specs_are_refused_with_their_flag() {
    let of = |change: &dyn Fn(&mut SpatialSpec)| {
        let mut spec = small(Variant::Catfish, SpatialMix::Search);
        change(&mut spec);
        spec.check().unwrap_err().to_string()
    };
    assert!(of(&|spec| spec.clients = Some(1)).contains("--clients"));
    assert!(of(&|spec| spec.clients = Some(600)).contains("512 connections"));
    assert!(of(&|spec| spec.variant = Variant::Local).contains("--variant"));
    assert!(of(&|spec| spec.fabric = FabricKind::Rdma).contains("--fabric"));
    assert!(of(&|spec| spec.peers = vec!["rstar".to_owned()]).contains("--peer"));
    assert!(of(&|spec| spec.amount = Some(Amount::Seconds(f64::NAN))).contains("--seconds"));
    assert!("fast".parse::<Variant>().unwrap_err().to_string().contains("fast-messaging"));
}

/// The rectangles of a file are inserted, not bulk-loaded.
#[test]
fn rectangles_of_a_file_are_searched() {
    let file = std::env::temp_dir().join(format!("farwood-rectangles-{}.csv", std::process::id()));
    let rows: Vec<_> = (0..4_000).map(|at| format!("{0},{1},{0},{1}", at % 63, at / 63)).collect();
    std::fs::write(&file, rows.join("\n")).unwrap();
    let source = RectangleSource::File(file.clone(), 3_000);
    let small = small(Variant::FastMessaging, SpatialMix::Search);
    let record = run(&SpatialSpec { scale: Scale::Hundred, source, ..small });
    std::fs::remove_file(file).unwrap();
    assert_eq!((record.keys, record.options.get("fill")), (3_000, None));
    let found = record.spatial.unwrap().found_mean;
    assert!((50.0..150.0).contains(&found), "{found}");
}
