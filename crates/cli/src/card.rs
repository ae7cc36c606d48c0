//! Network cards, in words and as JSON.

use super::size;
use farwood::node::{DeviceKind, DeviceMemoryLocation, DeviceReport};
use serde_json::{Value, json};

/// A card, the port and the address that are used.
pub(super) fn card_text(card: &DeviceReport) -> String {
    let memory = match card.device_memory {
        0 => "no device memory".to_owned(),
        bytes => format!("{} of device memory", size::show(bytes)),
    };
    let place = card.serves.as_ref().map_or_else(String::new, place_text);
    format!(
        "{} ({}), port {}, GID {} at {}, {}, MTU {}, {memory}{place}",
        card.name,
        kind(card.kind),
        card.port,
        card.gid,
        card.gid_index,
        card.link,
        card.mtu_bytes,
    )
}

/// Describes the location of a memory node's device memory.
fn place_text(place: &DeviceMemoryLocation) -> String {
    let bytes = size::show(place.bytes);
    match &place.why_on_host {
        None => format!(", of which {bytes} are used"),
        Some(why) => format!("; the {bytes} of the memory node are host memory, because {why}"),
    }
}

/// Describes a card as JSON.
pub(super) fn card_json(card: &DeviceReport) -> Value {
    json!({
        "device": card.name,
        "kind": kind(card.kind),
        "port": card.port,
        "gid": card.gid.to_string(),
        "gid_index": card.gid_index,
        "link": card.link.to_string(),
        "mtu_bytes": card.mtu_bytes,
        "device_memory_bytes": card.device_memory,
        "atomics": card.atomics,
        "serves": card.serves.as_ref().map(|place| json!({
            "device_memory_bytes": place.bytes,
            "device_memory": if place.why_on_host.is_none() { "card" } else { "host" },
            "why_on_host": place.why_on_host,
        })),
    })
}

/// The hardware or software that executes verbs.
pub(super) fn kind(kind: DeviceKind) -> &'static str {
    match kind {
        DeviceKind::Hardware => "hardware",
        DeviceKind::SoftRoce => "Soft-RoCE",
    }
}
