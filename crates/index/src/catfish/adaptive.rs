//! When to offload: the back-off of a client whose server is busy (Catfish §IV-A, Algorithm 1). Pure, and of no index
//! in particular: whatever can be had by message or by READs can be switched by it.
//!
//! The paper's listing and its prose disagree. As printed, a search that saw no new heartbeat sets the utilisation to
//! 0 and so `r_busy` back, and with a heartbeat every 10 ms nearly every search does: the window never grows.
//! [`Rule::Prose`] changes the window only when a heartbeat is taken: it grows with each consecutive busy one, without
//! bound, and begins anew after an idle one. [`Rule::Printed`] is the listing.

/// Which reading of Algorithm 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rule {
    /// The text's.
    #[default]
    Prose,
    /// The listing's.
    Printed,
}

/// What Algorithm 1 leaves open.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BackOffSettings {
    /// Which reading.
    pub rule: Rule,
    /// Requests by which the window grows: N (Catfish §V-B: 8).
    pub window: u64,
    /// Utilisation above which the server is busy: T (Catfish §V-B: 95 %).
    pub threshold: f64,
}

impl Default for BackOffSettings {
    fn default() -> Self {
        Self { rule: Rule::Prose, window: 8, threshold: 0.95 }
    }
}

/// How a request is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The server does it.
    Message,
    /// The client does it, by READs.
    Offload,
}

/// A client's back-off. `predict` makes of the utilisation that a heartbeat tells the one to come (the paper's
/// `predUtil`, which takes the most recent).
#[derive(Clone, Debug)]
pub struct BackOff<P = fn(f64) -> f64> {
    settings: BackOffSettings,
    predict: P,
    /// Busy heartbeats in a row: r_busy.
    busy: u64,
    /// Requests still to be offloaded: r_off.
    offload: u64,
    chance: u64,
    offloaded: u64,
    requests: u64,
}

impl BackOff {
    /// A back-off that believes the most recent heartbeat; `seed` must differ from client to client.
    pub fn new(settings: BackOffSettings, seed: u64) -> Self {
        Self::with(settings, seed, |utilisation| utilisation)
    }
}

impl<P: FnMut(f64) -> f64> BackOff<P> {
    /// A back-off with a predictor of its own.
    pub fn with(settings: BackOffSettings, seed: u64, predict: P) -> Self {
        assert!(settings.window > 0, "a window has requests");
        let chance = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        Self { settings, predict, busy: 0, offload: 0, chance, offloaded: 0, requests: 0 }
    }

    /// How to do the next request, with the heartbeat that came since the last one, if one did. None is no sign of a
    /// busy server: the network may be what is full.
    pub fn next(&mut self, heartbeat: Option<f64>) -> Way {
        let window = self.settings.window;
        let is_busy = heartbeat.map(|told| (self.predict)(told) > self.settings.threshold);
        match (is_busy, self.settings.rule) {
            (Some(true), _) if self.offload <= self.busy.saturating_mul(window) => {
                self.offload = self.draw() % window + self.busy.saturating_mul(window);
                self.busy += 1;
            }
            (None, Rule::Prose) => {}
            _ => self.busy = 0,
        }
        self.requests += 1;
        if self.offload == 0 {
            return Way::Message;
        }
        self.offload -= 1;
        self.offloaded += 1;
        Way::Offload
    }

    /// Share of the requests that were offloaded.
    pub fn share_offloaded(&self) -> f64 {
        self.offloaded as f64 / self.requests.max(1) as f64
    }

    /// Xorshift (Marsaglia 2003).
    fn draw(&mut self) -> u64 {
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        self.chance >> 11
    }
}

/// A heartbeat's word: the server's utilisation in ten-thousandths, plus one, for 0 means that none has come.
pub fn heartbeat(utilisation: f64) -> u64 {
    (utilisation.clamp(0.0, 1.0) * 10_000.0).round() as u64 + 1
}

/// The utilisation that a heartbeat's word tells.
pub fn utilisation(word: u64) -> Option<f64> {
    word.checked_sub(1).map(|told| told.min(10_000) as f64 / 10_000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(rule: Rule, searches_per_heartbeat: u64, utilisation: f64) -> f64 {
        let mut back_off = BackOff::new(BackOffSettings { rule, ..BackOffSettings::default() }, 7);
        for search in 0..searches_per_heartbeat * 100 {
            let told = search.is_multiple_of(searches_per_heartbeat).then_some(utilisation);
            back_off.next(told);
        }
        back_off.share_offloaded()
    }

    #[test]
    fn by_the_prose_a_busy_server_loses_nearly_all_searches_and_by_the_listing_nearly_none() {
        assert!(share(Rule::Prose, 70, 1.0) > 0.85, "{}", share(Rule::Prose, 70, 1.0));
        assert!(share(Rule::Printed, 70, 1.0) < 0.08, "{}", share(Rule::Printed, 70, 1.0));
        for rule in [Rule::Prose, Rule::Printed] {
            assert!(share(rule, 70, 0.95).abs() < f64::EPSILON, "at the threshold it is not busy");
        }
    }

    #[test]
    fn without_a_heartbeat_nothing_is_offloaded() {
        let mut back_off = BackOff::new(BackOffSettings::default(), 1);
        assert!((0..1000).all(|_| back_off.next(None) == Way::Message));
    }

    #[test]
    fn the_window_grows_by_n_with_each_busy_heartbeat_and_begins_anew_after_an_idle_one() {
        let mut back_off = BackOff::new(BackOffSettings::default(), 3);
        let mut run = |heartbeat| {
            let mut offloaded = u64::from(back_off.next(Some(heartbeat)) == Way::Offload);
            while back_off.next(None) == Way::Offload {
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
        let mut back_off = BackOff::with(settings, 3, |told| {
            mean = 0.5 * mean + 0.5 * told;
            mean
        });
        let first: Vec<_> = (0..3).map(|_| back_off.next(Some(1.0))).collect();
        assert_eq!(first, [Way::Message; 3], "50, 75, 87.5 %");
    }

    #[test]
    fn heartbeats_are_read_back_and_none_is_none() {
        assert_eq!(utilisation(0), None);
        for told in [0.0, 0.5, 0.9501, 1.0] {
            assert_eq!(utilisation(heartbeat(told)), Some(told));
        }
        assert_eq!(utilisation(heartbeat(7.0)), Some(1.0));
    }
}
