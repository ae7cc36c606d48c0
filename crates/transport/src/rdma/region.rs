//! The regions of a memory node's device, as compute nodes learn them, and what such a memory node promises.

use super::device::{CardKind, Device, LinkKind, mtu_bytes};
use farwood_fabric::Capabilities;

/// What a compute node must know of a memory node's card, as it goes over the wire.
///
/// # Map
///
/// ```text
/// the answer to `Control::Region`: four words
/// + 0   8   address of host memory, as requests name it
/// + 8   8   address of device memory
/// +16   4   key of host memory
/// +20   4   key of device memory
/// +24   1   1: device memory is the card's own; 2: Soft-RoCE; 4: a memory node with one processor;
///           8: masked compare-and-swap
/// +25   1   MTU, as the verbs count it: 1 to 5 for 256 to 4096 bytes
/// +26   1   link: 0 InfiniBand, 1 RoCE v1, 2 RoCE v2
/// +27   1   0
/// +28   4   device memory that the card has, in units of 64 bytes
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RegionWords {
    pub(super) host: (u64, u32),
    pub(super) device: (u64, u32),
    pub(super) device_on_card: bool,
    pub(super) kind: CardKind,
    /// Soft-RoCE on a machine with one processor: no copy is interrupted by another.
    pub(super) alone: bool,
    /// Masked compare-and-swap, which was asked for and tried.
    pub(super) masked_cas: bool,
    /// As the verbs count it.
    pub(super) mtu: u8,
    pub(super) link: LinkKind,
    /// Device memory that the card has, used or not, bytes.
    pub(super) of_card: u64,
}

const MTU_SHIFT: u32 = 8;
const LINK_SHIFT: u32 = 16;
const ZERO_SHIFT: u32 = 24;
const OF_CARD_SHIFT: u32 = 32;
const UNIT_BYTES: u64 = 64;

impl RegionWords {
    pub(super) fn words(&self) -> [u64; 4] {
        let soft = self.kind == CardKind::SoftRoce;
        let (alone, masked_cas) = (u64::from(self.alone), u64::from(self.masked_cas));
        let flags = u64::from(self.device_on_card) | u64::from(soft) << 1 | alone << 2 | masked_cas << 3;
        let link = u64::from(self.mtu) << MTU_SHIFT | (self.link as u64) << LINK_SHIFT;
        let of_card = (self.of_card / UNIT_BYTES).min(u32::MAX.into()) << OF_CARD_SHIFT;
        let keys = u64::from(self.host.1) | u64::from(self.device.1) << 32;
        [self.host.0, self.device.0, keys, flags | link | of_card]
    }

    /// Reads them back. `None`: this program does not know all that they say.
    pub(super) fn from_words([host, device, keys, card]: [u64; 4]) -> Option<Self> {
        let (flags, mtu) = (card as u8, (card >> MTU_SHIFT) as u8);
        let link = LinkKind::from_byte((card >> LINK_SHIFT) as u8)?;
        let kind = if flags & 2 == 0 { CardKind::Hardware } else { CardKind::SoftRoce };
        let known = flags < 16 && (1..=5).contains(&mtu) && (card >> ZERO_SHIFT) as u8 == 0;
        known.then_some(Self {
            host: (host, keys as u32),
            device: (device, (keys >> 32) as u32),
            device_on_card: flags & 1 != 0,
            kind,
            alone: flags & 4 != 0,
            masked_cas: flags & 8 != 0,
            mtu,
            link,
            of_card: (card >> OF_CARD_SHIFT) * UNIT_BYTES,
        })
    }

    /// Whether packets of `device` reach it. In words: why not.
    pub(super) fn check_link(&self, device: &Device) -> Result<(), String> {
        if self.link == device.link {
            return Ok(());
        }
        Err(format!(
            "its card speaks {}, and {} here speaks {}: they do not understand each other; name a port and a GID of \
             the same kind on both sides (DEVICE,PORT,GID; `ibv_devinfo -v` lists them)",
            self.link, device.name, device.link
        ))
    }

    /// What a memory node with this card promises (`docs/rdma.md` has the table with its sources).
    pub(super) fn capabilities(&self) -> Capabilities {
        // What takes several can be cut in two by the death of its writer. Its client's packets may be smaller still.
        let packet = mtu_bytes(self.mtu) as usize;
        match self.kind {
            CardKind::Hardware => Capabilities {
                version_pair_bytes_max: 1024,
                whole_bytes: 64,
                write_upward: true,
                atomic_then_read: true,
                arrival_sees_write: true,
                write_beside_cas: true,
                masked_cas: self.masked_cas,
                write_survives_writer_bytes_max: packet,
                cpu_sees_write: false,
            },
            // The kernel copies with `memcpy` on any processor: nothing above a word is whole, nor in any order within
            // a packet. With one processor, and a kernel that does not preempt itself, copies of packets come one
            // after the other but for what an interrupt brings in between, which the litmus tests have not seen. That
            // is enough for tests, which is what Soft-RoCE is for; packets of 1 KiB are what Ethernet's frames hold.
            // Its compare-and-swap stores what it found where it fails, and a WRITE by another processor in between is
            // lost: the litmus test sees it on two.
            CardKind::SoftRoce => Capabilities {
                version_pair_bytes_max: if self.alone { 1024 } else { 0 },
                whole_bytes: if self.alone { 64 } else { 8 },
                write_upward: self.alone,
                atomic_then_read: true,
                arrival_sees_write: true,
                write_beside_cas: self.alone,
                masked_cas: false,
                write_survives_writer_bytes_max: packet,
                cpu_sees_write: true,
            },
        }
    }
}

impl RegionWords {
    /// Whether a memory node with this card keeps what its pool promised when it was opened. In words: that not.
    pub(super) fn check_promises(&self, promised: &Capabilities) -> Result<(), String> {
        if weakest(*promised, &self.capabilities()) == *promised {
            return Ok(());
        }
        Err("it came back with a card, or an MTU, that promises less than the pool did; open the pool again"
            .to_owned())
    }
}

/// The weakest of what two memory nodes promise.
pub(super) fn weakest(one: Capabilities, other: &Capabilities) -> Capabilities {
    Capabilities {
        version_pair_bytes_max: one.version_pair_bytes_max.min(other.version_pair_bytes_max),
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

/// What a memory node says of its card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeCard {
    /// What executes verbs there.
    pub kind: CardKind,
    /// Whether device memory is the card's own, or host memory in its place.
    pub device_on_card: bool,
    /// Device memory that the card has, used or not, bytes.
    pub device_memory: u64,
    /// Bytes of a packet's data.
    pub mtu_bytes: u32,
    /// What its port speaks.
    pub link: LinkKind,
}

impl RegionWords {
    pub(super) fn card(&self) -> NodeCard {
        NodeCard {
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

    fn some(kind: CardKind, alone: bool) -> RegionWords {
        RegionWords {
            host: (0x7F00_0000_0000, 17),
            device: (64, u32::MAX),
            device_on_card: true,
            kind,
            alone,
            masked_cas: kind == CardKind::Hardware,
            mtu: 3,
            link: LinkKind::RoceV2,
            of_card: 128 << 10,
        }
    }

    #[test]
    fn what_is_told_of_a_card_survives_its_words() {
        for (kind, alone) in [(CardKind::Hardware, false), (CardKind::SoftRoce, true)] {
            let told = some(kind, alone);
            assert_eq!(RegionWords::from_words(told.words()), Some(told));
        }
        let good = some(CardKind::Hardware, false).words();
        for (unknown, what) in [(16, "a flag"), (7 << 8, "an MTU"), (1 << 16, "a link"), (1 << 24, "a byte")]
        {
            let words = [good[0], good[1], good[2], good[3] | unknown];
            assert_eq!(RegionWords::from_words(words), None, "{what} that this program does not know");
        }
    }

    #[test]
    fn a_memory_node_that_comes_back_with_less_is_refused() {
        let had = some(CardKind::Hardware, false);
        let promised = had.capabilities();
        assert_eq!(had.check_promises(&promised), Ok(()));
        assert_eq!(RegionWords { mtu: 5, ..had }.check_promises(&promised), Ok(()), "more is no loss");
        for less in [
            RegionWords { mtu: 2, ..had },
            RegionWords { masked_cas: false, ..had },
            some(CardKind::SoftRoce, true),
        ] {
            let why = less.check_promises(&promised).unwrap_err();
            assert!(why.contains("open the pool again"), "{less:?}");
        }
    }

    #[test]
    fn a_pool_promises_what_its_weakest_memory_node_does() {
        let card = some(CardKind::Hardware, false).capabilities();
        let soft = some(CardKind::SoftRoce, false).capabilities();
        let both = weakest(card, &soft);
        assert_eq!((both.version_pair_bytes_max, both.whole_bytes, both.write_upward), (0, 8, false));
        assert_eq!((both.cpu_sees_write, both.atomic_then_read), (false, true));
        assert_eq!((card.masked_cas, both.masked_cas), (true, false));
        let small = RegionWords { mtu: 2, ..some(CardKind::Hardware, false) };
        let both = weakest(card, &small.capabilities());
        assert_eq!((card.write_survives_writer_bytes_max, both.write_survives_writer_bytes_max), (1024, 512));
    }
}
