//! Opening a device: choosing its port and address, and testing its atomics.

use super::abi::sys::{GidEntry, numbers};
use super::atomics_probe::probe_atomics;
use super::device::{Device, DeviceKind, DeviceReport, LinkKind, ROCE_V2, mtu_of};
use super::error::RdmaError;
use super::spec::DeviceSpec;
use super::sys::{Context, DeviceLimits, Domain, device_names};
use std::net::Ipv6Addr;
use std::sync::Arc;

/// The vendor that Soft-RoCE (`rdma_rxe`) reports.
const SOFT_ROCE_VENDOR: u32 = 0x00FF_FFFF;

/// Returns the names of this machine's RDMA devices.
///
/// # Errors
/// [`RdmaError::NoLibrary`] if rdma-core is missing.
pub fn devices() -> Result<Vec<String>, RdmaError> {
    device_names().map_err(RdmaError::NoLibrary)
}

impl Device {
    /// Opens the device that `spec` names, or the first usable one.
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
        let context = context.ok_or_else(|| unusable("it no longer exists".to_owned()))?;
        let limits = context.limits().map_err(system)?;
        if !limits.atomics {
            return Err(unusable("it has no atomics, which locks require; use another device".to_owned()));
        }
        let port = find_port(&context, &limits, spec, name)?;
        let attributes = context.port(port).map_err(system)?;
        let (gid_index, entry) =
            find_gid(&context, port, attributes.gid_tbl_len, spec, attributes.link_layer).ok_or_else(
                || {
                    unusable(format!(
                        "port {port} has no such GID; give its interface an IP address, or name \
                                             another (`DEVICE,PORT,GID`; `ibv_devinfo -v` lists them)"
                    ))
                },
            )?;
        if spec.masked_cas {
            let remedy = "use another device, or omit masked-cas";
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
            link: LinkKind::of(attributes.link_layer, &entry),
            kind: if limits.vendor == SOFT_ROCE_VENDOR { DeviceKind::SoftRoce } else { DeviceKind::Hardware },
            limits,
            masked_cas: spec.masked_cas,
            domain: Domain::new(&context).map_err(system)?,
            context,
        };
        if spec.masked_cas {
            probe_atomics(&device).map_err(unusable)?;
        }
        Ok(device)
    }
}

/// Opens a device, tests its atomics on memory of this process, and returns its properties.
///
/// # Errors
/// [`RdmaError`].
pub fn examine(spec: &DeviceSpec) -> Result<DeviceReport, RdmaError> {
    let device = Device::open(spec)?;
    probe_atomics(&device).map_err(|why| RdmaError::Unusable { device: device.name.clone(), why })?;
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
    let wanted = spec
        .port
        .map_or_else(|| "no port".to_owned(), |port| format!("port {port} of it is not active, and none"));
    ports.clone().find(|&port| is_active(port)).ok_or_else(|| RdmaError::Unusable {
        device: name.to_owned(),
        why: format!(
            "{wanted} is active; bring its interface up (`ip link set … up`), or on InfiniBand start a \
                      subnet manager"
        ),
    })
}

/// Returns the requested entry of the port's table of addresses, or the best one.
fn find_gid(
    context: &Context,
    port: u8,
    entries: i32,
    spec: &DeviceSpec,
    link_layer: u8,
) -> Option<(u8, GidEntry)> {
    let at = |index: u8| context.gid(port, index.into()).map(|entry| (index, entry));
    let wanted = spec.gid.or((link_layer != numbers::ETHERNET).then_some(0));
    if let Some(index) = wanted {
        at(index)
    } else {
        let entries = u8::try_from(entries.clamp(0, 255)).unwrap_or(u8::MAX);
        // Of equal addresses, the first one.
        (0..entries).filter_map(at).rev().max_by_key(|(_, entry)| rank(entry))
    }
}

/// Ranks addresses: RoCE v2 is routable, and administrators usually mean an IPv4 address.
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
