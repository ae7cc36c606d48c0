//! The decision when to offload a search: the back-off of a client whose server is busy (Catfish §IV-A, Algorithm 1).
//! The functions are pure, and do not depend on the index: they choose between messages and READs for any kind of
//! request.
//!
//! The paper's listing and its prose disagree. In the listing, a search without a new heartbeat sets the utilisation to
//! 0, which resets `r_busy`. Heartbeats arrive every 10 ms, so nearly every search has no new one, and the window never
//! grows. [`BackOffRule::Prose`] changes the window only when a search finds a new heartbeat: the window grows with
//! each consecutive busy heartbeat, without bound, and returns to its initial size after an idle one.
//! [`BackOffRule::Printed`] is the listing.

pub use super::super::wire::heartbeat::{heartbeat, next_pulse, number_and_beat, utilisation};
pub use super::path_comparison::PathComparison;

/// A reading of Algorithm 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackOffRule {
    /// The algorithm as the text describes it.
    #[default]
    Prose,
    /// The algorithm as the listing prints it.
    Printed,
}

/// Parameters of Algorithm 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BackOffSettings {
    /// The reading of the algorithm.
    pub rule: BackOffRule,
    /// Requests by which the window grows: N (Catfish §V-B: 8).
    pub window: u64,
    /// Utilisation above which the server is busy: T (Catfish §V-B: 95 %).
    pub threshold: f64,
}

impl Default for BackOffSettings {
    fn default() -> Self {
        Self { rule: BackOffRule::Prose, window: 8, threshold: 0.95 }
    }
}

/// The path of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchPath {
    /// By message: the server executes it.
    Message,
    /// Offloaded: the client executes it by READs.
    Offload,
}

/// The back-off of a client. `predict` maps the utilisation that a heartbeat reports to the expected one (the paper's
/// `predUtil`, which returns it unchanged).
#[derive(Clone, Debug)]
pub struct BackOff<P = fn(f64) -> f64> {
    settings: BackOffSettings,
    predict: P,
    /// Busy heartbeats in a row: r_busy.
    busy: u64,
    /// Requests still to be offloaded: r_off.
    offload: u64,
    /// State of the random number generator.
    random: u64,
    offloaded: u64,
    requests: u64,
}

impl BackOff {
    /// A back-off that expects the utilisation of the most recent heartbeat; `seed` must differ from client to client.
    pub fn new(settings: BackOffSettings, seed: u64) -> Self {
        Self::with(settings, seed, |utilisation| utilisation)
    }
}

impl<P: FnMut(f64) -> f64> BackOff<P> {
    /// A back-off with its own predictor.
    pub fn with(settings: BackOffSettings, seed: u64, predict: P) -> Self {
        assert!(settings.window > 0, "the window is at least one request");
        let random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        Self { settings, predict, busy: 0, offload: 0, random, offloaded: 0, requests: 0 }
    }

    /// The path of the next request. `heartbeat` is the utilisation that a heartbeat since the last request has
    /// reported, if one has arrived. A missing heartbeat does not mean that the server is busy: the network may be
    /// congested.
    pub fn next(&mut self, heartbeat: Option<f64>) -> SearchPath {
        let window = self.settings.window;
        let is_busy = heartbeat.map(|utilisation| (self.predict)(utilisation) > self.settings.threshold);
        match (is_busy, self.settings.rule) {
            (Some(true), _) if self.offload <= self.busy.saturating_mul(window) => {
                self.offload = self.draw() % window + self.busy.saturating_mul(window);
                self.busy += 1;
            }
            (None, BackOffRule::Prose) => {}
            _ => self.busy = 0,
        }
        self.requests += 1;
        if self.offload == 0 {
            return SearchPath::Message;
        }
        self.offload -= 1;
        self.offloaded += 1;
        SearchPath::Offload
    }

    /// Share of the requests that were offloaded.
    pub fn share_offloaded(&self) -> f64 {
        self.offloaded as f64 / self.requests.max(1) as f64
    }

    /// Xorshift (Marsaglia 2003).
    fn draw(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random >> 11
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(rule: BackOffRule, searches_per_heartbeat: u64, utilisation: f64) -> f64 {
        let mut back_off = BackOff::new(BackOffSettings { rule, ..BackOffSettings::default() }, 7);
        for search in 0..searches_per_heartbeat * 100 {
            let heartbeat = search.is_multiple_of(searches_per_heartbeat).then_some(utilisation);
            back_off.next(heartbeat);
        }
        back_off.share_offloaded()
    }

    #[test]
    fn a_busy_server_sheds_nearly_all_searches_by_the_prose_and_nearly_none_by_the_listing() {
        assert!(share(BackOffRule::Prose, 70, 1.0) > 0.85, "{}", share(BackOffRule::Prose, 70, 1.0));
        assert!(share(BackOffRule::Printed, 70, 1.0) < 0.08, "{}", share(BackOffRule::Printed, 70, 1.0));
        for rule in [BackOffRule::Prose, BackOffRule::Printed] {
            assert!(share(rule, 70, 0.95).abs() < f64::EPSILON, "at the threshold it is not busy");
        }
    }

    #[test]
    fn without_a_heartbeat_nothing_is_offloaded() {
        let mut back_off = BackOff::new(BackOffSettings::default(), 1);
        assert!((0..1000).all(|_| back_off.next(None) == SearchPath::Message));
    }

    #[test]
    fn the_window_grows_by_n_with_each_busy_heartbeat_and_restarts_after_an_idle_one() {
        let mut back_off = BackOff::new(BackOffSettings::default(), 3);
        let mut run = |heartbeat| {
            let mut offloaded = u64::from(back_off.next(Some(heartbeat)) == SearchPath::Offload);
            while back_off.next(None) == SearchPath::Offload {
                offloaded += 1;
            }
            offloaded
        };
        for round in 0..50 {
            let offloaded = run(1.0);
            assert!((8 * round..8 * (round + 1)).contains(&offloaded), "round {round}: {offloaded}");
        }
        assert_eq!(run(0.2), 0);
        assert!(run(1.0) < 8);
    }

    #[test]
    fn a_predictor_may_take_the_mean() {
        let mut mean = 0.0;
        let settings = BackOffSettings::default();
        let mut back_off = BackOff::with(settings, 3, |utilisation| {
            mean = 0.5 * mean + 0.5 * utilisation;
            mean
        });
        let first: Vec<_> = (0..3).map(|_| back_off.next(Some(1.0))).collect();
        assert_eq!(first, [SearchPath::Message; 3], "50, 75, 87.5 %");
    }
}
