//! NIC models: the parameters of a NIC and of the machine around it, read from a file.
//!
//! `docs/nic-model.md` gives the source of every value. A file of a NIC model (card file) names every parameter. A
//! missing, malformed or unknown parameter is refused with its name and line.

use farwood_fabric::CpuWork;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

/// The parameters of one NIC model.
///
/// ```
/// let card = farwood_sim::NicModel::named("cx5-100g").unwrap();
/// assert_eq!(card.atomics.slots, 512);
/// let wrong = farwood_sim::NicModel::from_toml("name = 'mine'\n[cpu]\nposts = 3").unwrap_err().to_string();
/// assert!(wrong.contains("posts"), "{wrong}");
/// ```
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct NicModel {
    /// The name in benchmark records.
    pub name: String,
    /// CPU time of clients' threads.
    pub cpu: Cpu,
    /// Latency and bandwidth between two NICs.
    pub wire: Wire,
    /// Message rates per NIC and direction.
    pub messages: Messages,
    /// The client NIC's cache of requests in flight.
    pub outstanding: Outstanding,
    /// The path from the NIC to its machine's memory.
    pub pcie: Pcie,
    /// Processing units of a memory node's NIC.
    pub units: Units,
    /// Atomics.
    pub atomics: Atomics,
    /// The NIC's own memory.
    pub memory: DeviceMemory,
    /// A memory node's processor, for servers.
    pub server: Server,
    /// The NIC's cache of queue pair contexts; `None`: it holds all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_pairs: Option<QueuePairCache>,
    /// The NIC's cache of address translations; `None`: it holds all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub translations: Option<TranslationCache>,
}

/// CPU time of clients' threads.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Cpu {
    /// One post to a memory node.
    pub post_ns: f64,
    /// Each further request of the same post.
    pub chained_post_ns: f64,
    /// Copying the bytes of a WRITE into the request, in addition.
    pub payload_ns: f64,
    /// Polling a completion.
    pub poll_ns: f64,
    /// An index operation, besides posts and polls; the benchmark driver charges it.
    pub operation_ns: f64,
    /// The search of a leaf whose entries are not sorted, compared with that of a sorted one.
    pub unsorted_leaf_ns: f64,
    /// Copying a node and inserting the copy into the index cache.
    pub cache_admission_ns: f64,
    /// Removing a node from the index cache.
    pub cache_removal_ns: f64,
    /// Waking another client of the same compute node.
    pub hand_over_ns: f64,
    /// Switching the thread to another client.
    pub yield_ns: f64,
}

impl Cpu {
    /// The CPU time of `work`, nanoseconds.
    pub(crate) fn of(&self, work: CpuWork) -> f64 {
        match work {
            CpuWork::UnsortedLeaf => self.unsorted_leaf_ns,
            CpuWork::CacheAdmission => self.cache_admission_ns,
            CpuWork::CacheRemoval => self.cache_removal_ns,
        }
    }
}

/// Latency and bandwidth between two NICs.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Wire {
    /// Latency of the wire and the NIC pipelines, one way.
    pub one_way_ns: f64,
    /// Bandwidth of the link, each direction.
    pub link_bytes_per_ns: f64,
    /// Largest number of payload bytes of a packet. Links and NICs forward packets, not whole messages.
    pub mtu_bytes: u64,
    /// Bytes of a request on the link besides its payload.
    pub request_header_bytes: u64,
    /// Bytes of an answer on the link besides its payload.
    pub response_header_bytes: u64,
}

/// Message rates.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Messages {
    /// READs and atomics to host memory, per microsecond.
    pub host_read_per_us: f64,
    /// WRITEs to host memory, per microsecond.
    pub host_write_per_us: f64,
    /// Requests to device memory, per microsecond.
    pub device_per_us: f64,
    /// Largest number of READs and atomics in flight of one queue pair.
    pub read_atomic_window: u32,
}

/// The cache of requests in flight.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Outstanding {
    /// The number of requests that the cache holds.
    pub requests: u64,
    /// Latency that a miss adds.
    pub miss_ns: f64,
    /// Time that a miss takes from the message engine.
    pub miss_service_ns: f64,
}

/// PCIe.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
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
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Units {
    /// The number of processing units. One of them serves each queue pair.
    pub count: u32,
}

/// Slots that serialise atomics, and the time for which an atomic holds its slot.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Atomics {
    /// The number of slots, selected by address.
    pub slots: usize,
    /// A successful atomic in host memory.
    pub host_success_ns: f64,
    /// A failed comparison in host memory.
    pub host_failure_ns: f64,
    /// A successful atomic in device memory.
    pub device_success_ns: f64,
    /// A failed comparison in device memory.
    pub device_failure_ns: f64,
}

/// Device memory.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceMemory {
    /// The size of the device memory in bytes.
    pub device_bytes: u64,
}

/// A memory node's processor.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// Cores.
    pub cores: u32,
    /// Time slice of a thread, if there are more runnable threads than cores.
    pub quantum_ns: f64,
    /// Switching from one thread to another.
    pub switch_ns: f64,
    /// From the arrival of an immediate to the execution of the task that waits for it.
    pub wake_ns: f64,
    /// Kernel time per request of a network through the kernel; 0: kernel bypass.
    pub kernel_message_ns: f64,
    /// Kernel time per byte.
    pub kernel_byte_ns: f64,
}

/// The cache of queue pair contexts.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct QueuePairCache {
    /// The number of queue pairs whose contexts the cache holds.
    pub cached: u64,
    /// Latency that a miss adds.
    pub miss_ns: f64,
    /// Time that a miss takes from the message engine.
    pub miss_service_ns: f64,
}

/// The cache of address translations of registered host memory.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TranslationCache {
    /// Bytes of a page of registered memory.
    pub page_bytes: u64,
    /// The number of pages whose translations the cache holds.
    pub cached_pages: u64,
    /// Latency that a miss adds.
    pub miss_ns: f64,
    /// Time that a miss takes from the message engine.
    pub miss_service_ns: f64,
}

/// The reason why a NIC model cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum NicModelError {
    /// The file is not a NIC model.
    #[error("the file is not a card (NIC model): {0}")]
    Malformed(#[from] toml::de::Error),
    /// A parameter is out of range.
    #[error("card {card}: {key} is {value}; it must be {must}")]
    Impossible {
        /// The name of the NIC model.
        card: String,
        /// The key of the parameter.
        key: &'static str,
        /// The rejected value.
        value: f64,
        /// The allowed values.
        must: &'static str,
    },
    /// No NIC model has this name.
    #[error("there is no NIC model `{name}`; there are {}, or give a model file", NicModel::names().join(", "))]
    Unknown {
        /// The requested name.
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

/// Longest time in which a READ samples 1 KiB, if the NIC promises brief READs; nanoseconds.
const BRIEF_READ_NS: f64 = 60_000.0;

impl NicModel {
    /// Whether a READ samples `bytes` within 60 µs.
    pub(crate) fn reads_briefly(&self, bytes: usize) -> bool {
        bytes as f64 / self.pcie.bytes_per_ns <= BRIEF_READ_NS
    }

    /// The names of the built-in NIC models.
    pub fn names() -> Vec<&'static str> {
        BUILT_IN.iter().map(|(name, _)| *name).collect()
    }

    /// Returns a built-in NIC model.
    ///
    /// # Errors
    /// [`NicModelError::Unknown`].
    pub fn named(name: &str) -> Result<Self, NicModelError> {
        let card = BUILT_IN.iter().find(|(built_in, _)| *built_in == name);
        card.map_or_else(
            || Err(NicModelError::Unknown { name: name.to_owned() }),
            |(_, text)| Self::from_toml(text),
        )
    }

    /// Parses the text of a card file.
    ///
    /// # Errors
    /// [`NicModelError::Malformed`] with the line and the key; [`NicModelError::Impossible`].
    pub fn from_toml(text: &str) -> Result<Self, NicModelError> {
        let card: Self = toml::from_str(text)?;
        card.check()?;
        Ok(card)
    }

    /// A hash of all parameters, and of the name: equal for equal models. A section that the model leaves out does not
    /// count, so that models without it keep their hash.
    pub fn hash(&self) -> String {
        let text = format!("{self:?}").replace(", queue_pairs: None", "").replace(", translations: None", "");
        format!("{:016x}", xxh3_64(text.as_bytes()))
    }

    fn check(&self) -> Result<(), NicModelError> {
        let refuse =
            |key, value, must| Err(NicModelError::Impossible { card: self.name.clone(), key, value, must });
        for (key, rate) in self.rates() {
            if rate.is_nan() || rate <= 0.0 {
                return refuse(key, rate, "above 0 (`inf`: no limit)");
            }
        }
        for (key, time) in self.times().into_iter().chain(self.times_of_caches()) {
            if !(0.0..1e12).contains(&time) {
                return refuse(key, time, "from 0 to 1e12 ns");
            }
        }
        if self.cpu.yield_ns < 1.0 {
            return refuse(
                "cpu.yield_ns",
                self.cpu.yield_ns,
                "at least 1, so that a waiting client advances time",
            );
        }
        if self.server.quantum_ns < 1.0 {
            return refuse("server.quantum_ns", self.server.quantum_ns, "at least 1, so that work ends");
        }
        let counts = [
            ("wire.mtu_bytes", self.wire.mtu_bytes),
            ("messages.read_atomic_window", u64::from(self.messages.read_atomic_window)),
            ("outstanding.requests", self.outstanding.requests),
            ("units.count", u64::from(self.units.count)),
            ("atomics.slots", self.atomics.slots as u64),
            ("server.cores", u64::from(self.server.cores)),
        ];
        let of_queue_pairs = self.queue_pairs.iter().map(|cache| ("queue_pairs.cached", cache.cached));
        let of_translations = self.translations.iter().flat_map(|cache| {
            let pages = ("translations.cached_pages", cache.cached_pages);
            [("translations.page_bytes", cache.page_bytes), pages]
        });
        counts
            .into_iter()
            .chain(of_queue_pairs)
            .chain(of_translations)
            .try_for_each(|(key, count)| if count == 0 { refuse(key, 0.0, "at least 1") } else { Ok(()) })
    }

    /// The durations of the optional sections.
    fn times_of_caches(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let of_queue_pairs = self.queue_pairs.iter().flat_map(|cache| {
            let service = ("queue_pairs.miss_service_ns", cache.miss_service_ns);
            [("queue_pairs.miss_ns", cache.miss_ns), service]
        });
        let of_translations = self.translations.iter().flat_map(|cache| {
            let service = ("translations.miss_service_ns", cache.miss_service_ns);
            [("translations.miss_ns", cache.miss_ns), service]
        });
        of_queue_pairs.chain(of_translations)
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

    fn times(&self) -> [(&'static str, f64); 24] {
        [
            ("cpu.post_ns", self.cpu.post_ns),
            ("cpu.chained_post_ns", self.cpu.chained_post_ns),
            ("cpu.payload_ns", self.cpu.payload_ns),
            ("cpu.poll_ns", self.cpu.poll_ns),
            ("cpu.operation_ns", self.cpu.operation_ns),
            ("cpu.unsorted_leaf_ns", self.cpu.unsorted_leaf_ns),
            ("cpu.cache_admission_ns", self.cpu.cache_admission_ns),
            ("cpu.cache_removal_ns", self.cpu.cache_removal_ns),
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
        for name in NicModel::names() {
            assert_eq!(NicModel::named(name).unwrap().name, name);
        }
        assert!(NicModel::named("cx7").unwrap_err().to_string().contains("cx5-100g"));
    }

    const CACHES: &str = "
        [queue_pairs]
        cached = 1000
        miss_ns = 400.0
        miss_service_ns = 14.0
        [translations]
        page_bytes = 4096
        cached_pages = 10000
        miss_ns = 400.0
        miss_service_ns = 14.0";

    #[test]
    fn caches_are_optional_and_do_not_change_the_hash_of_other_cards() {
        // The hash before the model had these caches.
        assert_eq!(NicModel::named("cx5-100g").unwrap().hash(), "30dfc1ac40800096");
        let with = NicModel::from_toml(&format!("{}{CACHES}", BUILT_IN[0].1)).unwrap();
        assert_ne!(with.hash(), NicModel::named("cx5-100g").unwrap().hash());
        assert_eq!(with.translations.map(|cache| cache.cached_pages), Some(10_000));
    }

    #[test]
    fn wrong_caches_are_refused_by_name() {
        for (good, bad, named) in [
            ("cached = 1000", "cached = 0", "queue_pairs.cached"),
            ("cached = 1000", "", "cached"),
            ("page_bytes = 4096", "page_bytes = 0", "translations.page_bytes"),
            ("cached_pages = 10000", "cached_pages = 0", "translations.cached_pages"),
            ("miss_ns = 400.0", "miss_ns = -1.0", "queue_pairs.miss_ns"),
            ("cached_pages = 10000", "cached_pages = 10000\nways = 4", "ways"),
        ] {
            let caches = CACHES.replacen(good, bad, 1);
            let why = NicModel::from_toml(&format!("{}{caches}", BUILT_IN[0].1)).unwrap_err().to_string();
            assert!(why.contains(named), "{named}: {why}");
        }
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
            let why = NicModel::from_toml(&card).unwrap_err().to_string();
            assert!(why.contains(named), "{named}: {why}");
        }
    }
}
