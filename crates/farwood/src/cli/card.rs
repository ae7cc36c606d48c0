//! Network cards, in words and as JSON.

use super::size;
use farwood::{CardKind, CardReport};
use serde_json::{Value, json};

/// A card, the port and the address that are used.
pub(super) fn card_text(card: &CardReport) -> String {
    let memory = match card.device_memory {
        0 => "no device memory".to_owned(),
        bytes => format!("{} of device memory", size::show(bytes)),
    };
    format!(
        "{} ({}), port {}, GID {} at {}, {}, MTU {}, {memory}",
        card.name,
        kind(card.kind),
        card.port,
        card.gid,
        card.gid_index,
        link(card),
        card.mtu_bytes,
    )
}

/// The same as JSON.
pub(super) fn card_json(card: &CardReport) -> Value {
    json!({
        "device": card.name,
        "kind": kind(card.kind),
        "port": card.port,
        "gid": card.gid.to_string(),
        "gid_index": card.gid_index,
        "link": link(card),
        "mtu_bytes": card.mtu_bytes,
        "device_memory_bytes": card.device_memory,
        "atomics": card.atomics,
    })
}

/// What executes verbs.
pub(super) fn kind(kind: CardKind) -> &'static str {
    match kind {
        CardKind::Hardware => "hardware",
        CardKind::SoftRoce => "Soft-RoCE",
    }
}

fn link(card: &CardReport) -> &'static str {
    if card.is_ethernet { "RoCE" } else { "InfiniBand" }
}
