//! A stage that serves requests in order of arrival: a link, a message engine, a bus.

/// A first-come, first-served stage.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fifo {
    /// The end of its current work, picoseconds.
    free: u64,
}

/// Picoseconds of a nanosecond.
const PS: u64 = 1000;

/// The times at which the first packet and the last byte of a message have reached a stage, nanoseconds. A message of
/// one packet has one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MessageArrival {
    pub(crate) first: u64,
    pub(crate) last: u64,
}

impl MessageArrival {
    /// The arrival of a message whose first packet is there now.
    #[inline]
    pub(crate) fn new(now: u64, last: u64) -> Self {
        Self { first: now, last: last.max(now) }
    }

    /// The arrival at the end of a wire.
    #[inline]
    pub(crate) fn after(self, nanoseconds: u64) -> Self {
        Self { first: self.first + nanoseconds, last: self.last + nanoseconds }
    }
}

/// The service time of a message: of its first packet, and of the rest; picoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MessageService {
    pub(crate) first: u64,
    pub(crate) rest: u64,
}

impl std::ops::Mul<u64> for MessageService {
    type Output = Self;

    #[inline]
    fn mul(self, times: u64) -> Self {
        Self { first: self.first * times, rest: self.rest * times }
    }
}

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

    /// Serves a message from the arrival of its first packet on. The last packet is served after its arrival.
    #[inline]
    pub(crate) fn serve_message(&mut self, at: MessageArrival, service: MessageService) -> MessageArrival {
        let first = self.serve(at.first, service.first);
        self.free = (self.free + service.rest).max(at.last * PS + service.first);
        MessageArrival { first, last: self.free.div_ceil(PS) }
    }

    /// Serves a message whose packets were served while they arrived, as [`absorb`](Self::absorb) does. It ends when
    /// its last byte arrives, unless the stage was still serving earlier requests.
    #[inline]
    pub(crate) fn absorb_message(&mut self, at: MessageArrival, service: MessageService) -> MessageArrival {
        let first = self.absorb(at.first, service.first);
        self.free += service.rest;
        MessageArrival { first, last: self.free.div_ceil(PS).max(at.last) }
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

    /// The time of a message of `bytes` bytes, in packets of at most `packet` bytes.
    #[inline]
    pub(crate) fn message(self, bytes: u64, packet: u64) -> MessageService {
        let all = self.transfer(bytes);
        let first = if bytes > packet { self.transfer(packet) } else { all };
        MessageService { first, rest: all - first }
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

    #[test]
    fn a_message_is_served_while_it_arrives_and_takes_its_service_time_from_the_stage() {
        let service = Bandwidth::new(10.0).message(10_000, 1_000);
        assert_eq!(service, MessageService { first: 100_000, rest: 900_000 });
        let mut link = Fifo::default();
        let slow_source = MessageArrival { first: 500, last: 5_000 };
        assert_eq!(link.serve_message(slow_source, service), MessageArrival { first: 600, last: 5_100 });
        let fast_source = MessageArrival { first: 5_000, last: 5_200 };
        assert_eq!(link.serve_message(fast_source, service), MessageArrival { first: 5_200, last: 6_100 });
        let mut entrance = Fifo::default();
        let both =
            [(); 2].map(|()| entrance.absorb_message(MessageArrival { first: 100, last: 1_000 }, service));
        assert_eq!(both.map(|message| message.last), [1_000, 2_000]);
    }
}
