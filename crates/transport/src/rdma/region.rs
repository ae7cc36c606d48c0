//! The regions of a memory node's device, as memory nodes report them to compute nodes, and the capabilities of such a
//! memory node.

use super::device::{Device, DeviceKind, LinkKind, mtu_bytes};
use farwood_fabric::Capabilities;

/// The regions and properties of a memory node's device, as encoded on the wire.
///
/// # Map
///
/// ```text
/// the answer to `Control::Region`: four words
/// + 0   8   address of host memory, for requests
/// + 8   8   address of device memory
/// +16   4   key of host memory
/// +20   4   key of device memory
/// +24   1   1: device memory is the device's own; 2: Soft-RoCE; 4: a memory node with one processor;
///           8: masked compare-and-swap
/// +25   1   MTU in the encoding of the verbs: 1 to 5 for 256 to 4096 bytes
/// +26   1   link: 0 InfiniBand, 1 RoCE v1, 2 RoCE v2
/// +27   1   0
/// +28   4   device memory of the device, in units of 64 bytes
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeRegions {
    pub(super) host: (u64, u32),
    pub(super) device: (u64, u32),
    pub(super) device_on_card: bool,
    pub(super) kind: DeviceKind,
    /// Soft-RoCE on a machine with one processor: no copy is interrupted by another.
    pub(super) single_processor: bool,
    /// Masked compare-and-swap, requested and tested.
    pub(super) masked_cas: bool,
    /// In the encoding of the verbs.
    pub(super) mtu: u8,
    pub(super) link: LinkKind,
    /// Device memory of the device, used or not, bytes.
    pub(super) of_card: u64,
}

const MTU_SHIFT: u32 = 8;
const LINK_SHIFT: u32 = 16;
const ZERO_SHIFT: u32 = 24;
const OF_CARD_SHIFT: u32 = 32;
const UNIT_BYTES: u64 = 64;

impl NodeRegions {
    pub(super) fn words(&self) -> [u64; 4] {
        assert!((1..=5).contains(&self.mtu), "an MTU in the encoding of the verbs: {self:?}");
        let soft = self.kind == DeviceKind::SoftRoce;
        let (single_processor, masked_cas) = (u64::from(self.single_processor), u64::from(self.masked_cas));
        let flags =
            u64::from(self.device_on_card) | u64::from(soft) << 1 | single_processor << 2 | masked_cas << 3;
        let link = u64::from(self.mtu) << MTU_SHIFT | (self.link as u64) << LINK_SHIFT;
        let of_card = (self.of_card / UNIT_BYTES).min(u32::MAX.into()) << OF_CARD_SHIFT;
        let keys = u64::from(self.host.1) | u64::from(self.device.1) << 32;
        [self.host.0, self.device.0, keys, flags | link | of_card]
    }

    /// Decodes the words. `None`: this program does not know all their values.
    pub(super) fn from_words([host, device, keys, card]: [u64; 4]) -> Option<Self> {
        let (flags, mtu) = (card as u8, (card >> MTU_SHIFT) as u8);
        let link = LinkKind::from_byte((card >> LINK_SHIFT) as u8)?;
        let kind = if flags & 2 == 0 { DeviceKind::Hardware } else { DeviceKind::SoftRoce };
        let known = flags < 16 && (1..=5).contains(&mtu) && (card >> ZERO_SHIFT) as u8 == 0;
        known.then_some(Self {
            host: (host, keys as u32),
            device: (device, (keys >> 32) as u32),
            device_on_card: flags & 1 != 0,
            kind,
            single_processor: flags & 4 != 0,
            masked_cas: flags & 8 != 0,
            mtu,
            link,
            of_card: (card >> OF_CARD_SHIFT) * UNIT_BYTES,
        })
    }

    /// Checks that packets of `device` reach it.
    ///
    /// # Errors
    /// The reason, and the remedy.
    pub(super) fn check_link(&self, device: &Device) -> Result<(), String> {
        if self.link == device.link {
            return Ok(());
        }
        Err(format!(
            "its device uses {}, and {} here uses {}; name a port and a GID of \
             the same kind on both sides (DEVICE,PORT,GID; `ibv_devinfo -v` lists them)",
            self.link, device.name, device.link
        ))
    }

    /// Returns the capabilities of a memory node with this device.
    pub(super) fn capabilities(&self) -> Capabilities {
        // If the writer crashes, a WRITE of several packets may execute partly. The client's packets may be smaller
        // than those of the memory node.
        let packet = mtu_bytes(self.mtu) as usize;
        match self.kind {
            DeviceKind::Hardware => Capabilities {
                version_pair_bytes_max: 1024,
                // A READ of several packets may wait between two of them.
                brief_reads: packet >= 1024,
                whole_bytes: 64,
                write_upward: true,
                atomic_then_read: true,
                arrival_sees_write: true,
                write_beside_cas: true,
                masked_cas: self.masked_cas,
                write_survives_writer_bytes_max: packet,
                cpu_sees_write: false,
            },
            // The kernel copies with `memcpy` on any processor: only words are atomic, and the bytes of a packet are
            // copied in any order. With one processor, and a kernel without preemption, copies of packets follow each
            // other, except for interrupts, which the litmus tests have not observed. That is sufficient for tests, the
            // purpose of Soft-RoCE. Packets of 1 KiB fit Ethernet frames. A failed compare-and-swap stores the value
            // that it read, so that a concurrent WRITE by another processor is lost: the litmus test observes this on
            // two processors.
            DeviceKind::SoftRoce => Capabilities {
                version_pair_bytes_max: if self.single_processor { 1024 } else { 0 },
                brief_reads: false,
                whole_bytes: if self.single_processor { 64 } else { 8 },
                write_upward: self.single_processor,
                atomic_then_read: true,
                arrival_sees_write: true,
                write_beside_cas: self.single_processor,
                masked_cas: false,
                write_survives_writer_bytes_max: packet,
                cpu_sees_write: true,
            },
        }
    }
}

impl NodeRegions {
    /// Checks that a memory node with this device keeps the promises that its pool made when it was opened.
    ///
    /// # Errors
    /// The device promises less than the pool did: the text for the client.
    pub(super) fn check_promises(&self, promised: &Capabilities) -> Result<(), String> {
        if weakest(*promised, &self.capabilities()) == *promised {
            return Ok(());
        }
        Err("it restarted with a device or an MTU that promises less than before; open the pool again"
            .to_owned())
    }
}

/// Returns the weaker of each pair of promises of two memory nodes.
pub(super) fn weakest(one: Capabilities, other: &Capabilities) -> Capabilities {
    Capabilities {
        version_pair_bytes_max: one.version_pair_bytes_max.min(other.version_pair_bytes_max),
        brief_reads: one.brief_reads && other.brief_reads,
        whole_bytes: one.whole_bytes.min(other.whole_bytes),
        write_upward: one.write_upward && other.write_upward,
        atomic_then_read: one.atomic_then_read && other.atomic_then_read,
        arrival_sees_write: one.arrival_sees_write && other.arrival_sees_write,
        write_beside_cas: one.write_beside_cas && other.write_beside_cas,
        masked_cas: one.masked_cas && other.masked_cas,
        write_survives_writer_bytes_max: one
            .write_survives_writer_bytes_max
            .min(other.write_survives_writer_bytes_max),
        cpu_sees_write: one.cpu_sees_write && other.cpu_sees_write,
    }
}

/// The attributes that a memory node reports of its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeDevice {
    /// The kind of device.
    pub kind: DeviceKind,
    /// Whether device memory is the device's own, not host memory.
    pub device_on_card: bool,
    /// Device memory of the device, used or not, bytes.
    pub device_memory: u64,
    /// The MTU: bytes of data in a packet.
    pub mtu_bytes: u32,
    /// The protocol of its port.
    pub link: LinkKind,
}

impl NodeRegions {
    pub(super) fn card(&self) -> NodeDevice {
        NodeDevice {
            kind: self.kind,
            device_on_card: self.device_on_card,
            device_memory: self.of_card,
            mtu_bytes: mtu_bytes(self.mtu),
            link: self.link,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(kind: DeviceKind, single_processor: bool) -> NodeRegions {
        NodeRegions {
            host: (0x7F00_0000_0000, 17),
            device: (64, u32::MAX),
            device_on_card: true,
            kind,
            single_processor,
            masked_cas: kind == DeviceKind::Hardware,
            mtu: 3,
            link: LinkKind::RoceV2,
            of_card: 128 << 10,
        }
    }

    #[test]
    fn regions_round_trip() {
        for (kind, single_processor) in [(DeviceKind::Hardware, false), (DeviceKind::SoftRoce, true)] {
            let regions = some(kind, single_processor);
            assert_eq!(NodeRegions::from_words(regions.words()), Some(regions));
        }
        let good = some(DeviceKind::Hardware, false).words();
        for (unknown, what) in [(16, "a flag"), (7 << 8, "an MTU"), (1 << 16, "a link"), (1 << 24, "a byte")]
        {
            let words = [good[0], good[1], good[2], good[3] | unknown];
            assert_eq!(NodeRegions::from_words(words), None, "{what} that this program does not know");
        }
    }

    #[test]
    fn a_memory_node_that_restarts_with_weaker_promises_is_refused() {
        let had = some(DeviceKind::Hardware, false);
        let promised = had.capabilities();
        assert_eq!(had.check_promises(&promised), Ok(()));
        assert_eq!(NodeRegions { mtu: 5, ..had }.check_promises(&promised), Ok(()), "more is not a loss");
        for less in [
            NodeRegions { mtu: 2, ..had },
            NodeRegions { masked_cas: false, ..had },
            some(DeviceKind::SoftRoce, true),
        ] {
            let why = less.check_promises(&promised).unwrap_err();
            assert!(why.contains("open the pool again"), "{less:?}");
        }
    }

    #[test]
    fn a_pool_promises_what_its_weakest_memory_node_does() {
        let card = some(DeviceKind::Hardware, false).capabilities();
        let soft = some(DeviceKind::SoftRoce, false).capabilities();
        let both = weakest(card, &soft);
        assert_eq!((both.version_pair_bytes_max, both.whole_bytes, both.write_upward), (0, 8, false));
        assert_eq!((both.cpu_sees_write, both.atomic_then_read), (false, true));
        assert_eq!((card.brief_reads, both.brief_reads), (true, false));
        assert_eq!((card.masked_cas, both.masked_cas), (true, false));
        let small = NodeRegions { mtu: 2, ..some(DeviceKind::Hardware, false) };
        let both = weakest(card, &small.capabilities());
        assert_eq!((card.write_survives_writer_bytes_max, both.write_survives_writer_bytes_max), (1024, 512));
    }
}
