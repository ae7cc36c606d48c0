//! The NIC's caches of queue pair contexts and of address translations: entries beyond their capacity are fetched from
//! host memory.
//!
//! With `n` entries in use and a capacity of `c`, uniform access misses with probability `(n - c) / n`. As for the
//! cache of requests in flight, every request is charged the expected value, so that no random number is needed. The
//! entries in use are the queue pairs of the NIC, and the pages of its machine's registered memory. A table of pages
//! with replacement would have to know which pages a run accesses beyond its scaled data set; the size of the
//! registered memory is that of a simulated memory node. A skewed access misses less often than this model states.

use super::outstanding::Penalty;
use crate::nic_model::{NicModel, QueuePairCache, TranslationCache};
use farwood_fabric::Memory;

/// The expected cost of the misses of one NIC.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NicCaches {
    queue_pairs: u64,
    contexts: Penalty,
    translations: Penalty,
}

impl NicCaches {
    /// The caches of a NIC whose machine has `registered` bytes of registered memory.
    pub(crate) fn new(card: &NicModel, registered: u64) -> Self {
        let translations = card.translations.as_ref().map(|cache| of_translations(cache, registered));
        Self { translations: translations.unwrap_or_default(), ..Self::default() }
    }

    /// Counts a queue pair of the NIC.
    pub(crate) fn add_queue_pair(&mut self, card: &NicModel) {
        self.queue_pairs += 1;
        if let Some(QueuePairCache { cached, miss_ns, miss_service_ns }) = card.queue_pairs {
            self.contexts = expected(self.queue_pairs, cached, miss_ns, miss_service_ns);
        }
    }

    /// The penalty of a request that the client's NIC sends.
    #[inline]
    pub(crate) fn of_sent(&self) -> Penalty {
        self.contexts
    }

    /// The penalty of a request to `memory` that the memory node's NIC receives.
    #[inline]
    pub(crate) fn of_received(&self, memory: Memory) -> Penalty {
        match memory {
            Memory::Device => self.contexts,
            Memory::Host => Penalty {
                service: self.contexts.service + self.translations.service,
                latency: self.contexts.latency + self.translations.latency,
            },
        }
    }
}

fn of_translations(cache: &TranslationCache, registered: u64) -> Penalty {
    let pages = registered.div_ceil(cache.page_bytes);
    expected(pages, cache.cached_pages, cache.miss_ns, cache.miss_service_ns)
}

/// The cost of a miss multiplied by its probability.
fn expected(used: u64, cached: u64, miss_ns: f64, miss_service_ns: f64) -> Penalty {
    let share = used.saturating_sub(cached) as f64 / used.max(1) as f64;
    Penalty { service: (share * miss_service_ns * 1000.0) as u64, latency: (share * miss_ns) as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card() -> NicModel {
        let queue_pairs = Some(QueuePairCache { cached: 2, miss_ns: 400.0, miss_service_ns: 10.0 });
        let translations =
            TranslationCache { page_bytes: 4096, cached_pages: 1024, miss_ns: 100.0, miss_service_ns: 4.0 };
        let translations = Some(translations);
        NicModel { queue_pairs, translations, ..NicModel::named("ideal").unwrap() }
    }

    #[test]
    fn queue_pairs_beyond_the_capacity_miss() {
        let mut caches = NicCaches::new(&card(), 0);
        for expected in [0, 0, 133, 200] {
            caches.add_queue_pair(&card());
            assert_eq!(caches.of_sent().latency, expected);
        }
        assert_eq!(caches.of_received(Memory::Device), Penalty { service: 5000, latency: 200 });
    }

    #[test]
    fn pages_beyond_the_capacity_miss_in_host_memory_only() {
        let fits = NicCaches::new(&card(), 4 << 20);
        assert_eq!(fits.of_received(Memory::Host), Penalty::default());
        let large = NicCaches::new(&card(), 16 << 20);
        assert_eq!(large.of_received(Memory::Host), Penalty { service: 3000, latency: 75 });
        assert_eq!(large.of_received(Memory::Device), Penalty::default());
        let mut without = NicCaches::new(&NicModel::named("cx5-100g").unwrap(), 1 << 40);
        without.add_queue_pair(&NicModel::named("cx5-100g").unwrap());
        assert_eq!(without.of_received(Memory::Host), Penalty::default());
    }
}
