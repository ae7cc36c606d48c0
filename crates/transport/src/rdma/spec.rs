//! The RDMA device, port and address of a process, as users name them.

use super::device::mtu_of;
use super::error::RdmaError;
use crate::client::{AddressOptions, PoolAddress};
use crate::error::TcpError;
use std::fmt;
use std::num::NonZeroU16;
use std::str::FromStr;

/// A device: `DEVICE[,PORT[,GID]][,mtu=BYTES][,masked-cas]`, or `auto` for the first usable one.
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
    /// The name, as `ibv_devices` lists it; `None`: the first with an active port and atomics.
    pub device: Option<String>,
    /// The port, counted from 1; `None`: the first active one.
    pub port: Option<u8>,
    /// The index in the port's table of GIDs; `None`: RoCE v2 with an IPv4 address first, 0 on InfiniBand.
    pub gid: Option<u8>,
    /// The largest MTU, of 256, 512, 1024, 2048 and 4096 bytes; `None`: that of the port.
    pub mtu_bytes: Option<u32>,
    /// Whether masked compare-and-swap is required. Only mlx5 devices have it, and it has not been verified
    /// on hardware: a device without it, or one that fails the test, is refused.
    pub masked_cas: bool,
}

/// The word for [`DeviceSpec::masked_cas`].
const MASKED_CAS: &str = "masked-cas";
/// The prefix for [`DeviceSpec::mtu_bytes`].
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
                        refuse(&format!("'{bytes}' is not an MTU: give 256, 512, 1024, 2048 or 4096"))
                    })?;
                    mtu_bytes.replace(bytes).is_none()
                }
            };
            if !is_new {
                return Err(refuse(&format!("'{last}' is given twice")));
            }
        }
        let mut parts = rest.split(',');
        let device = parts.next().unwrap_or_default();
        let mut number = || match parts.next() {
            None => Ok(None),
            Some(number) => {
                number.parse().map(Some).map_err(|_| refuse(&format!("'{number}' is not a number")))
            }
        };
        let (port, gid) = (number()?, number()?);
        if parts.next().is_some() {
            return Err(refuse("unexpected text after the GID"));
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
    /// Returns the device that an address names (`?device=DEVICE,PORT,GID`), or that of
    /// `FARWOOD_RDMA_DEVICE`, or the default.
    ///
    /// # Errors
    /// [`RdmaError::BadDevice`].
    pub fn find(address: &PoolAddress) -> Result<Self, RdmaError> {
        address.access().device().map_or_else(|| Ok(Self::default()), |text| text.parse())
    }
}

/// Returns the device of `FARWOOD_RDMA_DEVICE`, if it is set.
pub fn device_from_env() -> Option<String> {
    AddressOptions::default().device()
}

/// Returns the queue pairs of a thread at each memory node: those of the address (`?queue-pairs=2`), of
/// `FARWOOD_RDMA_QUEUE_PAIRS`, or one.
///
/// # Errors
/// [`TcpError::BadAddress`], in an [`RdmaError::Pool`], if the environment's value is invalid.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specs_round_trip() {
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
    fn an_invalid_device_is_refused_with_its_reason() {
        for (text, words) in [
            ("", "no name"),
            (",1", "no name"),
            ("a,x", "not a number"),
            ("a,0", "from 1"),
            ("a,1,2,3", "unexpected text"),
            ("masked-cas,1,masked", "not a number"),
            (",masked-cas", "no name"),
            ("a,mtu=1500", "2048"),
            ("a,mtu=x", "2048"),
            ("a,mtu=256,mtu=512", "twice"),
            ("a,mtu=256,1", "not a number"),
        ] {
            let error = text.parse::<DeviceSpec>().unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
