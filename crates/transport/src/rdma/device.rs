//! Which card, port and address a process uses, and what the card can do.

use super::abi::sys::{GidEntry, numbers};
use super::error::RdmaError;
use super::sys::{Context, DeviceLimits, Domain, device_names};
use super::trial::try_atomics;
use crate::tcp::{Access, PoolAddress, TcpError};
use farwood_fabric::superblock::DEVICE_BYTES_DEFAULT;
use std::fmt;
use std::net::Ipv6Addr;
use std::num::NonZeroU16;
use std::str::FromStr;
use std::sync::Arc;

/// The vendor that Soft-RoCE (`rdma_rxe`) says it is of.
const SOFT_ROCE_VENDOR: u32 = 0x00FF_FFFF;

/// Which device: `DEVICE[,PORT[,GID]][,mtu=BYTES][,masked-cas]`, or nothing, for the first that will do.
///
/// ```
/// use farwood_transport::rdma::DeviceSpec;
/// let spec: DeviceSpec = "mlx5_0,1,3".parse()?;
/// assert_eq!((spec.device.as_deref(), spec.port, spec.gid), (Some("mlx5_0"), Some(1), Some(3)));
/// assert!(!spec.masked_cas && "mlx5_0,masked-cas".parse::<DeviceSpec>()?.masked_cas);
/// assert_eq!("mlx5_0,mtu=1024".parse::<DeviceSpec>()?.mtu_bytes, Some(1024));
/// assert_eq!("auto".parse::<DeviceSpec>()?, DeviceSpec::default());
/// assert!("mlx5_0,one".parse::<DeviceSpec>().is_err());
/// # Ok::<(), farwood_transport::rdma::RdmaError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceSpec {
    /// Its name, as `ibv_devices` lists it; `None`: the first with an active port and atomics.
    pub device: Option<String>,
    /// Its port, counted from 1; `None`: the first that is active.
    pub port: Option<u8>,
    /// Index in the port's table of GIDs; `None`: RoCE v2 with an IPv4 address before others, 0 on InfiniBand.
    pub gid: Option<u8>,
    /// Most bytes of a packet's data, of 256, 512, 1024, 2048 and 4096; `None`: what the port has.
    pub mtu_bytes: Option<u32>,
    /// Whether masked compare-and-swap is wanted, which only cards of mlx5 have, and which no card was seen to do as
    /// it should: the device is then refused where it has none, or where a trial of it goes wrong.
    pub masked_cas: bool,
}

/// What asks for [`DeviceSpec::masked_cas`].
const MASKED_CAS: &str = "masked-cas";
/// And for [`DeviceSpec::mtu_bytes`].
const MTU: &str = "mtu=";

impl FromStr for DeviceSpec {
    type Err = RdmaError;

    fn from_str(text: &str) -> Result<Self, RdmaError> {
        let refuse = |why: &str| RdmaError::BadDevice { text: text.to_owned(), why: why.to_owned() };
        let option = |part: &str| part == MASKED_CAS || part.starts_with(MTU);
        let mut rest = text;
        let (mut masked_cas, mut mtu_bytes) = (false, None);
        while let Some((before, last)) = rest.rsplit_once(',').filter(|(_, last)| option(last)) {
            rest = before;
            let is_new = match last.strip_prefix(MTU) {
                None => !std::mem::replace(&mut masked_cas, true),
                Some(bytes) => {
                    let known = bytes.parse().ok().filter(|&bytes| mtu_of(bytes).is_some());
                    let bytes = known.ok_or_else(|| {
                        refuse(&format!("'{bytes}' is no MTU: give 256, 512, 1024, 2048 or 4096"))
                    })?;
                    mtu_bytes.replace(bytes).is_none()
                }
            };
            if !is_new {
                return Err(refuse(&format!("'{last}' is there twice")));
            }
        }
        let mut parts = rest.split(',');
        let device = parts.next().unwrap_or_default();
        let mut number = || match parts.next() {
            None => Ok(None),
            Some(number) => number.parse().map(Some).map_err(|_| refuse(&format!("'{number}' is no number"))),
        };
        let (port, gid) = (number()?, number()?);
        if parts.next().is_some() {
            return Err(refuse("there is something behind the GID"));
        }
        if port == Some(0) {
            return Err(refuse("ports count from 1"));
        }
        if device.is_empty() {
            return Err(refuse("the device has no name"));
        }
        let device = (device != "auto").then(|| device.to_owned());
        Ok(Self { device, port, gid, mtu_bytes, masked_cas })
    }
}

impl DeviceSpec {
    /// The one that an address names (`?device=DEVICE,PORT,GID`), or else `FARWOOD_RDMA_DEVICE`, or else the first.
    ///
    /// # Errors
    /// [`RdmaError::BadDevice`].
    pub fn find(address: &PoolAddress) -> Result<Self, RdmaError> {
        address.access().device().map_or_else(|| Ok(Self::default()), |text| text.parse())
    }
}

/// The device that the environment names (`FARWOOD_RDMA_DEVICE`), if it does.
pub fn device_of_environment() -> Option<String> {
    Access::default().device()
}

/// How many queue pairs a thread has at each memory node: as an address says (`?queue-pairs=2`), or else
/// `FARWOOD_RDMA_QUEUE_PAIRS`, or else one.
///
/// # Errors
/// [`TcpError::BadAddress`], in an [`RdmaError::Pool`], where the environment says no such number.
pub fn queue_pairs(address: &PoolAddress) -> Result<NonZeroU16, RdmaError> {
    let refuse = |why| TcpError::BadAddress { text: address.to_string(), why };
    address.access().queue_pairs().map_err(|why| refuse(why).into())
}

impl fmt::Display for DeviceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.device.as_deref().unwrap_or("auto"))?;
        for number in [self.port, self.gid].into_iter().flatten() {
            write!(f, ",{number}")?;
        }
        if let Some(bytes) = self.mtu_bytes {
            write!(f, ",{MTU}{bytes}")?;
        }
        if self.masked_cas {
            write!(f, ",{MASKED_CAS}")?;
        }
        Ok(())
    }
}

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
    fn of(is_ethernet: bool, gid: &GidEntry) -> Self {
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
const ROCE_V2: u32 = 2;

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
fn mtu_of(bytes: u32) -> Option<u8> {
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

/// The names of this machine's RDMA devices.
///
/// # Errors
/// [`RdmaError::NoLibrary`] where rdma-core is not there.
pub fn devices() -> Result<Vec<String>, RdmaError> {
    device_names().map_err(RdmaError::NoLibrary)
}

impl Device {
    /// Opens the device that `spec` names, or the first that will do.
    pub(super) fn open(spec: &DeviceSpec) -> Result<Arc<Self>, RdmaError> {
        let names = devices()?;
        if let Some(wanted) = &spec.device {
            if !names.contains(wanted) {
                return Err(RdmaError::NoDevice { wanted: wanted.clone(), there: names });
            }
            return Self::open_named(wanted, spec).map(Arc::new);
        }
        let mut last = RdmaError::NoDevices;
        for name in &names {
            match Self::open_named(name, spec) {
                Ok(device) => return Ok(Arc::new(device)),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn open_named(name: &str, spec: &DeviceSpec) -> Result<Self, RdmaError> {
        let unusable = |why: String| RdmaError::Unusable { device: name.to_owned(), why };
        let system = |error: std::io::Error| unusable(error.to_string());
        let context = Context::open(name).map_err(unusable)?;
        let context = context.ok_or_else(|| unusable("it is gone".to_owned()))?;
        let limits = context.limits().map_err(system)?;
        if !limits.atomics {
            return Err(unusable("it has no atomics, and locks need them; take another card".to_owned()));
        }
        let port = find_port(&context, &limits, spec, name)?;
        let attributes = context.port(port).map_err(system)?;
        let is_ethernet = attributes.link_layer == numbers::ETHERNET;
        let (gid_index, entry) = find_gid(&context, port, attributes.gid_tbl_len, spec, is_ethernet)
            .ok_or_else(|| {
                unusable(format!(
                    "port {port} has no such GID; give its interface an IP address, or name \
                                             another (`DEVICE,PORT,GID`; `ibv_devinfo -v` lists them)"
                ))
            })?;
        if spec.masked_cas {
            let remedy = "take another card, or do not ask for masked-cas";
            context.examine_masked_cas().map_err(|why| unusable(format!("{why}; {remedy}")))?;
        }
        let device = Self {
            name: name.to_owned(),
            port,
            gid: entry.gid,
            gid_index,
            lid: attributes.lid,
            mtu: spec
                .mtu_bytes
                .and_then(mtu_of)
                .unwrap_or(u8::MAX)
                .min(attributes.active_mtu.clamp(1, 5) as u8),
            link: LinkKind::of(is_ethernet, &entry),
            kind: if limits.vendor == SOFT_ROCE_VENDOR { CardKind::SoftRoce } else { CardKind::Hardware },
            limits,
            masked_cas: spec.masked_cas,
            domain: Domain::new(&context).map_err(system)?,
            context,
        };
        if spec.masked_cas {
            try_atomics(&device).map_err(unusable)?;
        }
        Ok(device)
    }

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

/// Opens a device, tries its atomics on memory of this process, and says what is known of it.
///
/// # Errors
/// [`RdmaError`].
pub fn examine(spec: &DeviceSpec) -> Result<CardReport, RdmaError> {
    let device = Device::open(spec)?;
    try_atomics(&device).map_err(|why| RdmaError::Unusable { device: device.name.clone(), why })?;
    Ok(device.report())
}

fn find_port(
    context: &Context,
    limits: &DeviceLimits,
    spec: &DeviceSpec,
    name: &str,
) -> Result<u8, RdmaError> {
    let is_active = |port: u8| context.port(port).is_ok_and(|port| port.state == numbers::PORT_ACTIVE);
    let ports = spec.port.map_or(1..=limits.ports, |port| port..=port);
    let wanted = spec.port.map_or_else(|| "no port".to_owned(), |port| format!("not port {port}"));
    ports.clone().find(|&port| is_active(port)).ok_or_else(|| RdmaError::Unusable {
        device: name.to_owned(),
        why: format!(
            "{wanted} of it is active; bring its interface up (`ip link set … up`), or on InfiniBand start a \
                      subnet manager"
        ),
    })
}

/// The entry of the port's table of addresses that is asked for, or the best.
fn find_gid(
    context: &Context,
    port: u8,
    entries: i32,
    spec: &DeviceSpec,
    is_ethernet: bool,
) -> Option<(u8, GidEntry)> {
    let at = |index: u8| context.gid(port, index.into()).map(|entry| (index, entry));
    let wanted = spec.gid.or((!is_ethernet).then_some(0));
    if let Some(index) = wanted {
        at(index)
    } else {
        let entries = u8::try_from(entries.clamp(0, 255)).unwrap_or(u8::MAX);
        // Of equals the first.
        (0..entries).filter_map(at).rev().max_by_key(|(_, entry)| rank(entry))
    }
}

/// How good an address is: RoCE v2 goes through routers, and an IPv4 address is what administrators mean.
fn rank(entry: &GidEntry) -> u8 {
    let address = Ipv6Addr::from(entry.gid);
    match entry.gid_type {
        ROCE_V2 if address.to_ipv4_mapped().is_some() => 3,
        ROCE_V2 if !address.is_unicast_link_local() => 2,
        ROCE_V2 => 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specs_are_read_back() {
        for text in [
            "auto",
            "mlx5_0",
            "rxe0,1",
            "mlx5_bond_0,2,17",
            "auto,masked-cas",
            "a,1,3,masked-cas",
            "a,mtu=256",
        ] {
            assert_eq!(text.parse::<DeviceSpec>().unwrap().to_string(), text);
        }
        let both = "a,1,masked-cas,mtu=4096".parse::<DeviceSpec>().unwrap();
        assert_eq!(both.to_string(), "a,1,mtu=4096,masked-cas");
    }

    #[test]
    fn what_is_no_device_is_refused_with_the_right_words() {
        for (text, words) in [
            ("", "no name"),
            (",1", "no name"),
            ("a,x", "no number"),
            ("a,0", "from 1"),
            ("a,1,2,3", "behind"),
            ("masked-cas,1,masked", "no number"),
            (",masked-cas", "no name"),
            ("a,mtu=1500", "2048"),
            ("a,mtu=x", "2048"),
            ("a,mtu=256,mtu=512", "twice"),
            ("a,mtu=256,1", "no number"),
        ] {
            let error = text.parse::<DeviceSpec>().unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }

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

    #[test]
    fn an_ipv4_address_of_roce_v2_is_the_best() {
        let entry = |address: &str, gid_type| GidEntry {
            gid: address.parse::<Ipv6Addr>().unwrap().octets(),
            gid_type,
            ..GidEntry::default()
        };
        let ranks = [
            rank(&entry("::ffff:10.0.0.1", 2)),
            rank(&entry("2001:db8::1", 2)),
            rank(&entry("fe80::1", 2)),
            rank(&entry("::ffff:10.0.0.1", 1)),
        ];
        assert!(ranks.is_sorted_by(|a, b| a > b), "{ranks:?}");
    }
}
