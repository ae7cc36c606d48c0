//! An open RDMA device: its port, its address, and its capabilities.

use super::abi::sys::{GidEntry, numbers};
use super::sys::{Context, DeviceLimits, Domain};
use farwood_fabric::superblock::DEVICE_BYTES_DEFAULT;
use std::fmt;
use std::net::Ipv6Addr;
use std::sync::Arc;

/// The kind of device that executes verbs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    /// A network card.
    Hardware,
    /// The kernel's Soft-RoCE, which copies with processors.
    SoftRoce,
}

/// The protocol of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkKind {
    /// InfiniBand.
    InfiniBand = 0,
    /// RDMA in Ethernet frames.
    RoceV1 = 1,
    /// RDMA in UDP, over Ethernet.
    RoceV2 = 2,
}

impl LinkKind {
    pub(super) fn of(link_layer: u8, gid: &GidEntry) -> Self {
        match (link_layer == numbers::ETHERNET, gid.gid_type) {
            (false, _) => Self::InfiniBand,
            (true, ROCE_V2) => Self::RoceV2,
            (true, _) => Self::RoceV1,
        }
    }

    /// Returns the protocol of that number.
    pub(super) fn from_byte(byte: u8) -> Option<Self> {
        [Self::InfiniBand, Self::RoceV1, Self::RoceV2].into_iter().find(|link| *link as u8 == byte)
    }

    /// Returns whether it runs over Ethernet.
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

/// `gid_type` of a RoCE v2 address.
pub(super) const ROCE_V2: u32 = 2;

/// An open port of a device.
#[derive(Debug)]
pub(super) struct Device {
    pub(super) name: String,
    pub(super) port: u8,
    pub(super) gid: [u8; 16],
    pub(super) gid_index: u8,
    pub(super) lid: u16,
    /// In the encoding of the verbs: 1 for 256 bytes, 5 for 4096.
    pub(super) mtu: u8,
    pub(super) link: LinkKind,
    pub(super) kind: DeviceKind,
    pub(super) limits: DeviceLimits,
    /// Whether masked compare-and-swap was requested, exists, and passed the test.
    pub(super) masked_cas: bool,
    pub(super) domain: Arc<Domain>,
    pub(super) context: Arc<Context>,
}

/// The properties of an open device, for users and records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceReport {
    /// The name of the device.
    pub name: String,
    /// The port in use.
    pub port: u8,
    /// The port's address.
    pub gid: Ipv6Addr,
    /// The index in the port's table of addresses.
    pub gid_index: u8,
    /// The MTU: bytes of data in a packet.
    pub mtu_bytes: u32,
    /// The protocol of the port.
    pub link: LinkKind,
    /// The kind of device.
    pub kind: DeviceKind,
    /// Vendor and part, as the device reports them.
    pub vendor: (u32, u32),
    /// Device memory, bytes; 0: none.
    pub device_memory: u64,
    /// Whether it has atomics.
    pub atomics: bool,
    /// The location of the memory node's device memory, if the device serves one.
    pub serves: Option<DeviceMemoryLocation>,
}

/// The location of a memory node's device memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceMemoryLocation {
    /// The size of the device memory in bytes.
    pub bytes: u64,
    /// The reason why it is host memory; `None` if it is the device's own memory.
    pub why_on_host: Option<String>,
}

/// Returns the bytes of an MTU in the encoding of the verbs.
pub(super) fn mtu_bytes(mtu: u8) -> u32 {
    128 << mtu
}

/// Returns the encoding of an MTU of that many bytes.
pub(super) fn mtu_of(bytes: u32) -> Option<u8> {
    (1..=5).find(|&mtu| mtu_bytes(mtu) == bytes)
}

/// Returns the default size of device memory: that of the device, at most the usual default.
pub(super) fn device_bytes(of_card: u64) -> u64 {
    match of_card / LINE_BYTES * LINE_BYTES {
        0 => DEVICE_BYTES_DEFAULT,
        bytes => bytes.min(DEVICE_BYTES_DEFAULT),
    }
}

/// Device memory is allocated in cache lines.
const LINE_BYTES: u64 = 64;

impl Device {
    /// Returns its properties.
    pub(super) fn report(&self) -> DeviceReport {
        DeviceReport {
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
    fn device_memory_defaults_to_that_of_the_device() {
        let of = |kib: u64| device_bytes(kib << 10);
        assert_eq!([of(0), of(128), of(256), of(512)], [256 << 10, 128 << 10, 256 << 10, 256 << 10]);
        assert_eq!((device_bytes(100), device_bytes(63)), (64, 256 << 10));
    }

    #[test]
    fn a_link_is_recognised_by_its_layer_and_its_address() {
        let entry = |gid_type| GidEntry { gid_type, ..GidEntry::default() };
        assert_eq!(LinkKind::of(1, &entry(0)), LinkKind::InfiniBand);
        assert_eq!(LinkKind::of(numbers::ETHERNET, &entry(1)), LinkKind::RoceV1);
        assert_eq!(LinkKind::of(numbers::ETHERNET, &entry(2)), LinkKind::RoceV2);
        assert_eq!(LinkKind::from_byte(3), None);
    }
}
