//! RDMA devices, and the problems that prevent memory nodes and compute nodes from using them.

use super::{Finding, LOCKED_MEMORY, Report};
use crate::url::Url;
use farwood_fabric::ByteCount;
use farwood_transport::any::PoolLocation;
use farwood_transport::rdma::{
    DeviceKind, DeviceReport, DeviceSpec, RdmaError, device_from_env, devices, examine as examine_card,
};

/// The largest MTU of RDMA, in bytes.
const LARGE_MTU: u32 = 4096;

/// An RDMA device.
#[derive(Debug)]
pub struct Rdma {
    /// The name of the device, or the text that requests it: `DEVICE,PORT,GID`.
    pub name: String,
    /// The properties of the device, or the reason why it cannot be used.
    pub card: std::result::Result<DeviceReport, RdmaError>,
}

/// The RDMA devices of the machine.
pub(super) fn all() -> std::result::Result<Vec<Rdma>, RdmaError> {
    let examine = |name: String| {
        let spec = DeviceSpec { device: Some(name.clone()), ..DeviceSpec::default() };
        Rdma { card: examine_card(&spec), name }
    };
    Ok(devices()?.into_iter().map(examine).collect())
}

/// The devices that the environment and the URLs of pools over RDMA name.
pub(super) fn requested(pools: &[Url]) -> Vec<Rdma> {
    let of_pool = |url: &Url| match url.place() {
        PoolLocation::Rdma(address) => {
            let spec = DeviceSpec::find(address);
            let name = spec.as_ref().map_or_else(|_| url.to_string(), ToString::to_string);
            Some(Rdma { name, card: spec.and_then(|spec| examine_card(&spec)) })
        }
        _ => None,
    };
    let of_environment = device_from_env().map(|name| {
        let card = name.parse().and_then(|spec: DeviceSpec| examine_card(&spec));
        Rdma { name, card }
    });
    let mut asked: Vec<_> = of_environment.into_iter().chain(pools.iter().filter_map(of_pool)).collect();
    let mut names = std::collections::BTreeSet::new();
    asked.retain(|device| names.insert(device.name.clone()));
    asked
}

impl Report {
    /// Problems of RDMA on this machine. A machine without a device has none.
    pub(super) fn rdma_findings(&self) -> Vec<Finding> {
        let finding = |what: String, remedy: &str| Finding { what, remedy: remedy.to_owned() };
        let failed = |device: &Rdma| {
            device.card.as_ref().err().map(|error| finding(error.to_string(), error.remedy()))
        };
        let mut findings: Vec<_> = self.rdma_requested.iter().filter_map(failed).collect();
        let Ok(devices) = &self.rdma else { return findings };
        for device in devices {
            if let Ok(DeviceReport { kind: DeviceKind::Hardware, device_memory: 0, name, .. }) = &device.card
            {
                findings.push(finding(
                    format!(
                        "{name}: the device has no device memory, so the locks of a memory node are in host memory"
                    ),
                    "use a NIC with device memory (ConnectX-5 or newer): farwood serve --rdma DEVICE",
                ));
            }
            match &device.card {
                Err(error) => findings.push(finding(error.to_string(), error.remedy())),
                Ok(card) if card.link.is_ethernet() && card.mtu_bytes < LARGE_MTU => findings.push(finding(
                    format!(
                        "{}: the MTU is {} bytes; larger entries cannot be changed in place, and nodes of Sherman \
                         cannot be larger",
                        card.name, card.mtu_bytes
                    ),
                    "ip link set dev INTERFACE mtu 4200",
                )),
                Ok(_) => {}
            }
        }
        let locked = self.limits.iter().find(|(name, _)| *name == LOCKED_MEMORY);
        if let (false, Some((_, Some(bytes)))) = (devices.is_empty(), locked)
            && *bytes < self.memory.bytes
        {
            let what = format!(
                "this process may lock {} of memory, and a memory node over RDMA locks all its memory",
                ByteCount(*bytes)
            );
            findings.push(finding(what, "ulimit -l unlimited (LimitMEMLOCK=infinity in a service)"));
        }
        if !devices.is_empty() && self.memory.huge_pages.0 == 0 {
            let what =
                "no huge pages: the NIC needs many more address translations for a memory node".to_owned();
            findings.push(finding(what, "sysctl vm.nr_hugepages=COUNT (2 MiB each)"));
        }
        findings
    }
}
