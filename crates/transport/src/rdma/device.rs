//! Which card, port and address a process uses, and what the card can do.

use super::abi::sys::GidEntry;
use super::sys::{Context, DeviceLimits, Domain};
use farwood_fabric::superblock::DEVICE_BYTES_DEFAULT;
use std::fmt;
use std::net::Ipv6Addr;
use std::sync::Arc;

/// What kind of card executes verbs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CardKind {
    /// A network card.
    Hardware,
    /// The kernel's Soft-RoCE, which copies with processors.
    SoftRoce,
}

/// What a port speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkKind {
    /// InfiniBand.
    InfiniBand = 0,
    /// RDMA in frames of Ethernet.
    RoceV1 = 1,
    /// RDMA in UDP, over Ethernet.
    RoceV2 = 2,
}

impl LinkKind {
    pub(super) fn of(is_ethernet: bool, gid: &GidEntry) -> Self {
        match (is_ethernet, gid.gid_type) {
            (false, _) => Self::InfiniBand,
            (true, ROCE_V2) => Self::RoceV2,
            (true, _) => Self::RoceV1,
        }
    }

    /// The one of that number.
    pub(super) fn from_byte(byte: u8) -> Option<Self> {
        [Self::InfiniBand, Self::RoceV1, Self::RoceV2].into_iter().find(|link| *link as u8 == byte)
    }

    /// Whether it goes over Ethernet.
    pub fn is_ethernet(self) -> bool {
        self != Self::InfiniBand
    }
}

impl fmt::Display for LinkKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InfiniBand => "InfiniBand",
            Self::RoceV1 => "RoCE v1",
            Self::RoceV2 => "RoCE v2",
        })
    }
}

/// `gid_type` of an address of RoCE v2.
pub(super) const ROCE_V2: u32 = 2;

/// A card's port, open.
#[derive(Debug)]
pub(super) struct Device {
    pub(super) name: String,
    pub(super) port: u8,
    pub(super) gid: [u8; 16],
    pub(super) gid_index: u8,
    pub(super) lid: u16,
    /// As the verbs count it: 1 for 256 bytes, 5 for 4096.
    pub(super) mtu: u8,
    pub(super) link: LinkKind,
    pub(super) kind: CardKind,
    pub(super) limits: DeviceLimits,
    /// Whether masked compare-and-swap was asked for, is there, and was tried.
    pub(super) masked_cas: bool,
    pub(super) domain: Arc<Domain>,
    pub(super) context: Arc<Context>,
}

/// What is known of an open device, for people and records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CardReport {
    /// Its name.
    pub name: String,
    /// The port that is used.
    pub port: u8,
    /// The port's address.
    pub gid: Ipv6Addr,
    /// Where it stands in the port's table.
    pub gid_index: u8,
    /// Bytes of a packet's data.
    pub mtu_bytes: u32,
    /// What the port speaks.
    pub link: LinkKind,
    /// What executes verbs.
    pub kind: CardKind,
    /// Vendor and part, as the card says it.
    pub vendor: (u32, u32),
    /// Device memory, bytes; 0: none.
    pub device_memory: u64,
    /// Whether it has atomics.
    pub atomics: bool,
    /// Where the device memory of the memory node lies whose verbs it executes, if it does.
    pub serves: Option<DevicePlace>,
}

/// Where the device memory of a memory node lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DevicePlace {
    /// How much there is, bytes.
    pub bytes: u64,
    /// Why it is not the card's own but host memory; `None`: it is the card's own.
    pub why_on_host: Option<String>,
}

/// Bytes of a packet's data, of an MTU as the verbs count it.
pub(super) fn mtu_bytes(mtu: u8) -> u32 {
    128 << mtu
}

/// The MTU of so many bytes, as the verbs count it.
pub(super) fn mtu_of(bytes: u32) -> Option<u8> {
    (1..=5).find(|&mtu| mtu_bytes(mtu) == bytes)
}

/// Device memory of a memory node that was not told how much: what its card has, at most what others have.
pub(super) fn device_bytes(of_card: u64) -> u64 {
    match of_card / LINE_BYTES * LINE_BYTES {
        0 => DEVICE_BYTES_DEFAULT,
        bytes => bytes.min(DEVICE_BYTES_DEFAULT),
    }
}

/// Device memory is given out by the line.
const LINE_BYTES: u64 = 64;

impl Device {
    /// What is known of it.
    pub(super) fn report(&self) -> CardReport {
        CardReport {
            name: self.name.clone(),
            port: self.port,
            gid: Ipv6Addr::from(self.gid),
            gid_index: self.gid_index,
            mtu_bytes: mtu_bytes(self.mtu),
            link: self.link,
            kind: self.kind,
            vendor: (self.limits.vendor, self.limits.part),
            device_memory: self.limits.device_memory,
            atomics: self.limits.atomics,
            serves: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_memory_is_what_the_card_has_if_nobody_says() {
        let of = |kib: u64| device_bytes(kib << 10);
        assert_eq!([of(0), of(128), of(256), of(512)], [256 << 10, 128 << 10, 256 << 10, 256 << 10]);
        assert_eq!((device_bytes(100), device_bytes(63)), (64, 256 << 10));
    }

    #[test]
    fn a_link_is_told_by_its_layer_and_its_address() {
        let entry = |gid_type| GidEntry { gid_type, ..GidEntry::default() };
        assert_eq!(LinkKind::of(false, &entry(0)), LinkKind::InfiniBand);
        assert_eq!(LinkKind::of(true, &entry(1)), LinkKind::RoceV1);
        assert_eq!(LinkKind::of(true, &entry(2)), LinkKind::RoceV2);
        assert_eq!(LinkKind::from_byte(3), None);
    }
}
