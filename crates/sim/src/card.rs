//! Cards: the numbers of a NIC and of the machine around it, read from data.
//!
//! `docs/nic-model.md` gives the source of every value. A card file names every number; one that is missing, that is
//! no number, or that nobody knows is refused with its name and line.

use serde::Deserialize;

/// The numbers of one card.
///
/// ```
/// let card = farwood_sim::Card::named("cx5-100g").unwrap();
/// assert_eq!(card.atomics.slots, 512);
/// let wrong = farwood_sim::Card::from_toml("name = 'mine'\n[cpu]\nposts = 3").unwrap_err().to_string();
/// assert!(wrong.contains("posts"), "{wrong}");
/// ```
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Card {
    /// Its name in records.
    pub name: String,
    /// What clients' threads spend.
    pub cpu: Cpu,
    /// The way between two NICs.
    pub wire: Wire,
    /// Requests per NIC and direction.
    pub messages: Messages,
    /// What a client's NIC remembers of requests in flight.
    pub outstanding: Outstanding,
    /// The way from the NIC to its machine's memory.
    pub pcie: Pcie,
    /// Processing units of a memory node's NIC.
    pub units: Units,
    /// Atomics.
    pub atomics: Atomics,
    /// The NIC's own memory.
    pub memory: DeviceMemory,
    /// A memory node's processor, for servers.
    pub server: Server,
}

/// CPU time of clients' threads.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cpu {
    /// A post to one memory node.
    pub post_ns: f64,
    /// Each further request of the same post.
    pub chained_post_ns: f64,
    /// A WRITE, besides: its bytes are copied into the request.
    pub payload_ns: f64,
    /// A polled completion.
    pub poll_ns: f64,
    /// An index operation, besides posts and polls; charged by whoever drives the operations.
    pub operation_ns: f64,
    /// Waking a client by another of the same compute node.
    pub hand_over_ns: f64,
    /// Giving the thread to another client.
    pub yield_ns: f64,
}

/// Latency and bandwidth between two NICs.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wire {
    /// Wire and NIC pipelines, one way.
    pub one_way_ns: f64,
    /// Link, each direction.
    pub link_bytes_per_ns: f64,
    /// What a request takes of the link besides its payload.
    pub request_header_bytes: u64,
    /// What an answer takes besides its payload.
    pub response_header_bytes: u64,
}

/// Message rates.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Messages {
    /// READs and atomics to host memory, per microsecond.
    pub host_read_per_us: f64,
    /// WRITEs to host memory, per microsecond.
    pub host_write_per_us: f64,
    /// Requests to device memory, per microsecond.
    pub device_per_us: f64,
    /// READs and atomics in flight of one queue pair.
    pub read_atomic_window: u32,
}

/// The cache of requests in flight.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outstanding {
    /// Requests that it holds.
    pub requests: u64,
    /// Latency that a miss adds.
    pub miss_ns: f64,
    /// What a miss takes of the message rate.
    pub miss_service_ns: f64,
}

/// PCIe.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pcie {
    /// Latency of a read.
    pub read_ns: f64,
    /// Time until a posted write is visible.
    pub write_ns: f64,
    /// Bandwidth, each direction.
    pub bytes_per_ns: f64,
}

/// Processing units.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Units {
    /// How many; a queue pair is served by one of them.
    pub count: u32,
}

/// Atomic slots and how long an atomic holds one.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Atomics {
    /// Slots, by address.
    pub slots: usize,
    /// In host memory, stored.
    pub host_success_ns: f64,
    /// In host memory, compared in vain.
    pub host_failure_ns: f64,
    /// In device memory, stored.
    pub device_success_ns: f64,
    /// In device memory, compared in vain.
    pub device_failure_ns: f64,
}

/// Device memory.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceMemory {
    /// How much the card gives.
    pub device_bytes: u64,
}

/// A memory node's processor.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// Cores.
    pub cores: u32,
    /// Time slice of a core, where more threads can run than there are cores.
    pub quantum_ns: f64,
    /// Switching from one thread to another.
    pub switch_ns: f64,
    /// From an immediate's arrival to the code that waits for it.
    pub wake_ns: f64,
    /// Kernel work for each request, where requests pass through the kernel; 0: they do not.
    pub kernel_message_ns: f64,
    /// The same for each byte.
    pub kernel_byte_ns: f64,
}

/// Why a card cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CardError {
    /// The file is not a card.
    #[error("this is no card: {0}")]
    Malformed(#[from] toml::de::Error),
    /// A number that cannot be.
    #[error("card {card}: {key} is {value}; it must be {must}")]
    Impossible {
        /// The card.
        card: String,
        /// The number's key.
        key: &'static str,
        /// What the card says.
        value: f64,
        /// What it may be.
        must: &'static str,
    },
    /// No such card.
    #[error("there is no card `{name}`; there are {}, or give the path of a card file", Card::names().join(", "))]
    Unknown {
        /// What was asked for.
        name: String,
    },
}

const BUILT_IN: [(&str, &str); 6] = [
    ("cx5-100g", include_str!("../cards/cx5-100g.toml")),
    ("cx6-100g", include_str!("../cards/cx6-100g.toml")),
    ("cx6-200g", include_str!("../cards/cx6-200g.toml")),
    ("ideal", include_str!("../cards/ideal.toml")),
    ("tcp-1g", include_str!("../cards/tcp-1g.toml")),
    ("tcp-40g", include_str!("../cards/tcp-40g.toml")),
];

impl Card {
    /// The names of the built-in cards.
    pub fn names() -> Vec<&'static str> {
        BUILT_IN.iter().map(|(name, _)| *name).collect()
    }

    /// A built-in card.
    ///
    /// # Errors
    /// [`CardError::Unknown`].
    pub fn named(name: &str) -> Result<Self, CardError> {
        let card = BUILT_IN.iter().find(|(built_in, _)| *built_in == name);
        card.map_or_else(
            || Err(CardError::Unknown { name: name.to_owned() }),
            |(_, text)| Self::from_toml(text),
        )
    }

    /// The card in the text of a card file.
    ///
    /// # Errors
    /// [`CardError::Malformed`] with the line and the key; [`CardError::Impossible`].
    pub fn from_toml(text: &str) -> Result<Self, CardError> {
        let card: Self = toml::from_str(text)?;
        card.check()?;
        Ok(card)
    }

    fn check(&self) -> Result<(), CardError> {
        let refuse =
            |key, value, must| Err(CardError::Impossible { card: self.name.clone(), key, value, must });
        for (key, rate) in self.rates() {
            if rate.is_nan() || rate <= 0.0 {
                return refuse(key, rate, "above 0 (`inf`: no limit)");
            }
        }
        for (key, time) in self.times() {
            if !(0.0..1e12).contains(&time) {
                return refuse(key, time, "from 0 to 1e12 ns");
            }
        }
        if self.cpu.yield_ns < 1.0 {
            return refuse("cpu.yield_ns", self.cpu.yield_ns, "at least 1: who waits must let time pass");
        }
        if self.server.quantum_ns < 1.0 {
            return refuse(
                "server.quantum_ns",
                self.server.quantum_ns,
                "at least 1: work must come to an end",
            );
        }
        let counts = [
            ("messages.read_atomic_window", u64::from(self.messages.read_atomic_window)),
            ("outstanding.requests", self.outstanding.requests),
            ("units.count", u64::from(self.units.count)),
            ("atomics.slots", self.atomics.slots as u64),
            ("server.cores", u64::from(self.server.cores)),
        ];
        counts
            .iter()
            .try_for_each(|&(key, count)| if count == 0 { refuse(key, 0.0, "at least 1") } else { Ok(()) })
    }

    fn rates(&self) -> [(&'static str, f64); 5] {
        [
            ("wire.link_bytes_per_ns", self.wire.link_bytes_per_ns),
            ("messages.host_read_per_us", self.messages.host_read_per_us),
            ("messages.host_write_per_us", self.messages.host_write_per_us),
            ("messages.device_per_us", self.messages.device_per_us),
            ("pcie.bytes_per_ns", self.pcie.bytes_per_ns),
        ]
    }

    fn times(&self) -> [(&'static str, f64); 21] {
        [
            ("cpu.post_ns", self.cpu.post_ns),
            ("cpu.chained_post_ns", self.cpu.chained_post_ns),
            ("cpu.payload_ns", self.cpu.payload_ns),
            ("cpu.poll_ns", self.cpu.poll_ns),
            ("cpu.operation_ns", self.cpu.operation_ns),
            ("cpu.hand_over_ns", self.cpu.hand_over_ns),
            ("cpu.yield_ns", self.cpu.yield_ns),
            ("wire.one_way_ns", self.wire.one_way_ns),
            ("outstanding.miss_ns", self.outstanding.miss_ns),
            ("outstanding.miss_service_ns", self.outstanding.miss_service_ns),
            ("pcie.read_ns", self.pcie.read_ns),
            ("pcie.write_ns", self.pcie.write_ns),
            ("atomics.host_success_ns", self.atomics.host_success_ns),
            ("atomics.host_failure_ns", self.atomics.host_failure_ns),
            ("atomics.device_success_ns", self.atomics.device_success_ns),
            ("atomics.device_failure_ns", self.atomics.device_failure_ns),
            ("server.quantum_ns", self.server.quantum_ns),
            ("server.switch_ns", self.server.switch_ns),
            ("server.wake_ns", self.server.wake_ns),
            ("server.kernel_message_ns", self.server.kernel_message_ns),
            ("server.kernel_byte_ns", self.server.kernel_byte_ns),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_card_can_be_used() {
        for name in Card::names() {
            assert_eq!(Card::named(name).unwrap().name, name);
        }
        assert!(Card::named("cx7").unwrap_err().to_string().contains("cx5-100g"));
    }

    #[test]
    fn a_wrong_card_is_refused_by_name() {
        let good = BUILT_IN[0].1;
        let without = good.replace("poll_ns = 400.0", "");
        let unknown = good.replace("poll_ns", "pole_ns");
        let text = good.replace("poll_ns = 400.0", "poll_ns = 'fast'");
        let negative = good.replace("poll_ns = 400.0", "poll_ns = -1.0");
        let none = good.replace("slots = 512", "slots = 0");
        for (card, named) in [
            (without, "poll_ns"),
            (unknown, "pole_ns"),
            (text, "fast"),
            (negative, "cpu.poll_ns"),
            (none, "slots"),
        ] {
            let why = Card::from_toml(&card).unwrap_err().to_string();
            assert!(why.contains(named), "{named}: {why}");
        }
    }
}
