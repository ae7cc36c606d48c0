//! A stage that serves requests in order of arrival: a link, a message engine, a bus.

/// A first-come, first-served stage.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fifo {
    /// The end of its current work, picoseconds.
    free: u64,
}

/// Picoseconds of a nanosecond.
const PS: u64 = 1000;

impl Fifo {
    /// Serves a request that arrives at `now` and takes `service` picoseconds; yields the end, nanoseconds.
    #[inline]
    pub(crate) fn serve(&mut self, now: u64, service: u64) -> u64 {
        self.free = self.free.max(now * PS) + service;
        self.free.div_ceil(PS)
    }

    /// Serves a request whose last byte arrives at `now`, while its first bytes were already being served: it ends at
    /// `now` unless the stage is still serving earlier requests.
    #[inline]
    pub(crate) fn absorb(&mut self, now: u64, service: u64) -> u64 {
        self.free = (self.free + service).max(now * PS);
        self.free.div_ceil(PS)
    }
}

/// The bandwidth of a link or bus.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bandwidth {
    ps_per_byte: f64,
}

impl Bandwidth {
    pub(crate) fn new(bytes_per_ns: f64) -> Self {
        Self { ps_per_byte: PS as f64 / bytes_per_ns }
    }

    /// The time of `bytes` bytes, picoseconds.
    #[inline]
    pub(crate) fn transfer(self, bytes: u64) -> u64 {
        (bytes as f64 * self.ps_per_byte) as u64
    }
}

/// The service time at a rate per microsecond, picoseconds.
pub(crate) fn each(per_us: f64) -> u64 {
    (1e6 / per_us) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_stage_adds_its_service_time_and_a_busy_one_a_wait() {
        let mut link = Fifo::default();
        let service = Bandwidth::new(12.5).transfer(1000);
        assert_eq!(service, 80_000);
        assert_eq!(
            (link.serve(100, service), link.serve(100, service), link.serve(500, service)),
            (180, 260, 580)
        );
        assert_eq!(Bandwidth::new(f64::INFINITY).transfer(1000), 0);
    }

    #[test]
    fn bytes_that_arrive_slowly_enough_do_not_wait() {
        let mut entrance = Fifo::default();
        assert_eq!(each(55.0), 18_181);
        assert_eq!((entrance.absorb(100, 18_181), entrance.absorb(119, 18_181)), (100, 119));
        let burst: Vec<_> = (0..4).map(|_| entrance.absorb(119, 18_181)).collect();
        assert_eq!(burst, [138, 156, 174, 192]);
    }
}
