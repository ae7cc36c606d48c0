//! How a handle of a spatial index searches.

use crate::argument::Call;
use crate::error::Result;
use farwood_index::catfish::adaptive::{BackOffRule, BackOffSettings};
use std::fmt;
use std::str::FromStr;

/// The path of searches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SearchMode {
    /// By message or by READs, whichever is faster. If messages are, searches are offloaded from a busy server
    /// (Catfish §IV-A, Algorithm 1), unless READs are slower then, too. READs if no process serves the index.
    #[default]
    Auto,
    /// By message: the server executes every search.
    Message,
    /// By READs: this process executes every search.
    Reads,
}

/// The names of the modes, as in a URL.
const NAMES: [(SearchMode, &str); 3] =
    [(SearchMode::Auto, "auto"), (SearchMode::Message, "message"), (SearchMode::Reads, "reads")];

impl fmt::Display for SearchMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(NAMES.iter().find(|(mode, _)| mode == self).map_or("", |(_, name)| name))
    }
}

impl FromStr for SearchMode {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let found = NAMES.iter().find(|(_, name)| *name == text).map(|(mode, _)| *mode);
        found.ok_or_else(|| format!("there is no search mode '{text}'; give auto, message or reads"))
    }
}

/// How a handle of a spatial index searches.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SearchOptions {
    /// The path of searches.
    pub mode: SearchMode,
    /// The parameters of Algorithm 1, for [`SearchMode::Auto`].
    pub back_off: BackOffSettings,
}

/// The largest window of the back-off.
const WINDOW_MAX: u64 = 1 << 20;

impl SearchOptions {
    /// Sets the parameter `key` of a URL to `value`; `false`: there is no such parameter.
    ///
    /// # Errors
    /// The reason why the value is invalid.
    pub(crate) fn set(&mut self, key: &str, value: &str) -> std::result::Result<bool, String> {
        match key {
            "search" => self.mode = value.parse()?,
            "window" => {
                let window = value.parse().ok().filter(|window| (1..=WINDOW_MAX).contains(window));
                self.back_off.window = window
                    .ok_or_else(|| format!("window={value}: give a number of searches, 1 to {WINDOW_MAX}"))?;
            }
            "threshold" => {
                let threshold = value.parse().ok().filter(|threshold| (0.0..=1.0).contains(threshold));
                self.back_off.threshold =
                    threshold.ok_or_else(|| format!("threshold={value}: give a utilisation, 0 to 1"))?;
            }
            "rule" => {
                self.back_off.rule = match value {
                    "prose" => BackOffRule::Prose,
                    "printed" => BackOffRule::Printed,
                    _ => return Err(format!("rule={value}: give prose or printed")),
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Refuses values that no URL can express.
    pub(super) fn check(&self, call: &Call) -> Result<()> {
        let BackOffSettings { window, threshold, .. } = self.back_off;
        if !(1..=WINDOW_MAX).contains(&window) {
            let remedy = format!("give a number of searches, 1 to {WINDOW_MAX}");
            return Err(call.clone().refused("window of the back-off", window.to_string(), remedy));
        }
        if !(0.0..=1.0).contains(&threshold) {
            let remedy = "give a utilisation, 0 to 1";
            return Err(call.clone().refused("threshold of the back-off", threshold.to_string(), remedy));
        }
        Ok(())
    }
}
