//! Text tables of records.
//!
//! ```text
//! sherman on shm, ycsb-a, zipf 0.99: 2.30 M operations/s
//! operation  operations   per s  p50 us  p99 us  round trips  verbs  B read  B written
//! get            10,000  1.00 M    0.95    1.19         1.00   1.00   1,024          0
//! put            10,000  1.00 M    2.25    2.69         3.00   3.00   1,024         27
//! all            20,000  2.00 M    1.60    2.68         2.00   2.00   1,024         14
//! ```

use std::fmt::Write as _;

use crate::record::{Measured, Record, Verbs, timeline};

/// One table per record: a title, one row per kind of operation, one row for all operations, and a line of notes.
pub fn table(records: &[Record]) -> String {
    let mut text = String::new();
    for (number, record) in records.iter().enumerate() {
        if number > 0 {
            text.push('\n');
        }
        text.push_str(&one(record));
    }
    text
}

fn one(record: &Record) -> String {
    let headings = [
        "operation",
        "operations",
        "per s",
        "p50 us",
        "p99 us",
        "round trips",
        "verbs",
        "B read",
        "B written",
    ];
    let mut rows = vec![headings.map(str::to_owned).to_vec()];
    rows.extend(record.by_operation.iter().map(|(name, measured)| row(name, measured)));
    let all = record.measured();
    rows.push(row("all", &all));
    if all.round_trips.is_none() {
        // A peer in local memory has no costs of far memory.
        for row in &mut rows {
            row.truncate(5);
        }
    }
    format!("{}\n{}{}{}", title(record), aligned(&rows), notes(record), timeline::text(record))
}

fn title(record: &Record) -> String {
    let skew = match record.distribution.as_str() {
        "uniform" => "uniform".to_owned(),
        name => format!("{name} {}", record.theta),
    };
    let fabric =
        record.nic.as_ref().map_or_else(|| record.fabric.clone(), |nic| format!("{} {nic}", record.fabric));
    let mut title = format!("{} on {fabric}, {}, {skew}", record.label(), record.workload);
    if record.spatial.is_some() {
        let _ = write!(title, ", {} rectangles", grouped(record.keys));
    } else {
        let _ = write!(title, ", {} keys of {} B", grouped(record.keys), record.key_bytes);
        let _ = write!(title, ", values of {} B", record.value_bytes);
    }
    if let Some(memory_nodes) = record.memory_nodes {
        let _ = write!(title, ", {}", counted(memory_nodes, "memory node"));
    }
    let compute_node = if record.nic.is_some() { "compute node" } else { "process" };
    let _ = write!(title, ", {}", counted(record.compute_nodes, compute_node));
    let _ = write!(title, ", {}", counted(record.clients, "client"));
    if let Some(connections) = record.connections {
        let _ = write!(title, ", {}", counted(connections, "connection"));
    }
    title
}

/// Smallest number of keys for which the bytes per key are shown.
const KEYS_TO_SHARE: u64 = 1_000_000;

/// The values that are not per operation, on one line.
fn notes(record: &Record) -> String {
    let mut notes = Vec::new();
    if let Some(retries) = &record.retries {
        let (torn, lock, moved) = (grouped(retries.torn), grouped(retries.lock), grouped(retries.moved));
        let misled = (retries.misled > 0).then(|| format!(", {} misled", grouped(retries.misled)));
        notes.push(format!("retries: {torn} torn, {lock} lock, {moved} moved{}", misled.unwrap_or_default()));
    }
    if let Some(cache) = &record.cache {
        // The ratio is also 0 without lookups, as in scans.
        let share = (cache.hit_ratio > 0.0).then(|| format!(", {:.2} % hits", cache.hit_ratio * 100.0));
        notes.push(format!("cache: {}{}", bytes(cache.bytes), share.unwrap_or_default()));
    }
    if let Some(used) = record.memory_node_bytes {
        // Memory is allocated in chunks of 8 MiB, so the bytes per key mean little for few keys.
        let of_key = (record.keys >= KEYS_TO_SHARE).then(|| used as f64 / record.keys as f64);
        let of_key = of_key.map(|share| format!(", {share:.1} B a key")).unwrap_or_default();
        notes.push(format!("memory nodes: {}{of_key}", bytes(used)));
    }
    if let Some(verbs) = record.simulated_verbs_per_second {
        notes.push(format!("simulated: {} verbs per second", rate(verbs / 1e6)));
    }
    if let Some(spatial) = &record.spatial {
        notes.push(format!("scale {}, {:.2} found", spatial.scale, spatial.found_mean));
        notes.push(format!("{:.1} % offloaded", 100.0 * spatial.share_offloaded));
        if let (Some(busy), Some(gbps)) = (spatial.server_busy, spatial.server_gbps) {
            notes.push(format!("server: {:.0} % of its cores, {gbps:.2} Gb/s", 100.0 * busy));
        }
    }
    if let Some(pinned) = &record.pinned {
        notes.push(format!("CPUs: {pinned}"));
    }
    if let Some(loopback) = &record.loopback {
        let (state, sleeping, looking) = (&loopback.state, loopback.sleeping_us, loopback.looking_us);
        notes.push(format!("loopback: {state}, {sleeping:.0} us sleeping, {looking:.0} us polling"));
    }
    if let (Some(level), Some(sync_us)) = (&record.durability, record.sync_us) {
        notes.push(format!("durability: {level}, a sync takes {} us", microseconds(sync_us)));
    }
    if !record.profile.is_empty() {
        notes.push(format!("profile: {}", record.profile));
    }
    if let Some(offered) = record.offered_ops_per_second {
        notes.push(format!("offered: {} per second", rate(offered as f64 / 1e6)));
    }
    if let (Some(steady), Some(seconds)) = (record.warm_up_steady, record.warm_up_seconds) {
        let state = if steady { "then steady" } else { "not steady" };
        notes.push(format!("warm-up: {:.1} ms, {state}", seconds * 1e3));
    }
    if let Some(failed) = record.failed_operations {
        notes.push(format!("failed: {}", counted(failed, "operation")));
    }
    if let Some(repeats) = &record.repeats {
        let (runs, mean) = (repeats.mops.len(), rate(repeats.mean));
        notes.push(format!("{runs} seeds: {mean} per second, +- {} (95 %)", rate(repeats.half_width95)));
    }
    if let Some(ratio) = record.ratio {
        notes.push(format!("{ratio:.2} times the first peer"));
    }
    if notes.is_empty() { String::new() } else { notes.join("; ") + "\n" }
}

fn row(name: &str, measured: &Measured) -> Vec<String> {
    let latency = &measured.latency_us;
    let bytes = measured.bytes_per_op.as_ref();
    let or_dash = |cell: Option<String>| cell.unwrap_or_else(|| "-".to_owned());
    vec![
        name.to_owned(),
        grouped(measured.operations),
        rate(measured.mops),
        microseconds(latency.p50),
        microseconds(latency.p99),
        or_dash(measured.round_trips.as_ref().map(|trips| format!("{:.2}", trips.mean))),
        or_dash(measured.verbs_per_op.as_ref().map(|verbs| format!("{:.2}", all_verbs(verbs)))),
        or_dash(bytes.map(|bytes| grouped(bytes.read.round() as u64))),
        or_dash(bytes.map(|bytes| grouped(bytes.written.round() as u64))),
    ]
}

fn all_verbs(verbs: &Verbs) -> f64 {
    verbs.read + verbs.write + verbs.cas + verbs.masked_cas + verbs.faa + verbs.write_imm
}

/// Pads columns to their widest cell, the first column on the right, the others on the left.
pub(super) fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let _ = match column {
                0 => write!(text, "{cell:<width$}"),
                _ => write!(text, "  {cell:>width$}"),
            };
        }
        text.push('\n');
    }
    text
}

/// A throughput with three digits and its unit: `1.25 M`, `83.1 k`, `310`.
pub fn rate(mops: f64) -> String {
    let per_second = mops * 1e6;
    match per_second {
        x if x >= 999_500.0 => format!("{} M", three_digits(x / 1e6)),
        x if x >= 999.5 => format!("{} k", three_digits(x / 1e3)),
        x => three_digits(x),
    }
}

/// Microseconds with three digits.
pub(crate) fn microseconds(us: f64) -> String {
    if us >= 1000.0 { grouped(us.round() as u64) } else { three_digits(us) }
}

fn three_digits(x: f64) -> String {
    match x {
        x if x >= 99.95 => format!("{x:.0}"),
        x if x >= 9.995 => format!("{x:.1}"),
        x => format!("{x:.2}"),
    }
}

/// A count with commas between thousands.
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Bytes in binary units.
fn bytes(count: u64) -> String {
    let (mut value, mut unit) = (count as f64, "B");
    for larger in ["KiB", "MiB", "GiB", "TiB"] {
        if value < 1024.0 {
            break;
        }
        (value, unit) = (value / 1024.0, larger);
    }
    if unit == "B" { format!("{count} B") } else { format!("{} {unit}", three_digits(value)) }
}

fn counted(count: u64, noun: &str) -> String {
    let plural = match (count, noun) {
        (1, _) => "",
        (_, noun) if noun.ends_with('s') => "es",
        _ => "s",
    };
    format!("{} {noun}{plural}", grouped(count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::{peer, sample};

    #[test]
    fn a_table_is_aligned_and_complete() {
        let record = Record { peer: None, ..sample() };
        let text = table(std::slice::from_ref(&record));
        let lines: Vec<&str> = text.lines().collect();
        let title = "sherman on shm, ycsb-a, zipf 0.99, 274,937 keys of 32 B, values of 8 B, 2 memory nodes, \
                     4 processes, 4 clients";
        assert_eq!(lines[0], title);
        let rows = &lines[1..8];
        assert!(rows.iter().all(|row| row.len() == rows[0].len()), "{text}");
        let cells: Vec<&str> = rows[1].split_whitespace().collect();
        assert_eq!(cells, ["get", "10,000", "1.00", "M", "0.95", "1.19", "1.00", "1.00", "1,024", "0"]);
        assert!(rows[6].starts_with("all") && rows[6].contains("23,000"));
        let notes = "retries: 0 torn, 0 lock, 0 moved; cache: 1.00 MiB, 100.00 % hits; memory nodes: 64.0 MiB; \
                     profile: release; 1.50 times the first peer";
        assert_eq!(lines[8], notes);
        let large = table(&[Record { keys: 1 << 20, ..record }]);
        assert!(large.contains("memory nodes: 64.0 MiB, 64.0 B a key; "), "{large}");
    }

    #[test]
    fn a_peer_has_no_columns_of_far_memory() {
        let text = table(&[sample(), peer()]);
        let second = text.split("\n\n").nth(1).unwrap();
        assert!(second.starts_with("lmdb on processes"), "{text}");
        assert!(!second.contains("round trips") && second.contains("p99 us"), "{text}");
    }

    #[test]
    fn numbers_have_three_digits_and_sensible_units() {
        assert_eq!([rate(1.2345), rate(0.0831), rate(0.000_31)], ["1.23 M", "83.1 k", "310"]);
        assert_eq!([rate(0.999_6), rate(12.0), rate(0.0)], ["1.00 M", "12.0 M", "0.00"]);
        assert_eq!([microseconds(0.123), microseconds(19_890.2)], ["0.12", "19,890"]);
        assert_eq!([grouped(0), grouped(999), grouped(1_234_567)], ["0", "999", "1,234,567"]);
        assert_eq!([bytes(999), bytes(1536), bytes(3 << 40)], ["999 B", "1.50 KiB", "3.00 TiB"]);
    }
}
