//! The errors that faults explain, and the locks, nodes and chunks that a run may leave.

use super::SimulatorReport;
use super::draw::CLOCK;
use super::run::Running;
use crate::seeds::check::{LEFT_CLOSED, check_unfinished_changes};
use farwood_fabric::{Client, Costs, FabricError, NodeId, chunks};
use farwood_index::ordered::{Ordered, OrderedConfig, OrderedReport};
use farwood_index::radix::inner::NodeSize;
use farwood_index::sherman::layout::Values;
use farwood_index::sphinx::table::layout::subtable_bytes;
use farwood_index::{sherman, smart};
use farwood_sim::fault::{Fault, InjectedFault, RETRY_NS};
use farwood_sim::{Counts, SimFabric, untimed};

/// The time that an operation waits for a lock, nanoseconds, less a hundredth.
const LOCK_PATIENCE: u64 = 19_800_000_000;
/// Time for transfers and queues, nanoseconds.
const SLACK: u64 = 1_000_000;
/// Maximum bytes that an operation of a radix tree has allocated or unlinked, and loses when it is interrupted: two
/// inner nodes and two leaves.
const LOST_BYTES: i64 = 8192;

/// Checks that clients left no more locks, nodes and chunks than faults explain.
pub(super) fn check_remains(
    run: &Running<'_>,
    trees: &[Ordered],
    walk: &OrderedReport,
    report: &SimulatorReport,
) -> Result<(), String> {
    let crashed = (0..run.case.clients).filter(|client| run.world.gone(client % trees.len())).count() as u64;
    // An operation that took effect and only failed to enter a node in its parent returns no error.
    let marked = |mark| report.marks.get(mark).copied().unwrap_or(0);
    let not_entered = marked("a sibling that could not be linked")
        + marked("an interrupted merge")
        + marked("radix: a replacement interrupted")
        + marked("sphinx: a node without an entry");
    let interrupted = crashed + run.explained_errors.get() + not_entered;
    if report.totals.locks_dropped > 0 {
        return Err(format!("{} locks were dropped", report.totals.locks_dropped));
    }
    match walk {
        OrderedReport::Sherman(walk) => {
            // A node, and with values of any length also the value that the operation wrote and the one it replaced.
            let any_length = matches!(&run.case.plan.index, OrderedConfig::Sherman(config)
                if config.values == Values::AnyLength);
            let objects = if any_length { 3 } else { 1 };
            check_sherman_remains(trees, walk, interrupted, objects * interrupted)?;
        }
        OrderedReport::Radix(walk) => {
            check_radix_remains(run, trees, walk, (interrupted, marked(LEFT_CLOSED)))?;
        }
    }
    let lost = lost_chunks(run).map_err(|error| format!("reading the chunk tables: {error}"))?;
    if lost > interrupted {
        return Err(format!("{lost} chunks have no owner, and {interrupted} operations were interrupted"));
    }
    Ok(())
}

/// Checks the memory and the unfinished changes of a radix tree after a run.
fn check_radix_remains(
    run: &Running<'_>,
    trees: &[Ordered],
    walk: &smart::RadixReport,
    (interrupted, closed): (u64, u64),
) -> Result<(), String> {
    // If the table lacks the entry of a node, the entry is restored only when a client searches for it.
    if interrupted == 0 {
        check_unfinished_changes(walk, closed)?;
    }
    let linked = (walk.node_bytes + walk.leaf_bytes + walk.value_bytes + walk.census.bytes).cast_signed();
    // The creator of the tree allocated the root, and the first subtables and directories.
    let spec = &run.case.spec;
    let nodes = i64::from(spec.addition.map_or(spec.memory_nodes, |addition| addition.nodes_before));
    let table = match &run.case.plan.index {
        OrderedConfig::Sphinx(config) if walk.census.subtables > 0 => {
            8 + subtable_bytes(config.options.groups.log2()).cast_signed() as i64
        }
        _ => 0,
    };
    let created = NodeSize::All.bytes().cast_signed() as i64 + nodes * table;
    let allocated = created + trees.iter().map(Ordered::bytes_allocated).sum::<i64>();
    if linked > allocated || allocated > linked + LOST_BYTES * interrupted.cast_signed() {
        return Err(format!(
            "{allocated} bytes were allocated, {linked} are linked, and {interrupted} operations were interrupted"
        ));
    }
    Ok(())
}

/// Checks the memory and the unfinished changes of a Sherman tree after a run.
fn check_sherman_remains(
    trees: &[Ordered],
    walk: &sherman::ShermanReport,
    interrupted: u64,
    objects_lost: u64,
) -> Result<(), String> {
    if walk.half_linked > interrupted {
        return Err(format!(
            "{} nodes are half-linked, and {interrupted} operations were interrupted",
            walk.half_linked
        ));
    }
    if walk.half_merged > interrupted {
        return Err(format!("{} nodes are half-merged", walk.half_merged));
    }
    let linked = (walk.nodes.iter().sum::<u64>() + walk.overflow_values).cast_signed();
    let allocated = trees.iter().map(|tree| match tree {
        Ordered::Sherman(tree) => tree.nodes_allocated(),
        Ordered::Smart(_) | Ordered::Sphinx(_) => 0,
    });
    // The creator of the tree allocated the root.
    let allocated = 1 + allocated.sum::<i64>();
    if linked > allocated || allocated > linked + objects_lost.cast_signed() {
        return Err(format!(
            "{allocated} objects were allocated, {linked} are linked, and {objects_lost} may be lost"
        ));
    }
    Ok(())
}

/// Counts the chunks that were taken and have no owner.
fn lost_chunks(run: &Running<'_>) -> Result<u64, FabricError> {
    let client = run.world.untimed(CLOCK);
    let mut lost = 0;
    for node in 0..run.case.spec.memory_nodes {
        let (taken, in_use) = untimed(async {
            Ok::<_, FabricError>((
                chunks::taken(&client, NodeId(node)).await?,
                chunks::in_use(&client, NodeId(node)).await?,
            ))
        })?;
        lost += taken - 1 - in_use.len() as u64;
    }
    Ok(lost)
}

/// Checks that the cost counters of live clients agree with what the device executed for them. Where a post failed,
/// the device may have executed more.
pub(super) fn check_costs(run: &Running<'_>, clients: &[Client<SimFabric>]) -> Result<(), String> {
    let loses_nodes = run
        .world
        .injected_faults()
        .iter()
        .any(|happened| matches!(happened.fault, Fault::Down { .. } | Fault::Partition { .. }));
    for (number, client) in clients.iter().enumerate() {
        if run.world.gone(client.fabric().sim_thread().compute_node()) {
            continue;
        }
        let (mut counted, executed) = (executed(&client.take_costs()), client.fabric().executed());
        if loses_nodes && run.case.plan.is_radix() {
            // A detached CAS that was lost with its memory node was posted and not executed.
            counted.cas = counted.cas.min(executed.cas);
        }
        // The device may have executed a failed verb; its client counts only verbs whose answer arrived.
        let more = client.fabric().lost() > 0 && covers(&executed, &counted);
        if executed != counted && !more {
            return Err(format!("client {number} counts {counted:?}, the device {executed:?}"));
        }
    }
    Ok(())
}

/// The verbs in a client's cost counters.
fn executed(costs: &Costs) -> Counts {
    Counts {
        doorbells: 0,
        reads: costs.reads,
        writes: costs.writes,
        write_imm: costs.write_imm,
        cas: costs.cas,
        masked_cas: costs.masked_cas,
        faa: costs.faa,
        bytes_read: costs.bytes_read,
        bytes_written: costs.bytes_written,
    }
}

fn covers(executed: &Counts, counted: &Counts) -> bool {
    executed.reads >= counted.reads
        && executed.writes >= counted.writes
        && executed.cas >= counted.cas
        && executed.masked_cas >= counted.masked_cas
        && executed.faa >= counted.faa
        && executed.write_imm >= counted.write_imm
        && executed.bytes_read >= counted.bytes_read
        && executed.bytes_written >= counted.bytes_written
}

/// The time of a freeze, if its compute node was frozen until just before `begun`; otherwise `begun`.
pub(super) fn time_before_freeze(happened: &InjectedFault, compute_node: usize, begun: u64) -> u64 {
    match happened.fault {
        Fault::Freeze { compute_node: frozen, nanoseconds }
            if frozen == compute_node
                && (happened.time..=happened.time + nanoseconds + SLACK).contains(&begun) =>
        {
            happened.time
        }
        _ => begun,
    }
}

/// Whether a fault explains that an operation lost a memory node.
pub(super) fn explains_node_lost(
    happened: &InjectedFault,
    compute_node: usize,
    lost: NodeId,
    (begun, ended): (u64, u64),
) -> bool {
    let length = match happened.fault {
        Fault::Down { node, nanoseconds } if node == lost => nanoseconds,
        Fault::Partition { compute_node: cut_off, node, nanoseconds }
            if node == lost && cut_off == compute_node =>
        {
            nanoseconds
        }
        _ => return false,
    };
    length > RETRY_NS && happened.time <= ended && begun <= happened.time + length + RETRY_NS + SLACK
}

/// Whether a fault explains that a live client held a lock for too long.
pub(super) fn explains_lock_held(happened: &InjectedFault, (begun, ended): (u64, u64)) -> bool {
    matches!(happened.fault, Fault::Freeze { nanoseconds, .. }
        if nanoseconds >= LOCK_PATIENCE && happened.time <= ended && begun <= happened.time + nanoseconds)
}
